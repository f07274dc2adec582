//! The search for stragglers with real ranks: one that is made late is named, by how it is late.

use serde_json::Value;

use super::{
    common::{Ended, csv, has_mpi, json, mpirun, run},
    folder,
};

/// Sizes at which a delay of milliseconds is much longer than anything that a loaded machine does
/// to most operations.
const SWEEP: [&str; 11] = [
    "all_reduce",
    "-b",
    "4K",
    "-e",
    "64K",
    "-f",
    "16",
    "-n",
    "2",
    "--backend",
    "host",
];

/// Searches on four ranks, and returns how it ended and what run.json has.
fn search(
    arguments: &[&str],
) -> (
    Ended,
    Value,
    Vec<std::collections::BTreeMap<String, String>>,
) {
    let folder = folder();
    let ended = run(mpirun(4, folder.path())
        .args(SWEEP)
        .args(["--stragglers", "--out", "out"])
        .args(arguments))
    .expect_code(0);
    let out = folder.path().join("out");
    let report = json(&out.join("run.json"))["stragglers"].clone();
    (ended, report, csv(&out.join("stragglers.csv")))
}

/// Returns the ranks that are late in this way.
fn late(report: &Value, kind: &str) -> Vec<u64> {
    let stragglers = report["stragglers"].as_array().expect("a list");
    let of_kind = stragglers.iter().filter(|found| found["late"] == kind);
    of_kind
        .map(|found| found["rank"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn a_rank_that_starts_late_is_named_on_stderr_in_run_json_and_in_stragglers_csv() {
    if !has_mpi() {
        return;
    }
    let (ended, report, rows) = search(&["--inject-delay", "2:20ms"]);
    assert_eq!(late(&report, "arrival"), [2], "{report:#}");
    assert!(
        ended.stderr.contains("straggler: rank 2 on ")
            && ended
                .stderr
                .contains(" arrives late in all_reduce of 4K to 64K: "),
        "{}",
        ended.stderr
    );
    let found = &report["stragglers"][0];
    assert!(
        found["late_us"].as_f64().expect("a number") >= 20_000.0,
        "{found}"
    );
    assert_eq!(found["device"], "host memory");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let is_late = row["late"] == "arrival";
        assert_eq!(is_late, row["rank"] == "2", "{row:?}");
        assert_eq!(
            row["is_straggler"] == "1",
            !row["late"].is_empty(),
            "{row:?}"
        );
        assert_eq!(row["collective"], "all_reduce");
    }
}

#[test]
fn a_rank_that_ends_late_is_told_from_one_that_starts_late() {
    if !has_mpi() {
        return;
    }
    let (ended, report, _) = search(&["--inject-slow", "3:20ms"]);
    assert!(late(&report, "transfer").contains(&3), "{report:#}");
    assert_eq!(late(&report, "arrival"), [0_u64; 0], "{report:#}");
    let sentences = ended.sentences();
    let named =
        |line: &&&str| line.contains("rank 3 on ") && line.contains(" ends late in all_reduce");
    assert_eq!(
        sentences.iter().filter(named).count(),
        1,
        "{}",
        ended.stderr
    );
}

#[test]
fn without_a_delay_no_rank_starts_late_and_the_search_is_counted() {
    if !has_mpi() {
        return;
    }
    let (_, report, rows) = search(&[]);
    assert_eq!(late(&report, "arrival"), [0_u64; 0], "{report:#}");
    assert_eq!(report["cases"], 2);
    assert!(report["operations"].as_u64().expect("a number") >= 40);
    assert_eq!(rows.len(), 8);
}

#[test]
fn what_times_cannot_tell_is_said_with_its_reason() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = run(mpirun(2, folder.path()).args([
        "broadcast",
        "-b",
        "8",
        "-e",
        "8",
        "-n",
        "2",
        "--backend",
        "host",
        "--stragglers",
        "--csv",
        "a.csv",
    ]))
    .expect_code(0);
    let said = "who is late cannot be told: broadcast: a rank may end before all have arrived";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_delay_needs_the_search_and_a_rank_that_runs() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = run(mpirun(2, folder.path())
        .args(SWEEP)
        .args(["--inject-delay", "1:2ms"]))
    .expect_code(6);
    assert!(
        ended.stderr.contains("Add --stragglers"),
        "{}",
        ended.stderr
    );
    let ended =
        run(mpirun(2, folder.path())
            .args(SWEEP)
            .args(["--stragglers", "--inject-delay", "2:2ms"]))
        .expect_code(6);
    let said = "there is no process 2 to delay. Name one from 0 to 1";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}
