//! What a job does whose output nobody reads: it ends at its deadline, says what is not read, and
//! keeps its results.

use std::{
    fs::File,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{self, BINARY, Ended, csv, has_mpi, json, run},
    folder,
};

/// A named pipe that stays open, and that nobody reads.
struct UnreadPipe {
    path: PathBuf,
    open: File,
}

impl UnreadPipe {
    fn make(folder: &Path) -> UnreadPipe {
        let path = folder.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK);
        let open = options.open(&path).expect("opened");
        UnreadPipe { path, open }
    }

    fn fill(&mut self) {
        while self.open.write(&[b'.'; 4096]).is_ok() {}
        while self.open.write(b".").is_ok() {}
    }
}

/// A sweep on two ranks; what rank 0 writes to the stream `number` goes to `pipe`.
fn with_unread(number: u32, pipe: &UnreadPipe, folder: &Path, sweep: &[&str]) -> Command {
    let script = format!(
        "test \"$OMPI_COMM_WORLD_RANK\" = 0 && exec {number}>'{}'; exec '{BINARY}' \"$@\"",
        pipe.path.display()
    );
    let mut command = common::launcher(folder);
    command
        .args(["-np", "2", "sh", "-c", &script, "sh"])
        .args(["all_reduce", "--backend", "host"])
        .args(["--out", "results"])
        .args(sweep);
    command
}

const QUICK: [&str; 10] = ["-b", "8", "-e", "1K", "-f", "2", "-n", "2", "-T", "2"];

/// Starts `command`, whose output is kept.
fn start(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("mpirun")
}

/// Waits until the CSV has a few rows.
fn wait_for_rows(folder: &Path) {
    let path = folder.join("results/results.csv");
    let lines = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    common::wait_until("a few rows", || lines() > 5);
}

/// The job has ended within a deadline of seconds and ten more. Starting and ending mpirun on a
/// busy machine takes its time too.
fn assert_in_time(ended: &Ended) {
    assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
}

fn end_of(folder: &Path) -> (u64, String) {
    let run = json(&folder.join("results/run.json"));
    let message = run["end"]["message"].as_str().unwrap_or_default();
    (
        run["end"]["code"].as_u64().expect("a code"),
        message.to_owned(),
    )
}

#[test]
fn a_job_whose_standard_error_is_no_longer_read_ends_at_its_deadline_with_all_results() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut pipe = UnreadPipe::make(folder.path());
    // Many short operations, and a deadline that none of them reaches on a busy machine.
    let sweep = [
        "-b", "8", "-e", "1K", "-f", "2", "-n", "20", "-N", "20", "-T", "8",
    ];
    let child = start(&mut with_unread(2, &pipe, folder.path(), &sweep));
    wait_for_rows(folder.path());
    pipe.fill();
    common::ended(child).expect_code(4);
    let (code, message) = end_of(folder.path());
    assert_eq!(code, 4);
    assert!(
        message.starts_with("standard error is not read: a write has not ended for "),
        "{message}"
    );
    // Only a message waits for a reader: the last one of the run, or one about its progress.
    let rows = csv(&folder.path().join("results/results.csv"));
    let results = json(&folder.path().join("results/results.json"));
    assert_eq!(
        results["records"].as_array().map(Vec::len),
        Some(rows.len())
    );
    assert!(rows.len() > 4);
}

#[test]
fn a_job_whose_standard_error_nobody_ever_read_ends_at_its_deadline() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut pipe = UnreadPipe::make(folder.path());
    pipe.fill();
    let ended = run(&mut with_unread(2, &pipe, folder.path(), &QUICK)).expect_code(4);
    assert_in_time(&ended);
}

#[test]
fn a_job_whose_table_nobody_reads_ends_at_its_deadline_and_says_so() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut pipe = UnreadPipe::make(folder.path());
    pipe.fill();
    let ended = run(&mut with_unread(1, &pipe, folder.path(), &QUICK)).expect_code(4);
    assert_in_time(&ended);
    let is_said = |line: &&str| {
        line.contains("rank 0 on ") && line.contains(": standard output is not read: ")
    };
    assert!(ended.sentences().iter().any(is_said), "{}", ended.stderr);
    let (code, message) = end_of(folder.path());
    assert_eq!(code, 4);
    assert!(
        message.starts_with("standard output is not read"),
        "{message}"
    );
}

#[test]
fn a_signal_ends_a_job_whose_output_nobody_reads() {
    if !has_mpi() {
        return;
    }
    for number in [1, 2] {
        let folder = folder();
        let mut pipe = UnreadPipe::make(folder.path());
        let sweep = [
            "-b", "8", "-e", "16M", "-f", "2", "-n", "100", "-N", "0", "-T", "60",
        ];
        let child = start(&mut with_unread(number, &pipe, folder.path(), &sweep));
        wait_for_rows(folder.path());
        pipe.fill();
        assert!(common::send_signal("-TERM", child.id()));
        let asked = Instant::now();
        let ended = common::ended(child);
        assert!(asked.elapsed() < Duration::from_secs(20), "{ended:?}");
        let (code, message) = end_of(folder.path());
        assert_eq!(code, 9);
        assert!(message.starts_with("stopped by SIG"), "{message}");
    }
}
