//! What a process says of itself when it joins.

use serde::{Deserialize, Serialize};

use super::{secret::SecretSource, variables::Contract};
use crate::{env, world::placement};

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::world) struct Identity {
    pub(in crate::world) rank: u32,
    /// The number of ranks that it expects.
    pub(in crate::world) size: u32,
    pub(in crate::world) local_size: Option<u32>,
    pub(in crate::world) host: String,
    /// Identity of the host as NCCL sees it.
    pub(in crate::world) host_id: String,
    /// The process id.
    pub(in crate::world) pid: u32,
    /// The version of the program.
    pub(in crate::world) version: String,
    pub(in crate::world) secret_from: SecretSource,
    /// The port on which it waits for the ranks below it in the tree; 0 if it waits for none.
    pub(in crate::world) port: u16,
}

impl Identity {
    /// Returns the identity of this process, which does not listen yet.
    pub(in crate::world) fn own(contract: &Contract) -> Identity {
        Identity {
            rank: contract.rank,
            size: contract.size,
            local_size: contract.local_size,
            host: placement::host_name(),
            host_id: placement::host_id(&env::var),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            secret_from: contract.secret.source,
            port: 0,
        }
    }

    /// Returns the identity of this process, as rank `rank` of `size`, towards those that have a
    /// secret of rank 0.
    pub(in crate::world) fn of_rank(rank: u32, size: u32) -> Identity {
        Identity {
            rank,
            size,
            local_size: None,
            host: placement::host_name(),
            host_id: placement::host_id(&env::var),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            secret_from: SecretSource::Rank0,
            port: 0,
        }
    }

    /// Returns an identity for tests: rank `rank` of two, on a host that does not exist.
    #[cfg(any(test, fuzzing))]
    pub(super) fn example(rank: u32) -> Identity {
        Identity {
            rank,
            size: 2,
            local_size: None,
            host: "node".into(),
            host_id: "node".into(),
            pid: 1,
            version: "1".into(),
            secret_from: SecretSource::Token,
            port: 0,
        }
    }

    /// Returns how messages name the process.
    pub(in crate::world) fn name(&self) -> String {
        format!("rank {} on {}", self.rank, self.host)
    }

    /// Returns whether `other` is of the same process. A process whose connection broke comes
    /// again.
    pub(in crate::world) fn is_same_process(&self, other: &Identity) -> bool {
        (self.pid, &self.host_id, self.port) == (other.pid, &other.host_id, other.port)
    }
}
