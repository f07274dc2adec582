//! The theory against recorded runs of NCCL 2.28.3: four ranks on two virtual nodes of two H200 and two rails each. The log and
//! the counters of the rails must be as the theory has them, to the byte.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    cluster::Cluster,
    settings::PxnSettings,
    theory::{self, Algorithm, Relays, Share, Theory},
    virtual_node::NodeShape,
};
use crate::{
    collective::Collective,
    nccl_log::{Proof, reading},
    units::Bytes,
};

/// How often a recorded operation of 1 MiB ran: warm-up, timed and checked, out of place and in place.
const OPERATIONS: u64 = 15;

/// The variables of a recorded run that decide about relays. A plugin without GPUDirect is as NCCL_NET_GDR_LEVEL=LOC.
type Variables = &'static [(&'static str, &'static str)];

const DEFAULT: Variables = &[];
const OFF: Variables = &[("NCCL_PXN_DISABLE", "1")];
const LEVEL_0: Variables = &[("NCCL_P2P_PXN_LEVEL", "0")];
const LEVEL_1: Variables = &[("NCCL_P2P_PXN_LEVEL", "1")];
const LEVEL_2: Variables = &[("NCCL_P2P_PXN_LEVEL", "2")];
const ONE_RAIL: Variables = &[("NCCL_CROSS_NIC", "0")];
const ONE_RAIL_LEVEL_0: Variables = &[("NCCL_CROSS_NIC", "0"), ("NCCL_P2P_PXN_LEVEL", "0")];
const ONE_RAIL_OFF: Variables = &[("NCCL_CROSS_NIC", "0"), ("NCCL_PXN_DISABLE", "1")];
const NO_GPUDIRECT: Variables = &[("NCCL_NET_GDR_LEVEL", "LOC")];
const NO_P2P: Variables = &[("NCCL_P2P_DISABLE", "1")];

/// Runs of 1 MiB, with the topology of their nodes in the name.
const RUNS: &[(&str, Variables)] = &[
    ("a2a.shared.default", DEFAULT),
    ("a2a.shared.disable", OFF),
    ("a2a.shared.level0", LEVEL_0),
    ("a2a.shared.level2", LEVEL_2),
    ("a2a.split.cumem0", DEFAULT),
    ("a2a.split.default", DEFAULT),
    ("a2a.split.disable", OFF),
    ("a2a.split.disable.cross0", ONE_RAIL_OFF),
    ("a2a.split.gdrlevel0", NO_GPUDIRECT),
    ("a2a.split.level0", LEVEL_0),
    ("a2a.split.level0.cross0", ONE_RAIL_LEVEL_0),
    ("a2a.split.level1", LEVEL_1),
    ("a2a.split.level2", LEVEL_2),
    ("a2a.split.nogdr", NO_GPUDIRECT),
    ("a2a.split.nosharedbufs", DEFAULT),
    ("a2a.split.nosharedcomms", DEFAULT),
    ("a2a.split.p2pdisable", NO_P2P),
    ("ar.split.cross0.simple", ONE_RAIL),
    ("ar.split.disable.simple", OFF),
    ("ar.split.level0.simple", LEVEL_0),
    ("ar.split.simple", DEFAULT),
    ("ring.shared.default", DEFAULT),
    ("ring.shared.disable", OFF),
    ("ring.split.cross0", ONE_RAIL),
    ("ring.split.cross0.disable", ONE_RAIL_OFF),
    ("ring.split.default", DEFAULT),
    ("ring.split.disable", OFF),
    ("ring.split.level0", LEVEL_0),
    ("ring.split.level1", LEVEL_1),
    ("ring.split.level2", LEVEL_2),
    ("sr.split.default", DEFAULT),
    ("sr.split.disable", OFF),
];

/// Runs whose theory is not compared here, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("a2a.split.cumem0.level1", "it crashed"),
    ("a2a.split.level1.rc0", "it crashed"),
    ("a2a.split.sweep", "several sizes; its relays are compared"),
    ("ar.split.default", "the protocol is LL128"),
    ("ar.split.ll", "the protocol is LL"),
    ("ar.split.ll128", "the protocol is LL128"),
    ("ar.split.sweep", "several sizes; its rings are compared"),
    ("soak.a2a", "several sizes; its relays are compared"),
    ("sock", "sockets, without rails"),
];

fn log(run: &str) -> PathBuf {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
    logs.join(format!("{run}.log"))
}

fn proof(run: &str) -> Proof {
    let mut sources = reading::sources(&log(run)).expect("a log");
    let read = reading::read(&mut sources).unwrap_or_else(|_| panic!("{run} can be read"));
    read.proof
}

/// What the rails of a recorded run counted.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// By node and rail: bytes sent, and those of them that were relayed.
    rails: BTreeMap<(u64, usize), (u64, u64)>,
    /// Bytes received on another rail than they were sent on.
    crossing: u64,
}

/// Reads what the recorded plugin counted in a run.
fn counted(run: &str) -> Counted {
    let text = include_str!("../../tests/data/rehearsal/counters.tsv");
    let mut lines = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let names = lines.next().expect("names of the columns");
    let mut counted = Counted::default();
    for cells in lines.filter(|cells| cells[0] == run) {
        let cell = |name: &str| {
            let column = names.iter().position(|other| *other == name);
            cells[column.expect("a column")]
        };
        let number = |name: &str| cell(name).parse::<u64>().expect("a number");
        if cell("direction") == "tx" {
            let at = (number("node"), number("rail") as usize);
            let sent = counted.rails.entry(at).or_default();
            sent.0 += number("bytes");
            sent.1 += number("bytes") * number("relayed");
        } else if number("from_rail") != number("rail") {
            counted.crossing += number("bytes");
        }
    }
    counted
}

/// Returns what the rails would have counted, by theory.
fn expected(theory: &Theory, operations: u64) -> Counted {
    let rails = theory.rails.known().expect("known bytes");
    let crossing = theory.crossing.known().expect("known bytes");
    let mut counted = Counted {
        crossing: crossing.part * operations,
        ..Counted::default()
    };
    for rail in rails.iter().filter(|rail| rail.sent > 0) {
        let bytes = (rail.sent * operations, rail.relayed * operations);
        counted.rails.insert((rail.node, rail.rail), bytes);
    }
    counted
}

fn shape_of(run: &str) -> NodeShape {
    if run.contains("shared") {
        NodeShape::Shared
    } else {
        NodeShape::Split
    }
}

/// Returns the theory of a run, for nodes with as many channels as its log has.
fn theory_of(run: &str, variables: Variables, size: u64, proof: &Proof) -> Theory {
    let (collective, algorithm) = match run.split('.').next() {
        Some("ring") => (Collective::AllReduce, Algorithm::Ring),
        Some("ar") => (Collective::AllReduce, Algorithm::Tree),
        Some("sr") => (Collective::SendRecv, Algorithm::SendRecv),
        _ => (Collective::AllToAll, Algorithm::SendRecv),
    };
    let mut cluster = Cluster::of_virtual_nodes(2, shape_of(run), 2, 2).expect("a cluster");
    cluster.channels = proof.channels.map(|channels| channels.collective);
    let settings = PxnSettings::read(&|name| {
        let variable = variables.iter().find(|(other, _)| *other == name);
        variable.map(|(_, value)| (*value).to_owned())
    });
    let case = theory::case(&cluster, collective, Bytes(size), 0);
    Theory::new(&cluster, run, &settings, &case, algorithm)
}

#[test]
fn relays_and_bytes_are_those_of_every_recorded_run() {
    for (run, variables) in RUNS {
        let proof = proof(run);
        let theory = theory_of(run, variables, 1 << 20, &proof);
        let log = match theory.algorithm {
            Algorithm::SendRecv => proof.send_recv,
            Algorithm::Ring | Algorithm::Tree => proof.collective,
        };
        let Relays::Connections(Share { part, whole }) = theory.relays else {
            panic!("{run}: {:?}", theory.relays);
        };
        assert_eq!((part, whole), (log.relayed, log.sends), "{run}");
        assert_eq!(expected(&theory, OPERATIONS), counted(run), "{run}");
    }
}

#[test]
fn every_recorded_run_is_compared_or_left_out_for_a_reason() {
    let summary = fs::read_to_string(log("x").with_file_name("summary.tsv")).expect("a summary");
    for line in summary.lines().skip(1) {
        let run = line.split('\t').nth(1).expect("a name");
        let is_compared = RUNS.iter().any(|(name, _)| *name == run);
        let is_left_out = LEFT_OUT.iter().any(|(name, _)| *name == run);
        // Not all runs of the summary have a log here.
        assert!(
            is_compared != is_left_out || !log(run).exists(),
            "{run} is neither compared nor left out"
        );
    }
}

#[test]
fn sends_of_any_size_are_relayed_alike() {
    for run in ["a2a.split.sweep", "soak.a2a"] {
        let proof = proof(run);
        let theory = theory_of(run, DEFAULT, 1 << 20, &proof);
        let log = (proof.send_recv.relayed, proof.send_recv.sends);
        let Relays::Connections(Share { part, whole }) = theory.relays else {
            panic!("{run}: {:?}", theory.relays);
        };
        assert_eq!((part, whole), log, "{run}");
        for (sent, relayed) in counted(run).rails.values() {
            assert_eq!(*sent, 2 * relayed, "{run}");
        }
    }
}

/// Rings of 16, 32 and 64 MiB ran once each, and nothing else in this run was relayed.
#[test]
fn rings_of_other_sizes_have_the_recorded_bytes() {
    let run = "ar.split.sweep";
    let proof = proof(run);
    let theories = [16, 32, 64].map(|mib| {
        let of_size = theory_of("ring.split", DEFAULT, mib << 20, &proof);
        expected(&of_size, 1)
    });
    for (at, (_, relayed)) in counted(run).rails {
        let sum: u64 = theories.iter().map(|theory| theory.rails[&at].1).sum();
        assert_eq!(sum, relayed, "{at:?}");
    }
}
