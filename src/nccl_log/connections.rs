//! The connections that a log shows, counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::line::{Channels, Net};

/// Network connections of one kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Sending ends over a network.
    pub sends: u64,
    /// Sending ends that leave through the NIC of another GPU: PXN.
    pub relayed: u64,
    /// Sending ends with GPUDirect RDMA.
    pub gpudirect_sends: u64,
    /// Receiving ends over a network. NCCL never relays at this end.
    pub receives: u64,
    /// Receiving ends with GPUDirect RDMA.
    pub gpudirect_receives: u64,
    /// Sends to the peer with the same GPU number.
    pub same_rail: u64,
}

impl SendCounts {
    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &SendCounts) {
        self.sends += other.sends;
        self.relayed += other.relayed;
        self.gpudirect_sends += other.gpudirect_sends;
        self.receives += other.receives;
        self.gpudirect_receives += other.gpudirect_receives;
        self.same_rail += other.same_rail;
    }

    /// Returns the counts less those of `earlier`, which none is below.
    fn since(&self, earlier: &SendCounts) -> SendCounts {
        SendCounts {
            sends: self.sends - earlier.sends,
            relayed: self.relayed - earlier.relayed,
            gpudirect_sends: self.gpudirect_sends - earlier.gpudirect_sends,
            receives: self.receives - earlier.receives,
            gpudirect_receives: self.gpudirect_receives - earlier.gpudirect_receives,
            same_rail: self.same_rail - earlier.same_rail,
        }
    }

    /// Adds a sending end.
    pub(super) fn add_send(&mut self, net: &Net<'_>, is_same_rail: bool) {
        self.sends += 1;
        self.gpudirect_sends += u64::from(net.gpudirect);
        self.relayed += u64::from(net.relay.is_some());
        self.same_rail += u64::from(is_same_rail);
    }

    /// Adds a receiving end.
    pub(super) fn add_receive(&mut self, net: &Net<'_>) {
        self.receives += 1;
        self.gpudirect_receives += u64::from(net.gpudirect);
    }
}

/// The kinds of traffic that connections are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Rings and trees.
    Collective,
    /// Send/recv.
    SendRecv,
    /// The line does not say (before 2.12).
    Unsorted,
}

impl Traffic {
    /// Returns the traffic that the index of a connection stands for.
    pub(super) fn from_index(index: Option<u64>) -> Traffic {
        match index {
            None => Traffic::Unsorted,
            Some(0) => Traffic::Collective,
            Some(_) => Traffic::SendRecv,
        }
    }
}

/// Connections of one transport whose line says what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortedCounts {
    /// Of collectives.
    pub collective: u64,
    /// Of send/recv.
    pub send_recv: u64,
}

/// The connections that a log shows. Each rank has those of its own log; [`Connections::add`] joins
/// those of two ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections by transport: `P2P`, `SHM`, `COLLNET/` or `NET/` with the network's name. A
    /// connection counts once, at the end that sends.
    pub by: BTreeMap<String, u64>,
    /// Those connections of `by` whose line says what they are for.
    pub sorted: BTreeMap<String, SortedCounts>,
    /// Network connections of send/recv.
    pub send_recv: SendCounts,
    /// Network connections of collectives.
    pub collective: SendCounts,
    /// Network connections whose line does not say what they are for (before 2.12).
    pub unsorted: SendCounts,
    /// The channels of the last communicator.
    pub channels: Option<Channels>,
}

impl Connections {
    /// Returns the number of connections that leave through the NIC of another GPU: PXN.
    pub fn relayed(&self) -> u64 {
        self.network().relayed
    }

    /// Returns the number of connections that send over a network.
    pub fn sends(&self) -> u64 {
        self.network().sends
    }

    /// Returns the network connections of send/recv, or of collectives.
    pub fn sends_of(&self, of_send_recv: bool) -> &SendCounts {
        match of_send_recv {
            true => &self.send_recv,
            false => &self.collective,
        }
    }

    /// Returns the connections that are not in `earlier`, which is what the same log showed before.
    pub fn since(&self, earlier: &Connections) -> Connections {
        let mut new = Connections {
            send_recv: self.send_recv.since(&earlier.send_recv),
            collective: self.collective.since(&earlier.collective),
            unsorted: self.unsorted.since(&earlier.unsorted),
            channels: self.channels,
            ..Connections::default()
        };
        for (transport, count) in &self.by {
            let before = earlier.by.get(transport).copied().unwrap_or_default();
            if *count > before {
                new.by.insert(transport.clone(), count - before);
            }
        }
        for (transport, counts) in &self.sorted {
            let before = earlier.sorted.get(transport).copied().unwrap_or_default();
            // Also where nothing is new: it says that the transport's lines tell what they are for.
            let counts = SortedCounts {
                collective: counts.collective - before.collective,
                send_recv: counts.send_recv - before.send_recv,
            };
            new.sorted.insert(transport.clone(), counts);
        }
        new
    }

    /// Returns the counts of all network connections.
    pub(super) fn network(&self) -> SendCounts {
        let mut all = self.send_recv;
        all.add(&self.collective);
        all.add(&self.unsorted);
        all
    }

    /// Returns the transports of send/recv, or of collectives. The lines of SHM never say which
    /// they are for, so SHM is in both.
    pub fn transports(&self, of_send_recv: bool) -> Vec<&str> {
        let mut transports = Vec::new();
        for name in self.by.keys() {
            let is_used = match self.sorted.get(name) {
                None => true,
                Some(sorted) if of_send_recv => sorted.send_recv > 0,
                Some(sorted) => sorted.collective > 0,
            };
            if is_used {
                transports.push(name.as_str());
            }
        }
        transports
    }

    /// Adds the connections of another rank.
    pub fn add(&mut self, other: &Connections) {
        for (transport, counts) in &other.sorted {
            let sorted = self.sorted.entry(transport.clone()).or_default();
            sorted.collective += counts.collective;
            sorted.send_recv += counts.send_recv;
        }
        for (transport, count) in &other.by {
            *self.by.entry(transport.clone()).or_default() += count;
        }
        self.send_recv.add(&other.send_recv);
        self.collective.add(&other.collective);
        self.unsorted.add(&other.unsorted);
        self.channels = self.channels.or(other.channels);
    }

    /// Counts the sending end of a network connection.
    pub(super) fn count_send(&mut self, traffic: Traffic, net: &Net<'_>, is_same_rail: bool) {
        self.counts_of(traffic).add_send(net, is_same_rail);
    }

    /// Counts the receiving end of a network connection.
    pub(super) fn count_receive(&mut self, traffic: Traffic, net: &Net<'_>) {
        self.counts_of(traffic).add_receive(net);
    }

    fn counts_of(&mut self, traffic: Traffic) -> &mut SendCounts {
        match traffic {
            Traffic::Collective => &mut self.collective,
            Traffic::SendRecv => &mut self.send_recv,
            Traffic::Unsorted => &mut self.unsorted,
        }
    }

    /// Counts a connection over `transport`.
    pub(super) fn count_transport(&mut self, transport: &str, traffic: Traffic) {
        *entry(&mut self.by, transport) += 1;
        match traffic {
            Traffic::Collective => entry(&mut self.sorted, transport).collective += 1,
            Traffic::SendRecv => entry(&mut self.sorted, transport).send_recv += 1,
            Traffic::Unsorted => {}
        }
    }
}

/// Returns the value for `name`, and copies the name only if it is new.
fn entry<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.get_mut(name).expect("it was just inserted")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn what_is_new_and_what_was_there_are_all() {
        let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
        // One has connections of both kinds of traffic, the other one those of rings and trees.
        for name in ["a2a.split.cumem0.log", "ar.split.sweep.log"] {
            let log = fs::read(logs.join(name)).expect("a log");
            let whole = Connections::read(&log);
            assert!(whole.sends() > 0 && whole.since(&whole).by.is_empty());
            for (at, _) in log.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                let before = Connections::read(&log[..=at]);
                let mut all = before.clone();
                all.add(&whole.since(&before));
                // The channels are those that were read last.
                all.channels = whole.channels;
                assert_eq!(all, whole, "{name}, cut after {at} bytes");
            }
        }
    }
}
