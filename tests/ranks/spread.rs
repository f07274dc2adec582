//! How times are spread: over ranks, over blocks, over time.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{QUICK, folder};
use crate::common::{csv, has_mpi, json, mpirun, processes_with, run};

/// A row of a CSV file by column.
type Row = BTreeMap<String, String>;

/// What tells a case in both files.
const CASE: [&str; 12] = [
    "run_id",
    "started_at",
    "collective",
    "level",
    "repeat",
    "ranks",
    "size_bytes",
    "type",
    "redop",
    "root",
    "in_place",
    "group",
];

fn case_of(row: &Row) -> Vec<&String> {
    CASE.iter().map(|name| &row[*name]).collect()
}

fn number(row: &Row, name: &str) -> f64 {
    let cell = &row[name];
    cell.parse()
        .unwrap_or_else(|error| panic!("{name} {cell}: {error} in {row:?}"))
}

/// A sweep of two sizes on host memory, in the folder `here`.
fn sweep(ranks: u32, folder: &Path, more: &[&str]) -> Command {
    let mut command = mpirun(ranks, folder);
    command
        .args([
            "all_reduce",
            "-b",
            "1K",
            "-e",
            "2K",
            "-f",
            "2",
            "--out",
            "here",
        ])
        .args(QUICK)
        .args(more);
    command
}

#[test]
fn the_spread_over_ranks_is_that_of_the_rows_of_the_ranks() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    run(&mut sweep(3, folder.path(), &["-I", "1"])).expect_code(0);
    let here = folder.path().join("here");
    let (results, ranks) = (csv(&here.join("results.csv")), csv(&here.join("ranks.csv")));
    assert_eq!((results.len(), ranks.len()), (4, 12));
    let records = &json(&here.join("results.json"))["records"];
    for (at, result) in results.iter().enumerate() {
        let own: Vec<&Row> = ranks
            .iter()
            .filter(|rank| case_of(rank) == case_of(result))
            .collect();
        let numbers: Vec<&str> = own.iter().map(|rank| &rank["rank"][..]).collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        let mut times: Vec<f64> = own.iter().map(|rank| number(rank, "time_us")).collect();
        // Both are rounded to six digits.
        let mean = times.iter().sum::<f64>() / 3.0;
        assert!((mean / number(result, "time_us") - 1.0).abs() < 1e-5);
        times.sort_by(f64::total_cmp);
        for (column, time) in [
            ("rank_p50_us", times[1]),
            ("rank_p95_us", times[2]),
            ("rank_p99_us", times[2]),
            ("rank_max_us", times[2]),
        ] {
            assert_eq!(number(result, column), time, "{column}");
            assert_eq!(records[at][column], time, "{column} in results.json");
        }
        let deviation = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 3.0;
        let variation = 100.0 * deviation.sqrt() / mean;
        assert!((number(result, "rank_cv_pct") - variation).abs() < 0.01);
        for rank in own {
            assert_eq!(rank["bus"], "host memory");
            assert_eq!((&rank["gpu"][..], &rank["node"][..]), ("", "0"));
            assert!(!rank["host"].is_empty());
            assert!(number(rank, "iter_min_us") <= number(rank, "iter_max_us"));
            assert!(number(rank, "iter_max_us") <= number(result, "iter_max_us"));
        }
    }
}

#[test]
fn one_rank_has_no_spread_and_no_file() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    run(&mut sweep(1, folder.path(), &[])).expect_code(0);
    let here = folder.path().join("here");
    for row in csv(&here.join("results.csv")) {
        assert_eq!((&row["rank_p50_us"][..], &row["rank_cv_pct"][..]), ("", ""));
    }
    assert!(!here.join("ranks.csv").exists());
}

#[test]
fn each_communicator_has_the_spread_of_its_own_ranks() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = sweep(4, folder.path(), &[]);
    run(command.env("NCCL_TESTS_SPLIT", "MOD 2")).expect_code(0);
    let here = folder.path().join("here");
    let ranks = csv(&here.join("ranks.csv"));
    let results = csv(&here.join("results.csv"));
    assert_eq!((results.len(), ranks.len()), (8, 16));
    for result in &results {
        let own: Vec<&Row> = ranks
            .iter()
            .filter(|rank| case_of(rank) == case_of(result))
            .collect();
        let numbers: Vec<&str> = own.iter().map(|rank| &rank["rank"][..]).collect();
        let expected = if result["group"] == "0" {
            ["0", "2"]
        } else {
            ["1", "3"]
        };
        assert_eq!(numbers, expected);
        let longest = own.iter().map(|rank| number(rank, "time_us"));
        assert_eq!(
            number(result, "rank_max_us"),
            longest.fold(0.0, f64::max),
            "{result:?}"
        );
    }
}

#[test]
fn a_resumed_run_has_the_ranks_of_each_case_once() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    run(&mut sweep(2, folder.path(), &[])).expect_code(0);
    let here = folder.path().join("here");
    let text = |name: &str| std::fs::read_to_string(here.join(name)).expect(name);
    // Killed after the ranks of the third case, with half a row of the fourth.
    let results = text("results.csv");
    let lines: Vec<&str> = results.split_inclusive('\n').collect();
    std::fs::write(here.join("results.csv"), lines[..3].concat()).expect("written");
    let ranks = text("ranks.csv");
    let rank_lines: Vec<&str> = ranks.split_inclusive('\n').collect();
    let cut = rank_lines[..7].concat() + &rank_lines[7][..9];
    std::fs::write(here.join("ranks.csv"), cut).expect("written");

    run(&mut sweep(2, folder.path(), &["--resume"])).expect_code(0);
    let again = text("ranks.csv");
    assert!(again.starts_with(&rank_lines[..5].concat()), "{again}");
    let (results, ranks) = (csv(&here.join("results.csv")), csv(&here.join("ranks.csv")));
    assert_eq!((results.len(), ranks.len()), (4, 8));
    for result in &results {
        let own = ranks.iter().filter(|rank| case_of(rank) == case_of(result));
        assert_eq!(own.count(), 2, "{result:?}");
        assert!(number(result, "rank_max_us") > 0.0);
    }
}

#[test]
fn a_precision_repeats_each_size_until_its_mean_is_known() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let precise = ["--precision", "90%", "-I", "1"];
    let ended = run(&mut sweep(2, folder.path(), &precise)).expect_code(0);
    let head = "# Precision: each time within 90 %, with a confidence of 95 %\n";
    assert!(ended.stdout.contains(head), "{}", ended.stdout);
    let here = folder.path().join("here");
    let rows = csv(&here.join("results.csv"));
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let blocks = number(row, "blocks");
        assert!(blocks >= 10.0, "{row:?}");
        assert_eq!(number(row, "iters"), 2.0 * blocks);
        // On a loaded machine a single pause can keep a mean from being known that well. Then the
        // row says so.
        if number(row, "precision_pct") <= 90.0 {
            assert_eq!(row["note"], "", "{row:?}");
        } else {
            let note = "not as precise as 90 % within ";
            assert!(row["note"].starts_with(note), "{row:?}");
        }
        assert_eq!(row["wrong"], "0");
    }
    let run_json = json(&here.join("run.json"));
    assert_eq!(run_json["sweep"]["precision"], 90.0);

    // The same precision measures nothing again; another one, or none, is another measurement.
    let again = [&precise[..], &["--resume"]].concat();
    run(&mut sweep(2, folder.path(), &again)).expect_code(0);
    assert_eq!(csv(&here.join("results.csv")), rows);
    for other in [
        &["--resume", "-I", "1"][..],
        &["--resume", "-I", "1", "--precision", "20"],
    ] {
        let refused = run(&mut sweep(2, folder.path(), other)).expect_code(6);
        assert!(
            refused
                .stderr
                .contains("was measured with --precision 90.0"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn without_a_precision_a_size_is_one_block() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let ended = run(&mut sweep(2, folder.path(), &[])).expect_code(0);
    assert!(!ended.stdout.contains("Precision"), "{}", ended.stdout);
    for row in csv(&folder.path().join("here/results.csv")) {
        assert_eq!((&row["blocks"][..], &row["precision_pct"][..]), ("", ""));
        assert_eq!(row["iters"], "2");
    }
}

#[test]
fn a_sweep_for_a_time_has_samples_and_goes_on_after_wrong_data() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let soak = ["--time", "3s", "-c", "1", "--inject-fault", "1"];
    let ended = run(&mut sweep(2, folder.path(), &soak)).expect_code(7);
    assert!(
        ended.stderr.contains("pxnbench: wrong data in 1 case"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.rows().len(), 2, "the first pass:\n{}", ended.stdout);
    let lines = ended.stdout.lines();
    let over_time: Vec<&str> = lines
        .filter(|line| line.starts_with("# Over time: "))
        .collect();
    assert!(
        over_time[0].ends_with(" cases, 1 with wrong data"),
        "{over_time:?}"
    );

    let here = folder.path().join("here");
    let found = &json(&here.join("run.json"))["over_time"];
    let cases = found["cases"].as_u64().expect("cases");
    assert!(cases >= 4, "{found}");
    assert_eq!(
        (&found["asked_s"], &found["wrong_cases"]),
        (&3.0.into(), &1.into())
    );
    assert!(found["passes"].as_u64() <= Some(cases / 4), "{found}");
    let resident = &found["resident"];
    assert!(resident["first"].as_u64() > Some(1 << 20), "{found}");
    assert!(
        resident["most"].as_u64() >= resident["last"].as_u64(),
        "{found}"
    );
    assert!(found["gpu"].is_null(), "no GPU: {found}");

    let samples = csv(&here.join("samples.csv"));
    let sum = |name: &str| samples.iter().map(|row| number(row, name)).sum::<f64>();
    assert_eq!(
        sum("operations"),
        2.0 * cases as f64,
        "-n 2 operations a case"
    );
    assert_eq!(sum("wrong_cases"), 1.0);
    for pair in samples.windows(2) {
        assert!(number(&pair[0], "elapsed_s") <= number(&pair[1], "elapsed_s"));
    }
    let results = csv(&here.join("results.csv"));
    assert_eq!(results.len() as u64, cases.min(10_000));
    let last = results.last().expect("a row");
    assert_eq!(last["in_place"], "1", "pairs stay together");
}

#[test]
fn a_signal_ends_a_sweep_for_a_time_at_the_next_case() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let out = folder.path().join("long");
    let mut command = mpirun(2, folder.path());
    command
        .args([
            "all_reduce",
            "-b",
            "1K",
            "-e",
            "1K",
            "--time",
            "1h",
            "--out",
        ])
        .arg(&out)
        .args(QUICK);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun");
    let started = Instant::now();
    let rows =
        || std::fs::read_to_string(out.join("results.csv")).map_or(0, |text| text.lines().count());
    while rows() < 5 {
        assert!(started.elapsed() < Duration::from_secs(60), "no rows");
        std::thread::sleep(Duration::from_millis(20));
    }
    // As Slurm warns each rank before the time limit.
    let marker = out.to_string_lossy().into_owned();
    for process in processes_with(&marker) {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        if name.trim() == "pxnbench" {
            let status = Command::new("kill")
                .args(["-USR1", &process.to_string()])
                .status();
            assert!(status.expect("kill").success());
        }
    }
    let output = child.wait_with_output().expect("its output");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("# Over time: "), "{table}");
    assert!(table.contains("# Not finished, "), "{table}");
    let run_json = json(&out.join("run.json"));
    assert_eq!(run_json["end"]["code"], 9);
    assert!(
        run_json["over_time"]["passes"].as_u64() >= Some(1),
        "{run_json}"
    );
}
