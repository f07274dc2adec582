//! `pxnbench proof` on logs as users have them: decorated, compressed, failed, of several runs.

mod common;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use common::{BINARY, Ended};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

#[track_caller]
fn proof(arguments: &[&str]) -> Ended {
    common::run(Command::new(BINARY).arg("proof").args(arguments))
}

#[track_caller]
fn json(path: &Path) -> Value {
    let ended = proof(&["--json", &path.display().to_string()]).expect_code(0);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn real_log(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
    fs::read(folder.join(name)).expect("a log")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("compressed");
    encoder.finish().expect("compressed")
}

fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

fn decorated(text: &str, front: &str, back: &str) -> Vec<u8> {
    let mut decorated = String::new();
    for line in text.lines() {
        decorated += &format!("{front}{line}{back}\n");
    }
    decorated.into_bytes()
}

fn in_records(text: &str) -> Vec<u8> {
    let mut records = String::new();
    for line in text.lines() {
        let record = serde_json::json!({"log": format!("{line}\n"), "stream": "stdout"});
        records += &format!("{record}\n");
    }
    records.into_bytes()
}

/// What does not depend on how a log is stored.
fn essence(found: &Value) -> Vec<Value> {
    let keys = [
        "verdict",
        "reason",
        "send_recv",
        "collective",
        "transports",
        "relays",
        "processes",
        "communicators",
        "versions",
        "rings",
        "settings",
    ];
    keys.iter().map(|key| found[key].clone()).collect()
}

#[test]
fn a_real_log_says_the_same_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let plain = real_log("a2a.split.default.log");
    let text = String::from_utf8(plain.clone()).expect("UTF-8");
    fs::write(&log, &plain).expect("written");
    let expected = essence(&json(&log));
    for (form, bytes) in [
        ("gzip", gzip(&plain)),
        ("zstd", zstd::encode_all(&plain[..], 0).expect("compressed")),
        ("UTF-16", utf16(&text)),
        ("UTF-16 in gzip", gzip(&utf16(&text))),
        ("Docker", in_records(&text)),
        (
            "Ray",
            decorated(&text, "\u{1b}[36m(Worker pid=5, ip=10.0.0.1)\u{1b}[0m ", ""),
        ),
        (
            "Ray's note",
            decorated(&text, "(Worker pid=5) ", " [repeated 3x across cluster]"),
        ),
        ("torchrun", decorated(&text, "[default0]:", "")),
        ("mpirun", decorated(&text, "[1,0]<stderr>:", "")),
        (
            "kubectl",
            decorated(&text, "[pod/w-0/main] 2026-01-02T03:04:05.6Z ", ""),
        ),
        (
            "syslog",
            decorated(&text, "<12>Jan  1 00:00:00 n1 app[7]: ", "\r"),
        ),
    ] {
        fs::write(&log, bytes).expect("written");
        assert_eq!(essence(&json(&log)), expected, "{form}");
    }
}

const TWO_RUNS: [(&str, &str); 2] = [
    ("a2a.split.default.log", "used"),
    ("a2a.split.disable.log", "not_used"),
];

#[test]
fn each_run_has_its_verdict_from_files_and_from_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut both = Vec::new();
    for (name, _) in TWO_RUNS {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("log"), real_log(name)).expect("written");
        both.extend(real_log(name));
    }
    let verdicts = |found: &Value| -> Vec<String> {
        let runs = found["runs"].as_array().cloned().unwrap_or_default();
        let verdicts = runs.iter().map(|run| run["verdict"].as_str());
        verdicts.map(|of| of.unwrap_or_default().into()).collect()
    };
    let expected: Vec<_> = TWO_RUNS.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(verdicts(&json(folder.path())), expected);

    let mut child = Command::new(BINARY)
        .args(["proof", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&both).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("ended");
    let piped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(verdicts(&piped), expected);

    let path = folder.path().display().to_string();
    let report = proof(&[&path]).expect_code(0).stdout;
    assert!(report.starts_with("PXN: used"), "{report}");
    assert!(report.contains("run 2: "), "{report}");
    assert!(report.contains("  PXN: not used (pxn_off)"), "{report}");
    let ended = proof(&["--expect", "used", &path]).expect_code(7);
    assert_eq!(
        ended.sentences(),
        ["pxnbench: PXN: expected used, run 2 says not used (pxn_off)"]
    );
}

#[test]
fn a_log_of_a_failure_alone_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("job.out");
    fs::write(
        &log,
        "[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation \
         timeout: WorkNCCL(SeqNum=79, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 \
         milliseconds before timing out.\n",
    )
    .expect("written");
    let found = json(&log);
    assert_eq!(found["failure"]["kind"], "hang");
    assert_eq!(found["verdict"], "cannot_tell");
    let report = proof(&[&log.display().to_string()]).expect_code(0).stdout;
    assert!(report.contains("failure      A hang"), "{report}");
    assert!(
        report.contains("waited       rank 1 waits in ALLREDUCE number 79"),
        "{report}"
    );
}

#[test]
fn a_damaged_archive_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.gz");
    let mut bytes = gzip(&real_log("a2a.split.default.log"));
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20].fill(0xff);
    fs::write(&log, bytes).expect("written");
    let ended = proof(&[&log.display().to_string()]).expect_code(6);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
}
