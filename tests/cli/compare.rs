//! `pxnbench compare` on the folders of real runs.

use std::{collections::BTreeMap, fs, path::Path, process::Stdio, time::Duration};

use crate::{
    common::{self, Ended, alone, disk_fault::DiskFault, mpirun, run},
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
            "pxnbench: no two levels were measured alike: balanced (4 ranks), off (2 ranks). \
             Compare runs that differ in nothing but their level, or compare them in spite of it \
             with --force"
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

/// The columns of a run that is written by hand.
const HEADER: &str = "collective,backend,level,network,resources,repeat,nodes,ranks,\
                      gpus_per_process,size_bytes,type,redop,root,in_place,iters,time_us,status,\
                      group,nccl_version";

/// A run on GPUs of two nodes.
struct Measured<'a> {
    name: &'a str,
    level: &'a str,
    nccl: &'a str,
    size: u64,
    /// The times in µs, one per repetition.
    times: &'a [f64],
}

const MEASURED: Measured = Measured {
    name: "",
    level: "off",
    nccl: "2.27.3",
    size: 1024,
    times: &[10.0, 10.1, 9.9, 10.0],
};

impl Measured<'_> {
    fn write(&self, folder: &Path) {
        let mut text = format!("{HEADER}\r\n");
        for (repeat, time) in self.times.iter().enumerate() {
            text += &format!(
                "all_reduce,nccl,{},auto,none,{repeat},2,4,1,{},float,sum,-1,0,20,{time},ok,,\
                 {}\r\n",
                self.level, self.size, self.nccl
            );
        }
        let run = folder.join(self.name);
        std::fs::create_dir(&run).expect("made");
        std::fs::write(run.join("results.csv"), text).expect("written");
    }
}

/// Compares runs `a` and `b`.
fn compare_two(folder: &Path, flags: &[&str]) -> Ended {
    run(alone(folder).args(["compare", "a", "b"]).args(flags))
}

#[test]
fn runs_are_compared_by_the_one_thing_that_differs() {
    let folder = folder();
    let at = folder.path();
    Measured {
        name: "a",
        ..MEASURED
    }
    .write(at);
    Measured {
        name: "b",
        nccl: "2.28.3",
        times: &[8.0, 8.1, 7.9, 8.0],
        ..MEASURED
    }
    .write(at);
    let text = compare_two(at, &[]).expect_code(0).stdout;
    for part in [
        "# Up to 4 repetitions in one run each: time of NCCL 2.27.3 in us",
        "What differs from run to run is not in it",
        "NCCL 2.28.3 takes 0.80 of the time of NCCL 2.27.3.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(rows(&text)[0].ends_with(" better"), "{text}");
    assert!(!at.join("comparison.csv").exists(), "not without --out");

    compare_two(at, &["--by", "run", "--force", "--out", "x"]).expect_code(0);
    let rows = common::csv(&at.join("x/comparison.csv"));
    let cells = |name: &str| -> Vec<&str> { rows.iter().map(|row| row[name].as_str()).collect() };
    assert_eq!(cells("label"), ["a", "b"]);
    assert_eq!(cells("verdict"), ["reference", "better"]);
    assert_eq!(cells("by"), ["run", "run"]);
    assert_eq!(cells("replicate"), ["repetition", "repetition"]);
    assert_eq!(common::csv(&at.join("x/results.csv")).len(), 8);
}

#[test]
fn one_measurement_each_tells_nothing() {
    let folder = folder();
    let at = folder.path();
    for (name, time) in [("a", 10.0), ("b", 5.0)] {
        Measured {
            name,
            times: &[time],
            ..MEASURED
        }
        .write(at);
    }
    let text = compare_two(at, &["--out", "x"]).expect_code(0).stdout;
    let sentence = "Cannot tell which is faster: one measurement each says nothing about the \
                    spread. Repeat the runs";
    assert!(text.contains(sentence), "{text}");
    let rows = common::csv(&at.join("x/comparison.csv"));
    assert_eq!(rows[1]["verdict"], "cannot tell");
    assert_eq!(rows[1]["ratio"], "");
}

#[test]
fn runs_that_differ_in_more_than_one_thing_are_compared_only_when_told() {
    let folder = folder();
    let at = folder.path();
    Measured {
        name: "a",
        ..MEASURED
    }
    .write(at);
    Measured {
        name: "b",
        level: "balanced",
        nccl: "2.28.3",
        ..MEASURED
    }
    .write(at);
    assert_eq!(
        compare_two(at, &[]).expect_code(6).sentences(),
        [
            "pxnbench: the runs are of different levels (off, balanced) and versions of NCCL \
             (NCCL 2.27.3, NCCL 2.28.3). Choose one with --by level or --by nccl"
        ]
    );
    assert_eq!(
        compare_two(at, &["--by", "level"])
            .expect_code(6)
            .sentences(),
        [
            "pxnbench: no two levels were measured alike: off (NCCL 2.27.3), balanced (NCCL \
             2.28.3). Compare runs that differ in nothing but their level, or compare them in \
             spite of it with --force"
        ]
    );
    let forced = compare_two(at, &["--by", "level", "--force"]).expect_code(0);
    assert!(
        forced
            .stdout
            .contains("# Beside this, they differ: off has NCCL 2.27.3; balanced has NCCL 2.28.3."),
        "{}",
        forced.stdout
    );
    let unknown = compare_two(at, &["--by", "levels"]).expect_code(6);
    assert!(unknown.stderr.contains("Use one of level, network"));
}

#[test]
fn runs_with_other_iterations_or_sizes_are_not_compared() {
    let folder = folder();
    let at = folder.path();
    model(at, "2", "a", &["-n", "5"]);
    model(at, "2", "b", &["-n", "7"]);
    let ended = compare_two(at, &[]).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("no two runs were measured alike: a (-n 5), b (-n 7)."),
        "{}",
        ended.stderr
    );
    for (name, size) in [("c", 1024), ("d", 4096)] {
        Measured {
            name,
            size,
            ..MEASURED
        }
        .write(at);
    }
    let ended = run(alone(at).args(["compare", "c", "d"])).expect_code(6);
    assert!(
        ended.stderr.contains("no two runs have a case in common"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_comparison_does_not_replace_what_a_sweep_measured() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "b"] {
        Measured { name, ..MEASURED }.write(at);
    }
    let before = std::fs::read(at.join("a/results.csv")).expect("results");
    let refused = compare_two(at, &["--by", "run", "--out", "a"]).expect_code(6);
    assert!(
        refused.stderr.contains("a has measured results"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read(at.join("a/results.csv")).expect("kept"),
        before
    );
    // What an earlier comparison wrote may be replaced.
    for _ in 0..2 {
        compare_two(at, &["--by", "run", "--out", "x"]).expect_code(0);
    }
}

/// Returns the files of a folder by name, without those of locks.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with("-lock") {
            files.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    files
}

#[test]
fn a_comparison_that_is_stopped_leaves_the_files_as_they_were() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "b"] {
        Measured { name, ..MEASURED }.write(at);
    }
    let out = at.join("x");
    compare_two(at, &["--by", "run", "--out", "x"]).expect_code(0);
    let before = files(&out);
    for file in ["comparison.csv", "comparison.json", "results.csv"] {
        assert!(before.contains_key(file), "{:?}", before.keys());
        let part = format!(".{file}.pxnbench-part-");
        let slow = DiskFault {
            what: "300",
            path: &part,
            ..DiskFault::of("sync")
        };
        let Some(variables) = slow.variables() else {
            return;
        };
        let mut command = alone(at);
        command.args(["compare", "a", "b", "--by", "run", "--out", "x"]);
        command.envs(variables);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        common::wait_until("a part", || {
            files(&out).keys().any(|name| name.starts_with(&part))
        });
        assert!(common::send_signal("-INT", child.id()));
        let ended = common::ended(child).expect_code(9);
        let said = "stopped by SIGINT\n";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
        assert_eq!(files(&out), before, "{file}");
    }
}

#[test]
fn a_run_that_is_named_twice_is_not_counted_twice() {
    let folder = folder();
    let at = folder.path();
    for name in ["a", "b"] {
        Measured { name, ..MEASURED }.write(at);
    }
    for words in [
        ["compare", "a", "b", "./a"],
        ["report", "a", "b", "a/results.csv"],
    ] {
        let refused = run(alone(at).args(words)).expect_code(6);
        assert!(
            refused.stderr.contains(" is named twice"),
            "{}",
            refused.stderr
        );
    }
}
