//! `pxnbench proof` on NCCL's logs of real runs: four ranks on two virtual nodes with two rails,
//! one run for each setting. `summary.tsv` has what the runs' own counters showed.

mod common;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{BINARY, Ended};
use serde_json::Value;

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs")
}

#[track_caller]
fn proof(arguments: &[&str]) -> Ended {
    common::run(Command::new(BINARY).arg("proof").args(arguments))
}

#[track_caller]
fn json(log: &Path) -> Value {
    let ended = proof(&["--json", &log.display().to_string()]).expect_code(0);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

/// Verdict and reason by the run's name; what is not here has relays.
const NOT_USED: &[(&str, &str)] = &[
    ("a2a.shared.disable", "pxn_off"),
    ("a2a.shared.level0", "level0"),
    ("a2a.split.disable", "pxn_off"),
    ("a2a.split.disable.cross0", "pxn_off"),
    ("a2a.split.gdrlevel0", "no_gpudirect"),
    ("a2a.split.level0", "level0"),
    ("a2a.split.level0.cross0", "level0"),
    ("a2a.split.nogdr", "no_gpudirect"),
    ("a2a.split.p2pdisable", "p2p_off"),
    ("ar.split.cross0.simple", "tree"),
    ("ar.split.disable.simple", "pxn_off"),
    ("ar.split.level0.simple", "tree"),
    ("ar.split.simple", "tree"),
    ("ring.shared.default", "own_path"),
    ("ring.shared.disable", "pxn_off"),
    ("ring.split.cross0.disable", "pxn_off"),
    ("ring.split.disable", "pxn_off"),
    ("sock", "sockets"),
    ("sr.split.disable", "pxn_off"),
];

/// NCCL_P2P_PXN_LEVEL=1 with runtime connect off crashes NCCL after it connected its rings.
const CRASHED: &[&str] = &["a2a.split.cumem0.level1", "a2a.split.level1.rc0"];

#[test]
fn every_run_of_the_summary_has_its_counts_its_verdict_and_its_reason() {
    let summary = fs::read_to_string(logs().join("summary.tsv")).expect("summary.tsv");
    let mut checked = Vec::new();
    for row in summary
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
    {
        let [
            _,
            name,
            send_recv,
            collective,
            gpudirect,
            _,
            _,
            _,
            rings,
            wrong,
            receives_relayed,
        ] = row[..]
        else {
            panic!("{row:?}");
        };
        let log = logs().join(format!("{name}.log"));
        if !log.exists() {
            continue;
        }
        let found = json(&log);
        let counts = |kind: &str| format!("{}/{}", found[kind]["relayed"], found[kind]["sends"]);
        assert_eq!(
            (counts("send_recv").as_str(), counts("collective").as_str()),
            (send_recv, collective),
            "{name}"
        );
        assert_eq!(found["gpudirect"]["sends"].to_string(), gpudirect, "{name}");
        assert_eq!(receives_relayed, "0", "{name}");
        let reason = NOT_USED
            .iter()
            .find(|(run, _)| *run == name)
            .map(|(_, reason)| *reason);
        let expected = match reason {
            Some(reason) => ("not_used", reason),
            None if CRASHED.contains(&name) => ("cannot_tell", "crash"),
            None => ("used", "relayed"),
        };
        assert_eq!(
            (found["verdict"].as_str(), found["reason"].as_str()),
            (Some(expected.0), Some(expected.1)),
            "{name}"
        );
        assert_eq!(
            wrong == "FAILED",
            found["unfinished_processes"] != 0,
            "{name}"
        );
        let pxn = &found["rings"]["pxn"];
        match rings.split_once("x PXN ") {
            None => assert_eq!(found["rings"]["connected"], 0, "{name}"),
            Some((times, "1 GDR 1")) => assert_eq!(pxn.to_string(), times, "{name}"),
            Some(_) => assert_eq!(pxn, 0, "{name}"),
        }
        let lines = &found["lines"];
        assert_eq!(
            (&lines["not_understood"], &lines["torn"]),
            (&Value::from(0), &Value::from(0)),
            "{name}"
        );
        assert!(
            !found["evidence"].as_array().expect("evidence").is_empty(),
            "{name}"
        );
        checked.push(name.to_owned());
    }
    // One name stands for two runs in the summary; they agree, and one log is there.
    checked.sort();
    checked.dedup();
    assert_eq!(checked.len(), 41, "a test for every log");
}

#[test]
fn a_relay_is_named_with_its_nic() {
    let found = json(&logs().join("sr.split.default.log"));
    let relays: Vec<_> = found["relays"]
        .as_array()
        .expect("relays")
        .iter()
        .map(|relay| (&relay["rank"], &relay["nic"]))
        .collect();
    assert_eq!(relays.len(), 2, "{relays:?}");
    assert_eq!(relays[0], (&Value::from(0), &Value::from("vrail/0")));
    let text = proof(&[&logs().join("sr.split.default.log").display().to_string()])
        .expect_code(0)
        .stdout;
    for part in [
        "PXN: used",
        "4 of 4 send connections relayed",
        "by rank 0 on vm through vrail/0",
        "evidence:",
        "vrail/0(0)/GDRDMA",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn one_node_and_sockets_say_why_there_is_no_pxn() {
    let one = json(&logs().join("one-node-nvlink-2gpu.log"));
    assert_eq!(
        (&one["verdict"], &one["reason"]),
        (&Value::from("not_used"), &Value::from("one_node"))
    );
    assert_eq!(one["transports"]["P2P"], 48, "{}", one["transports"]);
    let two = json(&logs().join("two-virtual-nodes-socket.log"));
    assert_eq!(
        (&two["verdict"], &two["reason"]),
        (&Value::from("not_used"), &Value::from("sockets"))
    );
    assert_eq!(
        (&two["nodes"], &two["gpudirect"]["sends"]),
        (&Value::from(2), &Value::from(0))
    );
    let text = proof(&[&logs()
        .join("two-virtual-nodes-socket.log")
        .display()
        .to_string()])
    .expect_code(0)
    .stdout;
    for part in [
        "PXN: not used",
        "TCP sockets",
        "what to do",
        "Using network Socket",
        "0 of 8 sending ends",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn level_1_needs_no_relay_where_the_own_path_is_good() {
    // The one cell of the table of runs whose log is not kept: its lines are those of level 0, but
    // for the level.
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("level1.log");
    let text = fs::read_to_string(logs().join("a2a.shared.level0.log")).expect("a log");
    let level = "NCCL_P2P_PXN_LEVEL set by environment to";
    fs::write(
        &log,
        text.replace(&format!("{level} 0."), &format!("{level} 1.")),
    )
    .expect("written");
    let found = json(&log);
    assert_eq!(
        (&found["verdict"], &found["reason"]),
        (&Value::from("not_used"), &Value::from("level1"))
    );
}

#[test]
fn logs_of_several_files_and_of_standard_input_are_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read(logs().join("a2a.split.default.log")).expect("a log");
    fs::create_dir(folder.path().join("b")).expect("a folder");
    for pid in ["1048", "1049", "1050", "1051"] {
        let lines = text
            .split_inclusive(|c| *c == b'\n')
            .filter(|line| line.starts_with(format!("vm:{pid}:").as_bytes()));
        fs::write(
            folder.path().join(format!("b/nccl.vm.{pid}.log")),
            lines.collect::<Vec<_>>().concat(),
        )
        .expect("written");
    }
    let found = json(folder.path());
    assert_eq!(
        (&found["send_recv"]["relayed"], &found["processes"]),
        (&Value::from(8), &Value::from(4))
    );

    let mut child = Command::new(BINARY);
    let child = child
        .args(["proof", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("started");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&text)
        .expect("written");
    let output = child.wait_with_output().expect("ended");
    let piped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(piped["send_recv"], found["send_recv"]);

    let one = folder
        .path()
        .join("b/nccl.vm.1048.log")
        .display()
        .to_string();
    let report = proof(&[&one]).expect_code(0).stdout;
    assert!(
        report.contains("4 ranks, 2 nodes, 1 of the ranks in this log"),
        "{report}"
    );
}

/// A verdict that is expected of a log.
struct Expectation {
    log_name: &'static str,
    expect: &'static str,
    /// The exit code.
    code: i32,
}

#[test]
fn a_verdict_other_than_expected_has_its_code() {
    let log = |name: &str| logs().join(name).display().to_string();
    for Expectation {
        log_name,
        expect,
        code,
    } in [
        Expectation {
            log_name: "a2a.split.default.log",
            expect: "used",
            code: 0,
        },
        Expectation {
            log_name: "a2a.split.default.log",
            expect: "not-used",
            code: 7,
        },
        Expectation {
            log_name: "a2a.split.disable.log",
            expect: "used",
            code: 7,
        },
        Expectation {
            log_name: "a2a.split.disable.log",
            expect: "not-used",
            code: 0,
        },
    ] {
        let ended = proof(&["--expect", expect, &log(log_name)]).expect_code(code);
        assert_eq!(
            ended.sentences().len(),
            usize::from(code != 0),
            "{}",
            ended.stderr
        );
    }
    let ended = proof(&["--expect", "used", &log("a2a.split.disable.log")]);
    assert_eq!(
        ended.sentences(),
        ["pxnbench: PXN: expected used, the log says not used (pxn_off)"]
    );
}

#[test]
fn a_log_that_cannot_tell_meets_no_expectation() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("rank0.log");
    let text = "nodea:10:20 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0 busId 1000 - Init COMPLETE\n\
        nodea:10:20 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n\
        nodea:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 7[7] via P2P/IPC\n";
    fs::write(&log, text).expect("written");
    for (expect, words) in [("used", "used"), ("not-used", "not used")] {
        let ended = proof(&["--expect", expect, &log.display().to_string()]).expect_code(7);
        assert_eq!(
            ended.sentences(),
            [format!(
                "pxnbench: PXN: expected {words}, the log says cannot tell (ranks_missing)"
            )]
        );
    }
    let found = json(&log);
    for kind in ["rings", "trees", "send_recv"] {
        assert_eq!(found["traffic"][kind], "not_in_log", "{kind}");
        assert_eq!(
            found["communicator_groups"][0][kind], "not_in_log",
            "{kind}"
        );
    }
    assert_eq!(found["communicator_groups"][0]["ranks_in_log"], 1);
}

/// A path from which no log can be read.
struct Unreadable {
    name: &'static str,
    /// The exit code.
    code: i32,
    /// A part of the message.
    message: &'static str,
}

#[test]
fn what_cannot_be_read_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("empty"), "").expect("written");
    fs::write(path("other"), "# alltoall\n \u{0}\u{1}binary\n").expect("written");
    fs::create_dir(path("nothing")).expect("a folder");
    for Unreadable {
        name,
        code,
        message,
    } in [
        Unreadable {
            name: "missing",
            code: 6,
            message: "cannot be read",
        },
        Unreadable {
            name: "nothing",
            code: 6,
            message: "contains no file",
        },
        Unreadable {
            name: "empty",
            code: 5,
            message: "empty",
        },
        Unreadable {
            name: "other",
            code: 5,
            message: "none of 2 lines is from NCCL",
        },
    ] {
        let ended = proof(&[&path(name)]).expect_code(code);
        let [sentence] = ended.sentences()[..] else {
            panic!("{}", ended.stderr)
        };
        assert!(
            sentence.contains(message) && sentence.contains(name),
            "{sentence}"
        );
    }
}

/// A log from which nothing can be told.
struct QuietLog {
    text: &'static str,
    reason: &'static str,
    /// A part of what the report says to log.
    advice: &'static str,
}

#[test]
fn a_log_without_connections_says_what_to_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for QuietLog {
        text,
        reason,
        advice,
    } in [
        QuietLog {
            text: "NCCL version 2.21.5+cuda12.4\n",
            reason: "too_quiet",
            advice: "NCCL_DEBUG=INFO",
        },
        QuietLog {
            text: "h:1:1 [0] NCCL INFO cudaDriverVersion 12040\n",
            reason: "no_init",
            advice: "INIT",
        },
        QuietLog {
            text: "h:1:1 [0] NCCL INFO comm 0x5 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank \
                   0 MNNVL 0\n",
            reason: "no_connection",
            advice: "after it",
        },
    ] {
        fs::write(&log, text).expect("written");
        let found = json(&log);
        assert_eq!(
            (&found["verdict"], &found["reason"]),
            (&Value::from("cannot_tell"), &Value::from(reason)),
            "{text}"
        );
        let report = proof(&[&log.display().to_string()]).expect_code(0).stdout;
        assert!(
            report.starts_with("PXN: cannot tell\n") && report.contains(advice),
            "{report}"
        );
    }
}
