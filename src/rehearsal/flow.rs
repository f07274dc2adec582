//! [`Flow`]: what one rank sends to another over the network.

use serde::{Deserialize, Serialize};

/// The traffic between two ranks over one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The rank whose data it is.
    pub from: u64,
    /// The rank that receives them.
    pub to: u64,
    /// The NIC of the sending node.
    pub rail: usize,
    /// The rank that relays them, if one does.
    pub relay: Option<u64>,
    /// The NIC of the receiving node.
    pub peer_rail: usize,
    /// Bytes: of one operation in a theory, of all operations in a record.
    pub bytes: u64,
}

/// The flows of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flows {
    /// The flows.
    pub(super) flows: Vec<Flow>,
    /// Connections of each flow, or why their number is not known.
    pub(super) connections_each: Result<u64, String>,
    /// Why the bytes of the flows are not known.
    pub(super) doubt_of_bytes: Option<String>,
}

impl Flows {
    /// Returns the flows of ranks that use no network.
    pub(super) fn none() -> Flows {
        Flows {
            flows: Vec::new(),
            connections_each: Ok(0),
            doubt_of_bytes: None,
        }
    }
}
