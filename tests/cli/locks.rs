//! Two runs and one path: the second one is refused, or gets a folder of its own, and nothing is
//! lost.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    MODEL,
    common::{alone, csv, ended, json, run, send_signal, wait_until},
    folder,
};

/// A sweep that goes on until a signal.
const ENDLESS: [&str; 5] = ["all_reduce", "-b", "8", "-N", "0"];

/// Starts a run that writes to a path until it is stopped.
fn start(command: &mut Command) -> Child {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    child.spawn().expect("started")
}

fn has_rows(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 2)
}

fn stop(child: Child) {
    assert!(send_signal("-INT", child.id()));
    assert_eq!(ended(child).code, Some(9));
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != ".mpi").collect()
}

#[test]
fn a_second_run_with_the_paths_of_one_that_runs_is_refused_and_changes_nothing() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args(ENDLESS).args(MODEL);
    command.args([
        "--out", "o", "--csv", "x.csv", "--json", "y.json", "-J", "z.json",
    ]);
    let first = start(&mut command);
    wait_until("rows", || has_rows(&folder.path().join("x.csv")));
    let before = (names(folder.path()), names(&folder.path().join("o")));
    for arguments in [
        &["--out", "o"] as &[&str],
        &["--out", "./o/../o", "--resume"],
        &["--csv", "x.csv"],
        &["--csv", "x.csv", "--resume"],
        &["--csv", "other.csv", "--json", "y.json"],
        &["--csv", "y.json"],
        &["--csv", "other.csv", "-J", "z.json"],
        &["--csv", "o/run.json"],
    ] {
        let mut second = alone(folder.path());
        second.args(["all_reduce", "-b", "8"]).args(MODEL);
        let refused = run(second.args(arguments)).expect_code(6);
        let words = format!(
            "is being written by another run, process {} on ",
            first.id()
        );
        let sentences = refused.sentences();
        let last = sentences.last().expect("a sentence");
        assert!(last.contains(&words), "{arguments:?}: {}", refused.stderr);
        assert!(last.contains(" since 2") && last.contains("Wait until that ends"));
        assert!(refused.rows().is_empty(), "before anything is measured");
        let now = (names(folder.path()), names(&folder.path().join("o")));
        assert_eq!(now, before, "{arguments:?}");
    }
    stop(first);
    let rows = csv(&folder.path().join("x.csv"));
    let runs: BTreeSet<&String> = rows.iter().map(|row| &row["run_id"]).collect();
    assert_eq!(runs.len(), 1);
    let mut next = alone(folder.path());
    next.args(["all_reduce", "--out", "o"]).args(MODEL);
    run(&mut next).expect_code(0);
    let is_lock = |name: &String| name.ends_with("-lock");
    assert!(!names(&folder.path().join("o")).iter().any(is_lock));
}

#[test]
fn a_killed_run_holds_nobody_up() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args(ENDLESS).args(MODEL).args(["--csv", "x.csv"]);
    let mut first = start(&mut command);
    wait_until("rows", || has_rows(&folder.path().join("x.csv")));
    first.kill().expect("killed");
    first.wait().expect("ended");
    let lock = folder.path().join(".x.csv.pxnbench-lock");
    assert!(lock.exists());
    let mut next = alone(folder.path());
    next.args(["all_reduce", "--csv", "x.csv"]).args(MODEL);
    run(&mut next).expect_code(0);
    assert!(!lock.exists());
}

#[test]
fn two_runs_of_one_job_have_a_folder_each() {
    let folder = folder();
    let in_job = || {
        let mut command = alone(folder.path());
        command.args(MODEL).envs([
            ("SLURM_JOB_ID", "17"),
            ("SLURM_JOB_NAME", "x"),
            ("SLURM_RESTART_COUNT", "1"),
        ]);
        command
    };
    let first = start(in_job().args(["all_reduce", "-b", "8", "-N", "0"]));
    let results = folder.path().join("results");
    wait_until("rows", || has_rows(&results.join("x-17/results.csv")));
    run(in_job().args(["all_gather", "-b", "8", "-e", "8"])).expect_code(0);
    assert_eq!(csv(&results.join("x-17-2/results.csv")).len(), 2);
    let run_json = json(&results.join("x-17-2/run.json"));
    assert_eq!(run_json["run_id"], "x-17-2");
    stop(first);
    assert!(
        csv(&results.join("x-17/results.csv"))
            .iter()
            .all(|row| row["collective"] == "all_reduce" && row["run_id"] == "x-17")
    );
}

#[test]
fn without_locks_a_run_says_so_and_goes_on() {
    let folder = folder();
    // A folder in its place cannot be opened, by root either.
    std::fs::create_dir(folder.path().join(".x.csv.pxnbench-lock")).expect("made");
    let mut command = alone(folder.path());
    command
        .args(["all_reduce", "--csv", "x.csv", "--json", "x.json"])
        .args(MODEL);
    let ended = run(&mut command).expect_code(0);
    let words = "x.csv cannot be locked: ";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let remarks = &json(&folder.path().join("x.json"))["run"]["remarks"];
    assert!(remarks.to_string().contains(words), "{remarks}");
}

#[test]
fn a_command_that_replaces_a_file_of_a_run_in_progress_is_refused() {
    let folder = folder();
    let step = |name: &str| {
        let mut command = alone(folder.path());
        command.args(["all_reduce", "--out", name]).args(MODEL);
        run(&mut command).expect_code(0);
    };
    step("steps/0-default");
    step("steps/1-off");
    let mut command = alone(folder.path());
    command
        .args(ENDLESS)
        .args(MODEL)
        .args(["--csv", "report.html"]);
    let first = start(&mut command);
    wait_until("rows", || has_rows(&folder.path().join("report.html")));
    let mut report = alone(folder.path());
    report.args(["report", "steps/0-default", "--out", "report.html"]);
    let refused = run(&mut report).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("report.html cannot be written: it is written by another run, process "),
        "{}",
        refused.stderr
    );
    stop(first);
    assert!(has_rows(&folder.path().join("report.html")));
}

/// How many pairs of runs are started at once for each way to name a path.
fn pairs() -> u32 {
    let asked = std::env::var("PXNBENCH_PAIRS").ok();
    asked.map_or(2, |number| number.parse().expect("a number of pairs"))
}

/// The sweep of a pair: enough cases for both to be at work.
const SWEEP: [&str; 9] = [
    "all_reduce",
    "broadcast",
    "-b",
    "8",
    "-e",
    "1M",
    "-f",
    "2",
    "--quiet",
];
const CASES: usize = 2 * 18 * 2;

/// Starts two runs at once, and returns how many of them ended well. The other was refused.
fn pair(folder: &Path, arguments: &[&str]) -> usize {
    let begin = || {
        let mut command = alone(folder);
        start(command.args(SWEEP).args(MODEL).args(arguments))
    };
    let both = [begin(), begin()].map(ended);
    let mut fine = 0;
    for ended in &both {
        match ended.code {
            Some(0) => fine += 1,
            Some(6) => assert!(
                ended.stderr.contains("is being written by another run"),
                "{arguments:?}: {}",
                ended.stderr
            ),
            _ => panic!("{arguments:?}: {ended:?}"),
        }
    }
    assert!(fine > 0, "{arguments:?}: {both:?}");
    fine
}

/// Returns the files in `folder` that begin with `name`, apart from locks.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let names = names(folder).into_iter();
    names
        .filter(|found| found.starts_with(name))
        .map(|found| folder.join(found))
        .collect()
}

/// Checks that a CSV has all cases, each once, of one run.
fn check_csv(path: &Path) {
    let rows = csv(path);
    let runs: BTreeSet<&String> = rows.iter().map(|row| &row["run_id"]).collect();
    assert_eq!(runs.len(), 1, "{}: {runs:?}", path.display());
    let keys = ["collective", "size_bytes", "in_place"];
    let cases: BTreeSet<_> = rows.iter().map(|row| keys.map(|key| &row[key])).collect();
    assert_eq!(
        (rows.len(), cases.len()),
        (CASES, CASES),
        "{}",
        path.display()
    );
}

#[test]
fn of_two_runs_that_start_at_once_nothing_is_lost_and_nothing_mixed() {
    for _ in 0..pairs() {
        let folder = folder();
        let place = |name: &str| folder.path().join(name);
        let fine = pair(folder.path(), &["--out", "o"]);
        let csvs = files(&place("o"), "results.csv");
        assert_eq!(csvs.len(), fine);
        csvs.iter().for_each(|path| check_csv(path));
        let id = json(&place("o/run.json"))["run_id"].clone();
        assert_eq!(
            csv(&place("o/results.csv"))[0]["run_id"],
            id.as_str().unwrap_or_default()
        );

        let fine = pair(folder.path(), &["--csv", "x.csv"]);
        let csvs = files(folder.path(), "x.csv");
        assert_eq!(csvs.len(), fine);
        csvs.iter().for_each(|path| check_csv(path));
        // Resumed by two: one goes on, or both, one after the other.
        let text = std::fs::read_to_string(place("x.csv")).expect("the CSV");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        std::fs::write(place("x.csv"), lines[..20].concat()).expect("written");
        pair(folder.path(), &["--csv", "x.csv", "--resume"]);
        check_csv(&place("x.csv"));

        let fine = pair(folder.path(), &["--csv", "w.csv", "-J", "w.json"]);
        let jsons = files(folder.path(), "w.json");
        assert_eq!(jsons.len(), fine);
        for path in jsons {
            let sizes = json(&path)["results"].as_array().map(Vec::len);
            assert_eq!(sizes, Some(CASES / 2), "{}", path.display());
        }

        assert_eq!(pair(folder.path(), &[]), 2, "a folder each");
        let runs = files(&place("results"), "");
        assert_eq!(runs.len(), 2);
        runs.iter()
            .for_each(|run| check_csv(&run.join("results.csv")));
    }
}
