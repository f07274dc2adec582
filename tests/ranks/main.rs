//! The main job as users start it: real MPI ranks on host memory.

mod cause;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod guard;
mod kills;
mod launch;
mod replay;
mod slow_disk;
mod soak;
mod spread;
mod steps;
mod stragglers;
mod stuck;
mod tune;
mod unread;

use std::time::Duration;

use common::{csv, has_mpi, json, mpirun, only_entry, run};
use pxnbench::{
    collective::{BufferMode, CaseShape, Collective, data::DType},
    units::Bytes,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A sweep of few operations: these tests ask whether data arrive, not how fast.
const QUICK: [&str; 4] = ["-n", "2", "-w", "1"];

fn runs_on(collective: Collective, ranks: u32) -> bool {
    !collective.spec().powers_of_two || ranks.is_power_of_two()
}

#[test]
fn every_collective_on_one_to_four_ranks_has_right_data_and_nccl_tests_sizes() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for ranks in 1..=4 {
        for collective in Collective::ALL
            .into_iter()
            .filter(|collective| runs_on(*collective, ranks))
        {
            let ended = run(mpirun(ranks, folder.path())
                .args([
                    collective.name(),
                    "-b",
                    "8",
                    "-e",
                    "4M",
                    "-f",
                    "4",
                    "-c",
                    "1",
                    "--backend",
                    "host",
                ])
                .args(["--csv", "all.csv"])
                .args(QUICK))
            .expect_code(0);
            let rows = ended.rows();
            let sizes: Vec<Bytes> = (0..10).map(|power| Bytes(8 << (2 * power))).collect();
            assert_eq!(
                rows.len(),
                sizes.len(),
                "{collective} on {ranks}:\n{}",
                ended.stdout
            );
            for (row, size) in rows.iter().zip(sizes) {
                let buffer_mode = BufferMode::OutOfPlace;
                let case = CaseShape {
                    collective,
                    dtype: DType::Float,
                    redop: None,
                    root: None,
                    buffer_mode,
                    ranks: ranks.into(),
                }
                .nearest(size);
                assert_eq!(row[0], case.size().0.to_string());
                assert_eq!(row[1], case.counts.param.to_string());
                assert_eq!(
                    row[8], "0",
                    "{collective} on {ranks}, out of place: {row:?}"
                );
                let in_place = if collective.spec().checked_in_place {
                    "0"
                } else {
                    "N/A"
                };
                assert_eq!(
                    row[12], in_place,
                    "{collective} on {ranks}, in place: {row:?}"
                );
            }
            assert!(ended.stdout.contains("# Out of bounds values : 0 OK\n"));
        }
    }
}

#[test]
fn a_case_of_64_bytes_on_3_ranks_is_rounded_to_48() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = run(mpirun(3, folder.path())
        .args(["all_gather", "-b", "64", "-e", "64", "--csv", "x.csv"])
        .args(QUICK));
    assert_eq!(ended.expect_code(0).rows()[0][..2], ["48", "4"]);
}

#[test]
fn every_type_and_operation_is_right_or_waived_with_a_reason() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for ranks in [2, 3] {
        let mut command = mpirun(ranks, folder.path());
        command.args([
            "all", "-d", "all", "-o", "all", "-b", "1000", "-e", "100000", "-f", "100",
        ]);
        run(command.args([
            "--csv",
            "all.csv",
            "--backend",
            "host",
            "-n",
            "1",
            "-w",
            "0",
        ]))
        .expect_code(0);
        let rows = csv(&folder.path().join("all.csv"));
        // 3 reductions x 12 types x 6 operations and 8 moves x 12 types, 2 sizes, 2 placements.
        assert_eq!(rows.len(), (3 * 12 * 6 + 8 * 12) * 2 * 2);
        for row in &rows {
            let unknown_to_mpi = ["f8e4m3", "f8e5m2"].contains(&row["type"].as_str());
            let moved_only = row["redop"] == "none";
            let uneven = row["collective"] == "hypercube" && ranks == 3;
            let waived = uneven
                || ["avg", "mulsum"].contains(&row["redop"].as_str())
                    && row["type"].contains("int")
                || unknown_to_mpi && !moved_only;
            let unchecked = row["in_place"] == "1"
                && ["alltoall", "alltoallv", "sendrecv"].contains(&row["collective"].as_str());
            let status = if waived {
                "waived"
            } else if unchecked {
                "unchecked"
            } else {
                "ok"
            };
            assert_eq!(row["status"], status, "{row:?}");
            assert_eq!(row["note"].is_empty(), !waived, "{row:?}");
            assert_eq!(row["time_us"].is_empty(), waived, "{row:?}");
            assert_eq!(
                row["wrong"],
                if status == "ok" { "0" } else { "" },
                "{row:?}"
            );
        }
    }
}

#[test]
fn a_hypercube_of_three_ranks_says_why_it_does_not_run() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = run(mpirun(3, folder.path())
        .args(["hypercube", "-b", "1K", "-e", "1K", "--csv", "x.csv"])
        .args(QUICK));
    let ended = ended.expect_code(5);
    assert!(
        ended.stdout.contains("3 is not a power of 2"),
        "{}",
        ended.stdout
    );
    // Communicators of 3 ranks and of 1 would not meet.
    let mut uneven = mpirun(4, folder.path());
    uneven
        .env("NCCL_TESTS_SPLIT", "DIV 3")
        .args(["hypercube", "-b", "1K", "-e", "1K", "--csv", "x.csv"])
        .args(QUICK);
    let refused = run(&mut uneven).expect_code(6);
    assert!(
        refused.stderr.contains("split evenly"),
        "{}",
        refused.stderr
    );
}

#[test]
fn each_iteration_is_timed_on_host_memory() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(2, folder.path());
    command.args([
        "all_reduce",
        "-b",
        "1K",
        "-e",
        "1K",
        "-n",
        "5",
        "-m",
        "3",
        "-I",
        "1",
    ]);
    let ended = run(command.args(["-K", "1", "--csv", "x.csv", "-J", "x.json"])).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("# Per-Iteration Report: timing by the host's clock;"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("ignored"), "{}", ended.stderr);
    let row = &ended.rows()[0];
    assert_eq!(row.len(), 5 + 2 * 8, "{row:?}");
    assert!(
        row[5..].iter().all(|cell| cell.parse::<f64>().is_ok()),
        "{row:?}"
    );
    for row in csv(&folder.path().join("x.csv")) {
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        assert_eq!(row["iters"], "15", "5 iterations of 3 operations");
        assert!(0.0 < number("iter_min_us") && number("iter_min_us") <= number("iter_max_us"));
    }
    let half = &json(&folder.path().join("x.json"))["results"][0]["out_of_place_per_iter"];
    assert_eq!(half["times_us"].as_array().map(Vec::len), Some(5));
    assert_eq!(half["skipped_iterations"], 1);
}

/// A size that no machine can hold: as large as its memory, twice on each of 4 ranks.
#[test]
fn the_only_size_must_fit_into_memory() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let line = meminfo.lines().next().expect("MemTotal");
    let kib: u64 = line
        .split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    let size = (kib << 10).min(60 << 30).to_string();
    let mut command = mpirun(4, folder.path());
    command.args([
        "alltoall", "-d", "double", "-b", &size, "-e", &size, "--csv", "x.csv",
    ]);
    let refused = run(command.args(QUICK)).expect_code(5);
    assert!(
        refused
            .stderr
            .contains("does not fit into memory: each of the two buffers can have at most"),
        "{}",
        refused.stderr
    );
}

/// An alltoallv of 3 ranks, of what the variables say.
fn alltoallv(folder: &std::path::Path, variables: &[(&str, &str)], more: &[&str]) -> common::Ended {
    let mut command = mpirun(3, folder);
    command
        .envs(variables.iter().copied())
        .args(["alltoallv", "--csv", "x.csv"])
        .args(more);
    run(command.args(QUICK))
}

#[test]
fn alltoallv_is_as_its_variables_say() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let sweep = ["-b", "8", "-e", "1M", "-f", "8", "-d", "float,int8,f8e4m3"];
    for spread in ["0", "0.4", "1"] {
        let ended = alltoallv(
            folder.path(),
            &[("NCCL_TESTS_ALLTOALLV_SPREAD", spread)],
            &sweep,
        )
        .expect_code(0);
        assert!(
            ended
                .rows()
                .iter()
                .all(|row| (row[8], row[12]) == ("0", "N/A")),
            "{}",
            ended.stdout
        );
        // In place it is timed: only what is not checked has no number.
        for row in ended.rows() {
            let numbers = row[5..12].iter().map(|cell| cell.parse::<f64>());
            assert!(numbers.into_iter().all(|number| number.is_ok()), "{row:?}");
        }
        assert!(!ended.stdout.contains("# Waived"), "{}", ended.stdout);
    }
    std::fs::write(
        folder.path().join("m"),
        "0 6400 96 1\n16 0 0 1\n4096 64 32 1\n1 1 1 1\n",
    )
    .expect("written");
    let matrix = [
        ("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "m"),
        ("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "0.5"),
        ("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1"),
    ];
    let ended = alltoallv(folder.path(), &matrix, &["-b", "4K", "-e", "4K"]).expect_code(0);
    assert_eq!(
        (ended.rows()[0][..2].to_vec(), ended.rows()[0][8]),
        (vec!["3248", "0"], "0"),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .contains("\n#   rank=1 send_bytes=0 recv_bytes=3232 "),
        "{}",
        ended.stdout
    );
    let found = alltoallv(
        folder.path(),
        &matrix,
        &["-b", "4K", "-e", "4K", "--inject-fault", "2"],
    )
    .expect_code(7);
    assert_eq!(found.rows()[0][8], "1", "{}", found.stdout);

    let refused = |variables: &[(&str, &str)], more: &[&str], words: &str| {
        let ended = alltoallv(folder.path(), variables, more).expect_code(6);
        let sentences: Vec<_> = ended
            .sentences()
            .into_iter()
            .filter(|line| !line.contains(" backend "))
            .collect();
        assert!(
            sentences.len() == 1 && sentences[0].contains(words),
            "{}",
            ended.stderr
        );
    };
    refused(
        &matrix,
        &["-b", "1K", "-e", "1K"],
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=m gives a rank 3248 bytes, more than -e 1K",
    );
    refused(
        &matrix,
        &["-b", "1K", "-e", "4K"],
        "Give -b and -e the same size",
    );
    refused(
        &[("NCCL_TESTS_ALLTOALLV_SPREAD", "2")],
        &[],
        "not a number from 0 to 1",
    );
    std::fs::write(folder.path().join("m"), "1 2\n3 4\n").expect("written");
    refused(
        &matrix,
        &["-b", "4K", "-e", "4K"],
        "has rows for only 2 ranks, but this run has 3",
    );
}

#[test]
fn every_rank_can_be_the_root() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for all in ["all", "-1"] {
        let mut command = mpirun(3, folder.path());
        command.args([
            "broadcast",
            "reduce",
            "gather",
            "scatter",
            "-r",
            all,
            "-b",
            "4K",
            "-e",
            "4K",
            "--csv",
            "x.csv",
        ]);
        run(command.args(QUICK)).expect_code(0);
        let rows = csv(&folder.path().join("x.csv"));
        assert_eq!(rows.len(), 4 * 3 * 2);
        assert!(rows.iter().all(|row| row["wrong"] == "0"));
        let roots: Vec<_> = rows.iter().map(|row| row["root"].clone()).collect();
        assert_eq!(roots[..6], ["0", "0", "1", "1", "2", "2"]);
    }
}

#[test]
fn one_flipped_element_is_found_counted_and_fails_the_run() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for collective in Collective::ALL {
        let mut command = mpirun(if runs_on(collective, 3) { 3 } else { 4 }, folder.path());
        command.args([
            collective.name(),
            "-b",
            "1K",
            "-e",
            "2K",
            "-f",
            "2",
            "--inject-fault",
            "2",
            "--csv",
            "x.csv",
        ]);
        let ended = run(command.args(QUICK)).expect_code(7);
        let rows = ended.rows();
        assert_eq!(
            (rows[0][8], rows[1][8]),
            ("1", "0"),
            "{collective}:\n{}",
            ended.stdout
        );
        assert!(
            ended.stdout.contains("# Out of bounds values : 1 FAILED\n"),
            "{}",
            ended.stdout
        );
        assert_eq!(csv(&folder.path().join("x.csv"))[0]["status"], "wrong");
        assert_eq!(
            ended.sentences().last(),
            Some(&"pxnbench: wrong data in 1 case")
        );
    }
}

#[test]
fn a_run_leaves_its_files_in_a_folder_of_its_own() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(2, folder.path());
    command.env("A_SECRET", "s3cr3t").env("NCCL_ALGO", "Ring");
    run(command
        .args(["all_reduce", "-b", "8", "-e", "64", "-f", "2"])
        .args(QUICK))
    .expect_code(0);
    let run_folder = only_entry(&folder.path().join("results"));
    assert_eq!(csv(&run_folder.join("results.csv")).len(), 8);
    let meta = json(&run_folder.join("run.json"));
    assert_eq!(meta["end"]["code"], 0);
    assert_eq!(meta["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(meta["environment"]["NCCL_ALGO"], "Ring");
    assert!(
        meta["versions"]["mpi"]
            .as_str()
            .is_some_and(|mpi| mpi.contains("MPI") || mpi.contains("MPICH"))
    );
    assert!(
        meta["startup_s"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0 && seconds < 60.0)
    );
    let results = json(&run_folder.join("results.json"));
    assert_eq!(results["records"].as_array().map(Vec::len), Some(8));
    for file in std::fs::read_dir(&run_folder).expect("a folder") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        assert!(
            !text.contains("s3cr3t"),
            "the environment is not recorded as a whole"
        );
    }
}

#[test]
fn what_is_wrong_with_the_command_line_is_said_once() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for arguments in [
        &["all_reduce", "-b", "12Q"] as &[&str],
        &["all_reduce", "-b", "2G", "-e", "1G"],
        &["allreduce"],
        &["all_reduce", "--no-such-flag"],
        &["broadcast", "-r", "3", "-b", "8", "-e", "8"],
        &[
            "all_reduce",
            "-b",
            "8",
            "-e",
            "8",
            "--out",
            "/proc/no/such/place",
        ],
    ] {
        let ended = run(mpirun(3, folder.path()).args(arguments)).expect_code(6);
        let sentences: Vec<_> = ended
            .sentences()
            .into_iter()
            .filter(|line| !line.contains(" backend "))
            .collect();
        assert_eq!(sentences.len(), 1, "{arguments:?}:\n{}", ended.stderr);
        assert!(
            ended.took < Duration::from_secs(20),
            "{arguments:?} took {:?}",
            ended.took
        );
    }
}
