//! Requirements on results: of a sweep while it runs, and of saved results with `check`.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    common::{Ended, alone, json, mpirun, run},
    folder,
};

/// A sweep of computed times: four sizes of an all_reduce on 8 ranks.
const SWEEP: [&str; 11] = [
    "all_reduce",
    "--backend",
    "model",
    "--ranks",
    "8",
    "-b",
    "1M",
    "-e",
    "8M",
    "-f",
    "2",
];

fn sweep(at: &Path, more: &[&str]) -> Ended {
    run(alone(at).args(SWEEP).args(more))
}

fn check(at: &Path, arguments: &[&str]) -> Ended {
    run(alone(at).arg("check").args(arguments))
}

/// Returns the CSV of `run`, with `change` applied to the values of each row by column.
fn changed(at: &Path, run: &str, into: &str, change: impl Fn(usize, &str, &str) -> String) {
    let mut reader = csv::Reader::from_path(at.join(run).join("results.csv")).expect("a CSV");
    fs::create_dir_all(at.join(into)).expect("made");
    let mut writer = csv::Writer::from_path(at.join(into).join("results.csv")).expect("a CSV");
    let header = reader.headers().expect("a header").clone();
    writer.write_record(&header).expect("written");
    for (number, row) in reader.records().enumerate() {
        let row = row.expect("a row");
        let cells = header.iter().zip(&row);
        let cells: Vec<String> = cells
            .map(|(name, cell)| change(number, name, cell))
            .collect();
        writer.write_record(&cells).expect("written");
    }
}

#[test]
fn a_busbw_below_the_requirement_ends_with_code_7_and_a_line_per_miss() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["--min-busbw", "0.001", "--out", "met"]).expect_code(0);
    let ended = sweep(at, &["--min-busbw", "1e6", "--out", "missed", "--quiet"]).expect_code(7);
    let misses: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("missed: "))
        .collect();
    assert_eq!(
        misses.len(),
        2,
        "out of place and in place\n{}",
        ended.stderr
    );
    assert!(
        misses[0].contains("all_reduce 8M float sum out of place: ")
            && misses[0].contains(" found, 1000000 GB/s busbw required by --min-busbw 1e6: ")
            && misses[0].ends_with(" % too low"),
        "{misses:?}"
    );
    let saved = json(&at.join("missed/run.json"));
    assert_eq!(saved["end"]["code"], 7);
    assert_eq!(
        saved["end"]["message"],
        "the requirements are not met: 2 misses"
    );
    // Afterwards, the same.
    check(at, &["met", "--min-busbw", "0.001"]).expect_code(0);
    let after = check(at, &["missed/results.csv", "--min-busbw", "1e6"]).expect_code(7);
    assert_eq!(
        after
            .stdout
            .lines()
            .filter(|line| line.starts_with("missed: "))
            .count(),
        2
    );
}

#[test]
fn a_size_has_a_requirement_of_its_own() {
    let folder = folder();
    let at = folder.path();
    let wanted = "all_reduce:2M:1e6,4M:0.001";
    let ended = sweep(at, &["--min-busbw", wanted, "--out", "run"]).expect_code(7);
    let misses = ended
        .stderr
        .lines()
        .filter(|line| line.contains("missed: "));
    assert!(misses.clone().all(|line| line.contains("all_reduce 2M ")));
    assert_eq!(misses.count(), 2);
    let all: Value = serde_json::from_str(
        &check(at, &["run", "--json", "--min-busbw", wanted])
            .expect_code(7)
            .stdout,
    )
    .expect("JSON");
    assert_eq!(all["judged"][0]["missed"][0]["size_bytes"], 2 << 20);
    assert_eq!(all["judged"][1]["met"], 2);
}

#[test]
fn a_requirement_that_could_not_fail_is_an_error() {
    let folder = folder();
    let at = folder.path();
    for wanted in ["3M:1", "alltoall:1"] {
        let refused = sweep(at, &["--min-busbw", wanted, "--out", "run"]).expect_code(6);
        assert!(
            refused
                .stderr
                .contains("so this requirement could never fail"),
            "{}",
            refused.stderr
        );
        assert!(refused.rows().is_empty(), "before anything is measured");
    }
    sweep(at, &["--out", "run"]).expect_code(0);
    check(at, &["run", "--min-busbw", "3M:1"]).expect_code(6);
    let nothing = check(at, &["run"]).expect_code(6);
    assert!(
        nothing.stderr.contains("nothing is required"),
        "{}",
        nothing.stderr
    );
    for wrong in ["", "x", "1G:", "-3"] {
        check(at, &["run", &format!("--min-busbw={wrong}")]).expect_code(6);
    }
}

#[test]
fn an_unknown_peak_does_not_pass() {
    let folder = folder();
    let at = folder.path();
    let ended = sweep(at, &["--min-pct-peak", "80", "--out", "run"]).expect_code(5);
    assert!(
        ended.stderr.contains("--min-pct-peak 80: cannot tell"),
        "{}",
        ended.stderr
    );
    // With a peak in the file it can be told: the highest busbw of each placement counts.
    changed(at, "run", "fast", |_, name, cell| match name {
        "peak_GBps" => "0.001".into(),
        _ => cell.into(),
    });
    check(at, &["fast", "--min-pct-peak", "80"]).expect_code(0);
    changed(at, "run", "slow", |_, name, cell| match name {
        "peak_GBps" => "1e9".into(),
        _ => cell.into(),
    });
    let missed = check(at, &["slow", "--min-pct-peak", "80"]).expect_code(7);
    assert!(
        missed.stdout.contains("% of the peak required"),
        "{}",
        missed.stdout
    );
}

/// Changes the times of a run of four cycles by up to 1 %, and then by `factor`.
fn noisy(at: &Path, into: &str, seed: usize, factor: f64) {
    changed(at, "run", into, |number, name, cell| match name {
        "time_us" => {
            let time: f64 = cell.parse().expect("a time");
            let noise = ((number + seed) * 7919 % 21) as f64 / 1000.0 - 0.01;
            (time * (1.0 + noise) * factor).to_string()
        }
        _ => cell.into(),
    });
}

#[test]
fn a_slow_down_counts_if_it_is_significant_and_large() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["-N", "4", "--out", "run"]).expect_code(0);
    noisy(at, "before", 0, 1.0);
    noisy(at, "same", 5, 1.0);
    noisy(at, "slower", 5, 1.2);
    noisy(at, "a-little-slower", 5, 1.04);
    check(at, &["same", "--baseline", "before"]).expect_code(0);
    check(at, &["a-little-slower", "--baseline", "before"]).expect_code(0);
    check(
        at,
        &[
            "a-little-slower",
            "--baseline",
            "before",
            "--tolerance",
            "1",
        ],
    )
    .expect_code(7);
    let slower = check(at, &["slower", "--baseline", "before"]).expect_code(7);
    let misses: Vec<&str> = slower
        .stdout
        .lines()
        .filter(|line| line.starts_with("missed: "))
        .collect();
    assert_eq!(misses.len(), 8, "{}", slower.stdout);
    assert!(misses[0].contains(" us at most required by --baseline before --tolerance 5: "));
    assert!(misses[0].contains(" % slower than "), "{misses:?}");
    // A sweep judges itself in the same way.
    sweep(at, &["-N", "2", "--out", "again", "--baseline", "run"]).expect_code(0);
}

#[test]
fn one_measurement_cannot_tell_a_slow_down() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["--out", "run"]).expect_code(0);
    noisy(at, "slower", 0, 2.0);
    let ended = check(at, &["slower", "--baseline", "run"]).expect_code(5);
    assert!(
        ended
            .stdout
            .contains("chance cannot be told from a slow-down")
            && ended
                .stdout
                .contains(": cannot tell (0 met, 0 missed, 8 not judged)"),
        "{}",
        ended.stdout
    );
    let other = run(alone(at).args(SWEEP).args(["-o", "max", "--out", "max"])).expect_code(0);
    assert!(!other.rows().is_empty());
    let refused = check(at, &["max", "--baseline", "run"]).expect_code(6);
    assert!(
        refused.stderr.contains("has no case of this run"),
        "{}",
        refused.stderr
    );
    check(at, &["run", "--baseline", "nowhere"]).expect_code(6);
    sweep(at, &["--baseline", "nowhere", "--out", "x"]).expect_code(6);
}

#[test]
fn a_baseline_that_cannot_be_compared_is_refused_before_anything_is_measured() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["-N", "2", "--out", "run"]).expect_code(0);
    let refused = |arguments: &[&str], why: &str| {
        let ended = sweep(at, arguments).expect_code(6);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(
            ended.rows().is_empty(),
            "nothing is measured\n{}",
            ended.stdout
        );
    };
    let other_ranks = [
        "all_reduce",
        "--backend",
        "model",
        "--ranks",
        "4",
        "-b",
        "1M",
        "-e",
        "1M",
        "--out",
        "x",
        "--baseline",
        "run",
    ];
    let ended = run(alone(at).args(other_ranks)).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("--baseline run has 8 ranks on 1 node, and this run 4 ranks"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.rows().is_empty(),
        "nothing is measured\n{}",
        ended.stdout
    );
    refused(
        &["-o", "max", "--out", "x", "--baseline", "run"],
        "has no case of this run",
    );
    refused(
        &["-m", "2", "--out", "x", "--baseline", "run"],
        "was measured with other values of -m",
    );
    refused(&["--out", "x", "--baseline", "nowhere"], "nowhere");
    assert!(!at.join("x").exists(), "no file without a row is left");
    // At the same place, by any of its names.
    let before = fs::read(at.join("run/results.csv")).expect("rows");
    let own = "is where this run writes its results. Use another folder with --out";
    refused(&["-N", "2", "--out", "run", "--baseline", "run"], own);
    refused(
        &["-N", "2", "--out", "./run", "--baseline", "run/results.csv"],
        own,
    );
    refused(
        &["-N", "2", "--csv", "run/results.csv", "--baseline", "run"],
        own,
    );
    assert_eq!(fs::read(at.join("run/results.csv")).expect("rows"), before);
}

#[test]
fn a_tolerance_without_a_baseline_is_refused() {
    let folder = folder();
    let at = folder.path();
    for refused in [
        sweep(at, &["--tolerance", "1", "--out", "x"]),
        check(at, &["x", "--min-busbw", "1", "--tolerance", "1"]),
    ] {
        let refused = refused.expect_code(6);
        assert!(
            refused.stderr.contains("--baseline <RUN>"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_last_line_that_is_cut_short_is_left_out_of_the_judgement() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["--out", "run"]).expect_code(0);
    let path = at.join("run/results.csv");
    let whole = fs::read_to_string(&path).expect("rows");
    fs::write(&path, &whole[..whole.len() - 20]).expect("written");
    let ended = check(at, &["run", "--min-busbw", "0.001"]).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("results.csv is left out: it is cut short"),
        "{}",
        ended.stdout
    );
    fs::write(&path, whole.trim_end()).expect("written");
    let ended = check(at, &["run", "--min-busbw", "0.001"]).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("results.csv is left out: its line has no end"),
        "{}",
        ended.stdout
    );
    let json = check(at, &["run/run.json", "--min-busbw", "0.001"]).expect_code(6);
    assert_eq!(
        json.stderr,
        "pxnbench: run/run.json cannot be read: it is not a CSV of this program: its first line \
         names no columns\n"
    );
    let header = whole.lines().next().expect("a header");
    fs::write(&path, format!("{header}\r\n")).expect("written");
    let ended = check(at, &["run", "--min-busbw", "0.001"]).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("results.csv has no rows: nothing to judge"),
        "{}",
        ended.stderr
    );
}

#[test]
fn published_values_are_used_if_asked_for() {
    let folder = folder();
    let at = folder.path();
    let list = check(at, &["--list-references"]).expect_code(0).stdout;
    assert!(
        list.contains(
            "azure-nd-h100-v5: all_reduce 16G on 8 ranks of H100, 1 node: busbw at least 460 GB/s \
             (vendor threshold;"
        ),
        "{list}"
    );
    assert!(
        list.contains("guide-v100-64m") && list.contains("(guide; "),
        "{list}"
    );
    let sizes = ["-b", "64M", "-e", "64M", "--out", "run"];
    sweep(at, &sizes).expect_code(0);
    let refused = check(at, &["run", "--reference", "auto"]).expect_code(6);
    assert!(
        refused.stderr.contains("there is no value for 8 ranks"),
        "{}",
        refused.stderr
    );
    for (into, factor) in [("good", 0.001), ("bad", 1000.0)] {
        changed(at, "run", into, |_, name, cell| match name {
            "device" => "NVIDIA GeForce RTX 4090".into(),
            "time_us" => (cell.parse::<f64>().expect("a time") * factor).to_string(),
            _ => cell.into(),
        });
    }
    check(at, &["good", "--reference", "auto"]).expect_code(0);
    let missed = check(at, &["bad", "--reference", "guide-rtx-4090-64m"]).expect_code(7);
    assert!(
        missed
            .stdout
            .contains("30 GB/s busbw required by --reference guide-rtx-4090-64m (guide, "),
        "{}",
        missed.stdout
    );
}

#[test]
fn ranks_on_host_memory_are_judged_by_all_alike() {
    if !crate::common::has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(2, folder.path());
    command.args([
        "all_reduce",
        "--backend",
        "host",
        "-b",
        "64K",
        "-e",
        "64K",
        "-n",
        "2",
    ]);
    let ended = run(command.args(["--min-busbw", "1e6", "--out", "run"])).expect_code(7);
    let misses = ended
        .stderr
        .lines()
        .filter(|line| line.contains("missed: all_reduce 64K"));
    assert_eq!(
        misses.count(),
        2,
        "once, not once per rank\n{}",
        ended.stderr
    );
    assert_eq!(json(&folder.path().join("run/run.json"))["end"]["code"], 7);
}

#[test]
fn cases_that_a_run_lacks_of_its_baseline_are_told() {
    let folder = folder();
    let at = folder.path();
    sweep(at, &["-N", "3", "--out", "all"]).expect_code(0);
    sweep(at, &["-N", "3", "-e", "4M", "--out", "few"]).expect_code(0);
    let checked = check(at, &["few", "--baseline", "all"]);
    assert!(
        checked
            .stderr
            .contains("did not measure 2 cases of the baseline")
            || checked
                .stdout
                .contains("did not measure 2 cases of the baseline"),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
}
