//! `kill -9` of any process at any moment: the CSV is valid, has every case that the table had
//! shown, and `--resume` completes it. `PXNBENCH_KILLS` sets how many runs are killed, 12 by
//! default.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{alone, csv, has_mpi, mpirun, processes_with, run, send_signal, wait_until};

/// Two collectives of 12 sizes.
const SWEEP: [&str; 11] = [
    "all_reduce",
    "broadcast",
    "-b",
    "8",
    "-e",
    "16K",
    "-f",
    "2",
    "-n",
    "1",
    "-w",
];
const CASES: usize = 2 * 12 * 2;

/// How the ranks of a run are started.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// One process that computes times.
    Model,
    /// One process on host memory.
    Alone,
    /// Ranks under mpirun.
    Ranks(u32),
}

impl Start {
    fn command(self, folder: &Path) -> Command {
        let mut command = match self {
            Start::Model | Start::Alone => alone(folder),
            Start::Ranks(ranks) => mpirun(ranks, folder),
        };
        command.args(SWEEP).arg("0");
        match self {
            Start::Model => command.args(["--backend", "model", "--ranks", "4"]),
            Start::Alone | Start::Ranks(_) => command.args(["--backend", "host"]),
        };
        // The absolute path also tells the processes of this run from others.
        command.arg("--out").arg(folder.join("out"));
        command
    }
}

fn kills() -> u32 {
    let asked = std::env::var("PXNBENCH_KILLS").ok();
    asked.map_or(12, |number| number.parse().expect("a number of kills"))
}

/// Returns a number that cannot be foreseen.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let mut source = File::open("/dev/urandom").expect("random numbers");
    source.read_exact(&mut bytes).expect("random numbers");
    u64::from_le_bytes(bytes)
}

/// Returns a time below `limit`.
fn random_time(limit: Duration) -> Duration {
    limit.mul_f64((random() % 1_000_000) as f64 / 1e6)
}

/// Runs the command up to a random moment within `limit`, and kills one of its processes there.
/// Returns what its table had shown.
fn killed(start: Start, folder: &Path, resumes: bool, limit: Duration) -> String {
    let table = folder.join("table");
    let mut command = start.command(folder);
    if resumes {
        command.arg("--resume");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&table).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    std::thread::sleep(random_time(limit));
    kill_one_of(&child, folder);
    reap(&mut child, folder);
    fs::read_to_string(table).expect("the table")
}

/// Kills a process whose command line names `folder`: a rank, or mpirun.
fn kill_one_of(child: &Child, folder: &Path) {
    let mut pids = processes_with(&folder.display().to_string());
    pids.push(child.id());
    let chosen = pids[random() as usize % pids.len()];
    // It may have ended by itself.
    let _ = send_signal("-KILL", chosen);
}

/// How long the rest of a run may take to notice a kill. At its start, mpirun itself may never do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until no process of the run is left.
fn reap(child: &mut Child, folder: &Path) {
    let name = folder.display().to_string();
    let began = Instant::now();
    while child.try_wait().expect("its state").is_none() {
        if began.elapsed() > PATIENCE {
            for pid in processes_with(&name) {
                send_signal("-KILL", pid);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    wait_until("no process is left", || processes_with(&name).is_empty());
}

/// Returns how many rows there are of each case. The reader refuses rows that are not as long as
/// the header.
fn cases(path: &Path) -> BTreeMap<[String; 3], usize> {
    let keys = ["collective", "size_bytes", "in_place"];
    let mut cases = BTreeMap::new();
    if !path.exists() {
        return cases;
    }
    for row in csv(path) {
        let case = keys.map(|key| row[key].clone());
        *cases.entry(case).or_default() += 1;
    }
    cases
}

/// Returns the cases that a table shows in whole rows.
fn shown(table: &str) -> Vec<[String; 3]> {
    let mut collective = String::new();
    let mut cases = Vec::new();
    for line in table.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("# Collective test starting: ") {
            collective = name.trim().trim_end_matches("_perf").to_owned();
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_row = line.ends_with('\n') && first.parse::<u64>().is_ok();
        if is_row {
            for in_place in ["0", "1"] {
                cases.push([collective.clone(), first.to_owned(), in_place.to_owned()]);
            }
        }
    }
    cases
}

/// Kills runs in one folder until one is complete.
fn kill_until_complete(start: Start, length: Duration, left: &mut u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out/results.csv");
    let mut is_complete = false;
    for attempt in 0.. {
        if *left == 0 || is_complete {
            break;
        }
        *left -= 1;
        let table = killed(start, folder.path(), attempt > 0, length);
        // A row that was cut is not there for a reader, and --resume removes it.
        let text = fs::read(&path).unwrap_or_default();
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let copy = folder.path().join("whole.csv");
        fs::write(&copy, &text[..whole]).expect("written");
        let there = cases(&copy);
        for case in shown(&table) {
            let count = there.get(&case).copied().unwrap_or(0);
            assert_eq!(count, 1, "{start:?}, attempt {attempt}: {case:?}\n{table}");
        }
        assert!(there.values().all(|count| *count == 1), "{there:?}");
        is_complete = there.len() == CASES;
    }
    let mut last = start.command(folder.path());
    let ended = run(last.arg("--resume")).expect_code(0);
    let there = cases(&path);
    assert_eq!(there.len(), CASES, "{}", ended.stderr);
    assert!(there.values().all(|count| *count == 1), "{there:?}");
    assert_eq!(shown(&ended.stdout).len(), CASES);
}

/// Returns how long a run takes that is not killed.
fn length(start: Start) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    let ended = run(&mut start.command(folder.path())).expect_code(0);
    let length = began.elapsed();
    assert_eq!(shown(&ended.stdout).len(), CASES, "{}", ended.stdout);
    assert_eq!(cases(&folder.path().join("out/results.csv")).len(), CASES);
    length
}

fn kill_all(starts: &[Start], kills: u32) {
    let lengths: Vec<(Start, Duration)> = starts
        .iter()
        .map(|start| (*start, length(*start)))
        .collect();
    let mut left = kills;
    for (start, length) in lengths.iter().cycle() {
        if left == 0 {
            break;
        }
        kill_until_complete(*start, *length, &mut left);
    }
}

#[test]
fn a_process_that_is_killed_loses_no_case_that_the_table_had_shown() {
    kill_all(&[Start::Model], kills());
}

#[test]
fn a_rank_that_is_killed_loses_no_case_that_the_table_had_shown() {
    if has_mpi() {
        kill_all(&[Start::Ranks(2), Start::Alone], kills().div_ceil(2));
    }
}
