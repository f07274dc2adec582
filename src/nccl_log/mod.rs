//! What NCCL's own log says it did. Text in, values out.
//!
//! NCCL prints a line for each connection it makes, such as `Channel 01/1 : 3[0] -> 0[1] [send] via NET/IB/0(2)/GDRDMA`.
//! The form has been the same since 2.12; names of network plugins can hold spaces and slashes.

use std::collections::BTreeMap;

/// Connections that a log shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// How many by transport: `P2P`, `SHM`, or `NET/` with the network's name.
    pub by: BTreeMap<String, u32>,
    /// How many of them leave through the NIC of another GPU: PXN.
    pub relayed: u32,
}

impl Connections {
    /// Counts the connections of a log. A receiving end is not counted: its sender's line is the same connection.
    pub fn read(log: &str) -> Connections {
        let mut seen = Connections::default();
        for line in log.lines() {
            let Some((head, via)) = line.split_once(" via ") else { continue };
            if !head.contains(" Channel ") || !head.contains(" -> ") || head.ends_with("[receive]") {
                continue;
            }
            let (transport, relay) = transport(via);
            *seen.by.entry(transport).or_default() += 1;
            seen.relayed += u32::from(relay);
        }
        seen
    }

    /// Adds another rank's.
    pub fn add(&mut self, other: &Connections) {
        for (transport, count) in &other.by {
            *self.by.entry(transport.clone()).or_default() += count;
        }
        self.relayed += other.relayed;
    }
}

/// The transport of what follows `via`, and whether it goes through another GPU's NIC.
fn transport(via: &str) -> (String, bool) {
    let Some(net) = via.strip_prefix("NET/") else {
        return (via.split(['/', ' ']).next().unwrap_or_default().to_owned(), false);
    };
    // The name ends at the first slash behind which the device's number stands.
    let is_device = |at: &usize| net[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    let end = net.match_indices('/').map(|(at, _)| at).find(is_device).unwrap_or(net.len());
    let device = net.get(end + 1..).unwrap_or_default();
    let after = device.trim_start_matches(|c: char| c.is_ascii_digit());
    // `(2)` is the rank whose NIC it is; `(PCI)`, from 2.26 on, is something else.
    let relay = after.strip_prefix('(').is_some_and(|rank| rank.starts_with(|c: char| c.is_ascii_digit()));
    (format!("NET/{}", &net[..end]), relay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_told_apart() {
        let log = "\
            h:1:1 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n\
            h:1:1 [1] NCCL INFO Channel 01 : 1[1] -> 0[0] via SHM/direct/direct\n\
            h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/NCCL RDMA Plugin v6/0(2)/GDRDMA/Shared\n\
            h:1:1 [0] NCCL INFO Channel 01/1 : 1[0] -> 2[1] [receive] via NET/NCCL RDMA Plugin v6/0/GDRDMA/Shared\n\
            h:1:1 [4] NCCL INFO Channel 06/0 : 36[4] -> 20[4] [send] via NET/IBext_v8/3\n\
            h:1:1 [4] NCCL INFO Channel 06/0 : 36[4] -> 20[4] [send] via NET/IB/3/GDRDMA(PCI)\n\
            h:1:1 [0] NCCL INFO Channel 00/02 :  0 1\n\
            h:1:1 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n";
        let seen = Connections::read(log);
        let by: Vec<_> = seen.by.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let all = [("NET/IB", 1), ("NET/IBext_v8", 1), ("NET/NCCL RDMA Plugin v6", 1), ("P2P", 1), ("SHM", 1)];
        assert_eq!(by, all);
        assert_eq!(seen.relayed, 1);
    }
}
