//! The theory against recorded runs of NCCL 2.28.3: four ranks on two virtual nodes of two H200 and
//! two rails each. The log and the counters of the rails must be as the theory has them, to the
//! byte.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    cluster::Cluster,
    counters::{ProcessCounters, RailCounter, RunCounters},
    rehearsed::Rehearsal,
    rehearsed_case::{RehearsedCase, ShownRun, algorithm_names},
    rehearsed_table,
    settings::PxnSettings,
    theory::{self, Algorithm, Relays, Share, Theory},
    virtual_node::NodeShape,
};
use crate::{
    collective::Collective,
    exit, levels,
    nccl_log::{Proof, reading},
    units::Bytes,
};

/// How often a recorded operation of 1 MiB ran: warm-up, timed and checked, out of place and in
/// place.
const OPERATIONS: u64 = 15;

/// The variables of a recorded run that decide about relays. A plugin without GPUDirect is as
/// NCCL_NET_GDR_LEVEL=LOC.
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

/// The recorded runs that make up the rehearsal that `scripts/demo-pxn.sh` shows where there is no
/// GPU: by topology, collective, algorithm and level.
const REHEARSAL: &[(&str, &str)] = &[
    ("off", "a2a.split.disable"),
    ("conservative", "a2a.split.level0"),
    ("balanced", "a2a.split.level1"),
    ("aggressive", "a2a.split.level2"),
    ("default", "a2a.split.default"),
    ("off", "sr.split.disable"),
    ("default", "sr.split.default"),
    ("off", "ring.split.disable"),
    ("conservative", "ring.split.level0"),
    ("balanced", "ring.split.level1"),
    ("aggressive", "ring.split.level2"),
    ("default", "ring.split.default"),
    ("off", "ar.split.disable.simple"),
    ("conservative", "ar.split.level0.simple"),
    ("default", "ar.split.simple"),
    ("off", "a2a.shared.disable"),
    ("conservative", "a2a.shared.level0"),
    ("aggressive", "a2a.shared.level2"),
    ("default", "a2a.shared.default"),
    ("off", "ring.shared.disable"),
    ("default", "ring.shared.default"),
];

/// A row of the recorded counters.
#[derive(Clone, Copy)]
struct CounterRow {
    rank: u64,
    rail: u64,
    is_sent: bool,
    origin: u64,
    is_relayed: bool,
    /// The rail on which received messages were sent.
    from_rail: u64,
    messages: u64,
    bytes: u64,
}

fn counter_rows(run: &str) -> Vec<CounterRow> {
    let text = include_str!("../../tests/data/rehearsal/counters.tsv");
    let rows = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let of_run = rows.filter(|cells| cells[0] == run);
    of_run
        .map(|cells| {
            let number = |column: usize| cells[column].parse().unwrap_or_default();
            CounterRow {
                rank: number(2),
                rail: number(3),
                is_sent: cells[4] == "tx",
                origin: number(5),
                is_relayed: cells[6] == "1",
                from_rail: number(7),
                messages: number(8),
                bytes: number(9),
            }
        })
        .collect()
}

/// Returns the counters of a run as the plugin writes them now. The recorded ones tell the other
/// end of what was received only; on a node, one process sends what has the same origin and rail.
fn run_counters(cluster: &Cluster, run: &str) -> RunCounters {
    let rows = counter_rows(run);
    let mut processes: Vec<ProcessCounters> = (0..cluster.ranks())
        .map(|rank| ProcessCounters {
            format: 1,
            rank,
            node: format!("node{}", cluster.node_of(rank)),
            rails: cluster.rails() as u64,
            sent: Vec::new(),
            received: Vec::new(),
            played: Vec::new(),
            waiting: Vec::new(),
        })
        .collect();
    for row in rows.iter().filter(|row| !row.is_sent) {
        let node = cluster.node_of(row.origin);
        let mut senders = rows.iter().filter(|sent| {
            let is_there = cluster.node_of(sent.rank) == node && sent.rail == row.from_rail;
            sent.is_sent && is_there && sent.origin == row.origin
        });
        let sender = senders.next().expect("a sender");
        assert!(senders.next().is_none(), "{run}: one sender");
        let received = RailCounter {
            rail: row.rail,
            peer: sender.rank,
            peer_rail: row.from_rail,
            communicator: None,
            origin: row.origin,
            relayed: Some(sender.is_relayed),
            messages: row.messages,
            bytes: row.bytes,
        };
        processes[sender.rank as usize].sent.push(RailCounter {
            rail: row.from_rail,
            peer: row.rank,
            peer_rail: row.rail,
            ..received.clone()
        });
        processes[row.rank as usize].received.push(received);
    }
    for row in rows.iter().filter(|row| row.is_sent) {
        let sent = processes[row.rank as usize].sent.iter();
        let same = sent.filter(|one| (one.rail, one.origin) == (row.rail, row.origin));
        let (messages, bytes) = same.fold((0, 0), |(messages, bytes), one| {
            (messages + one.messages, bytes + one.bytes)
        });
        assert_eq!((messages, bytes), (row.messages, row.bytes), "{run}");
    }
    RunCounters::new(cluster, processes).expect("counters")
}

/// Returns whether all data of a recorded run were right, as nccl-tests said.
fn is_verified(run: &str) -> Option<bool> {
    let summary = fs::read_to_string(log("x").with_file_name("summary.tsv")).expect("a summary");
    let mut lines = summary
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let cells = lines.find(|cells| cells[1] == run)?;
    Some(cells[9].starts_with("0 "))
}

fn rehearsed(level: &str, run: &str) -> RehearsedCase {
    let (proof, level) = (proof(run), levels::level(level).expect("a level"));
    let variables = RUNS.iter().find(|(name, _)| *name == run).expect("a run").1;
    let size = 1 << 20;
    let algorithm = theory_of(run, variables, size, &proof).algorithm;
    let mut cluster = Cluster::of_virtual_nodes(2, shape_of(run), 2, 2).expect("a cluster");
    cluster.channels = proof.channels.map(|channels| channels.collective);
    let collective = theory_of(run, variables, size, &proof).collective;
    let case = theory::case(&cluster, collective, Bytes(size), 0);
    let settings = PxnSettings::of_level(level);
    let theory = Theory::new(&cluster, &level.name, &settings, &case, algorithm);
    let counters = run_counters(&cluster, run);
    let shown = ShownRun {
        log: match algorithm {
            Algorithm::SendRecv => proof.send_recv,
            Algorithm::Ring | Algorithm::Tree => proof.collective,
        },
        counters: &counters,
        operations: OPERATIONS,
        nccl_algorithm: algorithm_names(&proof.algorithms),
        is_verified: is_verified(run),
    };
    RehearsedCase::new(&cluster, &theory, shown).expect("the counters tell it")
}

#[test]
fn the_recorded_rehearsal_is_what_the_runs_showed() {
    let cluster = Cluster::of_virtual_nodes(2, NodeShape::Split, 2, 2).expect("a cluster");
    let mut rehearsal = Rehearsal::of(&cluster, 1 << 20);
    rehearsal.note = "Recorded with nccl-tests and a plugin of the same kind; not every level and \
                      collective was."
        .into();
    rehearsal.pxnbench = String::new();
    rehearsal.device = "NVIDIA H200".into();
    rehearsal
        .nccl
        .clone_from(&proof("a2a.split.default").versions[0]);
    rehearsal.add(REHEARSAL.iter().map(|(level, run)| rehearsed(level, run)));
    rehearsal.check().expect("agreement");
    let of = |run: &str| {
        let at = REHEARSAL.iter().position(|(_, name)| *name == run);
        &rehearsal.cases[at.expect("a run")]
    };
    assert_eq!(
        of("a2a.split.level1").changed,
        "8 of 16 sends are relayed instead of 0; 0% of the bytes cross rails instead of 50%"
    );
    assert_eq!(of("a2a.split.level2").changed, "same as balanced");
    assert_eq!(
        of("sr.split.default").changed,
        "4 of 4 sends are relayed instead of 0; now used: rail 0; no longer used: rail 1; 0% of \
         the bytes cross rails instead of 100%"
    );
    let relayed = of("a2a.split.default")
        .flows
        .iter()
        .find(|flow| flow.from == 1 && flow.to == 2);
    assert_eq!(relayed.and_then(|flow| flow.relay), Some(0));

    let text = rehearsed_table::json(&rehearsal).expect("JSON");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/rehearsal/two-h200.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.with_file_name("")).expect("a folder");
        fs::write(&file, &text).expect("written");
    }
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        recorded == text,
        "{} differs; UPDATE_GOLDEN=1 rewrites it",
        file.display()
    );
    assert_eq!(Rehearsal::parse(&text).as_ref(), Ok(&rehearsal));
}

/// A level whose relays are not those of the run.
#[test]
fn a_rehearsal_that_disagrees_has_the_numbers_and_its_exit_code() {
    let cluster = Cluster::of_virtual_nodes(2, NodeShape::Split, 2, 2).expect("a cluster");
    let mut rehearsal = Rehearsal::of(&cluster, 1 << 20);
    rehearsal.add([
        rehearsed("off", "a2a.split.default"),
        rehearsed("default", "a2a.split.disable"),
        rehearsed("default", "ring.split.default"),
    ]);
    let error = rehearsal.check().expect_err("two differ");
    assert_eq!(exit::code_of(&error), exit::Code::WrongData);
    let sentence = error.to_string();
    assert!(
        sentence.starts_with(
            "theory, log and counters disagree in 2 of 3 rehearsed cases. The first, on topology \
             split: theory, log and counters disagree on alltoall at level off: relayed send \
             connections: 0 by theory, 8 in NCCL's log"
        ),
        "{sentence}"
    );
    let text = rehearsed_table::text(&rehearsal);
    assert!(
        text.contains("  differ  ") && text.contains("  agree\n"),
        "{text}"
    );
    rehearsal.cases[2].verified = Some(false);
    let error = rehearsal.check().expect_err("wrong data");
    assert_eq!(
        error.to_string(),
        "wrong data in the rehearsal of all_reduce, ring at level default on topology split"
    );
}
