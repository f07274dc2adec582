//! The rails that rings use.
//!
//! NCCL finds its rings by a search that is bounded in time (`ncclTopoCompute` in graph/search.cc).
//! It tries types of paths one after another, the nearest first, and only then rings that leave a
//! node on another NIC than they enter by. Among results of equal bandwidth, it keeps the first.
//! With two GPUs that have a NIC each, this leaves one outcome:
//!
//! - A ring enters at the GPU beside a NIC, passes to the other GPU, and leaves on the same NIC.
//!   The path to that NIC is direct if it does not pass through the processor, and otherwise PXN,
//!   on which rings use a relay (`ncclTopoGetIntermediateRank` in graph/paths.cc).
//! - If PXN is not possible and the path would pass through the processor, a ring leaves on the NIC
//!   beside the other GPU instead, and the rings of odd nodes are exchanged so that rails are not
//!   crossed (`ncclTopoPostset` in graph/connect.cc). With `NCCL_CROSS_NIC=0` it nevertheless
//!   leaves on the NIC by which it entered.
//!
//! With more GPUs, the outcome depends on how the search divides the bandwidth of NVLinks among
//! rings.
//!
//! Bytes are those of the protocol Simple, which adds nothing to the data, unlike LL and LL128.
//! NCCL divides data among channels in whole cells (`scheduleCollTasksToPlan` in enqueue.cc), and
//! uses fewer channels for small operations (`topoGetAlgoInfo` in enqueue.cc).

use super::{
    cluster::Cluster,
    flow::{Flow, Flows},
    node_rules::NodeRules,
    settings::PxnSettings,
};
use crate::{
    collective::{Case, Collective},
    topology::path::PathType,
};

/// The traffic of a cell in bytes: the least for which NCCL uses another channel.
const CELL_TRAFFIC: u64 = 16 << 10;

/// The least bytes per channel with which NCCL uses all channels: 512 threads with 64 bytes each
/// (`ncclTopoTuneModel` in graph/tuning.cc).
const BYTES_PER_CHANNEL: u64 = 512 * 64;

/// The alignment in bytes of the parts into which a ring divides its data.
const PART: u64 = 16;

/// Why the rings of a larger node are not known.
const SEARCH: &str = "NCCL finds rings by a search, whose outcome its rules decide only for one \
                      or two GPUs per node that each have a NIC";

/// The path of a ring through a node.
#[derive(Clone, Copy, Debug)]
struct RingHop {
    /// The NIC by which it enters. The GPU beside this NIC has the same number.
    enters: usize,
    /// The NIC on which it leaves.
    leaves: usize,
    /// The GPU that sends to the next node.
    last: usize,
    /// The GPU that relays, if one does.
    relay: Option<usize>,
}

/// How the rings of a node with one or two GPUs leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingExit {
    /// On the NIC by which they entered, possibly through a relay.
    SameNic { is_relayed: bool },
    /// On the NIC of the last GPU.
    OtherNic,
}

/// Derives the flows of a collective along rings on several nodes.
///
/// # Errors
/// Returns the reason if they are not known.
pub(super) fn flows(
    cluster: &Cluster,
    settings: &PxnSettings,
    case: &Case,
) -> Result<Flows, String> {
    let rules = NodeRules::new(cluster, settings);
    let exit = ring_exit(cluster, settings, &rules)?;
    let bytes = bytes_per_flow(cluster, case);
    let mut flows = Vec::new();
    for node in 0..cluster.nodes {
        let next_node = (node + 1) % cluster.nodes;
        for ring in 0..cluster.rails() {
            let hop = ring_hop(cluster, exit, node, ring);
            let next = ring_hop(cluster, exit, next_node, ring);
            let from = cluster.rank_on(node, hop.last);
            let to = cluster.rank_on(next_node, next.enters);
            let bytes = match &bytes {
                Ok(bytes) if carries_data(case, from, to) => *bytes,
                _ => 0,
            };
            flows.push(Flow {
                from,
                to,
                rail: hop.leaves,
                relay: hop.relay.map(|gpu| cluster.rank_on(node, gpu)),
                peer_rail: next.enters,
                bytes,
            });
        }
    }
    Ok(Flows {
        flows,
        connections_each: channels(cluster).map(|channels| channels / cluster.rails() as u64),
        doubt_of_bytes: bytes.err(),
    })
}

/// Returns how rings leave a node.
///
/// # Errors
/// Returns the reason if NCCL's search decides that.
fn ring_exit(
    cluster: &Cluster,
    settings: &PxnSettings,
    rules: &NodeRules,
) -> Result<RingExit, String> {
    let nics: Result<Vec<usize>, String> = (0..cluster.gpus()).map(|gpu| rules.nic(gpu)).collect();
    let nics = nics?;
    let is_beside = |gpu: usize| cluster.node.to_nic(gpu, gpu).kind == Some(PathType::Pix);
    match (nics.as_slice(), cluster.rails()) {
        ([0], 1) => return Ok(RingExit::SameNic { is_relayed: false }),
        ([0, 1], 2) if is_beside(0) && is_beside(1) => {}
        _ => return Err(SEARCH.into()),
    }
    if cluster.node.between(0, 1).kind != Some(PathType::Nvl) || !settings.has_p2p {
        return Err("the rings of GPUs without NVLink depend on NCCL's search".into());
    }
    if !settings.has_gpudirect {
        return Err("the rings of GPUs without GPUDirect RDMA depend on NCCL's search".into());
    }
    if settings.cross_nic == 1 {
        return Err("with NCCL_CROSS_NIC=1 NCCL's search decides which rails rings cross".into());
    }
    let is_relayed = rules.needed_relay(0, 1)?.is_some();
    if is_relayed != rules.needed_relay(1, 0)?.is_some() {
        return Err("the two GPUs do not have the same paths".into());
    }
    let is_near = rules.is_near(0, 1)? && rules.is_near(1, 0)?;
    Ok(if is_relayed || is_near || settings.cross_nic == 0 {
        RingExit::SameNic { is_relayed }
    } else {
        RingExit::OtherNic
    })
}

/// Returns the path of a ring through a node. There is a ring for each NIC, which enters the first
/// node by that NIC.
fn ring_hop(cluster: &Cluster, exit: RingExit, node: u64, ring: usize) -> RingHop {
    if cluster.gpus() == 1 {
        return RingHop {
            enters: 0,
            leaves: 0,
            last: 0,
            relay: None,
        };
    }
    let other = 1 - ring;
    match exit {
        RingExit::SameNic { is_relayed } => RingHop {
            enters: ring,
            leaves: ring,
            last: other,
            relay: is_relayed.then_some(ring),
        },
        // The two rings of odd nodes are exchanged.
        RingExit::OtherNic if node.is_multiple_of(2) => RingHop {
            enters: ring,
            leaves: other,
            last: other,
            relay: None,
        },
        RingExit::OtherNic => RingHop {
            enters: other,
            leaves: ring,
            last: ring,
            relay: None,
        },
    }
}

/// Returns the bytes that the rings of one rail carry from node to node, where they carry data at
/// all.
fn bytes_per_flow(cluster: &Cluster, case: &Case) -> Result<u64, String> {
    let bytes = bytes_per_hop(case)?;
    channels_that_divide(cluster, case)?;
    Ok(bytes / cluster.rails() as u64)
}

/// Returns the bytes that all rings together carry from rank to rank, where they carry data at all.
fn bytes_per_hop(case: &Case) -> Result<u64, String> {
    let ranks = case.ranks;
    let sent = case.counts.send * case.dtype.size();
    match case.collective {
        // Each of n parts is reduced in n - 1 hops and gathered in n - 1 hops.
        Collective::AllReduce => Ok(2 * (ranks - 1) * sent / ranks),
        Collective::AllGather => Ok((ranks - 1) * sent),
        Collective::ReduceScatter => Ok((ranks - 1) * sent / ranks),
        // All data pass each hop but one, for which see `carries_data`.
        Collective::Broadcast | Collective::Reduce => Ok(sent),
        other => Err(format!("a {other} along rings is not derived")),
    }
}

/// Returns whether data pass this hop of a ring: not the one to the root of a broadcast, nor the
/// one from the root of a reduce (device/broadcast.h, device/reduce.h).
fn carries_data(case: &Case, from: u64, to: u64) -> bool {
    let root = case.root.map(u64::from);
    match case.collective {
        Collective::Broadcast => root != Some(to),
        Collective::Reduce => root != Some(from),
        _ => true,
    }
}

/// Returns the number of channels of rings and trees.
pub(super) fn channels(cluster: &Cluster) -> Result<u64, String> {
    cluster.channels.ok_or_else(|| {
        "NCCL finds the number of channels by a search; --channels says how many".to_owned()
    })
}

/// Returns the number of channels if all channels carry equal parts of a case, which divide evenly
/// between all ranks.
///
/// # Errors
/// Returns the reason if that is not certain.
pub(super) fn channels_that_divide(cluster: &Cluster, case: &Case) -> Result<u64, String> {
    let channels = channels(cluster)?;
    let ranks = case.ranks;
    // The size of an operation as NCCL counts it in bytes, and the traffic that it expects for each
    // byte.
    let (bytes, traffic_per_byte) = match case.collective {
        Collective::AllGather => (case.counts.send * case.dtype.size(), ranks),
        Collective::ReduceScatter => (case.counts.recv * case.dtype.size(), ranks),
        Collective::Broadcast | Collective::Reduce => (case.counts.send * case.dtype.size(), 1),
        _ => (case.counts.send * case.dtype.size(), 2),
    };
    let cell = CELL_TRAFFIC.div_ceil(traffic_per_byte).div_ceil(PART) * PART;
    let is_even =
        bytes.is_multiple_of(channels * cell) && channels.is_multiple_of(cluster.rails() as u64);
    let parts = match case.collective {
        Collective::AllReduce => ranks * PART,
        _ => PART,
    };
    let is_large = case.size().0 >= channels * BYTES_PER_CHANNEL;
    if is_even && is_large && (bytes / channels).is_multiple_of(parts) {
        return Ok(channels);
    }
    Err(format!(
        "{} cannot be divided evenly between {channels} channels and {ranks} ranks",
        case.size()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{
            BufferMode, CaseShape,
            data::{DType, RedOp},
        },
        levels,
        rehearsal::{theory, virtual_node::NodeShape},
        units::Bytes,
    };

    fn all_reduce(ranks: u64, size: u64) -> Case {
        let shape = CaseShape {
            collective: Collective::AllReduce,
            dtype: DType::Float,
            redop: Some(RedOp::Sum),
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks,
        };
        shape.nearest(Bytes(size))
    }

    fn cluster(nodes: u64, shape: NodeShape, gpus: usize) -> Cluster {
        let cluster = Cluster::of_virtual_nodes(nodes, shape, gpus, gpus).expect("a cluster");
        Cluster {
            channels: Some(8),
            ..cluster
        }
    }

    fn flows_of(cluster: &Cluster, level: &str) -> Result<Flows, String> {
        let settings = PxnSettings::of_level(levels::level(level).expect("a level"));
        flows(cluster, &settings, &all_reduce(cluster.ranks(), 1 << 20))
    }

    #[test]
    fn rings_leave_through_a_relay_on_the_nic_by_which_they_entered() {
        let flows = flows_of(&cluster(2, NodeShape::Split, 2), "default").expect("known");
        assert_eq!(flows.connections_each, Ok(4));
        assert_eq!(
            flows.flows[0],
            Flow {
                from: 1,
                to: 2,
                rail: 0,
                relay: Some(0),
                peer_rail: 0,
                bytes: 786_432
            }
        );
    }

    #[test]
    fn without_pxn_an_odd_number_of_nodes_crosses_rails_once() {
        for (nodes, crossing) in [(2, 0), (3, 2), (4, 0)] {
            let flows = flows_of(&cluster(nodes, NodeShape::Split, 2), "off").expect("known");
            let crosses = |flow: &&Flow| flow.rail != flow.peer_rail;
            assert_eq!(flows.flows.iter().filter(crosses).count(), crossing);
            assert!(flows.flows.iter().all(|flow| flow.relay.is_none()));
        }
    }

    /// Returns the bytes that each node sends on each rail, node by node.
    fn sent(collective: Collective, nodes: u64, gpus: usize, root: u32) -> Vec<u64> {
        let cluster = cluster(nodes, NodeShape::Split, gpus);
        let case = theory::case(&cluster, collective, Bytes(1 << 20), root);
        let settings = PxnSettings::of_level(levels::level("default").expect("a level"));
        let flows = flows(&cluster, &settings, &case).expect("known");
        assert_eq!(flows.doubt_of_bytes, None);
        flows.flows.iter().map(|flow| flow.bytes).collect()
    }

    /// Of the two rings, one enters the root's node at the root, and the other one leaves that node
    /// from the root.
    #[test]
    fn a_ring_with_a_root_has_one_hop_without_data() {
        let half = 1 << 19;
        for root in 0..4 {
            let mut broadcast = vec![half; 4];
            let (node, gpu) = (root / 2, root % 2);
            // From the other node, on the ring that begins at the root's GPU.
            broadcast[(2 * (1 - node) + gpu) as usize] = 0;
            assert_eq!(sent(Collective::Broadcast, 2, 2, root), broadcast, "{root}");
            let mut reduce = vec![half; 4];
            // From the root's node, on the ring that ends at the root.
            reduce[(2 * node + 1 - gpu) as usize] = 0;
            assert_eq!(sent(Collective::Reduce, 2, 2, root), reduce, "{root}");
        }
        let all = 1 << 20;
        assert_eq!(sent(Collective::Broadcast, 3, 1, 0), [all, all, 0]);
        assert_eq!(sent(Collective::Reduce, 3, 1, 0), [0, all, all]);
    }

    #[test]
    fn larger_nodes_depend_on_a_search() {
        let why = flows_of(&cluster(2, NodeShape::Split, 8), "default").expect_err("unknown");
        assert_eq!(why, SEARCH);
        let single = flows_of(&cluster(2, NodeShape::Split, 1), "default").expect("known");
        assert!(single.flows.iter().all(|flow| flow.relay.is_none()));
    }

    #[test]
    fn sizes_that_do_not_divide_have_no_exact_bytes() {
        let cluster = cluster(2, NodeShape::Split, 2);
        let divides = |size| channels_that_divide(&cluster, &all_reduce(4, size));
        assert_eq!(divides(1 << 20), Ok(8));
        assert_eq!(divides(3 << 20), Ok(8));
        assert!(divides((1 << 20) + 64).is_err());
        let why = divides(1 << 14).expect_err("small");
        assert_eq!(
            why,
            "16K cannot be divided evenly between 8 channels and 4 ranks"
        );
    }
}
