//! Jobs whose disk is slow, or does not answer.

use std::{
    fs::File,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{self, csv, disk_fault::DiskFault, ended, has_mpi, json, mpirun, run},
    ends::assert_nothing_left,
};

const SWEEP: [&str; 11] = [
    "all_reduce",
    "-b",
    "8",
    "-e",
    "8",
    "-n",
    "2",
    "--backend",
    "host",
    "--out",
    "o",
];

/// Gives `command` such a disk; `false`, with a message, if it cannot be built.
fn with_disk(command: &mut Command, fault: &DiskFault) -> bool {
    let variables = fault.variables();
    variables.map(|all| command.envs(all)).is_some()
}

#[test]
fn a_write_that_takes_most_of_the_limit_is_said_once_and_the_run_goes_on() {
    if !has_mpi() {
        return;
    }
    let folder = common::folder_in_memory();
    let mut command = mpirun(2, folder.path());
    command.args(SWEEP).args(["-T", "10"]);
    let slow = DiskFault {
        what: "8.2",
        calls: "sync",
        path: "results.csv",
        skip: 0,
        times: Some(1),
        while_there: None,
    };
    if !with_disk(&mut command, &slow) {
        return;
    }
    let ended = run(&mut command).expect_code(0);
    assert!(ended.took > Duration::from_secs(8), "{:?}", ended.took);
    let sentences = ended.sentences();
    let said: Vec<_> = sentences
        .iter()
        .filter(|line| line.contains(" is on a slow disk: writing took "))
        .collect();
    assert_eq!(said.len(), 1, "{}", ended.stderr);
    assert!(
        said[0].contains(
            "and a write of more than 10.0 s ends the run. Write to a faster disk, or raise \
             --timeout"
        ),
        "{}",
        said[0]
    );
    let o = folder.path().join("o");
    assert_eq!(csv(&o.join("results.csv")).len(), 2);
    let run = json(&o.join("run.json"));
    assert_eq!(run["end"]["code"], 0);
    assert!(run["remarks"].to_string().contains("is on a slow disk"));
}

#[test]
fn a_file_system_that_does_not_answer_is_named_at_the_deadline() {
    if !has_mpi() {
        return;
    }
    let folder = common::folder_in_memory();
    let marker = format!("no-answer-{}.json", std::process::id());
    let mut command = mpirun(2, folder.path());
    command.args(SWEEP).args(["-T", "5", "--json", &marker]);
    let dead = DiskFault {
        what: "300",
        calls: "sync",
        path: "results.csv",
        skip: 1,
        times: None,
        while_there: None,
    };
    if !with_disk(&mut command, &dead) {
        return;
    }
    let ended = run(&mut command).expect_code(4);
    assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
    let words = "rank 0 on ";
    let of_file = "o/results.csv cannot be written: its file system has not answered for ";
    let is_said = |line: &&str| line.contains(words) && line.contains(of_file);
    assert!(ended.sentences().iter().any(is_said), "{}", ended.stderr);
    let o = folder.path().join("o");
    assert_eq!(csv(&o.join("results.csv")).len(), 2, "whole rows");
    let end = &json(&o.join("run.json"))["end"];
    assert_eq!(end["code"], 4);
    assert!(
        end["message"]
            .as_str()
            .expect("a message")
            .contains(of_file),
        "{end}"
    );
    assert_nothing_left(&marker);
}

/// mpirun kills a second after it has passed a signal on.
#[test]
fn run_json_has_its_end_although_the_disk_takes_longer_than_mpirun_waits() {
    if !has_mpi() {
        return;
    }
    let folder = common::folder_in_memory();
    let slow_from_now = folder.path().join("slow");
    let marker = format!("slow-end-{}.json", std::process::id());
    let mut command = mpirun(2, folder.path());
    command
        .args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "64",
            "-f",
            "2",
            "-N",
            "0",
            "--backend",
            "host",
        ])
        .args(["--out", "o", "--json", &marker])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.path().join("messages")).expect("a file"));
    let slow = DiskFault {
        what: "4",
        calls: "sync",
        path: folder.path().to_str().expect("a path"),
        skip: 0,
        times: None,
        while_there: Some(&slow_from_now),
    };
    if !with_disk(&mut command, &slow) {
        return;
    }
    let child = command.spawn().expect("mpirun");
    let o = folder.path().join("o");
    let rows =
        || std::fs::read_to_string(o.join("results.csv")).map_or(0, |text| text.lines().count());
    common::wait_until("a few rows", || rows() > 5);
    File::create(&slow_from_now).expect("a file");
    let before = rows();
    assert!(common::send_signal("-TERM", child.id()));
    let asked = Instant::now();
    let ended = ended(child);
    assert!(asked.elapsed() < Duration::from_secs(30), "{ended:?}");
    let run = json(&o.join("run.json"));
    assert_eq!(run["end"]["code"], 9, "{run}");
    let message = run["end"]["message"].as_str().expect("a message");
    assert!(message.starts_with("stopped by SIG"), "{message}");
    assert!(
        csv(&o.join("results.csv")).len() + 1 >= before,
        "no row is lost"
    );
    assert_nothing_left(&marker);
}

#[test]
fn a_disk_that_hangs_after_a_signal_does_not_keep_the_job() {
    if !has_mpi() {
        return;
    }
    let folder = common::folder_in_memory();
    let dead_from_now = folder.path().join("dead");
    let mut command = common::alone(folder.path());
    // Operations that take long: nothing else ends the run meanwhile.
    command
        .args([
            "all_reduce",
            "-b",
            "64M",
            "-e",
            "64M",
            "-n",
            "100000",
            "-c",
            "0",
        ])
        .args(["--backend", "host", "--out", "o"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let dead = DiskFault {
        what: "300",
        calls: "open,write,sync",
        path: "/o/",
        skip: 0,
        times: None,
        while_there: Some(&dead_from_now),
    };
    if !with_disk(&mut command, &dead) {
        return;
    }
    let child = command.spawn().expect("started");
    common::wait_until("the files", || folder.path().join("o/run.json").exists());
    File::create(&dead_from_now).expect("a file");
    assert!(common::send_signal("-TERM", child.id()));
    let asked = Instant::now();
    let ended = ended(child).expect_code(9);
    assert!(asked.elapsed() < Duration::from_secs(40), "{ended:?}");
    assert!(
        ended.stderr.contains("stopped by SIGTERM"),
        "{}",
        ended.stderr
    );
}
