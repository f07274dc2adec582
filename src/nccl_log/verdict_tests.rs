//! What follows from whole, partial, cut and mixed logs: on each communicator, and on the whole.

use super::{Fold, Proof, PxnVerdict, Reason, TrafficVerdict, report};

const USED: TrafficVerdict = TrafficVerdict::Used;
const NOT_USED: TrafficVerdict = TrafficVerdict::NotUsed;
const NOT_IN_LOG: TrafficVerdict = TrafficVerdict::NotInLog;

/// Reads `lines` as those of one process.
fn read(lines: &[&str]) -> Proof {
    read_processes(&[lines])
}

/// Reads the lines of several processes, one after the other.
fn read_processes(processes: &[&[&str]]) -> Proof {
    let mut fold = Fold::default();
    for (pid, lines) in processes.iter().enumerate() {
        for line in *lines {
            fold.line(format!("node-a:{pid}:{pid} [0] NCCL INFO {line}").as_bytes());
        }
    }
    fold.proof()
}

fn judged(lines: &[&str]) -> (PxnVerdict, Reason) {
    let proof = read(lines);
    (proof.verdict, proof.reason)
}

/// Rings, trees and send/recv.
fn traffic(proof: &Proof) -> [TrafficVerdict; 3] {
    let of = &proof.traffic;
    [of.rings, of.trees, of.send_recv]
}

const START: &str = "ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 60 \
                     commId 0x7 - Init START";
const COMPLETE: &str = "ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 60 \
                        commId 0x7 - Init COMPLETE";
const TWO_NODES: &str = "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0";
const ONE_NODE: &str = "comm 0x2 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0";
const ONE_RANK_PER_NODE: &str =
    "comm 0x3 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0";
const LOCAL: &str = "Channel 00/0 : 0[0] -> 7[7] via P2P/IPC";
const RECEIVE: &str = "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA";
const SEND: &str = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";
const RELAYED: &str = "Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA";

#[test]
fn a_log_that_lacks_ranks_does_not_show_one_node() {
    let cannot_tell = (PxnVerdict::CannotTell, Reason::RanksMissing);
    let old = "comm 0x1 rank 0 nranks 16 cudaDev 0 busId 1000 - Init COMPLETE";
    for lines in [
        &[old, RECEIVE, LOCAL][..],
        // One process of 16 ranks.
        &[old, LOCAL],
        // Receives alone.
        &[RECEIVE],
        // More nodes than the log shows.
        &[START, TWO_NODES, LOCAL, COMPLETE],
        // A rank above those seen, and no line about a communicator.
        &[LOCAL],
    ] {
        let proof = read(lines);
        assert_eq!((proof.verdict, proof.reason), cannot_tell, "{lines:?}");
        assert_eq!(traffic(&proof), [NOT_IN_LOG; 3], "{lines:?}");
    }
    // A rank that the only communicator cannot have.
    let one_node = &[ONE_NODE, RECEIVE][..];
    assert_eq!(judged(one_node), cannot_tell);
}

#[test]
fn all_ranks_on_one_node_are_known_by_their_number_or_all_together() {
    let one_node = (PxnVerdict::NotUsed, Reason::OneNode);
    assert_eq!(judged(&[ONE_NODE, LOCAL]), one_node);
    assert_eq!(judged(&[ONE_NODE]), one_node, "no connection yet");
    let first = &["comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE"];
    let second = &[
        "comm 0x1 rank 1 nranks 2 cudaDev 1 busId 2000 - Init COMPLETE",
        "Channel 00 : 1[2000] -> 0[1000] via P2P/IPC",
    ];
    let proof = read_processes(&[first, second]);
    assert_eq!((proof.verdict, proof.reason), one_node);
    assert_eq!(traffic(&proof), [NOT_USED; 3]);
}

#[test]
fn the_summary_of_rings_decides_on_rings() {
    let summary = |pxn: u8| format!("Connected all rings, use ring PXN {pxn} GDR 1");
    let (with, without) = (summary(1), summary(0));
    for lines in [
        &[START, TWO_NODES, COMPLETE, LOCAL, &with][..],
        // The rank's own connections need no relay, those of others do.
        &[START, TWO_NODES, COMPLETE, SEND, &with],
        &[&with],
    ] {
        let proof = read(lines);
        assert_eq!(
            (proof.verdict, proof.reason),
            (PxnVerdict::Used, Reason::Relayed),
            "{lines:?}"
        );
        assert_eq!(traffic(&proof), [USED, NOT_IN_LOG, NOT_IN_LOG], "{lines:?}");
        assert!(proof.evidence.iter().any(|line| line.ends_with(&with)));
    }
    for lines in [
        &[START, TWO_NODES, COMPLETE, LOCAL, RECEIVE, &without][..],
        &[&without],
    ] {
        let proof = read(lines);
        assert_eq!(proof.verdict, PxnVerdict::NotUsed, "{lines:?}");
        assert_eq!(
            traffic(&proof),
            [NOT_USED, NOT_IN_LOG, NOT_IN_LOG],
            "{lines:?}"
        );
        assert!(!proof.also.contains(&Reason::RanksMissing), "{lines:?}");
    }
    // A relay before a summary without PXN is one of something else, and still a relay.
    let proof = read(&[START, TWO_NODES, COMPLETE, RELAYED, &without]);
    assert_eq!(proof.verdict, PxnVerdict::Used);
    assert_eq!(proof.traffic.rings, NOT_USED);
    assert_eq!(proof.traffic.rings_or_trees, USED);
}

#[test]
fn a_summary_of_one_node_says_nothing_about_others() {
    let without = "Connected all rings, use ring PXN 0 GDR 1";
    let proof = read(&[ONE_NODE, TWO_NODES, COMPLETE, without]);
    assert_eq!(proof.verdict, PxnVerdict::CannotTell);
    assert_eq!(traffic(&proof), [NOT_IN_LOG; 3]);
    let with = "Connected all rings, use ring PXN 1 GDR 1";
    let proof = read(&[ONE_NODE, TWO_NODES, COMPLETE, without, with]);
    assert_eq!(proof.verdict, PxnVerdict::Used);
}

#[test]
fn what_rules_pxn_out_for_one_communicator_leaves_another_open() {
    let proof = read(&[TWO_NODES, ONE_RANK_PER_NODE]);
    assert_eq!(proof.verdict, PxnVerdict::CannotTell);
    assert_eq!(traffic(&proof), [NOT_IN_LOG; 3]);
}

#[test]
fn rings_and_trees_are_told_apart() {
    let trees = "Connected all trees";
    let rings = "Connected all rings";
    let proof = read(&[SEND, rings, RELAYED, trees]);
    assert_eq!(traffic(&proof), [NOT_USED, USED, NOT_IN_LOG]);
    let proof = read(&[RELAYED, rings, SEND, trees]);
    assert_eq!(traffic(&proof), [USED, NOT_USED, NOT_IN_LOG]);
    let proof = read(&[SEND]);
    assert_eq!(traffic(&proof), [NOT_IN_LOG; 3]);
    assert_eq!(proof.traffic.rings_or_trees, NOT_USED);
    let sent = SEND.replace("00/0", "00/1");
    let proof = read(&[&sent]);
    assert_eq!(traffic(&proof), [NOT_IN_LOG, NOT_IN_LOG, NOT_USED]);
}

#[test]
fn what_one_rank_does_not_relay_others_may() {
    let trees = "Connected all trees";
    let rings = "Connected all rings";
    // One of 16 ranks.
    let proof = read(&[TWO_NODES, SEND, rings, SEND, trees]);
    assert_eq!(
        (proof.verdict, proof.reason),
        (PxnVerdict::CannotTell, Reason::RanksMissing)
    );
    assert_eq!(traffic(&proof), [NOT_IN_LOG; 3]);
    let proof = read(&[TWO_NODES, SEND, rings, RELAYED, trees]);
    assert_eq!(traffic(&proof), [NOT_IN_LOG, USED, NOT_IN_LOG]);
    // The summary covers the others, for rings.
    let summary = "Connected all rings, use ring PXN 0 GDR 1";
    let sent = SEND.replace("00/0", "00/1");
    let proof = read(&[TWO_NODES, SEND, summary, &sent]);
    assert_eq!(traffic(&proof), [NOT_USED, NOT_IN_LOG, NOT_IN_LOG]);
    assert_eq!(proof.also, [Reason::RanksMissing]);
    // All ranks are there.
    let first = &[
        "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE",
        "Channel 00/1 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
    ];
    let second = &[
        "comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE",
        "Channel 00/1 : 1[1] -> 0[0] [send] via NET/IB/0/GDRDMA",
    ];
    let proof = read_processes(&[first, second]);
    assert_eq!(proof.traffic.send_recv, NOT_USED);
    assert_eq!(proof.verdict, PxnVerdict::NotUsed);
}

#[test]
fn deciding_facts_need_no_connection() {
    let lone_gpu = "GPU/81000 :GPU/81000 (0/5000.0/LOC) CPU/1 (1/24.0/PHB) NET/1 (3/24.0/PHB) ";
    for (lines, reason) in [
        (
            &["NCCL_PXN_DISABLE set by environment to 1."][..],
            Reason::PxnOff,
        ),
        (
            &[TWO_NODES, "NCCL_PXN_DISABLE set by environment to 1."],
            Reason::PxnOff,
        ),
        (
            &[START, "NCCL_PXN_DISABLE set by environment to 1."],
            Reason::PxnOff,
        ),
        (&["Using network Socket"], Reason::Sockets),
        (&[START, "Using network Socket", TWO_NODES], Reason::Sockets),
        (&[ONE_RANK_PER_NODE], Reason::NoRelayGpu),
        (&[lone_gpu], Reason::NoRelayGpu),
        (&["NCCL version 2.4.8+cuda10.0"], Reason::NcclTooOld),
        (&["NCCL version 2.11.4+cuda11.4", LOCAL], Reason::NcclTooOld),
        (&["PXN Disabled as plugin is v4"], Reason::PluginTooOld),
        (
            &["NCCL_P2P_DISABLE set by environment to 1.", TWO_NODES],
            Reason::P2pOff,
        ),
        (
            &["NCCL_P2P_LEVEL set by environment to LOC"],
            Reason::P2pOff,
        ),
    ] {
        let proof = read(lines);
        assert_eq!(
            (proof.verdict, proof.reason),
            (PxnVerdict::NotUsed, reason),
            "{lines:?}"
        );
        assert_eq!(traffic(&proof), [NOT_USED; 3], "{lines:?}");
    }
    let mut fold = Fold::default();
    fold.bytes(b"NCCL version 2.10.3+cuda11.4\n");
    assert_eq!(fold.proof().reason, Reason::NcclTooOld, "a bare line");
}

#[test]
fn facts_that_do_not_decide_leave_it_open() {
    for lines in [
        // PXN_DISABLE is a number: other texts are 0.
        &[TWO_NODES, "NCCL_PXN_DISABLE set by environment to 0."][..],
        // Another node has more than one rank.
        &["comm 0x3 rank 0 nRanks 3 nNodes 2 localRanks 1 localRank 0 MNNVL 0"],
        // Communicators may use different networks.
        &["Using network Socket", "Using network IB", TWO_NODES],
        &["NCCL version 2.12.7+cuda11.4", TWO_NODES],
        &["NCCL version 2.12.10+cuda11.4", TWO_NODES],
        // The level is about send/recv alone.
        &[TWO_NODES, "NCCL_P2P_PXN_LEVEL set by environment to 0."],
    ] {
        assert_eq!(read(lines).verdict, PxnVerdict::CannotTell, "{lines:?}");
    }
    let level = read(&[TWO_NODES, "NCCL_P2P_PXN_LEVEL set by environment to 0."]);
    assert_eq!(traffic(&level), [NOT_IN_LOG, NOT_IN_LOG, NOT_USED]);
    // Processes differ, and one of them relays.
    let off = &[
        "ncclCommInitRank comm 0x1 rank 1 nranks 16 cudaDev 1 busId 70 commId 0x7 - Init COMPLETE",
        "NCCL_PXN_DISABLE set by environment to 1.",
    ];
    let proof = read_processes(&[&[COMPLETE, RELAYED], off]);
    assert_eq!(proof.verdict, PxnVerdict::Used);
}

#[test]
fn the_reason_comes_from_the_communicator_that_sent() {
    let send = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA";
    let not_used = (PxnVerdict::NotUsed, Reason::NoRelayGpu);
    assert_eq!(judged(&[ONE_NODE, ONE_RANK_PER_NODE, send]), not_used);
    assert_eq!(judged(&[ONE_RANK_PER_NODE, ONE_NODE, send]), not_used);
    // Tensor, pipeline and data parallel groups: only the pipeline sends as rank 1 of 2.
    let data = "comm 0x4 rank 5 nRanks 64 nNodes 8 localRanks 8 localRank 5 MNNVL 0";
    let pipeline = ONE_RANK_PER_NODE.replace("rank 0", "rank 1");
    let back = "Channel 00/1 : 1[0] -> 0[0] [send] via NET/IB/0/GDRDMA";
    let proof = read(&[ONE_NODE, data, &pipeline, back]);
    assert_eq!((proof.verdict, proof.reason), not_used);
    assert_eq!(proof.send_recv_reason, Some(Reason::NoRelayGpu));
    assert!(
        proof.evidence[0].contains("nRanks 2"),
        "{:?}",
        proof.evidence
    );
    let data = proof
        .communicator_groups
        .iter()
        .find(|group| group.shared.ranks == Some(64));
    assert_eq!(data.map(|group| group.shared.verdict), Some(NOT_IN_LOG));
}

#[test]
fn the_reason_whose_remedy_can_help_comes_first() {
    let without_gpudirect = SEND.replace("/GDRDMA", "");
    let proof = read(&[ONE_RANK_PER_NODE, &without_gpudirect]);
    assert_eq!(proof.reason, Reason::NoRelayGpu);
    assert_eq!(proof.also, [Reason::NoGpudirect]);
    let socket = SEND.replace("IB/0/GDRDMA", "Socket/0");
    let proof = read(&["Using network Socket", ONE_RANK_PER_NODE, &socket]);
    assert_eq!(proof.reason, Reason::NoRelayGpu);
    assert_eq!(proof.also, [Reason::Sockets]);
    let graph = "GPU/81000 :GPU/81000 (0/5000.0/LOC) CPU/1 (1/24.0/PHB) NET/1 (3/24.0/PHB)";
    let ring = "Pattern 4, crossNic 0, nChannels 1, bw 24.0/24.0, type LOC/PHB, sameChannels 1";
    assert_eq!(
        judged(&[graph, ring, SEND, "Connected all rings"]),
        (PxnVerdict::NotUsed, Reason::NoRelayGpu)
    );
}

#[test]
fn one_communicator_uses_pxn_where_another_cannot() {
    let one =
        "ncclCommInitRank comm 0x9 rank 0 nranks 2 cudaDev 0 busId 60 commId 0x9 - Init START";
    let two = one.replace("0x9", "0xa");
    let lines = [
        START,
        TWO_NODES,
        RELAYED,
        "Connected all rings, use ring PXN 1 GDR 1",
        COMPLETE,
        one,
        &ONE_RANK_PER_NODE.replace("0x3", "0x9"),
        SEND,
        "Connected all rings, use ring PXN 0 GDR 1",
        &two,
        &ONE_RANK_PER_NODE.replace("0x3", "0xa"),
    ];
    let proof = read(&lines);
    assert_eq!(proof.verdict, PxnVerdict::Used);
    let groups: Vec<_> = proof
        .communicator_groups
        .iter()
        .map(|group| {
            let of = &group.shared;
            (group.ids.join(","), of.ranks, of.traffic.rings, of.reason)
        })
        .collect();
    let no_relay = Some(Reason::NoRelayGpu);
    assert_eq!(
        groups,
        [
            ("0x7".into(), Some(16), USED, Some(Reason::Relayed)),
            ("0x9,0xa".into(), Some(2), NOT_USED, no_relay),
        ]
    );
    let text = report::text(&proof);
    for row in [
        "  communicator     ranks    nodes  rings     trees       send/recv   reason\n",
        "  0x7              1 of 16  2      used      not in log  not in log  relayed\n",
        "  2 communicators  1 of 2   2      not used  not used    not used    no_relay_gpu\n",
    ] {
        assert!(text.contains(row), "{row}{text}");
    }
}

#[test]
fn hundreds_of_communicators_are_a_few_rows() {
    let mut lines = Vec::new();
    for id in 1..=300 {
        let nodes = if id % 2 == 0 { 1 } else { 2 };
        lines.push(format!(
            "ncclCommInitRank comm 0x{id:x} rank 0 nranks 8 cudaDev 0 busId 60 commId 0x{id:x} - \
             Init START"
        ));
        lines.push(format!(
            "comm 0x{id:x} rank 0 nRanks 8 nNodes {nodes} localRanks 4 localRank 0 MNNVL 0"
        ));
        lines.push(format!(
            "ncclCommInitRank comm 0x{id:x} rank 0 nranks 8 cudaDev 0 busId 60 commId 0x{id:x} - \
             Init COMPLETE"
        ));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let proof = read(&lines);
    let sizes: Vec<u64> = proof
        .communicator_groups
        .iter()
        .map(|group| group.communicators)
        .collect();
    assert_eq!(sizes, [150, 150]);
    assert_eq!(proof.communicators, 300);
    assert_eq!(proof.verdict, PxnVerdict::CannotTell);
}

#[test]
fn one_missing_line_is_no_crash() {
    // Ray leaves out lines that it has printed for another process.
    let with_rings = &[START, "Using network IB", "Connected all rings"][..];
    let with_connection = &[START, SEND][..];
    for second in [with_rings, with_connection] {
        let proof = read_processes(&[&[START, SEND, "Connected all rings", COMPLETE], second]);
        assert_eq!(proof.reason, Reason::RanksMissing, "2 of 16: {second:?}");
        assert_eq!(proof.unfinished_processes, 0, "{second:?}");
        assert!(!proof.also.contains(&Reason::Crash), "{second:?}");
    }
    let proof = read(&[START, RELAYED]);
    assert_eq!(
        (proof.verdict, proof.unfinished_processes),
        (PxnVerdict::Used, 0)
    );
    let off = "NCCL_PXN_DISABLE set by environment to 1.";
    assert_eq!(
        judged(&[START, off, SEND]),
        (PxnVerdict::NotUsed, Reason::PxnOff)
    );
}

#[test]
fn a_remedy_names_a_variable_only_if_it_is_set() {
    let crash = |settings: &[&str]| {
        let mut fold = Fold::default();
        for line in settings.iter().chain(&[START, RELAYED]) {
            fold.line(format!("h:1:1 [0] NCCL INFO {line}").as_bytes());
        }
        fold.line(b"[h:00001] Signal: Segmentation fault (11)");
        let proof = fold.proof();
        assert_eq!(proof.reason, Reason::Crash);
        report::text(&proof)
    };
    assert!(!crash(&[]).contains("NCCL_P2P_PXN_LEVEL"));
    let level = "NCCL_P2P_PXN_LEVEL set by environment to 1.";
    assert!(!crash(&[level]).contains("crashes NCCL"));
    let text = crash(&[level, "NCCL_CUMEM_ENABLE set by environment to 0."]);
    assert!(text.contains("together with NCCL_CUMEM_ENABLE=0 crashes NCCL"));
    assert!(!text.contains("NCCL_RUNTIME_CONNECT"));

    let without = SEND.replace("/GDRDMA", "");
    let text = report::text(&read(&[&without]));
    assert!(!text.contains("NCCL_NET_GDR"), "{text}");
    let level = "NCCL_NET_GDR_LEVEL set by environment to LOC";
    let text = report::text(&read(&[level, &without]));
    assert!(text.contains("Unset NCCL_NET_GDR_LEVEL."), "{text}");
    assert!(!text.contains("NCCL_NET_GDR_READ"), "{text}");
}

#[test]
fn a_log_that_is_cut_early_says_so() {
    let bootstrap = "Bootstrap : Using eth0:10.0.0.1<0>";
    for lines in [
        &[bootstrap, "Using network IB"][..],
        &[bootstrap],
        &["Using network AWS Libfabric"],
        &[bootstrap, "Using network IB", START],
        &[START],
    ] {
        let proof = read(lines);
        assert_eq!(
            (proof.verdict, proof.reason),
            (PxnVerdict::CannotTell, Reason::CutEarly),
            "{lines:?}"
        );
        let text = report::text(&proof);
        assert!(
            text.contains("cut early") && !text.contains("Name INIT"),
            "{text}"
        );
    }
    assert_eq!(
        judged(&["cudaDriverVersion 12040"]),
        (PxnVerdict::CannotTell, Reason::NoInit)
    );
}
