//! Repeated measurement: until a mean is known, or until a time is over.

use crate::{
    MODEL,
    common::{alone, csv, json, run},
    folder,
};

#[test]
fn a_precision_that_cannot_be_is_refused() {
    let folder = folder();
    for (arguments, sentence) in [
        (
            ["--precision", "0", "-n", "1"],
            "a precision is a percentage above 0, such as 1 or 0.5%",
        ),
        (
            ["--precision", "1%", "-n", "0"],
            "--precision times until the mean is known, but -n 0 times nothing. Use only one of \
             them",
        ),
    ] {
        let mut command = alone(folder.path());
        let refused = run(command.arg("all_reduce").args(arguments).args(MODEL)).expect_code(6);
        assert!(refused.stderr.contains(sentence), "{}", refused.stderr);
    }
}

#[test]
fn computed_times_have_no_interval() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args(["all_reduce", "-b", "8", "-e", "8", "--csv", "x.csv"]);
    run(command.args(MODEL).args(["--precision", "1%"])).expect_code(0);
    for row in csv(&folder.path().join("x.csv")) {
        assert_eq!((&row["precision_pct"][..], &row["blocks"][..]), ("", "1"));
        assert_eq!(row["iters"], "20");
    }
}

#[test]
fn a_time_that_cannot_be_is_refused() {
    let folder = folder();
    for (arguments, sentence) in [
        (&["--time", "0s"][..], "the time must be longer than 0"),
        (
            &["--time", "long"],
            "a time is a number of seconds, or such as 500ms, 2s or 1h 30m",
        ),
        (
            &["--time", "1s", "-N", "2"],
            "--time repeats the sweep until the time is over, and -N a number of times",
        ),
        (
            &["--time", "1s", "-n", "0"],
            "--time measures throughput over time, but -n 0 times nothing",
        ),
        (
            &["--time", "1s", "--resume", "--csv", "x.csv"],
            "--resume cannot be combined with --time",
        ),
    ] {
        let mut command = alone(folder.path());
        let refused = run(command.arg("all_reduce").args(arguments).args(MODEL)).expect_code(6);
        assert!(refused.stderr.contains(sentence), "{}", refused.stderr);
    }
}

#[test]
fn the_sweep_is_repeated_until_the_time_is_over() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args([
        "all_reduce",
        "alltoall",
        "hypercube",
        "-b",
        "8",
        "-e",
        "16",
        "-f",
        "2",
    ]);
    command.args([
        "--backend",
        "model",
        "--ranks",
        "3",
        "--time",
        "300ms",
        "--out",
        "here",
    ]);
    let ended = run(&mut command).expect_code(0);
    assert!(ended.took.as_millis() >= 300);
    assert_eq!(ended.rows().len(), 4, "the first pass:\n{}", ended.stdout);
    assert_eq!(
        ended.stdout.matches("# Waived").count(),
        1,
        "once:\n{}",
        ended.stdout
    );
    let here = folder.path().join("here");
    let found = &json(&here.join("run.json"))["over_time"];
    let (passes, cases) = (found["passes"].as_u64(), found["cases"].as_u64());
    assert!(passes >= Some(2), "{found}");
    assert!(cases >= passes.map(|passes| 8 * passes), "{found}");
    let results = csv(&here.join("results.csv"));
    assert!(
        results.iter().any(|row| row["repeat"] == "1"),
        "passes are repetitions"
    );
    let waived = results.iter().filter(|row| row["status"] == "waived");
    assert_eq!(waived.count(), 4, "in the first pass only");
    assert!(!csv(&here.join("samples.csv")).is_empty());
}

#[test]
fn a_sweep_of_which_nothing_runs_is_not_repeated() {
    let folder = folder();
    let mut command = alone(folder.path());
    command.args([
        "hypercube",
        "-b",
        "8",
        "-e",
        "8",
        "--backend",
        "model",
        "--ranks",
        "3",
    ]);
    let ended = run(command.args(["--time", "1h", "--csv", "x.csv"])).expect_code(5);
    assert!(ended.stderr.contains("nothing ran"), "{}", ended.stderr);
}
