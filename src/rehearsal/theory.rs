//! [`Theory`]: the relays and the bytes of one operation, as they follow from NCCL's rules.

use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    flow::{Flow, Flows},
    node_rules::NodeRules,
    rings, send_recv,
    settings::{PxnSettings, SendRecvRelays},
    trees,
};
use crate::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::{DType, RedOp},
    },
    levels::Preset,
    units::Bytes,
};

/// The way in which NCCL runs a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Sends and receives.
    SendRecv,
    /// Rings, with the protocol Simple.
    Ring,
    /// Two trees, with the protocol Simple.
    Tree,
}

impl Algorithm {
    /// Returns the algorithms of a collective that are derived.
    pub fn of(collective: Collective) -> &'static [Algorithm] {
        match collective {
            Collective::AllReduce => &[Algorithm::Ring, Algorithm::Tree],
            _ if collective.spec().pairwise => &[Algorithm::SendRecv],
            _ => &[Algorithm::Ring],
        }
    }

    /// Returns its name in tables.
    pub fn word(self) -> &'static str {
        match self {
            Algorithm::SendRecv => "send/recv",
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
        }
    }

    /// Returns a collective that runs so, with the algorithm unless it is made of sends and
    /// receives: `all_reduce, tree`.
    pub fn label(self, collective: Collective) -> String {
        match self {
            Algorithm::SendRecv => collective.name().to_owned(),
            Algorithm::Ring | Algorithm::Tree => format!("{collective}, {}", self.word()),
        }
    }
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The part.
    pub part: u64,
    /// The whole.
    pub whole: u64,
}

/// A value, or the reason why it cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T> {
    /// The value.
    Known(T),
    /// The reason.
    CannotTell(String),
}

impl<T> Answer<T> {
    /// Returns the value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Answer::Known(value) => Some(value),
            Answer::CannotTell(_) => None,
        }
    }
}

impl<T> From<Result<T, String>> for Answer<T> {
    fn from(result: Result<T, String>) -> Answer<T> {
        match result {
            Ok(value) => Answer::Known(value),
            Err(why) => Answer::CannotTell(why),
        }
    }
}

/// How much of the sending is relayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relays {
    /// Of these network connections, counted at the sender as NCCL's log has them.
    Connections(Share),
    /// Of these pairs of ranks; the number of their connections is not known.
    Pairs {
        /// The relayed pairs and all pairs.
        pairs: Share,
        /// Why the number of connections is not known.
        why: String,
    },
    /// Nothing, whatever NCCL decides else.
    Nothing {
        /// Why more is not known.
        why: String,
    },
    /// Not known.
    CannotTell(String),
}

/// The bytes that a node sends on a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailBytes {
    /// The node.
    pub node: u64,
    /// The rail.
    pub rail: usize,
    /// All bytes sent.
    pub sent: u64,
    /// Those of them that were relayed.
    pub relayed: u64,
}

/// What follows from NCCL's rules for one collective at one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Theory {
    /// The level.
    pub level: String,
    /// The collective.
    pub collective: Collective,
    /// The way in which it runs.
    pub algorithm: Algorithm,
    /// The size, as nccl-tests counts it.
    pub size_bytes: u64,
    /// The relays.
    pub relays: Relays,
    /// The bytes of one operation by node and rail, all of them.
    pub rails: Answer<Vec<RailBytes>>,
    /// The bytes that are received on another rail than they were sent on, of all bytes.
    pub crossing: Answer<Share>,
    /// Who sends to whom over which rail; empty if that is not known.
    #[serde(skip)]
    pub flows: Vec<Flow>,
}

impl Theory {
    /// Derives the theory of a case.
    pub fn new(
        cluster: &Cluster,
        level: &str,
        settings: &PxnSettings,
        case: &Case,
        algorithm: Algorithm,
    ) -> Theory {
        if let Some(why) = case.impossible() {
            return Theory::impossible(level, case, algorithm, &why);
        }
        let flows = match algorithm {
            // Nothing leaves the node.
            _ if cluster.nodes == 1 => Ok(Flows::none()),
            Algorithm::SendRecv => send_recv::flows(cluster, settings, case),
            Algorithm::Ring => rings::flows(cluster, settings, case),
            Algorithm::Tree => trees::flows(cluster, settings, case),
        };
        let bytes = match &flows {
            Ok(Flows {
                doubt_of_bytes: Some(why),
                ..
            })
            | Err(why) => Err(why.clone()),
            Ok(flows) => Ok(&flows.flows),
        };
        Theory {
            level: level.to_owned(),
            collective: case.collective,
            algorithm,
            size_bytes: case.size().0,
            relays: relays(cluster, settings, algorithm, &flows),
            rails: bytes
                .as_ref()
                .map(|flows| rail_bytes(cluster, flows))
                .map_err(Clone::clone)
                .into(),
            crossing: bytes.map(|flows| crossing(flows)).into(),
            flows: flows.map(|flows| flows.flows).unwrap_or_default(),
        }
    }

    /// Returns the theory of a case that no library can run.
    fn impossible(level: &str, case: &Case, algorithm: Algorithm, why: &str) -> Theory {
        Theory {
            level: level.to_owned(),
            collective: case.collective,
            algorithm,
            size_bytes: case.size().0,
            relays: Relays::CannotTell(why.to_owned()),
            rails: Answer::CannotTell(why.to_owned()),
            crossing: Answer::CannotTell(why.to_owned()),
            flows: Vec::new(),
        }
    }

    /// Returns the collective, with its algorithm unless it is made of sends and receives:
    /// `all_reduce, tree`.
    pub fn label(&self) -> String {
        self.algorithm.label(self.collective)
    }
}

fn relays(
    cluster: &Cluster,
    settings: &PxnSettings,
    algorithm: Algorithm,
    flows: &Result<Flows, String>,
) -> Relays {
    let flows = match flows {
        Ok(flows) => flows,
        Err(why) if never_relays(cluster, settings, algorithm) => {
            return Relays::Nothing { why: why.clone() };
        }
        Err(why) => return Relays::CannotTell(why.clone()),
    };
    let relayed = flows.flows.iter().filter(|flow| flow.relay.is_some());
    let relayed = relayed.count() as u64;
    let share = |each: u64| Share {
        part: relayed * each,
        whole: flows.flows.len() as u64 * each,
    };
    match &flows.connections_each {
        Ok(each) => Relays::Connections(share(*each)),
        Err(why) => Relays::Pairs {
            pairs: share(1),
            why: why.clone(),
        },
    }
}

/// Returns whether no relay is possible, so that it does not matter what else NCCL decides.
fn never_relays(cluster: &Cluster, settings: &PxnSettings, algorithm: Algorithm) -> bool {
    let has_no_pxn_path = NodeRules::new(cluster, settings).has_pxn_path() == Ok(false);
    match (algorithm, settings.send_recv) {
        (Algorithm::SendRecv, SendRecvRelays::Never) => true,
        (Algorithm::SendRecv, SendRecvRelays::Always) => false,
        _ => has_no_pxn_path,
    }
}

fn rail_bytes(cluster: &Cluster, flows: &[Flow]) -> Vec<RailBytes> {
    let rails = cluster.rails();
    let mut all = Vec::new();
    for node in 0..cluster.nodes {
        for rail in 0..rails {
            all.push(RailBytes {
                node,
                rail,
                sent: 0,
                relayed: 0,
            });
        }
    }
    for flow in flows {
        let of_node = &mut all[cluster.node_of(flow.from) as usize * rails + flow.rail];
        of_node.sent += flow.bytes;
        if flow.relay.is_some() {
            of_node.relayed += flow.bytes;
        }
    }
    all
}

fn crossing(flows: &[Flow]) -> Share {
    let bytes = |flows: &mut dyn Iterator<Item = &Flow>| flows.map(|flow| flow.bytes).sum();
    Share {
        part: bytes(&mut flows.iter().filter(|flow| flow.rail != flow.peer_rail)),
        whole: bytes(&mut flows.iter()),
    }
}

/// Returns the case of a collective that a theory is derived for: floats, summed if they are
/// reduced, out of place.
pub fn case(cluster: &Cluster, collective: Collective, size: Bytes, root: u32) -> Case {
    let shape = CaseShape {
        collective,
        dtype: DType::Float,
        redop: collective.spec().reduces.then_some(RedOp::Sum),
        root: collective.spec().rooted.then_some(root),
        buffer_mode: BufferMode::OutOfPlace,
        ranks: cluster.ranks(),
    };
    shape.nearest(size)
}

/// Returns the theory of each of these levels, collectives and their algorithms.
pub fn of_levels(
    cluster: &Cluster,
    levels: &[&Preset],
    collectives: &[Collective],
    size: Bytes,
    root: u32,
) -> Vec<Theory> {
    let mut theories = Vec::new();
    for level in levels {
        let settings = PxnSettings::of_level(level);
        for collective in collectives {
            let case = case(cluster, *collective, size, root);
            for algorithm in Algorithm::of(*collective) {
                theories.push(Theory::new(
                    cluster,
                    &level.name,
                    &settings,
                    &case,
                    *algorithm,
                ));
            }
        }
    }
    theories
}
