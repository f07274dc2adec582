//! The forms of each version, and what folding bears.

use proptest::prelude::*;

use super::{
    Connections, Fold, PxnVerdict, Reason, SendCounts,
    line::{
        self, CommEvent, CommView, Connection, Endpoint, LogLevel, Message, Net, PathTypes,
        RingNumbers, Side, Speaker, Via,
    },
};

fn said(message: &str) -> Message<'_> {
    line::parse(message.as_bytes(), LogLevel::Info)
}

fn folded(log: &str) -> Fold {
    let mut fold = Fold::default();
    fold.bytes(log.as_bytes());
    fold
}

#[track_caller]
fn connection(message: &str) -> Connection<'_> {
    let Message::Connection(connection) = said(message) else {
        panic!("{message}: {:?}", said(message))
    };
    connection
}

#[track_caller]
fn net(message: &str) -> Net<'_> {
    let Via::Net(net) = connection(message).via else {
        panic!("{message}")
    };
    net
}

/// The head of `line`, and its message's level and text.
#[track_caller]
fn headed(line: &str) -> (Speaker<'_>, LogLevel, &str) {
    let header = line::find_header(line.as_bytes(), 0).expect("a header");
    let head = Speaker::parse(&line.as_bytes()[..header.start]).expect("a head");
    (head, header.level, &line[header.end..])
}

#[test]
fn who_speaks_is_found_behind_what_others_put_in_front() {
    for front in [
        "",
        "0: ",
        "12: ",
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        "[2026-01-02 03:04:05] ",
        "pod/worker-0 ",
        "50%\r",
    ] {
        let line = format!("{front}node-01.x:33958:34017 [1] NCCL INFO Connected all trees");
        let (head, level, message) = headed(&line);
        assert_eq!(
            (head.host, head.pid, head.tid, head.device),
            (&b"node-01.x"[..], 33958, 34017, Some(1)),
            "{line}"
        );
        assert_eq!((level, message), (LogLevel::Info, "Connected all trees"));
    }
    for (line, device) in [
        (
            "h:1:2 [0] transport/net.cc:632 NCCL WARN PXN should not use host buffers for data",
            Some(0),
        ),
        (
            "[2026-01-02 03:04:05] h:1:2 [3] transport/net.cc:632 (sendSetup) NCCL WARN x",
            Some(3),
        ),
        ("h:1:2 NCCL WARN x", None),
    ] {
        let (head, level, _) = headed(line);
        assert_eq!(
            (head.host, head.pid, head.tid, head.device, level),
            (&b"h"[..], 1, 2, device, LogLevel::Warn),
            "{line}"
        );
    }
    assert_eq!(Speaker::parse(b"vm:1048:10vm:1050:1050 [0] "), None, "torn");
    assert_eq!(
        line::find_header(b"a line about NCCL and its INFO", 0),
        None
    );
    let bare = line::find_header(b"NCCL version 2.18.3+cuda12.1", 0).expect("a header");
    assert_eq!(bare.level, LogLevel::Bare);
}

#[test]
fn connections_of_every_version() {
    let all = connection(
        "Channel 01/1 : 3[0] -> 0[1] [send] via NET/NCCL RDMA Plugin v6/0(2)/GDRDMA/Shared",
    );
    assert_eq!(
        all,
        Connection {
            channel: 1,
            index: Some(1),
            from: Endpoint { rank: 3, gpu: b"0" },
            to: Endpoint { rank: 0, gpu: b"1" },
            side: Side::Send,
            via: Via::Net(Net {
                name: b"NCCL RDMA Plugin v6",
                device: 0,
                relay: Some(2),
                gpudirect: true,
                bare: false
            }),
        }
    );
    // 2.12 to 2.18.1 print bus ids; 2.11 no index; 2.26 adds (PCI); 2.32 one more word at the end.
    let busid = connection("Channel 00/0 : 9[1b000] -> 0[c7000] [receive] via NET/IB/0/GDRDMA");
    assert_eq!(
        (busid.from.gpu, busid.side, busid.index),
        (&b"1b000"[..], Side::Receive, Some(0))
    );
    assert_eq!(
        connection("Channel 00 : 0[1000] -> 1[2000] [send] via NET/Socket/0").index,
        None
    );
    assert_eq!(
        net("Channel 00/0 : 9[1] -> 0[0] [send] via NET/IB/0(8)/GDRDMA").relay,
        Some(8)
    );
    let pci = net("Channel 00/0 : 9[1] -> 0[0] [send] via NET/IB/3/GDRDMA(PCI)/Shared/New thing");
    assert_eq!(
        (pci.name, pci.device, pci.relay, pci.gpudirect, pci.bare),
        (&b"IB"[..], 3, None, true, false)
    );
    assert_eq!(
        net("Channel 00/0 : 9[1] -> 0[0] [send] via NET/IB/3(PCI)").relay,
        None
    );
    let plain = net("Channel 06/0 : 36[4] -> 20[4] [send] via NET/IBext_v8/3");
    assert_eq!(
        (plain.name, plain.device, plain.gpudirect, plain.bare),
        (&b"IBext_v8"[..], 3, false, true)
    );
    assert_eq!(
        net("Channel 06/0 : 1[4] -> 2[4] [send] via NET/AWS Libfabric/1/2x/11(3)/Shared").device,
        1
    );
    assert_eq!(
        net("Channel 06/0 : 1[4] -> 2[4] [send] via NET/a/2x/11(3)/Shared").name,
        b"a/2x"
    );

    for (message, index, kind) in [
        ("Channel 00 : 0[b000] -> 1[c000] via P2P/IPC", None, "P2P"),
        (
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            Some(0),
            "P2P",
        ),
        (
            "Channel 00/01 : 0[0] -> 1[1] via P2P/direct pointer",
            Some(1),
            "P2P",
        ),
        (
            "Channel 01/0 : 0[0] -> 3[3] via P2P/indirect/2[2]",
            Some(0),
            "P2P",
        ),
        (
            "Channel 02 : 0[0] -> 1[1] via SHM/direct/direct comm 0x5581 nRanks 04",
            None,
            "SHM",
        ),
    ] {
        let found = connection(message);
        assert_eq!(
            (found.index, found.via, found.side),
            (index, Via::Other(kind.as_bytes()), Side::Both),
            "{message}"
        );
    }
}

#[test]
fn what_looks_like_a_connection_is_none() {
    assert_eq!(said("Channel 00/08 :  0 1 2 3"), Message::RingOrder);
    assert_eq!(said("Channel 00/02 :    0   1"), Message::RingOrder);
    assert_eq!(said("Ring 00 : 3 -> 0 -> 1"), Message::Other);
    assert_eq!(said("Tree 0 : -1 -> 0 -> 1/2/-1"), Message::Other);
    assert_eq!(
        said("Connected to proxy localRank 0 -> connection 0x7f"),
        Message::Other
    );
    assert_eq!(
        said("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA"),
        Message::CollNet(b"SHARP")
    );
    for broken in [
        "Channel 00/0 : 3[1] -> 0[0] [send] via",
        "Channel 00/0 : 3[1] -> 0[",
        "Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0(8",
        "Channel 00/0 : 3[1] -> 0[0] [send] via P2P/IPC",
        "Channel 00/0 : 3[1] -> 0[0] via NET/IB/0",
        "Channel x",
        "Channel 99999999999999999999999/0 : 1[1] -> 2[2] via P2P/IPC",
        "Pattern 4, nothing",
        "Connected all rings, use ring what",
    ] {
        assert_eq!(said(broken), Message::Unclear, "{broken}");
    }
}

#[test]
fn communicators_of_every_version() {
    let (rank, ranks) = (3, 16);
    let comm = CommView {
        pointer: 0x7f,
        rank,
        ranks,
        ..CommView::default()
    };
    let with = CommView {
        id: Some(0xfe40),
        ..comm
    };
    for (message, expected) in [
        (
            "comm 0x7f rank 3 nranks 16 cudaDev 1 busId 70 - Init COMPLETE",
            Message::Communicator(CommEvent::Complete, comm),
        ),
        (
            "ncclCommInitRank comm 0x7f rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 70 commId \
             0xfe40 - Init COMPLETE",
            Message::Communicator(CommEvent::Complete, with),
        ),
        (
            "[Rank 3] ncclCommInitRank comm 0x7f rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 70 \
             commId 0xfe40 - Init START",
            Message::Communicator(CommEvent::Start, with),
        ),
        (
            "comm 0x7f rank 3 nranks 16 cudaDev 1 busId 70 - Destroy COMPLETE",
            Message::CommEnded,
        ),
        (
            "comm 0x7f rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0",
            Message::Communicator(
                CommEvent::Size,
                CommView {
                    nodes: Some(2),
                    local_ranks: Some(8),
                    ..comm
                },
            ),
        ),
        ("commsomething", Message::Other),
    ] {
        assert_eq!(said(message), expected, "{message}");
    }
}

#[test]
fn facts_of_every_version() {
    for (message, expected) in [
        (
            "NCCL version 2.28.3+cuda13.0",
            Message::Version(b"2.28.3+cuda13.0"),
        ),
        (
            "NCCL_P2P_PXN_LEVEL set by environment to 0.",
            Message::Setting(b"NCCL_P2P_PXN_LEVEL", b"0"),
        ),
        (
            "NCCL_NET_GDR_LEVEL set by environment to LOC",
            Message::Setting(b"NCCL_NET_GDR_LEVEL", b"LOC"),
        ),
        (
            "NCCL_X set by environment to a.",
            Message::Setting(b"NCCL_X", b"a."),
        ),
        (
            "Using network AWS Libfabric",
            Message::Network(b"AWS Libfabric"),
        ),
        (
            "NET/Plugin: Loaded net plugin vrail (v6)",
            Message::Plugin(b"vrail (v6)"),
        ),
        (
            "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            Message::Other,
        ),
        (
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            Message::GpuDirect(true),
        ),
        (
            "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            Message::GpuDirect(false),
        ),
        (
            "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 8 > 0)",
            Message::GpuDirectTooFar,
        ),
        ("PXN Disabled as plugin is v4", Message::PluginTooOld),
        ("Connected all rings", Message::Rings(None)),
        (
            "Connected all rings, use ring PXN 1 GDR 0",
            Message::Rings(Some(RingNumbers {
                pxn: true,
                gpudirect: false,
            })),
        ),
        ("Connected binomial trees", Message::Trees),
        ("GPU/0-60 (0)", Message::Other),
        ("Bootstrap : Using eth0:10.0.0.1<0>", Message::Bootstrap),
        ("Bootstrap: Using eth0:10.0.0.1<0>", Message::Bootstrap),
    ] {
        assert_eq!(said(message), expected, "{message}");
    }
    let channels = |message| match said(message) {
        Message::Channels(of) => (of.collective, of.nvls, of.send_recv, of.send_recv_per_peer),
        other => panic!("{message}: {other:?}"),
    };
    assert_eq!(
        channels("2 coll channels, 4 p2p channels, 1 p2p channels per peer"),
        (2, 0, 4, 1)
    );
    assert_eq!(
        channels(
            "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p \
             channels per peer"
        ),
        (24, 16, 32, 2)
    );
}

#[test]
fn paths_and_graphs_of_every_version() {
    let pxn = PathTypes::PXN;
    for message in [
        "Pattern 4, crossNic 0, nChannels 4, bw 24.000000/24.000000, type NVL/PXN, sameChannels 0",
        "Pattern 4, crossNic 0, nChannels 4, speed 24.0/24.0, type NVL/PXN, sameChannels 0",
    ] {
        assert_eq!(said(message), Message::Pattern(4, pxn), "{message}");
    }
    for message in [
        "GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL) CPU/0-0 (2/48.0/PHB) NET/0-0 \
         (3/48.0/PIX) NET/0-1 (5/48.0/PXN) ",
        "GPU/1B000 :GPU/1B000 (0/5000.000000/LOC) GPU/1C000 (2/20.000000/NVL) NET/0 \
         (3/12.000000/PIX) NET/1 (4/12.000000/PXN) ",
    ] {
        let Message::Paths(paths) = said(message) else {
            panic!("{message}")
        };
        assert_eq!(
            (paths.gpus, paths.nics.has(pxn), paths.nics.names()),
            (PathTypes::NVL, true, "PIX, PXN".into()),
            "{message}"
        );
    }
}

#[test]
fn algorithms_of_every_version() {
    let log = "\
        h:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\n\
        h:1:1 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1} cgaClusterSize 4\n\
        h:1:1 [0] NCCL INFO AllReduce: 32 Bytes -> Algo 1 proto 0 time 8.0\n\
        h:1:1 [0] NCCL INFO 1024 Bytes -> Algo 0 proto 2 time 8.0\n\
        h:1:1 [0] NCCL INFO AllReduce [Symmetric]: 16 Bytes -> Kernel AllReduce_RSxLD_AGxST nchannels 8 nthreads 512 nWorks 1\n\
        h:1:1 [0] NCCL INFO AllGather [Copy Engine]: 16 Bytes -> cudaMemcpyBatchAsync\n\
        h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 8 datatype 7 op 0 root 0 comm 0x5\n";
    let choices = folded(log).proof().algorithms;
    let found: Vec<_> = choices
        .iter()
        .map(|of| {
            (
                of.function.as_str(),
                of.algorithm.as_str(),
                of.protocol.as_str(),
                of.from_bytes,
                of.to_bytes,
                of.times,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("AllReduce", "RING", "LL", 8, 64, 3),
            ("", "TREE", "SIMPLE", 1024, 1024, 1),
            (
                "AllReduce [Symmetric]",
                "AllReduce_RSxLD_AGxST",
                "",
                16,
                16,
                1
            ),
            (
                "AllGather [Copy Engine]",
                "cudaMemcpyBatchAsync",
                "",
                16,
                16,
                1
            ),
        ]
    );
}

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
        h:1:1 [0] NCCL INFO 8 coll channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer\n\
        h:1:1 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n";
    let seen = Connections::read(log.as_bytes());
    let by: Vec<_> = seen
        .by
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    let all = [
        ("NET/IB", 1),
        ("NET/IBext_v8", 1),
        ("NET/NCCL RDMA Plugin v6", 1),
        ("P2P", 1),
        ("SHM", 1),
    ];
    assert_eq!(by, all);
    assert_eq!((seen.relayed(), seen.sends()), (1, 3));
    assert_eq!(seen.channels.map(|of| of.send_recv), Some(8));
    let mut twice = seen.clone();
    twice.add(&seen);
    assert_eq!((twice.relayed(), twice.by["P2P"]), (2, 2));
}

const RELAYED: &str =
    "h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/IB/0(2)/GDRDMA/Shared";

#[test]
fn torn_lines_are_counted_and_nothing_is_made_of_them_that_may_be_false() {
    // Glued: both whole. Cut before what tells a relay: only the second. Without its head: none.
    for (log, relayed, sends, torn) in [
        (format!("{RELAYED}{RELAYED}\n"), 2, 2, 1),
        (
            format!("h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/I{RELAYED}\n"),
            1,
            1,
            1,
        ),
        (
            format!(
                "h:1:1 [1] NCCL INFO Chan{RELAYED}\nnel 01/1 : 3[0] -> 0[1] [send] via \
                 NET/IB/0(2)/GDRDMA\n"
            ),
            1,
            1,
            2,
        ),
        (RELAYED[20..].to_owned() + "\n", 0, 0, 1),
        (
            "h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/IB/0".to_owned(),
            0,
            0,
            1,
        ),
        (
            "h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/IB/0\n".to_owned(),
            0,
            1,
            0,
        ),
        (RELAYED.to_owned(), 1, 1, 0),
        (format!("{RELAYED}\r\n"), 1, 1, 0),
    ] {
        let fold = folded(&log);
        let seen = fold.connections();
        assert_eq!(
            (seen.relayed(), seen.sends(), fold.proof().lines.torn),
            (relayed, sends, torn),
            "{log}"
        );
    }
}

#[test]
fn a_line_without_end_takes_no_more_memory_than_the_buffer() {
    let mut log = vec![b'x'; 5 << 20];
    log.extend_from_slice(format!("\n{RELAYED}\n{RELAYED}").as_bytes());
    log.extend(std::iter::repeat_n(b'y', 3 << 20));
    log.extend_from_slice(format!("{RELAYED}\n{RELAYED}\n").as_bytes());
    let mut fold = Fold::default();
    fold.read(&log[..]).expect("read");
    assert_eq!(
        fold.connections().relayed(),
        3,
        "what follows the cut of a long line is passed over"
    );
}

#[test]
fn reasons_rest_on_what_the_log_says() {
    let send = |end: &str| {
        format!("h:1:1 [1] NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/{end}\n")
    };
    let reason = |log: String| {
        let proof = folded(&log).proof();
        (proof.verdict, proof.reason)
    };
    let with = |line: &str| {
        reason(format!(
            "h:1:1 [1] NCCL INFO {line}\n{}",
            send("IB/0/GDRDMA")
        ))
    };
    assert_eq!(
        with("NCCL_PXN_DISABLE set by environment to 1."),
        (PxnVerdict::NotUsed, Reason::PxnOff)
    );
    assert_eq!(
        with("NCCL_PXN_DISABLE set by environment to 0."),
        (PxnVerdict::NotUsed, Reason::NoGraph),
        "as for =true"
    );
    assert_eq!(with("PXN Disabled as plugin is v4").1, Reason::PluginTooOld);
    assert_eq!(
        with("NCCL_P2P_LEVEL set by environment to LOC").1,
        Reason::P2pOff
    );
    assert_eq!(
        with("comm 0x7 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0").1,
        Reason::NoRelayGpu
    );
    assert_eq!(
        with("GPU/60 :GPU/60 (0/5000.0/LOC) GPU/70 (2/20.0/PHB) NET/0 (3/12.0/PIX)").1,
        Reason::NoNvlink
    );
    assert_eq!(
        with("GPU/60 :GPU/60 (0/5000.0/LOC) GPU/70 (2/20.0/NVL) NET/0 (3/12.0/PIX)").1,
        Reason::Unexplained
    );
    assert_eq!(reason(send("IB/0")).1, Reason::NoGpudirect);
    assert_eq!(
        reason(send("IB/0/GDRDMA").replace("0[1]", "0[0]")).1,
        Reason::SameRail
    );
    assert_eq!(
        reason(send("IB/0").replace("01/1", "01")).1,
        Reason::NcclTooOld
    );
    let crossed = "GPU/60 :GPU/60 (0/5000.0/LOC) GPU/70 (2/20.0/NVL) NET/0 (3/12.0/PIX) NET/1 (5/12.0/PXN)\n\
        h:1:1 [1] NCCL INFO Pattern 4, crossNic 1, nChannels 4, bw 24.0/24.0, type NVL/PIX, sameChannels 0\n\
        h:1:1 [1] NCCL INFO NCCL_CROSS_NIC set by environment to 1.\n\
        h:1:1 [1] NCCL INFO Connected all rings, use ring PXN 0 GDR 1";
    assert_eq!(
        reason(format!(
            "h:1:1 [1] NCCL INFO {crossed}\n{}",
            send("IB/0/GDRDMA").replace("01/1", "01/0")
        ))
        .1,
        Reason::CrossNic
    );
    let refused =
        "h:1:1 [0] transport/net.cc:632 NCCL WARN PXN should not use host buffers for data\n";
    assert_eq!(
        reason(refused.to_owned() + RELAYED),
        (PxnVerdict::Used, Reason::HostBuffers)
    );
    assert_eq!(
        reason(refused.to_owned() + &send("IB/0")),
        (PxnVerdict::CannotTell, Reason::HostBuffers)
    );
}

const FAULT: &str = "[h:00001] Signal: Segmentation fault (11)\n";

/// The line with which process `pid` starts or completes a communicator of two ranks.
fn init(pid: u32, what: &str) -> String {
    format!(
        "h:{pid}:1 [0] NCCL INFO ncclCommInitRank comm 0x7f rank {pid} nranks 2 cudaDev 0 busId \
         60 commId 0x5 - Init {what}\n"
    )
}

#[test]
fn connections_prove_nothing_where_nobody_came_to_use_them() {
    let begun = init(0, "START") + &init(1, "START") + RELAYED + "\n" + FAULT;
    let judged = |log: &str| {
        let proof = folded(log).proof();
        (
            proof.verdict,
            proof.reason,
            proof.also,
            proof.unfinished_processes,
        )
    };
    assert_eq!(
        judged(&begun),
        (
            PxnVerdict::CannotTell,
            Reason::Crash,
            vec![Reason::Relayed],
            2
        )
    );
    let one = begun.clone() + &init(0, "COMPLETE");
    assert_eq!(
        judged(&one),
        (PxnVerdict::Used, Reason::Relayed, vec![Reason::Crash], 1)
    );
    let ended =
        "h:1:1 [0] NCCL INFO comm 0x7f rank 1 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE\n";
    assert_eq!(
        judged(&(one + ended)),
        (PxnVerdict::Used, Reason::Relayed, vec![], 0)
    );
    let local =
        init(0, "START") + "h:0:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
    assert_eq!(judged(&local).0, PxnVerdict::CannotTell);
}

#[test]
fn nvlink_between_nodes_leaves_nothing_to_relay() {
    let log = "h:1:1 [0] NCCL INFO comm 0x7 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1\n\
        h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL\n";
    let proof = folded(log).proof();
    assert_eq!(
        (proof.verdict, proof.reason, proof.ranks_in_log),
        (PxnVerdict::NotUsed, Reason::NvlinkJoinsNodes, 1)
    );
}

/// Logs of real runs, whole.
fn real() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
    [
        "a2a.split.cumem0.log",
        "ar.split.sweep.log",
        "a2a.split.nogdr.log",
    ]
    .iter()
    .map(|name| std::fs::read(folder.join(name)).expect("a log"))
    .collect()
}

/// The lines of one process.
fn of_process<'a>(log: &'a [u8], pid: &str) -> Vec<&'a [u8]> {
    let begin = format!(":{pid}:");
    log.split_inclusive(|c| *c == b'\n')
        .filter(|line| {
            memchr::memmem::find(&line[..line.len().min(12)], begin.as_bytes()).is_some()
        })
        .collect()
}

fn counts(fold: &Fold) -> (SendCounts, SendCounts, u64, PxnVerdict, Reason) {
    let proof = fold.proof();
    (
        proof.send_recv,
        proof.collective,
        proof.processes,
        proof.verdict,
        proof.reason,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_borne(log in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let mut fold = Fold::default();
        fold.read(&log[..]).expect("read");
        let _ = fold.proof();
    }

    #[test]
    fn any_message_is_borne(
        begin in prop_oneof![
            Just("Channel "), Just("Channel 00/0 : 1[1] -> 2[2] [send] via NET/"), Just("NCCL_"), Just("GPU/0 :"), Just("Pattern "),
            Just("comm 0x"), Just("NET/"), Just("8 coll channels, "), Just("AllReduce: "), Just("Connected all rings"), Just("CollNet ")
        ],
        rest in "[ -~]{0,40}",
    ) {
        let _ = folded(&format!("h:1:1 [0] NCCL INFO {begin}{rest}\n")).proof();
    }

    #[test]
    fn a_real_log_cut_and_spliced_is_borne(which in 0_usize..3, cuts in proptest::collection::vec((0.0..1.0_f64, 0_usize..200), 0..20)) {
        let log = &real()[which];
        let whole = folded(&String::from_utf8_lossy(log)).connections().clone();
        let mut spliced = log.clone();
        for (at, length) in cuts {
            let at = (at * spliced.len() as f64) as usize;
            let end = (at + length).min(spliced.len());
            spliced.drain(at..end);
        }
        let mut fold = Fold::default();
        fold.read(&spliced[..]).expect("read");
        prop_assert!(fold.connections().sends() <= whole.sends());
        prop_assert!(fold.connections().relayed() <= whole.relayed());
        let _ = fold.proof();
    }

    #[test]
    fn interleaved_processes_count_as_separate_ones(order in proptest::collection::vec(0_usize..4, 0..2000), which in 0_usize..2) {
        let log = &real()[which];
        let pids = pids(log);
        let mut apart = Fold::default();
        apart.bytes(log);
        prop_assert_eq!(pids.len(), 4);
        let mut each: Vec<_> = pids.iter().map(|pid| of_process(log, pid).into_iter()).collect();
        let mut mixed = Fold::default();
        for at in order.into_iter().chain([0, 1, 2, 3].repeat(2000)) {
            if let Some(line) = each[at].next() {
                mixed.line(line.trim_ascii_end());
            }
        }
        prop_assert!(each.iter_mut().all(|lines| lines.next().is_none()));
        prop_assert_eq!(counts(&mixed), counts(&apart));
    }
}

/// The processes of a log.
fn pids(log: &[u8]) -> Vec<String> {
    let lines = log.split(|c| *c == b'\n').filter_map(|line| {
        let header = line::find_header(line, 0)?;
        Speaker::parse(&line[..header.start]).map(|head| head.pid.to_string())
    });
    lines
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}
