//! What the rails of a run counted: docs/REHEARSAL.md has the format of the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    flow::Flow,
    theory::{RailBytes, Share},
};
use crate::{input::why_no_json, visible::excerpt};

/// The format that is read.
const FORMAT: u32 = 1;

/// The most rails of a process.
const MOST_RAILS: u64 = 256;

/// The counters of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessCounters {
    /// The format.
    pub format: u32,
    /// The rank of the process in the job.
    pub rank: u64,
    /// Its virtual node.
    pub node: String,
    /// The number of its rails.
    pub rails: u64,
    /// What it sent.
    pub sent: Vec<RailCounter>,
    /// What it received.
    pub received: Vec<RailCounter>,
    /// Rails on which something is played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub played: Vec<PlayedRail>,
    /// Messages that were passed to a rail and have not left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingMessages>,
}

/// A rail on which less bandwidth, latency or a fault is played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedRail {
    /// The NIC of this process.
    pub rail: u64,
    /// How long messages waited for it, in microseconds.
    #[serde(default)]
    pub waited_us: u64,
}

/// Messages that NCCL passed to a rail and that have not left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessages {
    /// The NIC of this process.
    pub rail: u64,
    /// Their number.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds since NCCL passed the oldest of them.
    pub oldest_ms: u64,
}

/// Messages between two processes over one pair of rails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailCounter {
    /// The NIC of this process.
    pub rail: u64,
    /// The rank of the process at the other end.
    pub peer: u64,
    /// The NIC at the other end.
    pub peer_rail: u64,
    /// The id of NCCL's communicator, if it is known.
    #[serde(default)]
    pub communicator: Option<String>,
    /// The rank in that communicator whose data these are.
    pub origin: u64,
    /// Whether the sender sent them for another rank, if that is known.
    #[serde(default)]
    pub relayed: Option<bool>,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ProcessCounters {
    /// Reads the counters of a process.
    ///
    /// # Errors
    /// Returns a sentence if `text` does not hold them.
    pub fn parse(text: &str) -> Result<ProcessCounters, String> {
        let counters: ProcessCounters = serde_json::from_str(text).map_err(|error| {
            let why = why_no_json(&error);
            format!("it does not hold the counters of a process: {why}")
        })?;
        if counters.format != FORMAT {
            return Err(format!(
                "its format is {}, and this program reads format {FORMAT}",
                counters.format
            ));
        }
        let all = || counters.sent.iter().chain(&counters.received);
        if counters.rails > MOST_RAILS || all().any(|one| one.rail >= counters.rails) {
            return Err(format!(
                "it names a rail that it does not have; it has {}",
                counters.rails
            ));
        }
        Ok(counters)
    }
}

/// The counters of all processes of a run.
#[derive(Clone, Debug)]
pub struct RunCounters {
    /// By rank.
    processes: Vec<ProcessCounters>,
}

/// What identifies the messages between two processes: sender, its rail, receiver, its rail,
/// communicator, origin.
type Route<'a> = (u64, u64, u64, u64, Option<&'a str>, u64);

impl RunCounters {
    /// Joins the counters of all processes of a cluster.
    ///
    /// # Errors
    /// Returns a sentence if a rank is missing or appears twice, if the ranks are not on their
    /// nodes, or if what was sent was not received.
    pub fn new(
        cluster: &Cluster,
        mut processes: Vec<ProcessCounters>,
    ) -> Result<RunCounters, String> {
        processes.sort_by_key(|process| process.rank);
        for (expected, process) in (0..).zip(&processes) {
            if process.rank < expected {
                return Err(format!("rank {} has two files of counters", process.rank));
            }
            if process.rank > expected {
                return Err(missing(expected));
            }
        }
        let found = processes.len() as u64;
        if found < cluster.ranks() {
            return Err(missing(found));
        }
        if found > cluster.ranks() {
            return Err(format!(
                "there are counters of {found} ranks, and the cluster has {}",
                cluster.ranks()
            ));
        }
        let counters = RunCounters { processes };
        counters.check_nodes(cluster)?;
        counters.check_rails(cluster)?;
        counters.check_arrival()?;
        Ok(counters)
    }

    /// Checks that ranks are on the same node exactly if they should be.
    fn check_nodes(&self, cluster: &Cluster) -> Result<(), String> {
        let mut first_of: BTreeMap<&str, u64> = BTreeMap::new();
        for process in &self.processes {
            let node = cluster.node_of(process.rank);
            let name = process.node.as_str();
            let known = *first_of.entry(name).or_insert(node);
            let names = first_of.values().filter(|other| **other == node).count();
            if known != node || names != 1 {
                let first = cluster.rank_on(node, 0);
                return Err(format!(
                    "rank {} ran on node {}; ranks {first} to {}, and no others, are to be on one \
                     node",
                    process.rank,
                    excerpt(name),
                    first + cluster.gpus() as u64 - 1
                ));
            }
        }
        Ok(())
    }

    fn check_rails(&self, cluster: &Cluster) -> Result<(), String> {
        let rails = cluster.rails() as u64;
        match self.processes.iter().find(|process| process.rails != rails) {
            None => Ok(()),
            Some(process) => Err(format!(
                "rank {} had {} rails, and a node of the cluster has {rails}",
                process.rank, process.rails
            )),
        }
    }

    /// Checks that each process received what the others sent to it.
    fn check_arrival(&self) -> Result<(), String> {
        let mut balance: BTreeMap<Route, [(u64, u64); 2]> = BTreeMap::new();
        for process in &self.processes {
            let rank = process.rank;
            for one in &process.sent {
                let route = (
                    rank,
                    one.rail,
                    one.peer,
                    one.peer_rail,
                    one.communicator.as_deref(),
                    one.origin,
                );
                add(&mut balance.entry(route).or_default()[0], one)?;
            }
            for one in &process.received {
                let route = (
                    one.peer,
                    one.peer_rail,
                    rank,
                    one.rail,
                    one.communicator.as_deref(),
                    one.origin,
                );
                add(&mut balance.entry(route).or_default()[1], one)?;
            }
        }
        for ((from, rail, to, peer_rail, _, origin), [sent, received]) in balance {
            if sent != received {
                return Err(format!(
                    "rank {from} sent rank {to} {} bytes in {} messages of rank {origin} on rail \
                     {rail}, but {} bytes in {} messages arrived on rail {peer_rail}",
                    sent.1, sent.0, received.1, received.0
                ));
            }
        }
        Ok(())
    }

    /// Returns the bytes that each node sent on each rail.
    ///
    /// # Errors
    /// Returns a sentence if the counters do not tell what was relayed.
    pub fn rail_bytes(&self, cluster: &Cluster) -> Result<Vec<RailBytes>, String> {
        let mut all: BTreeMap<(u64, usize), RailBytes> = BTreeMap::new();
        for node in 0..cluster.nodes {
            for rail in 0..cluster.rails() {
                let none = RailBytes {
                    node,
                    rail,
                    sent: 0,
                    relayed: 0,
                };
                all.insert((node, rail), none);
            }
        }
        for process in &self.processes {
            let node = cluster.node_of(process.rank);
            for one in &process.sent {
                let Some(bytes) = all.get_mut(&(node, one.rail as usize)) else {
                    continue;
                };
                bytes.sent = bytes.sent.saturating_add(one.bytes);
                match one.relayed {
                    Some(true) => bytes.relayed = bytes.relayed.saturating_add(one.bytes),
                    Some(false) => {}
                    None => {
                        return Err(format!(
                            "the counters of rank {} do not tell what it relayed",
                            process.rank
                        ));
                    }
                }
            }
        }
        Ok(all.into_values().collect())
    }

    /// Returns who sent to whom over which rail. A relay counts for the rank whose data it sent.
    pub fn flows(&self) -> Vec<Flow> {
        let mut bytes: BTreeMap<(u64, u64, u64, Option<u64>, u64), u64> = BTreeMap::new();
        for process in &self.processes {
            for one in &process.sent {
                let relay = (one.relayed == Some(true)).then_some(process.rank);
                let way = (one.origin, one.peer, one.rail, relay, one.peer_rail);
                let sum = bytes.entry(way).or_default();
                *sum = sum.saturating_add(one.bytes);
            }
        }
        let flow = |((from, to, rail, relay, peer_rail), bytes)| Flow {
            from,
            to,
            rail: rail as usize,
            relay,
            peer_rail: peer_rail as usize,
            bytes,
        };
        bytes.into_iter().map(flow).collect()
    }

    /// Returns how long messages waited for each rail on which something is played, in
    /// microseconds, over all processes.
    pub fn waited(&self) -> BTreeMap<u64, u64> {
        let mut waited: BTreeMap<u64, u64> = BTreeMap::new();
        for played in self.processes.iter().flat_map(|process| &process.played) {
            let sum = waited.entry(played.rail).or_default();
            *sum = sum.saturating_add(played.waited_us);
        }
        waited
    }

    /// Returns the bytes that were received on another rail than they were sent on, of all bytes.
    pub fn crossing(&self) -> Share {
        let mut share = Share { part: 0, whole: 0 };
        for one in self.processes.iter().flat_map(|process| &process.sent) {
            share.whole = share.whole.saturating_add(one.bytes);
            if one.rail != one.peer_rail {
                share.part = share.part.saturating_add(one.bytes);
            }
        }
        share
    }
}

fn missing(rank: u64) -> String {
    format!("rank {rank} left no counters: it ended before its connections closed")
}

/// Adds the messages and bytes of a counter.
fn add(total: &mut (u64, u64), one: &RailCounter) -> Result<(), String> {
    let messages = total.0.checked_add(one.messages);
    let bytes = total.1.checked_add(one.bytes);
    let (Some(messages), Some(bytes)) = (messages, bytes) else {
        return Err("the counters add up to more than any run can send".into());
    };
    *total = (messages, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::virtual_node::NodeShape;

    /// The counters of an alltoall of 1 MiB at NCCL's default, with the numbers of a recorded run.
    const RECORDED: [&str; 4] = [
        include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-0.json"),
        include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-1.json"),
        include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-2.json"),
        include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-3.json"),
    ];

    fn cluster() -> Cluster {
        Cluster::of_virtual_nodes(2, NodeShape::Split, 2, 2).expect("a cluster")
    }

    fn recorded() -> Vec<ProcessCounters> {
        let parse = |text| ProcessCounters::parse(text).expect("counters");
        RECORDED.map(parse).into()
    }

    fn refused(change: impl Fn(&mut Vec<ProcessCounters>)) -> String {
        let mut processes = recorded();
        change(&mut processes);
        RunCounters::new(&cluster(), processes).expect_err("refused")
    }

    #[test]
    fn bytes_of_rails_are_added_up() {
        let counters = RunCounters::new(&cluster(), recorded()).expect("counters");
        let rails = counters.rail_bytes(&cluster()).expect("known");
        assert_eq!(rails.len(), 4);
        for rail in rails {
            assert_eq!((rail.sent, rail.relayed), (7_864_320, 3_932_160));
        }
        let crossing = counters.crossing();
        assert_eq!((crossing.part, crossing.whole), (0, 31_457_280));
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_said() {
        let missing = "rank 1 left no counters: it ended before its connections closed";
        assert_eq!(refused(|all| drop(all.remove(1))), missing);
        assert!(refused(|all| drop(all.pop())).starts_with("rank 3 left no counters"));
        assert_eq!(
            refused(|all| all[1].rank = 0),
            "rank 0 has two files of counters"
        );
        assert!(refused(|all| all[1].node = "other".into()).contains("rank 1 ran on node"));
        assert!(refused(|all| all[2].node = all[0].node.clone()).contains("rank 2 ran on node"));
        assert_eq!(
            refused(|all| all[3].rails = 3),
            "rank 3 had 3 rails, and a node of the cluster has 2"
        );
        assert_eq!(
            refused(|all| all[2].received[0].bytes -= 4),
            "rank 0 sent rank 2 3932160 bytes in 60 messages of rank 0 on rail 0, but 3932156 \
             bytes in 60 messages arrived on rail 0"
        );
        assert!(
            refused(|all| {
                let mut more = all[0].sent[0].clone();
                more.bytes = u64::MAX;
                all[0].sent.push(more);
            })
            .contains("more than any run")
        );
        let mut unknown = recorded();
        unknown[2].sent[0].relayed = None;
        let counters = RunCounters::new(&cluster(), unknown).expect("counters");
        assert_eq!(
            counters.rail_bytes(&cluster()).expect_err("unknown"),
            "the counters of rank 2 do not tell what it relayed"
        );
    }

    #[test]
    fn other_formats_are_refused() {
        let parse = |text: &str| ProcessCounters::parse(text).expect_err("refused");
        assert!(parse("{}").starts_with("it does not hold the counters of a process"));
        let other = RECORDED[0].replace("\"format\": 1", "\"format\": 2");
        assert_eq!(
            parse(&other),
            "its format is 2, and this program reads format 1"
        );
        let rail = RECORDED[0].replace("\"rails\": 2", "\"rails\": 0");
        assert!(parse(&rail).contains("a rail that it does not have"));
    }
}
