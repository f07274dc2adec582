//! The JSON of `-J`.

use std::fs;

use crate::{
    MODEL, by_name,
    common::{alone, json, run},
    folder, links,
};

#[test]
fn a_pipe_gets_one_json() {
    let folder = folder();
    let args = [
        "all_reduce",
        "-b",
        "8",
        "-e",
        "8",
        "-J",
        "/dev/stdout",
        "--csv",
        "x.csv",
    ];
    let ended = run(alone(folder.path()).args(args).args(MODEL)).expect_code(0);
    let documents: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with('{'))
        .collect();
    let [one] = documents[..] else {
        panic!("{}", ended.stdout)
    };
    let all: serde_json::Value = serde_json::from_str(one).expect("JSON");
    assert_eq!(all["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn json_has_the_keys_of_nccl_tests() {
    let folder = folder();
    links(folder.path());
    let mut command = by_name(folder.path(), "reduce_perf");
    command
        .env("NCCL_DEBUG_FILE", "é\t\"/x")
        .env("SECRET_TOKEN", "hidden");
    let args = [
        "-b", "8", "-e", "32", "-f", "2", "-r", "2", "-J", "x.json", "-N", "2",
    ];
    run(command.args(args).args(MODEL)).expect_code(0);
    let text = fs::read_to_string(folder.path().join("x.json")).expect("the file");
    assert!(!text.contains("hidden") && text.contains("é"), "{text}");
    let all = json(&folder.path().join("x.json"));
    for key in [
        "version",
        "start_time",
        "args",
        "env",
        "nccl_version",
        "config",
        "results",
        "errors",
        "end_time",
    ] {
        assert!(all.get(key).is_some(), "{key}");
    }
    assert_eq!(all["version"], 3);
    assert_eq!(
        (
            &all["config"]["minimum_bytes"],
            &all["config"]["step_factor"]
        ),
        (&8.into(), &2.into())
    );
    let results = all["results"].as_array().expect("a list");
    assert_eq!(results.len(), 6);
    let row = &results[0];
    assert_eq!(
        (&row["size"], &row["count"], &row["root"]),
        (&8.into(), &2.into(), &"     2".into())
    );
    assert_eq!(
        (row["type"].as_str(), row["redop"].as_str()),
        (Some("float"), Some("sum"))
    );
    for half in ["out_of_place", "in_place"] {
        assert!(
            row[half]["time"].as_f64().is_some_and(|time| time > 0.0),
            "{row}"
        );
        assert!(
            row[half]["bus_bw"].is_number() && row[half]["alg_bw"].is_number(),
            "{row}"
        );
        assert!(
            row[half]["nwrong"].is_null(),
            "a computed time is not checked"
        );
    }
    assert!(all["average_bus_bandwidth"]["bandwidth"].is_number());
    assert_eq!(all["out_of_bounds"]["okay"], "true");
    // One that is there is kept, and the new one has the name.
    run(by_name(folder.path(), "reduce_perf")
        .args(["-b", "8", "-e", "8", "-J", "x.json"])
        .args(MODEL))
    .expect_code(0);
    assert_eq!(
        json(&folder.path().join("x.json"))["results"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(json(&folder.path().join("x.json.1")), all);
}
