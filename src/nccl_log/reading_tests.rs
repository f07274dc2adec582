//! What launchers, collectors and old versions make of a line, and logs that hold several runs.

use std::{fs, io::Write, path::PathBuf};

use proptest::prelude::*;

use super::{
    Fold, PxnVerdict, Reason,
    line::{Message, Side, Speaker, Via, find_header, parse},
    proof::Proof,
    reading::{self, Reading, Source},
    reading_report,
};

const SEND: &str = "NCCL INFO Channel 01/1 : 3[0] -> 0[1] [send] via NET/IB/0(2)/GDRDMA/Shared";

fn folded(log: &[u8]) -> Fold {
    let mut fold = Fold::default();
    fold.read(log).expect("read");
    fold
}

fn proof(log: &str) -> Proof {
    folded(log.as_bytes()).proof()
}

fn init(head: &str, rank: u32, id: &str, what: &str) -> String {
    format!(
        "{head}NCCL INFO ncclCommInitRank comm 0x7f rank {rank} nranks 2 cudaDev 0 busId 60 \
         commId 0x{id} - Init {what}\n"
    )
}

#[test]
fn a_host_is_found_behind_every_prefix() {
    for front in [
        "(Worker pid=5) ",
        "(RayTrainWorker pid=5, ip=10.0.0.1) ",
        "(EngineCore_DP0 pid=1088) (RayWorkerWrapper pid=285, ip=10.0.0.1) ",
        "[default0]:",
        "[rank3]:",
        "[rank3]: ",
        "[1,0]<stderr>:",
        "[1,0]<stderr>: ",
        "[prterun-n1-7@1,0]<stdout>: ",
        "12: ",
        "[155] ",
        "<12>",
        "<12>Jan  1 00:00:00 n1 app[7]: ",
        "[pod/worker-0/main] ",
        "[pod/worker-0/main] 2026-01-02T03:04:05.678901234Z ",
        "2026-01-02T03:04:05.678Z ",
        "2026-01-02T03:04:05.678901234Z stderr F ",
        "1767323045678 ",
        "worker-0 main ",
        "worker-1  | ",
        "2026-01-02 03:04:05.000000000 +0000 kube.main: ",
        "\u{1b}[36m(Worker pid=5)\u{1b}[0m ",
        "50%|███ | 3/6 [00:01<00:01,  2.9it/s]",
        "\u{feff}",
    ] {
        let line = format!("{front}node-01.x:33958:34017 [1] {SEND}\n");
        let fold = folded(line.as_bytes());
        let relays = fold.proof().relays;
        assert_eq!(fold.connections().relayed(), 1, "{line}");
        assert_eq!(relays[0].host, "node-01.x", "{line}");
    }
}

#[test]
fn colours_and_notes_are_removed_wherever_they_stand() {
    for line in [
        format!("h:1:2 [0] \u{1b}[32m{SEND}\u{1b}[0m"),
        format!(
            "h:1:2 [0] {}",
            SEND.replace("NCCL ", "NCCL \u{1b}[1;33m")
                .replace("INFO ", "INFO\u{1b}[0m ")
        ),
        format!(
            "\u{1b}[36m(W pid=5)\u{1b}[0m h:1:2 [0] {SEND}\u{1b}[32m [repeated 3x across \
             cluster]\u{1b}[0m"
        ),
        format!("h:1:2 [0] #033[32m{SEND}#033[0m"),
        format!("h:1:2 [0] \\u001b[32m{SEND}"),
        format!("h:1:2 [0] ^[[32m{SEND}^[[0m"),
        format!("\u{1b}]0;title\u{7}h:1:2 [0] {SEND}"),
    ] {
        let proof = proof(&format!("{line}\n"));
        assert_eq!((proof.relays.len(), proof.lines.torn), (1, 0), "{line}");
        assert_eq!(proof.relays[0].host, "h", "{line}");
    }
}

#[test]
fn lines_that_were_left_out_are_counted_and_their_note_is_no_value() {
    let note = " [repeated 3x across cluster]";
    let long = " [repeated 2x across cluster] (Ray deduplicates logs by default. Set \
                RAY_DEDUP_LOGS=0 to disable log deduplication.)";
    let log = format!(
        "(W pid=5) h:5:5 [0] NCCL INFO NCCL_PXN_DISABLE set by environment to 1.{note}\n\
         (W pid=5) h:5:5 [0] NCCL INFO Using network IB{long}\n\
         (W pid=5) h:5:5 [0] NCCL INFO Connected all rings{note}\n\
         {}{}\
         Jan  1 00:00:00 n1 app: message repeated 4 times: [ h:5:5 [0] NCCL INFO Connected all trees]\n\
         Jan  1 00:00:00 n1 app: message repeated 6 times: [ hello]\n\
         Jan  1 00:00:00 n1 last message repeated 5 times\n",
        init("h:5:5 [0] ", 0, "5", "START").replace("START", &format!("START{note}")),
        init("h:5:5 [0] ", 0, "5", "COMPLETE").replace("COMPLETE", &format!("COMPLETE{note}")),
    );
    let proof = proof(&log);
    assert_eq!(proof.lines.left_out, 3 + 2 + 3 + 3 + 3 + 4 + 6 + 5);
    assert_eq!(proof.settings["NCCL_PXN_DISABLE"]["1"], 1);
    assert_eq!(proof.networks, ["IB"]);
    assert_eq!((proof.rings.connected, proof.trees), (1, 1));
    assert_eq!(
        (proof.unfinished_processes, proof.lines.not_understood),
        (0, 0)
    );
}

#[test]
fn json_records_are_read_as_the_line_in_them() {
    let text = format!("h:1:2 [0] {SEND}");
    let json = serde_json::to_string(&text).expect("JSON");
    for record in [
        format!(
            r#"{{"log":{},"stream":"stderr","time":"2026-01-02T03:04:05Z"}}"#,
            serde_json::to_string(&format!("{text}\n")).expect("JSON")
        ),
        format!(r#"{{"message":{json},"kubernetes":{{"pod_name":"worker-0"}}}}"#),
        format!(r#"{{"timestamp":1767323045678,"message":{json},"logStreamName":"a/b"}},"#),
        format!(r#"2026-01-02 03:04:05 +0000 kube.main: {{"log":{json}}}"#),
        format!(r#"{{"__REALTIME_TIMESTAMP":"1","_HOSTNAME":"n1","MESSAGE":{json}}}"#),
        format!(r#"{{"textPayload":{json},"resource":{{"labels":{{"pod_name":"w"}}}}}}"#),
        format!(
            r#"{{"log":{},"stream":"stdout"}}"#,
            serde_json::to_string(&format!("\u{1b}[32m{text}\u{1b}[0m")).expect("JSON")
        ),
    ] {
        let proof = proof(&format!("{record}\n"));
        assert_eq!(proof.relays.len(), 1, "{record}");
        assert_eq!(proof.relays[0].host, "h", "{record}");
    }
}

#[test]
fn processes_that_their_lines_do_not_name_stay_apart() {
    for [one, other] in [
        ["(Worker pid=5) ", "(Worker pid=6) "],
        [
            "(Worker pid=5, ip=10.0.0.1) ",
            "(Worker pid=5, ip=10.0.0.2) ",
        ],
        ["[default0]:", "[default1]:"],
        ["[rank3]: ", "[rank4]: "],
        ["[1,0]<stderr>:", "[1,1]<stderr>:"],
        ["0: ", "1: "],
        ["[0] ", "[1] "],
        [
            "[pod/worker-0/main] 2026-01-02T03:04:05Z ",
            "[pod/worker-1/main] 2026-01-02T03:04:05Z ",
        ],
        ["worker-0 main ", "worker-1 main "],
        ["worker-1  | ", "worker-2  | "],
        ["Jan  1 00:00:00 n1 app[7]: ", "Jan  1 00:00:00 n1 app[8]: "],
    ] {
        let log = [
            init(one, 0, "5", "START"),
            init(other, 1, "5", "START"),
            init(one, 0, "5", "COMPLETE"),
        ]
        .concat();
        let proof = proof(&log);
        assert_eq!(
            (proof.processes, proof.unfinished_processes),
            (2, 1),
            "{one}"
        );
    }
    // The time and the stream are no part of a process's name.
    for [one, other] in [
        ["2026-01-02T03:04:05Z w-0 ", "2026-01-02T03:04:06Z w-0 "],
        ["[1,0]<stdout>:", "[1,0]<stderr>:"],
        ["Jan 31 23:59:59 n1 app[7]: ", "Feb  1 00:00:00 n1 app[7]: "],
    ] {
        let log = init(one, 0, "5", "START") + &init(other, 0, "5", "COMPLETE");
        assert_eq!(proof(&log).processes, 1, "{one}");
    }
    let record = |pod: &str, rank| {
        let line = init("", rank, "5", "START");
        format!(
            "{{\"log\":{},\"pod\":\"{pod}\"}}\n",
            serde_json::to_string(&line).expect("JSON")
        )
    };
    assert_eq!(proof(&(record("w-0", 0) + &record("w-1", 1))).processes, 2);
}

#[test]
fn what_is_left_out_or_has_no_host_does_not_show_one_node() {
    let size =
        "h:1:1 [0] NCCL INFO comm 0x7f rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0";
    let verdict = |log: &str| {
        let proof = proof(log);
        (proof.verdict, proof.reason)
    };
    assert_eq!(
        verdict(&format!("{size}\n")),
        (PxnVerdict::NotUsed, Reason::OneNode)
    );
    let repeated = format!("{size} [repeated 3x across cluster]\n");
    assert_eq!(
        verdict(&repeated),
        (PxnVerdict::CannotTell, Reason::RanksMissing)
    );
    let ranks = |heads: [&str; 2]| {
        let mut log = String::new();
        for (rank, head) in (0..).zip(heads) {
            log += &init(head, rank, "5", "START");
            log += &format!(
                "{head}NCCL INFO Channel 00/0 : {rank}[0] -> {}[0] via P2P/IPC\n",
                1 - rank
            );
            log += &init(head, rank, "5", "COMPLETE");
        }
        verdict(&log)
    };
    assert_eq!(
        ranks(["h:1:1 [0] ", "h:2:2 [1] "]),
        (PxnVerdict::NotUsed, Reason::OneNode)
    );
    assert_eq!(ranks(["[rank0]: ", "[rank1]: "]).0, PxnVerdict::CannotTell);
}

#[test]
fn files_without_a_name_of_a_process_are_processes_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let log = init("", rank, "5", "START") + &init("", rank, "5", "COMPLETE");
        fs::write(folder.path().join(format!("pod-{rank}.log")), log).expect("written");
    }
    let reading = read(folder.path());
    assert_eq!((reading.proof.processes, reading.proof.hosts), (2, 0));
    assert!(reading.runs.is_empty(), "they share a communicator");
}

#[test]
fn connections_before_2_7_are_read() {
    for (message, side, from, via) in [
        (
            "Ring 00 : 7 -> 8 [send] via NET/IB/0/GDRDMA",
            Side::Send,
            7,
            "NET",
        ),
        (
            "Ring 00 : 7 -> 8 [receive] via NET/Socket/0",
            Side::Receive,
            7,
            "NET",
        ),
        (
            "Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0",
            Side::Receive,
            15,
            "NET",
        ),
        (
            "Ring 00 : 7[41000] -> 8[1b000] [send] via NET/IB/0",
            Side::Send,
            7,
            "NET",
        ),
        // 2.3 logs the receiving end alone.
        (
            "Ring 00 : 7 -> 8 via NET/IB/0/GDRDMA",
            Side::Receive,
            7,
            "NET",
        ),
        ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", Side::Both, 0, "P2P"),
        (
            "Ring 00 : 0[0] -> 1[1] via P2P/direct pointer",
            Side::Both,
            0,
            "P2P",
        ),
        (
            "Ring 00 : 0 -> 1 via P2P/common device",
            Side::Both,
            0,
            "P2P",
        ),
        (
            "Ring 00 : 0[0] -> 1[1] via direct shared memory",
            Side::Both,
            0,
            "SHM",
        ),
        (
            "Channel 00/0 : 0[1000] -> 1[2000] via direct shared memory",
            Side::Both,
            0,
            "SHM",
        ),
        (
            "Channel 00 : 0[1000] -> 1[2000] via direct pointer",
            Side::Both,
            0,
            "P2P",
        ),
        (
            "Channel 00/0 : 1[c6000] -> 4[c1000] [send] via NET/Socket/1 comm 0x9e nRanks 08",
            Side::Send,
            1,
            "NET",
        ),
        (
            "Channel 00/0 : 7[ce000] -> 5[c6000] via P2P/IPC comm 0xfb nRanks 08",
            Side::Both,
            7,
            "P2P",
        ),
    ] {
        let Message::Connection(found) = parse(message.as_bytes(), super::line::LogLevel::Info)
        else {
            panic!("{message}")
        };
        let name = match found.via {
            Via::Net(_) => "NET",
            Via::Other(name) => str::from_utf8(name).expect("text"),
        };
        assert_eq!(
            (found.side, found.from.rank, name),
            (side, from, via),
            "{message}"
        );
    }
    let old = "h:1:1 [0] NCCL INFO Ring 00 : 7 -> 8 [send] via NET/IB/0/GDRDMA\n";
    let proof = proof(old);
    assert_eq!((proof.unsorted.sends, proof.unsorted.same_rail), (1, 0));
    assert_eq!(
        (proof.verdict, proof.reason),
        (PxnVerdict::NotUsed, Reason::NcclTooOld)
    );
}

#[test]
fn torn_transports_count_for_nothing() {
    for end in [
        "via P",
        "via P2",
        "via SH",
        "via N",
        "via NET",
        "via NET/",
        "via NET/IB",
        "via direct sh",
        "via",
    ] {
        for line in [
            format!("Channel 05/1 : 3[3] -> 0[0] {end}"),
            format!("Ring 05 : 3[3] -> 0[0] {end}"),
        ] {
            let proof = proof(&format!("h:1:1 [0] NCCL INFO {line}\n"));
            assert!(proof.transports.is_empty(), "{line}");
        }
    }
    for end in ["NET/IB/0/", "NET/IB/0/GDR", "NET/IB/0(8", "NET/IB/0(8)/GD"] {
        let line = format!("h:1:1 [0] NCCL INFO Channel 05/1 : 3[3] -> 0[0] [send] via {end}\n");
        let proof = proof(&line);
        assert_eq!(
            (proof.send_recv.sends, proof.lines.not_understood),
            (0, 1),
            "{end}"
        );
    }
}

#[test]
fn old_and_rccl_lines_of_communicators_networks_and_rings_are_read() {
    let log = "\
        RCCL version 2.12.10+hip5.4 HEAD:0f28d4d\n\
        h:1:1 [0] NCCL INFO RCCL version : 2.22.3-develop:abc\n\
        h:1:1 [0] NCCL INFO Using internal Network IB\n\
        h:1:1 [0] NCCL INFO comm 0x7f rank 0 nranks 2\n\
        h:1:1 [0] NCCL INFO comm 0x7f rank 0 nranks 2 - COMPLETE\n\
        h:1:1 [0] NCCL INFO Ring 00 :    0   1\n\
        h:1:1 [0] NCCL INFO Connected all rings comm 0xa5 nRanks 08 busId c6000\n\
        h:1:1 [0] NCCL INFO Connected all trees comm 0xa5 nRanks 08 busId c6000\n";
    let proof = proof(log);
    assert_eq!(proof.versions, ["2.12.10+hip5.4", "2.22.3"]);
    assert_eq!(proof.networks, ["IB"]);
    assert_eq!((proof.processes, proof.unfinished_processes), (1, 0));
    assert_eq!((proof.rings.connected, proof.trees), (1, 1));
    assert_eq!(proof.lines.not_understood, 0);
}

#[test]
fn a_version_ends_where_another_line_is_glued_to_it() {
    for (line, versions, nccl) in [
        (
            "NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2",
            1,
            1,
        ),
        (
            "NCCL version 2.7.8+cuda10.2h:1:1 [0] NCCL INFO Using network IB",
            1,
            1,
        ),
        (
            "h:1:1 [0] NCCL INFO Using network IBNCCL version 2.7.8+cuda10.2",
            1,
            1,
        ),
        ("[1,0]<stdout>:NCCL version 2.7.8+cuda10.2", 1, 1),
        ("worker-0 main NCCL version 2.7.8+cuda10.2", 1, 1),
        ("h:1:1 [0] NCCL INFO NCCL version 2.7.8+cuda10.2", 1, 1),
    ] {
        let proof = proof(&format!("{line}\n"));
        assert_eq!(
            (proof.versions.len(), proof.lines.nccl),
            (versions, nccl),
            "{line}"
        );
        assert_eq!(proof.versions, ["2.7.8+cuda10.2"], "{line}");
    }
}

#[test]
fn sentences_that_mention_nccl_are_not_its_lines() {
    for line in [
        "See the docs: NCCL version at least 2.12 is needed",
        "See the docs: NCCL version 2.12 is needed",
        "This build needs NCCL version 2.12.7",
        "NCCL version 2.12 or newer is needed",
        "With NCCL_DEBUG you will see NCCL INFO lines",
        "please read the NCCL WARN messages above",
        "NCCL versions differ",
    ] {
        let proof = proof(&format!("{line}\n"));
        assert_eq!((proof.lines.nccl, proof.versions.len()), (0, 0), "{line}");
    }
}

fn sources(path: &std::path::Path) -> Vec<Source> {
    reading::sources(path).expect("sources")
}

fn read(path: &std::path::Path) -> Reading {
    reading::read(&mut sources(path)).expect("read")
}

/// The log of two processes of one run. `pid` is that of the first.
fn run_of_two(pid: u32, id: &str, lines: &str) -> String {
    let heads = [format!("h:{pid}:1 [0] "), format!("h:{}:1 [1] ", pid + 1)];
    let mut log = String::new();
    for head in &heads {
        log += &format!("{head}NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n");
    }
    for what in ["START", "COMPLETE"] {
        for (rank, head) in (0..).zip(&heads) {
            let line = init(head, rank, id, what);
            log += &if id.is_empty() {
                line.replace(" commId 0x", "")
            } else {
                line
            };
        }
    }
    log + &lines.replace("HEAD ", &heads[0])
}

const RELAYED: &str = "HEAD NCCL INFO Channel 01/1 : 1[1] -> 0[0] [send] via NET/IB/0(0)/GDRDMA\n";
const OFF: &str = "HEAD NCCL INFO NCCL_PXN_DISABLE set by environment to 1.\nHEAD NCCL INFO \
                   Channel 01/1 : 1[1] -> 0[0] [send] via NET/IB/0/GDRDMA\n";

#[track_caller]
fn assert_used_then_off(reading: &Reading) {
    let verdicts: Vec<_> = reading
        .runs
        .iter()
        .map(|run| (run.proof.verdict, run.proof.reason))
        .collect();
    assert_eq!(
        verdicts,
        [
            (PxnVerdict::Used, Reason::Relayed),
            (PxnVerdict::NotUsed, Reason::PxnOff)
        ]
    );
}

#[test]
fn each_run_of_a_folder_or_a_file_has_its_verdict() {
    for id in ["", "5"] {
        let other = if id.is_empty() { "" } else { "6" };
        let used = run_of_two(10, id, RELAYED);
        let off = run_of_two(20, other, OFF);

        let one_file = tempfile::tempdir().expect("a folder");
        let log = format!("{used}srun: error: Segmentation fault\n{off}");
        fs::write(one_file.path().join("both.log"), &log).expect("written");
        let reading = read(one_file.path());
        assert_used_then_off(&reading);
        assert!(reading.runs[0].failure.is_some());
        assert!(reading.runs[1].failure.is_none());
        let report = reading_report::text(&reading);
        assert!(report.contains("run 2: "), "{report}");
        assert!(report.contains("both.log, lines 9 to 14"), "{report}");

        let folders = tempfile::tempdir().expect("a folder");
        for (name, log) in [("a", &used), ("b", &off)] {
            fs::create_dir(folders.path().join(name)).expect("a folder");
            fs::write(folders.path().join(name).join("nccl.log"), log).expect("written");
        }
        assert_used_then_off(&read(folders.path()));

        // One file per process, in the same folder.
        let files = tempfile::tempdir().expect("a folder");
        for (name, log) in [("a", &used), ("b", &off)] {
            for pid in [":10:", ":11:", ":20:", ":21:"] {
                let lines: Vec<_> = log
                    .split_inclusive('\n')
                    .filter(|line| line.contains(pid))
                    .collect();
                if !lines.is_empty() {
                    let file = files.path().join(format!("{name}{}.log", &pid[1..3]));
                    fs::write(file, lines.concat()).expect("written");
                }
            }
        }
        assert_used_then_off(&read(files.path()));
    }
}

#[test]
fn a_process_that_begins_anew_is_of_another_run() {
    // In a container, each start has the same host and number.
    let start = "h:1:1 [0] NCCL INFO cudaDriverVersion 13000\n";
    let alone = |id: &str, lines: &str| {
        let head = "h:1:1 [0] ";
        start.to_owned()
            + &init(head, 0, id, "START")
            + &init(head, 0, id, "COMPLETE")
            + &lines.replace("HEAD ", head)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let log = alone("5", RELAYED) + &alone("6", OFF);
    let mut quoted = String::new();
    for line in log.lines() {
        quoted += &format!("level=info msg=\"{line}\"\n");
    }
    for log in [log, quoted] {
        fs::write(folder.path().join("pod.log"), log).expect("written");
        assert_used_then_off(&read(folder.path()));
    }
}

#[test]
fn one_run_stays_one() {
    let one = |log: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.log"), log).expect("written");
        read(folder.path()).runs.len()
    };
    assert_eq!(one(&run_of_two(10, "5", RELAYED)), 0);
    // More communicators of the same processes.
    let split = run_of_two(10, "5", "") + &init("h:10:1 [0] ", 0, "7", "COMPLETE");
    assert_eq!(one(&split), 0);
    // A process that fails before it has a communicator, and one process after the other without
    // ids.
    let lost = format!(
        "h:9:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n{}",
        run_of_two(10, "5", "")
    );
    assert_eq!(one(&lost), 0);
    let apart: String = (0..2)
        .map(|rank| {
            init(&format!("h:{rank}:1 [0] "), rank, "", "COMPLETE").replace(" commId 0x", "")
        })
        .collect();
    assert_eq!(one(&apart), 0);
    for name in ["a2a.split.cumem0.log", "ar.split.sweep.log"] {
        let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
        assert!(read(&data.join(name)).runs.is_empty(), "{name}");
    }
}

#[test]
fn compressed_logs_are_read_twice_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = run_of_two(10, "5", RELAYED) + &run_of_two(20, "6", OFF);
    let file = fs::File::create(folder.path().join("both.log.gz")).expect("made");
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    encoder.write_all(log.as_bytes()).expect("written");
    encoder.finish().expect("written");
    assert_used_then_off(&read(folder.path()));
}

/// Beginnings after which a reader takes different ways.
fn beginnings() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        b"".to_vec(),
        vec![0x1f, 0x8b, 8],
        vec![0x28, 0xb5, 0x2f, 0xfd],
        vec![0xff, 0xfe],
        vec![0xfe, 0xff],
        vec![0xef, 0xbb, 0xbf],
        b"{\"log\":\"".to_vec(),
        b"\x1b[".to_vec(),
        b"\x1b]".to_vec(),
        b"(Worker pid=5, ip=".to_vec(),
        b"NCCL version ".to_vec(),
        b"NCCL version 2.7.8+cuda10.2NCCL version ".to_vec(),
        b"h:1:1 [0] NCCL INFO Ring 00 : ".to_vec(),
        b"h:1:1 [0] NCCL WARN NET/IB : Got completion with error ".to_vec(),
        b"h:1:1 [0] #033[32mNCCL INFO ".to_vec(),
        b"[Rank 1] Watchdog caught collective operation timeout: SeqNum=".to_vec(),
        b"ranks that caused the desync\n - [".to_vec(),
    ])
}

/// Pieces of which damaged logs are made.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        prop::sample::select(vec![
            b" [repeated 3x across cluster]\n".to_vec(),
            b"NCCL INFO ".to_vec(),
            b"RCCL version ".to_vec(),
            b"CCL ".to_vec(),
            b" via P".to_vec(),
            b" -> ".to_vec(),
            b"}\n".to_vec(),
            b"\x1b".to_vec(),
            b"\n".to_vec(),
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(begin in beginnings(), pieces in proptest::collection::vec(pieces(), 0..12)) {
        let log = [begin, pieces.concat()].concat();
        let mut fold = Fold::default();
        // Damaged compression is an error; nothing else is.
        let _ = fold.read(&log[..]);
        let _ = (fold.proof(), fold.failure());
        let mut lines = Fold::default();
        lines.bytes(&log);
        let _ = (lines.proof(), lines.failure());
    }

    #[test]
    fn any_two_files_are_read_as_runs(one in proptest::collection::vec(pieces(), 0..8), two in proptest::collection::vec(pieces(), 0..8)) {
        let folder = tempfile::tempdir().expect("a folder");
        let real = run_of_two(10, "5", RELAYED) + &run_of_two(20, "6", OFF);
        fs::write(folder.path().join("a"), [real.as_bytes(), &one.concat()].concat()).expect("written");
        fs::write(folder.path().join("b"), [two.concat(), real.into_bytes()].concat()).expect("written");
        if let Ok(reading) = reading::read(&mut sources(folder.path())) {
            let _ = reading_report::text(&reading);
        }
    }

    #[test]
    fn any_head_is_borne(head in "[ -~]{0,60}") {
        let _ = Speaker::parse(head.as_bytes());
        let line = format!("{head}NCCL INFO Using network IB");
        let _ = find_header(line.as_bytes(), 0);
    }
}

#[test]
fn a_version_alone_is_read_behind_what_a_collector_writes() {
    for front in [
        "",
        "2026-01-02T03:04:05.678901234Z stdout F ",
        "2026-01-02T03:04:05.678901234Z stderr F ",
        "2026-01-02 03:04:05 INFO worker ",
    ] {
        for (line, version) in [
            ("NCCL version 2.8.4+cuda11.1", "2.8.4+cuda11.1"),
            ("RCCL version : 2.9.9-HEAD:9bd5ba4", "2.9.9"),
        ] {
            let log = format!("{front}{line}\n{front}n0:1:1 [0] NCCL INFO Using network IB\n");
            let proof = proof(&log);
            assert_eq!(proof.versions, [version], "{log}");
            assert_eq!(
                (proof.verdict, proof.reason),
                (PxnVerdict::NotUsed, Reason::NcclTooOld),
                "{log}"
            );
        }
    }
    let sentence = "stdout F See the docs: NCCL version 2.8.4 is too old\n";
    assert!(proof(sentence).versions.is_empty());
}

#[test]
fn a_quote_around_a_line_is_no_part_of_it() {
    for (before, after) in [
        ("level=info msg=\"", "\""),
        ("    \"message\": \"", "\","),
        ("17,\"", "\""),
    ] {
        let line = |text: &str| format!("{before}n0:1:1 [0] NCCL INFO {text}{after}\n");
        let sockets = line("Using network Socket");
        assert_eq!(
            (proof(&sockets).verdict, proof(&sockets).reason),
            (PxnVerdict::NotUsed, Reason::Sockets),
            "{sockets}"
        );
        let off = line("NCCL_PXN_DISABLE set by environment to 1.");
        assert_eq!(proof(&off).reason, Reason::PxnOff, "{off}");
        let complete = init("", 0, "7", "COMPLETE");
        let complete = complete.trim_end().replace("NCCL INFO ", "");
        assert_eq!(proof(&line(&complete)).processes, 1, "{complete}");
    }
}

#[test]
fn files_whose_names_differ_in_their_folders_are_of_different_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, rank) in [("n1/11.log", 0), ("n11/1.log", 1)] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let log = init("", rank, "5", "START") + &init("", rank, "5", "COMPLETE");
        fs::write(path, log).expect("written");
    }
    assert_eq!(read(folder.path()).proof.processes, 2);
}
