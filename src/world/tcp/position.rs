//! The place of a rank in the tree, as rank 0 tells it.

use std::{net::IpAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::link::Link;

/// The place of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) above: Address,
    pub(super) below: Vec<u32>,
    /// Whether this rank says that rank 0 is lost: the first one below it on its node, and on
    /// others.
    pub(super) speaks_for_rank_0: bool,
}

/// The address of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) rank: u32,
    pub(super) host: String,
    /// The address from which it reached rank 0.
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// The connections of a rank that has its place.
pub(super) struct Connected {
    /// Those of the tree, the one to the parent first.
    pub(super) neighbours: Neighbours,
    /// Those that are only kept until every rank has its place.
    pub(super) waiting: Vec<Arc<Link>>,
}

/// The connections of the tree.
pub(super) struct Neighbours {
    pub(super) above: Option<Arc<Link>>,
    /// In rank order.
    pub(super) below: Vec<Arc<Link>>,
}
