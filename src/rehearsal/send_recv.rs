//! The rails that send/recv uses, by `ncclTopoGetNetDev` (graph/search.cc), which transport/net.cc
//! calls for both ends.
//!
//! - The receiver always uses its own NIC. NCCL has no relay on that side.
//! - Without a relay, the sender uses its own NIC too; with `NCCL_CROSS_NIC=0` it uses the NIC on
//!   the receiver's rail.
//! - The receiver's rail is the NIC that the sender's node would use for a GPU with the receiver's
//!   number.
//! - At `NCCL_P2P_PXN_LEVEL=1`, the sender uses that NIC if its path to it is PXN or nearer, and
//!   relays if it is PXN.
//! - At level 2, it uses that NIC whenever NVLink connects it to the GPU beside the NIC, and relays
//!   through that GPU.
//!
//! A message has no more bytes than its data: the connections of send/recv share buffers, which
//! exist for the protocol Simple only (`sendProxyConnect` in transport/net.cc).
//!
//! Between two ranks there are as many connections in each direction as NCCL has channels per peer
//! (`ncclTopoGetNchannels` and `ncclTopoComputeP2pChannels` in graph/paths.cc). Up to NCCL 2.28.9
//! these are 2, or 1 if there are more ranks than twice the number of channels, and this is the
//! number derived here. From 2.29.2 on, a channel is expected to carry 14 GB/s
//! (`NCCL_P2P_PER_CHANNEL_NET_BW`), so a NIC of 50 GB/s has 4 connections per peer. The relayed
//! part of the connections is the same.

use super::{
    cluster::{Cluster, MOST_CHANNELS},
    flow::{Flow, Flows},
    messages::messages,
    node_rules::NodeRules,
    settings::{PxnSettings, SendRecvRelays},
};
use crate::collective::Case;

/// The fewest channels that NCCL has: it duplicates those that it finds (`ncclTopoPostset` in
/// graph/connect.cc).
const FEWEST_CHANNELS: u64 = 2;

/// Derives the flows of a collective that is made of sends and receives, on several nodes.
///
/// # Errors
/// Returns the reason if they are not known.
pub(super) fn flows(
    cluster: &Cluster,
    settings: &PxnSettings,
    case: &Case,
) -> Result<Flows, String> {
    let rules = NodeRules::new(cluster, settings);
    let mut flows = Vec::new();
    for message in messages(case) {
        let node = cluster.node_of(message.from);
        if node == cluster.node_of(message.to) {
            continue;
        }
        let sender = cluster.gpu_of(message.from);
        let peer_rail = rules.nic(cluster.gpu_of(message.to))?;
        let path = send_path(&rules, settings, sender, peer_rail)?;
        flows.push(Flow {
            from: message.from,
            to: message.to,
            rail: path.nic,
            relay: path.relay.map(|gpu| cluster.rank_on(node, gpu)),
            peer_rail,
            bytes: message.bytes,
        });
    }
    Ok(Flows {
        flows,
        connections_each: channels_per_peer(cluster),
        doubt_of_bytes: None,
    })
}

/// The path of a GPU's data into the network.
struct SendPath {
    /// The NIC on which they leave.
    nic: usize,
    /// The GPU that relays them, if one does.
    relay: Option<usize>,
}

/// Returns the path of a GPU's data to a receiver on `peer_rail`. Nodes are equal, so the NIC that
/// the sender's node would use for a GPU with the receiver's number is the receiver's own.
fn send_path(
    rules: &NodeRules,
    settings: &PxnSettings,
    sender: usize,
    peer_rail: usize,
) -> Result<SendPath, String> {
    let relay = match settings.send_recv {
        SendRecvRelays::Never => None,
        SendRecvRelays::IfNeeded => rules.needed_relay(sender, peer_rail)?,
        SendRecvRelays::Always => rules.relay(sender, peer_rail)?,
    };
    if relay.is_some() {
        return Ok(SendPath {
            nic: peer_rail,
            relay,
        });
    }
    // Level 2 without a relay uses the sender's own NIC, which is the receiver's rail if the sender
    // is beside it.
    let uses_peer_rail = settings.cross_nic == 0
        || settings.send_recv == SendRecvRelays::IfNeeded && rules.is_near(sender, peer_rail)?;
    let nic = if uses_peer_rail {
        peer_rail
    } else {
        rules.nic(sender)?
    };
    Ok(SendPath { nic, relay: None })
}

/// Returns the number of connections between two ranks in one direction, up to NCCL 2.28.9.
fn channels_per_peer(cluster: &Cluster) -> Result<u64, String> {
    let ranks = cluster.ranks();
    // NCCL also counts a processor's own link to a GPU, which may add channels for further NICs.
    let is_below_switch = |gpu: &crate::topology::Gpu| gpu.place.switch.is_some();
    if !cluster.node.gpus.iter().all(is_below_switch) {
        return Err(
            "a GPU is connected to the processor directly, and NCCL measures how many NICs it can \
             fill"
                .into(),
        );
    }
    match cluster.channels {
        // Never more connections than channels.
        Some(channels) if ranks <= 2 * channels => Ok(channels.min(2)),
        Some(_) => Ok(1),
        None if ranks <= 2 * FEWEST_CHANNELS => Ok(2),
        None if ranks > 2 * MOST_CHANNELS => Ok(1),
        None => Err(format!(
            "two ranks have 2 connections, or 1 if NCCL has fewer than {} channels, which a \
             search decides; --channels says how many",
            ranks.div_ceil(2)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        levels,
        rehearsal::virtual_node::NodeShape,
        units::Bytes,
    };

    fn cluster(nodes: u64, shape: NodeShape, gpus: usize, rails: usize) -> Cluster {
        Cluster::of_virtual_nodes(nodes, shape, gpus, rails).expect("a cluster")
    }

    fn settings(level: &str) -> PxnSettings {
        PxnSettings::of_level(levels::level(level).expect("a level"))
    }

    fn alltoall(cluster: &Cluster, level: &str) -> Result<Flows, String> {
        let shape = CaseShape {
            collective: Collective::AllToAll,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: cluster.ranks(),
        };
        flows(cluster, &settings(level), &shape.nearest(Bytes(1 << 20)))
    }

    /// Returns the number of relayed flows, of all flows, and of flows that cross rails.
    fn counts(cluster: &Cluster, level: &str) -> (usize, usize, usize) {
        let flows = alltoall(cluster, level).expect("known").flows;
        let relayed = flows.iter().filter(|flow| flow.relay.is_some()).count();
        let crossing = flows.iter().filter(|flow| flow.rail != flow.peer_rail);
        (relayed, flows.len(), crossing.count())
    }

    #[test]
    fn off_rail_messages_are_relayed_as_the_level_says() {
        let split = cluster(4, NodeShape::Split, 8, 8);
        // Each of 32 ranks sends to 24 on other nodes, 3 of them on its own rail.
        let all = 32 * 24;
        let off_rail = 32 * 21;
        assert_eq!(counts(&split, "off"), (0, all, off_rail));
        assert_eq!(counts(&split, "conservative"), (0, all, off_rail));
        assert_eq!(counts(&split, "balanced"), (off_rail, all, 0));
        assert_eq!(counts(&split, "default"), (off_rail, all, 0));
        let shared = cluster(4, NodeShape::Shared, 8, 8);
        assert_eq!(counts(&shared, "conservative"), (0, all, off_rail));
        assert_eq!(counts(&shared, "balanced"), (0, all, 0), "direct");
        assert_eq!(counts(&shared, "aggressive"), (off_rail, all, 0));
    }

    /// The first of the GPUs beside a NIC relays for all others, those beside the same NIC too.
    #[test]
    fn gpus_that_share_a_rail_relay_through_the_first_of_them() {
        let shared = cluster(2, NodeShape::Shared, 4, 2);
        let flows = alltoall(&shared, "aggressive").expect("known").flows;
        for flow in flows {
            let first = if flow.rail == 0 { 0 } else { 2 };
            let relay = shared.rank_on(shared.node_of(flow.from), first);
            let expected = (flow.from != relay).then_some(relay);
            assert_eq!(flow.relay, expected, "{flow:?}");
            assert_eq!(flow.rail, shared.gpu_of(flow.to) / 2);
            assert_eq!(flow.peer_rail, flow.rail);
        }
        let (relayed, all, _) = counts(&shared, "balanced");
        assert_eq!((relayed, all), (0, 32));
    }

    #[test]
    fn one_gpu_per_node_has_nothing_to_relay() {
        let single = cluster(4, NodeShape::Split, 1, 1);
        assert_eq!(counts(&single, "default"), (0, 12, 0));
    }

    #[test]
    fn several_rails_per_gpu_depend_on_the_channel() {
        let why = alltoall(&cluster(2, NodeShape::Split, 2, 4), "off").expect_err("unknown");
        assert_eq!(
            why,
            "GPU 0 is equally near to several NICs, and takes one or the other by the number of \
             the channel"
        );
    }

    #[test]
    fn one_node_uses_no_network() {
        let one = cluster(1, NodeShape::Split, 8, 8);
        assert_eq!(counts(&one, "default"), (0, 0, 0));
    }

    /// With `NCCL_MAX_NCHANNELS=1` there is one channel, and so one connection (graph/paths.cc,
    /// `ncclTopoComputeP2pChannels`).
    #[test]
    fn one_channel_is_one_connection() {
        let mut pair = cluster(2, NodeShape::Split, 1, 1);
        pair.channels = Some(1);
        let each = alltoall(&pair, "off").expect("known").connections_each;
        assert_eq!(each, Ok(1));
    }

    #[test]
    fn connections_follow_from_the_channels() {
        let mut cluster = cluster(2, NodeShape::Split, 8, 8);
        let each = |cluster: &Cluster| alltoall(cluster, "off").expect("known").connections_each;
        assert!(each(&cluster).expect_err("a search").contains("8 channels"));
        cluster.channels = Some(8);
        assert_eq!(each(&cluster), Ok(2));
        cluster.channels = Some(7);
        assert_eq!(each(&cluster), Ok(1));
        cluster.channels = None;
        cluster.nodes = 17;
        assert_eq!(each(&cluster), Ok(1), "no NCCL has 68 channels");
    }
}
