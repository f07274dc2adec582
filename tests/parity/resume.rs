//! Rows that an earlier run left, and those that are measured again.

use std::fs;

use crate::{
    MODEL,
    common::{alone, csv, json, run},
    folder,
};

#[test]
fn what_was_measured_otherwise_is_not_taken_for_what_is_asked_for() {
    let folder = folder();
    let sweep = |more: &[&str], code| {
        let args = [
            "all_reduce",
            "-b",
            "8",
            "-e",
            "16",
            "-f",
            "2",
            "--csv",
            "x.csv",
        ];
        run(alone(folder.path()).args(args).args(more).args(MODEL)).expect_code(code)
    };
    sweep(&["-n", "2"], 0);
    sweep(&["-n", "2", "--resume"], 0);
    assert_eq!(csv(&folder.path().join("x.csv")).len(), 4, "all were there");
    sweep(&["-n", "5", "--resume"], 0);
    let iters: Vec<String> = csv(&folder.path().join("x.csv"))
        .iter()
        .map(|row| row["iters"].clone())
        .collect();
    assert_eq!(iters, ["2", "2", "2", "2", "5", "5", "5", "5"]);
    fs::write(folder.path().join("x.csv"), "name,value\nx,1\n").expect("written");
    let refused = sweep(&["--resume"], 6);
    assert!(
        refused
            .stderr
            .contains("x.csv is not a CSV of this program"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("x.csv")).expect("the file"),
        "name,value\nx,1\n"
    );
}

#[test]
fn an_alltoallv_of_another_pattern_is_measured_again() {
    let folder = folder();
    let matrix = |text: &str| fs::write(folder.path().join("m"), text).expect("written");
    let patterns = |name: &str, value: &str, more: &[&str]| {
        let mut command = alone(folder.path());
        command.env(format!("NCCL_TESTS_ALLTOALLV_{name}"), value);
        let args = [
            "alltoallv",
            "-b",
            "4K",
            "-e",
            "4K",
            "--json",
            "x.json",
            "--csv",
            "x.csv",
        ];
        run(command
            .args(args)
            .args(more)
            .args(["--backend", "model", "--ranks", "2"]))
        .expect_code(0);
        let rows = csv(&folder.path().join("x.csv"));
        let of_json = json(&folder.path().join("x.json"));
        let patterns: Vec<String> = rows.iter().map(|row| row["pattern"].clone()).collect();
        let of_json: Vec<&str> = of_json["records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| record["pattern"].as_str().expect("a pattern"))
            .collect();
        assert_eq!(of_json, patterns, "what was measured before is kept");
        patterns
    };
    matrix("0 160\n160 0\n");
    let first = patterns("MATRIX_FILE", "m", &[]);
    assert!(
        first.len() == 2 && first[0].starts_with("matrix 2 ") && first[0] == first[1],
        "{first:?}"
    );
    assert_eq!(
        patterns("MATRIX_FILE", "m", &["--resume"]),
        first,
        "all were there"
    );
    // The busiest rank has as much to send as before.
    matrix("80 80\n0 160\n");
    let second = patterns("MATRIX_FILE", "m", &["--resume"]);
    assert!(
        second.len() == 4 && second[..2] == first && second[2] != first[0],
        "{second:?}"
    );
    assert_eq!(
        patterns("SPREAD", "0.5", &["--resume"])[4..],
        ["spread 0.5", "spread 0.5"]
    );
    assert_eq!(
        patterns("SPREAD", "0.25", &["--resume"])[6..],
        ["spread 0.25", "spread 0.25"]
    );
    assert_eq!(patterns("SPREAD", "0.50", &["--resume"]).len(), 8);
}
