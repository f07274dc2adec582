//! How a job ends: by a signal, at a deadline, or because a rank dies.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{csv, has_mpi, mpirun, processes_with},
    folder,
};

/// Starts a long sweep under mpirun on `ranks` ranks and waits until its CSV has a few rows. The
/// table is in the file `table`.
pub(crate) fn long_sweep(
    ranks: u32,
    folder: &std::path::Path,
    more: &[&str],
) -> std::process::Child {
    start_long_sweep(mpirun(ranks, folder), folder, more)
}

/// As [`long_sweep`], with an mpirun of the caller's.
pub(crate) fn start_long_sweep(
    mut command: Command,
    folder: &std::path::Path,
    more: &[&str],
) -> std::process::Child {
    command
        .args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "64M",
            "-f",
            "2",
            "-n",
            "200",
            "--csv",
            "x.csv",
        ])
        .args(more);
    let table = std::fs::File::create(folder.join("table")).expect("a file");
    let child = command
        .stdin(Stdio::null())
        .stdout(table)
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun");
    let started = Instant::now();
    while std::fs::read_to_string(folder.join("x.csv")).map_or(0, |text| text.lines().count()) < 5 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "no row after a minute"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// The line of the table that says that it ends before its time.
pub(crate) fn unfinished(folder: &std::path::Path) -> String {
    let table = std::fs::read_to_string(folder.join("table")).expect("the table");
    let lines: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("# Not finished, "))
        .collect();
    assert_eq!(lines.len(), 1, "{table}");
    assert!(lines[0].contains(" of 48 cases: "), "{}", lines[0]);
    lines[0].to_owned()
}

/// Every line of the CSV is whole: all columns, and the end of the line.
pub(crate) fn assert_whole_csv(path: &std::path::Path) {
    let text = std::fs::read_to_string(path).expect("the CSV");
    assert!(text.ends_with("\r\n"));
    assert!(
        csv(path)
            .iter()
            .all(|row| row.len() == pxnbench::record::columns::COLUMNS.len()
                && !row["status"].is_empty())
    );
}

/// No process that names `marker` is left; mpirun may end a moment before its ranks.
#[track_caller]
pub(crate) fn assert_nothing_left(marker: &str) {
    let ended = Instant::now();
    while !processes_with(marker).is_empty() {
        assert!(
            ended.elapsed() < Duration::from_secs(5),
            "{:?} are left",
            processes_with(marker)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_nothing_behind() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let marker = format!("ctrl-c-{}.json", std::process::id());
    let child = long_sweep(2, folder.path(), &["--json", &marker]);
    let interrupted = Instant::now();
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("kill")
            .success()
    );
    let output = child.wait_with_output().expect("mpirun's end");
    assert!(
        interrupted.elapsed() < Duration::from_secs(5),
        "{:?}",
        interrupted.elapsed()
    );
    assert!(!output.status.success());
    assert!(
        unfinished(folder.path()).contains("stopped by SIG"),
        "{}",
        unfinished(folder.path())
    );
    assert_whole_csv(&folder.path().join("x.csv"));
    assert_nothing_left(&marker);
}

/// Ends after a second signal too, whatever the first one left to do; no row is cut.
#[test]
fn a_second_signal_ends_a_run_that_is_about_to_end() {
    if !has_mpi() {
        return;
    }
    for (first, second) in [("-TERM", "-TERM"), ("-USR1", "-TERM"), ("-INT", "-HUP")] {
        let folder = folder();
        // Operations that take seconds: a signal is heard in the middle of one.
        let mut command = crate::common::alone(folder.path());
        command
            .args(["all_reduce", "-b", "8", "-e", "64M", "-f", "2", "-n", "200"])
            .args(["-N", "0", "--csv", "x.csv", "--backend", "host"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        let rows = || std::fs::read_to_string(folder.path().join("x.csv")).unwrap_or_default();
        crate::common::wait_until("a few rows", || rows().lines().count() > 5);
        assert!(crate::common::send_signal(first, child.id()));
        // Later than signals that belong together, and before the first one has its effect.
        std::thread::sleep(Duration::from_millis(150));
        crate::common::send_signal(second, child.id());
        let asked = Instant::now();
        let ended = crate::common::ended(child).expect_code(9);
        assert!(asked.elapsed() < Duration::from_secs(20), "{ended:?}");
        assert!(ended.stderr.contains("stopped by SIG"), "{}", ended.stderr);
        assert_whole_csv(&folder.path().join("x.csv"));
    }
}

#[test]
fn a_rank_that_dies_ends_the_job() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let marker = format!("dies-{}.json", std::process::id());
    let child = long_sweep(2, folder.path(), &["--json", &marker]);
    let rank = processes_with(&marker)
        .into_iter()
        .filter(|pid| *pid != child.id())
        .max()
        .expect("a rank");
    assert!(
        Command::new("kill")
            .args(["-KILL", &rank.to_string()])
            .status()
            .expect("kill")
            .success()
    );
    let killed = Instant::now();
    let output = child.wait_with_output().expect("mpirun's end");
    assert!(
        killed.elapsed() < Duration::from_secs(10),
        "{:?}",
        killed.elapsed()
    );
    assert!(!output.status.success());
    assert_whole_csv(&folder.path().join("x.csv"));
    assert_nothing_left(&marker);
}
