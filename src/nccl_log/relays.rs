//! Ranks that relay for others, and the NICs they relay through.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    limits::{MANY, hashed, text},
    line::{Net, Speaker},
};

/// A rank that relays, and the connections that it relays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayUse {
    /// The host's name; empty if the line was torn.
    pub host: String,
    /// The rank whose NIC it is, in the numbering of its communicator.
    pub rank: u64,
    /// The NIC: the network's name and NCCL's number.
    pub nic: String,
    /// Send/recv connections through it.
    pub send_recv: u64,
    /// Connections of collectives through it.
    pub collective: u64,
}

/// All relays of a log.
#[derive(Debug, Default)]
pub(super) struct Relays {
    by_identity: HashMap<u64, RelayUse>,
    left_out: u64,
}

impl Relays {
    /// Adds a connection over `net` that `rank` relays; `head` is the text before the line's
    /// header, and `host` stands for the host that it names.
    pub(super) fn add(
        &mut self,
        head: &[u8],
        host: u64,
        net: &Net<'_>,
        rank: u64,
        is_send_recv: bool,
    ) {
        let identity = hashed((host, rank, net.name, net.device));
        if self.by_identity.len() >= MANY && !self.by_identity.contains_key(&identity) {
            self.left_out += 1;
            return;
        }
        let relay = self
            .by_identity
            .entry(identity)
            .or_insert_with(|| RelayUse {
                host: Speaker::parse(head).map_or_else(String::new, |of| text(of.host)),
                rank,
                nic: format!("{}/{}", String::from_utf8_lossy(net.name), net.device),
                send_recv: 0,
                collective: 0,
            });
        if is_send_recv {
            relay.send_recv += 1;
        } else {
            relay.collective += 1;
        }
    }

    /// Returns at most `limit` relays, by host, rank and NIC, and the number of connections that
    /// others relay.
    pub(super) fn list(&self, limit: usize) -> (Vec<RelayUse>, u64) {
        let mut listed: Vec<RelayUse> = self.by_identity.values().cloned().collect();
        listed.sort_by(|a, b| (&a.host, a.rank, &a.nic).cmp(&(&b.host, b.rank, &b.nic)));
        let over = listed.split_off(listed.len().min(limit));
        let mut left_out = self.left_out;
        for relay in over {
            left_out += relay.send_recv + relay.collective;
        }
        (listed, left_out)
    }
}
