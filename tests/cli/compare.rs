//! `pxnbench compare` on the folders of real runs.

use std::path::Path;

use crate::{
    common::{self, Ended, alone, mpirun, run},
    folder,
};

const SWEEP: [&str; 6] = ["all_reduce", "-b", "1K", "-e", "1K", "--out"];

/// Runs a sweep whose times are computed for `ranks` ranks, into `out`.
fn model(folder: &Path, ranks: &str, out: &str, more: &[&str]) {
    run(alone(folder)
        .args(SWEEP)
        .args([out, "--backend", "model", "--ranks", ranks])
        .args(more))
    .expect_code(0);
}

fn compare(folder: &Path) -> Ended {
    run(alone(folder).args(["compare", "."]))
}

fn rows(table: &str) -> Vec<&str> {
    let lines = table.lines();
    lines
        .filter(|line| line.trim_start().starts_with("all_reduce "))
        .collect()
}

#[test]
fn ranks_and_backends_are_compared_in_tables_of_their_own() {
    let folder = folder();
    let at = folder.path();
    for level in ["off", "balanced"] {
        model(at, "2", &format!("two-{level}"), &["--level", level]);
        model(at, "4", &format!("four-{level}"), &["--level", level]);
    }
    let mut tables = 2;
    if common::has_mpi() {
        let ranks = ["two-host", "--backend", "host", "--level", "off"];
        run(mpirun(2, at).args(SWEEP).args(ranks)).expect_code(0);
        tables = 3;
    }
    let ended = compare(at).expect_code(0);
    let text = &ended.stdout;
    for (number, ranks) in [(1, "4 ranks"), (2, "2 ranks")] {
        let head = format!("# Table {number} of {tables}: ");
        let rest = text.split_once(&head).expect(text).1;
        assert!(
            rest.lines().next().is_some_and(|line| line.contains(ranks)),
            "{text}"
        );
    }
    assert_eq!(rows(text).len(), 2 * tables, "{text}");
    assert!(!text.contains("did not finish"), "{text}");
}

#[test]
fn levels_on_different_numbers_of_ranks_are_refused() {
    let folder = folder();
    model(folder.path(), "2", "off", &["--level", "off"]);
    model(folder.path(), "4", "balanced", &["--level", "balanced"]);
    let ended = compare(folder.path()).expect_code(6);
    assert_eq!(
        ended.sentences(),
        [
            "pxnbench: no two levels were measured alike: balanced (4 ranks), off (2 ranks). Put runs into the folder that \
          differ in nothing but their level"
        ]
    );
    assert_eq!(ended.stdout, "");
    assert!(!folder.path().join("results.csv").exists());
}

#[test]
fn flags_and_settings_that_change_a_time_are_not_pooled() {
    let folder = folder();
    let at = folder.path();
    model(at, "2", "1-plain", &[]);
    model(at, "2", "2-grouped", &["-m", "4"]);
    run(alone(at)
        .args(SWEEP)
        .args(["3-ring", "--backend", "model", "--ranks", "2"])
        .env("NCCL_ALGO", "Ring"))
    .expect_code(0);
    let text = compare(at).expect_code(0).stdout;
    let lines = text.lines();
    let heads: Vec<&str> = lines.filter(|line| line.starts_with("# Table ")).collect();
    assert_eq!(
        heads,
        [
            "# Table 1 of 3: -m 1, no other NCCL settings",
            "# Table 2 of 3: -m 4, no other NCCL settings",
            "# Table 3 of 3: -m 1, NCCL_ALGO=Ring",
        ]
    );
}

#[test]
fn only_a_step_that_is_known_not_to_have_finished_is_said_not_to_have() {
    let folder = folder();
    let at = folder.path();
    for step in ["1-done", "2-alone", "3-torn", "4-killed", "5-stopped"] {
        model(at, "2", step, &[]);
    }
    let path = |step: &str| at.join(step).join("run.json");
    std::fs::remove_file(path("2-alone")).expect("removed");
    std::fs::write(path("3-torn"), "{").expect("written");
    let change = |step: &str, end: serde_json::Value| {
        let mut run = common::json(&path(step));
        run["end"] = end;
        // A key that a later or earlier version does not write says nothing about the end.
        run.as_object_mut().expect("an object").remove("phases");
        std::fs::write(path(step), run.to_string()).expect("written");
    };
    change("1-done", common::json(&path("1-done"))["end"].clone());
    change("4-killed", serde_json::Value::Null);
    let stopped =
        serde_json::json!({"code": 9, "name": "stopped", "message": "stopped by SIGUSR1"});
    change("5-stopped", stopped);
    let text = compare(at).expect_code(0).stdout;
    let said: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# step "))
        .collect();
    assert_eq!(
        said,
        [
            "# step 2-alone: it has no run.json, so whether it finished is not known",
            "# step 3-torn: its run.json cannot be read, so whether it finished is not known",
            "# step 4-killed did not finish: its rows are the cases it completed",
            "# step 5-stopped ended with exit code 9: stopped by SIGUSR1",
        ]
    );
}
