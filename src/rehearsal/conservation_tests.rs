//! Properties of every theory: what is sent arrives, and a level changes the paths of bytes and not
//! their number.

use proptest::prelude::*;

use super::{
    cluster::Cluster,
    settings::PxnSettings,
    theory::{self, Algorithm, RailBytes, Theory},
    virtual_node::NodeShape,
};
use crate::{
    collective::{Case, Collective},
    levels,
    units::Bytes,
};

/// Returns the theory of each level.
fn theories(cluster: &Cluster, case: &Case, algorithm: Algorithm) -> Vec<Theory> {
    let of_level = |level: &levels::Preset| {
        let settings = PxnSettings::of_level(level);
        Theory::new(cluster, &level.name, &settings, case, algorithm)
    };
    levels::all().iter().map(of_level).collect()
}

/// Returns the bytes that each node sends over all rails.
fn sent_by_node(rails: &[RailBytes]) -> Vec<u64> {
    let nodes = rails.chunk_by(|a, b| a.node == b.node);
    nodes
        .map(|rails| rails.iter().map(|rail| rail.sent).sum())
        .collect()
}

/// Returns the bytes that each rank receives from other nodes.
fn received_by_rank(cluster: &Cluster, theory: &Theory) -> Vec<u64> {
    let of = |rank: u64| {
        let flows = theory.flows.iter().filter(|flow| flow.to == rank);
        flows.map(|flow| flow.bytes).sum()
    };
    (0..cluster.ranks()).map(of).collect()
}

/// Returns the bytes that a rank must receive from other nodes by the definition of a collective;
/// `None` for one that is not made of sends and receives.
fn needed(cluster: &Cluster, case: &Case, rank: u64) -> Option<u64> {
    let is_remote = |other: u64| cluster.node_of(other) != cluster.node_of(rank);
    let chunk = case.counts.param * case.dtype.size();
    let root = case.root.map_or(0, u64::from);
    let remote = (0..case.ranks).filter(|other| is_remote(*other)).count() as u64;
    match case.collective {
        Collective::AllToAll => Some(remote * chunk),
        Collective::Gather => Some(if rank == root { remote * chunk } else { 0 }),
        Collective::Scatter => Some(if is_remote(root) { chunk } else { 0 }),
        Collective::SendRecv => {
            let from = (rank + case.ranks - 1) % case.ranks;
            Some(if is_remote(from) { chunk } else { 0 })
        }
        Collective::AllToAllV => {
            let flows = (0..).zip(case.flows(rank));
            let remote = flows.filter(|(other, _)| is_remote(*other));
            Some(remote.map(|(_, flow)| flow.recv * case.dtype.size()).sum())
        }
        // These need not send each message from rank to rank.
        Collective::AllReduce
        | Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::HyperCube => None,
    }
}

fn clusters() -> impl Strategy<Value = Cluster> {
    let shapes = prop_oneof![Just(NodeShape::Split), Just(NodeShape::Shared)];
    // GPUs, and how many of them share a rail, as powers of two.
    (1u64..6, 0u32..4, 0u32..4, shapes, 0u64..17).prop_map(
        |(nodes, gpus, shared, shape, channels)| {
            let gpus = 1usize << gpus;
            let rails = (gpus >> shared).max(1);
            let cluster = Cluster::of_virtual_nodes(nodes, shape, gpus, rails).expect("a cluster");
            Cluster {
                channels: (channels > 0).then_some(channels),
                ..cluster
            }
        },
    )
}

fn cases() -> impl Strategy<Value = (Cluster, Case)> {
    let collectives = prop::sample::select(Collective::ALL.to_vec());
    (clusters(), collectives, 1u64..1 << 24, any::<u32>()).prop_map(
        |(cluster, collective, size, root)| {
            let root = root % cluster.ranks() as u32;
            let case = theory::case(&cluster, collective, Bytes(size), root);
            (cluster, case)
        },
    )
}

proptest! {
    #[test]
    fn all_levels_send_equally_many_bytes_from_each_node((cluster, case) in cases()) {
        for algorithm in Algorithm::of(case.collective) {
            let theories = theories(&cluster, &case, *algorithm);
            let known = theories.iter().filter_map(|theory| theory.rails.known());
            let mut sent = known.map(|rails| sent_by_node(rails));
            let first = sent.next();
            prop_assert!(sent.all(|other| Some(other) == first));
        }
    }

    #[test]
    fn what_is_sent_arrives((cluster, case) in cases()) {
        for algorithm in Algorithm::of(case.collective) {
            for theory in theories(&cluster, &case, *algorithm) {
                let Some(rails) = theory.rails.known() else { continue };
                let received = received_by_rank(&cluster, &theory);
                let sent: u64 = sent_by_node(rails).iter().sum();
                prop_assert_eq!(sent, received.iter().sum::<u64>());
                prop_assert_eq!(theory.crossing.known().map(|share| share.whole), Some(sent));
                for (rank, received) in (0..).zip(received) {
                    if let Some(needed) = needed(&cluster, &case, rank) {
                        prop_assert_eq!(received, needed, "rank {} at {}", rank, theory.level);
                    }
                }
            }
        }
    }

    #[test]
    fn a_relay_is_another_gpu_of_the_same_node((cluster, case) in cases()) {
        for algorithm in Algorithm::of(case.collective) {
            for theory in theories(&cluster, &case, *algorithm) {
                for flow in &theory.flows {
                    prop_assert_ne!(cluster.node_of(flow.from), cluster.node_of(flow.to));
                    let Some(relay) = flow.relay else { continue };
                    prop_assert_ne!(relay, flow.from);
                    prop_assert_eq!(cluster.node_of(relay), cluster.node_of(flow.from));
                    prop_assert_eq!(flow.rail, flow.peer_rail, "a relay is there to stay on a rail");
                    prop_assert_ne!(theory.level.as_str(), "off");
                }
                let Some(rails) = theory.rails.known() else { continue };
                prop_assert!(rails.iter().all(|rail| rail.relayed <= rail.sent));
            }
        }
    }
}
