//! Several communicators at the same time, and settings that must be the same on all ranks.

use std::fs;

use crate::{
    common::{self, csv, has_mpi, json, launcher, mpirun, run},
    folder,
};

/// A way to split four ranks into two communicators.
struct Split {
    name: &'static str,
    value: &'static str,
    /// Numbers of the communicators.
    groups: [&'static str; 2],
    /// Ranks in each.
    ranks: [&'static str; 2],
}

const SPLITS: [Split; 4] = [
    Split {
        name: "NCCL_TESTS_SPLIT",
        value: "MOD 2",
        groups: ["0", "1"],
        ranks: ["2", "2"],
    },
    Split {
        name: "NCCL_TESTS_SPLIT",
        value: "DIV 3",
        groups: ["0", "1"],
        ranks: ["3", "1"],
    },
    Split {
        name: "NCCL_TESTS_SPLIT",
        value: "&0x2",
        groups: ["0", "2"],
        ranks: ["2", "2"],
    },
    Split {
        name: "NCCL_TESTS_SPLIT_MASK",
        value: "1",
        groups: ["0", "1"],
        ranks: ["2", "2"],
    },
];

#[test]
fn each_communicator_has_its_own_rows() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for Split {
        name,
        value,
        groups,
        ranks,
    } in SPLITS
    {
        let mut command = mpirun(4, folder.path());
        command.env(name, value);
        let args = [
            "all_reduce",
            "alltoall",
            "-b",
            "64",
            "-e",
            "4K",
            "-f",
            "64",
            "-n",
            "2",
            "--csv",
            "x.csv",
        ];
        let ended = run(command.args(args).args(["-J", "x.json"])).expect_code(0);
        let _ = fs::remove_file(folder.path().join("x.csv.1"));
        let rows = csv(&folder.path().join("x.csv"));
        assert_eq!(
            rows.len(),
            2 * 2 * 2 * 2,
            "two collectives, sizes, placements, groups"
        );
        for pair in rows.chunks(2) {
            assert_eq!(
                [pair[0]["group"].as_str(), &pair[1]["group"]],
                groups,
                "{name}={value}"
            );
            assert_eq!(
                [pair[0]["ranks"].as_str(), &pair[1]["ranks"]],
                ranks,
                "{name}={value}"
            );
            assert!(
                pair.iter()
                    .all(|row| row["wrong"] == "0" || row["wrong"].is_empty()),
                "{pair:?}"
            );
        }
        assert!(
            ended
                .stdout
                .contains(&format!("Rank  3 Group {:>2}", groups[1])),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.rows().len(), 4, "the table has the means");
        let all = json(&folder.path().join("x.json"));
        let results = all["results"].as_array().expect("a list");
        assert_eq!(
            results.len(),
            8,
            "both halves in one row, for each communicator"
        );
        assert!(
            results
                .iter()
                .all(|row| row["out_of_place"].is_object() && row["in_place"].is_object()),
            "{all}"
        );
        let json_groups: Vec<String> = results.iter().map(|row| row["group"].to_string()).collect();
        assert_eq!(json_groups, groups.repeat(4));
    }
}

#[test]
fn the_communicator_with_wrong_data_is_named_and_cannot_be_resumed() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut fault = mpirun(4, folder.path());
    fault.env("NCCL_TESTS_SPLIT", "MOD 2");
    let args = [
        "all_reduce",
        "-b",
        "64",
        "-e",
        "64",
        "-n",
        "2",
        "--inject-fault",
        "3",
        "--csv",
        "y.csv",
    ];
    run(fault.args(args)).expect_code(7);
    let rows = csv(&folder.path().join("y.csv"));
    let wrong: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["group"].as_str(), row["wrong"].as_str()))
        .collect();
    assert_eq!(
        wrong,
        [("0", "0"), ("1", "1"), ("0", "0"), ("1", "0")],
        "the group with the fault is named"
    );
    let mut again = mpirun(4, folder.path());
    again.env("NCCL_TESTS_SPLIT", "MOD 2");
    let refused = run(again.args(["all_reduce", "--resume", "--csv", "y.csv"])).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("--resume cannot be combined with NCCL_TESTS_SPLIT"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_split_that_cannot_be_read_is_refused() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut bad = mpirun(2, folder.path());
    bad.env("NCCL_TESTS_SPLIT", "XOR 1");
    let refused = run(bad.args(["all_reduce", "-b", "8", "-e", "8"])).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("NCCL_TESTS_SPLIT=XOR 1 cannot be read"),
        "{}",
        refused.stderr
    );
}

/// A rank that is set up otherwise than rank 0 is named, and all end.
#[test]
fn what_is_not_the_same_on_all_ranks_is_one_sentence() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let two = |first: &[&str], second: &[&str]| {
        let mut command = launcher(folder.path());
        let args = [
            "all_reduce",
            "-b",
            "64",
            "-e",
            "64",
            "-n",
            "2",
            "--csv",
            "x.csv",
        ];
        command
            .args(["-np", "1", "env"])
            .args(first)
            .arg(common::BINARY)
            .args(args);
        command
            .args([":", "-np", "1", "env"])
            .args(second)
            .arg(common::BINARY)
            .args(args);
        run(&mut command)
    };
    for (first, second) in [
        ("NCCL_TESTS_SPLIT=%2", "A=b"),
        ("A=b", "NCCL_TESTS_SPLIT_MASK=1"),
        ("NCCL_TESTS_SPLIT=%2", "NCCL_TESTS_SPLIT=/2"),
    ] {
        let ended = two(&[first], &[second]).expect_code(6);
        assert!(
            ended
                .stderr
                .contains("ranks 0 and 1 have different settings of NCCL_TESTS_SPLIT"),
            "{}",
            ended.stderr
        );
    }
    let ended = two(&["A=b"], &["NCCL_TESTS_SPLIT=XOR 1"]).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("NCCL_TESTS_SPLIT=XOR 1 cannot be read"),
        "{}",
        ended.stderr
    );
    let ended = two(&["A=b"], &["NCCL_TESTS_MIN_BW=many"]).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("NCCL_TESTS_MIN_BW=many is not a bandwidth"),
        "{}",
        ended.stderr
    );
    // What rank 0 shows decides.
    two(&["A=b"], &["NCCL_TESTS_MIN_BW=100000"]).expect_code(0);
    let ended = two(
        &["NCCL_TESTS_SPLIT=|2147483648"],
        &["NCCL_TESTS_SPLIT=|2147483648"],
    )
    .expect_code(6);
    assert!(
        ended.stderr.contains("but MPI allows at most 2147483647"),
        "{}",
        ended.stderr
    );
}

#[test]
fn communicators_of_one_rank_are_warned_of() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let warning = |split: &str| {
        let mut command = mpirun(3, folder.path());
        command.env("NCCL_TESTS_SPLIT", split);
        let args = [
            "all_reduce",
            "-b",
            "64",
            "-e",
            "64",
            "-n",
            "2",
            "--csv",
            "x.csv",
        ];
        run(command.args(args)).expect_code(0).stderr
    };
    let all = warning("MOD 3");
    assert!(
        all.contains("3 of 3 communicators have only one rank, so no data is transferred there"),
        "{all}"
    );
    let one = warning("DIV 2");
    assert!(
        one.contains("1 of 2 communicators has only one rank"),
        "{one}"
    );
    let none = warning("MOD 1");
    assert!(!none.contains("only one rank"), "{none}");
}

/// Table, JSON and exit code go by one mean also where communicators are of several sizes.
#[test]
fn communicators_of_several_sizes_have_one_mean() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(4, folder.path());
    command.envs([
        ("NCCL_TESTS_SPLIT", "%3"),
        ("NCCL_TESTS_MIN_BW", "0.000001"),
    ]);
    let ended = run(command.args([
        "all_reduce",
        "-b",
        "1M",
        "-e",
        "1M",
        "-n",
        "3",
        "-J",
        "x.json",
        "--csv",
        "x.csv",
    ]));
    let ended = ended.expect_code(0);
    let line = ended
        .stdout
        .lines()
        .find(|line| line.contains("Avg bus bandwidth"))
        .expect("the line");
    let shown: f64 = line
        .split_whitespace()
        .nth(5)
        .expect("a field")
        .parse()
        .expect("a number");
    let all = json(&folder.path().join("x.json"));
    let of_json = all["average_bus_bandwidth"]["bandwidth"]
        .as_f64()
        .expect("a number");
    assert!(
        (shown / of_json - 1.0).abs() < 1e-4,
        "{shown} and {of_json}"
    );
    let rows = csv(&folder.path().join("x.csv"));
    let busbw: Vec<f64> = rows
        .iter()
        .map(|row| row["busbw_GBps"].parse().expect("a number"))
        .collect();
    let of_csv = busbw.iter().sum::<f64>() / busbw.len() as f64;
    assert!((shown / of_csv - 1.0).abs() < 1e-3, "{shown} and {of_csv}");
    assert_eq!(all["average_bus_bandwidth"]["okay"], "true");
}
