//! Training steps with several settings: `pxnbench experiment … replay`, `compare`, and
//! `replay --tune`.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::common::{self, alone, csv, has_mpi, json, preload, run, run_within};

/// A step whose time depends on the number of its buckets only: no computation, and hardly any
/// data.
const TINY: [&str; 13] = [
    "ddp-resnet50",
    "--backend",
    "host",
    "--time-scale",
    "0",
    "--size-scale",
    "1e-6",
    "-n",
    "3",
    "-w",
    "0",
    "-c",
    "0",
];

/// Starts two ranks.
const TWO_RANKS: [&str; 2] = ["--start", "mpirun -np 2"];

/// How long a command with many steps may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns a command in `folder` whose ranks take 30 ms for each all_reduce, so that a step with
/// one bucket of 1000 MiB is the fastest, one with 4 buckets of 25 MiB slower, and one with 9 of 10
/// MiB the slowest, however busy the machine is. `None` without MPI or a compiler.
fn with_slow_all_reduce(folder: &Path) -> Option<Command> {
    if !has_mpi() {
        return None;
    }
    let source = include_str!("../common/slow_collective.cpp");
    let library = preload::library("slow_collective", source)?;
    let mut command = alone(folder);
    command.envs(common::MPIRUN_VARIABLES);
    command.env("LD_PRELOAD", library);
    command.env("SLOW_COLLECTIVE_US", "30000");
    Some(command)
}

/// Writes the program `start`, for `--start ./start`.
fn start_script(folder: &Path, script: &str) {
    let start = folder.join("start");
    fs::write(&start, script).expect("written");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Returns the rows of `tune.csv` by candidate.
fn candidates(folder: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let rows = csv(&folder.join("tune.csv")).into_iter();
    rows.map(|row| (row["candidate"].clone(), row)).collect()
}

#[test]
fn the_candidate_with_the_fewest_buckets_is_recommended() {
    let folder = super::folder();
    let Some(mut command) = with_slow_all_reduce(folder.path()) else {
        return;
    };
    command.args(["replay", "--tune", "--out", "t", "--bucket-mb", "1000"]);
    command.args(["--blocks", "6"]).args(TWO_RANKS).args(TINY);
    let ended = run_within(&mut command, LIMIT).expect_code(0);
    let out = folder.path().join("t");
    let candidates = candidates(&out);
    let names: Vec<&str> = candidates.keys().map(String::as_str).collect();
    assert_eq!(names, ["1000MiB", "25MiB", "25MiB-again"]);
    let best = &candidates["1000MiB"];
    assert_eq!(
        [
            &*best["is_recommended"],
            &*best["verdict"],
            &*best["blocks"]
        ],
        ["1", "faster", "6"]
    );
    let high: f64 = best["ratio_high"].parse().expect("a ratio");
    assert!(high < 1.0, "{best:?}");
    let said = "# Recommended: buckets of 1000 MiB. The step takes ";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let said = "less than with the default, buckets of 25 MiB.";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let said = "# It is chosen with --bucket-mb 1000.";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let summary = json(&out.join("tune.json"));
    assert_eq!(summary["candidates"].as_array().map(Vec::len), Some(3));
    let first = summary["findings"][0].as_str().expect("a sentence");
    assert!(ended.stdout.contains(first), "{first}");

    // A tuning is an experiment, so its steps can be compared like those of one.
    let compared = run(alone(folder.path()).args(["compare", "t"])).expect_code(0);
    let said = "ddp-resnet50, step: 1000MiB takes ";
    assert!(compared.stdout.contains(said), "{}", compared.stdout);
}

/// The times are made up, by bucket size and with a small spread, so that nothing depends on this
/// machine.
#[test]
fn the_slowest_candidate_is_eliminated_and_equally_fast_ones_stay_until_the_end() {
    let folder = super::folder();
    let script = r#"#!/bin/sh
"$@" || exit
while [ $# -gt 0 ] && [ "$1" != --out ]; do
    [ "$1" = --bucket-mb ] && bucket=$2
    shift
done
awk -F, -v OFS=, -v bucket="$bucket" -v count="$(ls "$2/.." | wc -l)" '
    NR > 1 {
        time = bucket == 25 ? 1000 : bucket == 10 ? 1500 : 800
        $6 = sprintf("%.2f", time * (1 + 0.001 * (count * 7 % 5)))
    } 1' "$2/steps.csv" > "$2/new" && mv "$2/new" "$2/steps.csv"
"#;
    start_script(folder.path(), script);
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
    command.args(["--bucket-mb", "10,50,100", "--blocks", "5"]);
    let ended = run(command.args(TINY)).expect_code(0);
    let candidates = candidates(&folder.path().join("t"));
    let cells = |name: &str| {
        let columns = ["blocks", "eliminated_after", "eliminated_why", "verdict"];
        columns.map(|column| candidates[name][column].as_str())
    };
    let [blocks, after, why, verdict] = cells("10MiB");
    assert_eq!([blocks, after, verdict], ["3", "3", "slower"]);
    assert!(
        why == "50MiB is faster" || why == "100MiB is faster",
        "{why}"
    );
    // The default is slower too, and runs until the end.
    assert_eq!(cells("25MiB"), ["5", "", "", "default"]);
    for alike in ["50MiB", "100MiB"] {
        assert_eq!(cells(alike), ["5", "", "", "faster"]);
    }
    let said = "# Cannot be told apart from it: buckets of ";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let said = "# Of 3 candidates, 1 ended before the last block.";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
}

#[test]
fn if_nothing_is_faster_the_default_is_kept() {
    let folder = super::folder();
    let Some(mut command) = with_slow_all_reduce(folder.path()) else {
        return;
    };
    command.args(["replay", "--tune", "--out", "t", "--bucket-mb", "10"]);
    command.args(["--blocks", "4"]).args(TWO_RANKS).args(TINY);
    let ended = run_within(&mut command, LIMIT).expect_code(0);
    let said = "# No candidate is shown to be faster than the default, buckets of 25 MiB, whose \
                step takes ";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let recommended = candidates(&folder.path().join("t"))
        .into_values()
        .filter(|row| row["is_recommended"] == "1");
    assert_eq!(recommended.count(), 0);
}

#[test]
fn an_experiment_compares_training_steps_in_blocks() {
    let folder = super::folder();
    let Some(mut command) = with_slow_all_reduce(folder.path()) else {
        return;
    };
    command.args(["experiment", "--out", "e", "--bucket-mb", "25,1000"]);
    command.args(["--blocks", "6"]).args(TWO_RANKS);
    command.arg("replay").args(TINY);
    let ended = run_within(&mut command, LIMIT).expect_code(0);
    let out = folder.path().join("e");
    let rows = csv(&out.join("comparison.csv"));
    let cells: Vec<_> = rows
        .iter()
        .map(|row| ["workload", "by", "collective", "label", "blocks"].map(|name| &*row[name]))
        .collect();
    let mut expected = Vec::new();
    for quantity in ["step", "exposed", "computation"] {
        for label in ["25MiB", "25MiB-again", "1000MiB"] {
            expected.push(["ddp-resnet50", "bucket", quantity, label, "6"]);
        }
    }
    assert_eq!(cells, expected);
    let verdicts: Vec<&str> = rows[..3].iter().map(|row| &*row["verdict"]).collect();
    assert_eq!(verdicts, ["reference", "control", "better"]);
    let said = "# All cases: workload ddp-resnet50";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    let said = "# ddp-resnet50, step: 1000MiB takes ";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    assert!(!out.join("results.csv").exists(), "there are no sweeps");

    // Replays that are named have no blocks in common, and differ in the same thing.
    let steps = json(&out.join("experiment.json"));
    let folder_of = |label: &str| {
        let steps = steps["steps"].as_array().expect("steps");
        let is_of_label = |step: &&serde_json::Value| step["label"] == label && step["block"] == 0;
        let step = steps.iter().find(is_of_label).expect("a step");
        format!("e/{}", step["folder"].as_str().expect("a folder"))
    };
    let mut compare = alone(folder.path());
    compare.arg("compare").arg(folder_of("25MiB"));
    compare.arg(folder_of("1000MiB"));
    let compared = run(&mut compare).expect_code(0);
    let said = "one measurement each says nothing about the spread";
    assert!(compared.stdout.contains(said), "{}", compared.stdout);
    assert!(compared.stdout.contains("1000MiB"), "{}", compared.stdout);
}

/// No NCCL runs on host memory, so levels are not tried there though they are named.
#[test]
fn levels_are_not_tried_where_they_cannot_differ() {
    let folder = super::folder();
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "env", "--out", "t"]);
    command.args(["--levels", "off,aggressive"]).args(TINY);
    command.args(["--bucket-mb", "25"]);
    let ended = run(&mut command).expect_code(5);
    let said = "no NCCL runs: the levels cannot differ here";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let said = "no candidate can be judged";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let candidates = candidates(&folder.path().join("t"));
    assert_eq!(candidates["off"]["verdict"], "not measured");
    assert_eq!(candidates["off"]["eliminated_after"], "0");
}

#[test]
fn a_budget_that_ends_before_the_first_block_leaves_nothing_to_judge() {
    let folder = super::folder();
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "env", "--out", "t"]);
    command.args(["--budget", "1ms"]).args(TINY);
    let ended = run(&mut command).expect_code(5);
    let said = "no candidate can be judged after 0 blocks";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(folder.path().join("t/tune.csv").is_file());
}

#[test]
fn a_signal_keeps_what_was_measured() {
    let folder = super::folder();
    stuck_in_the_third_block(folder.path(), "touch began; exec sleep 1000");
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
    command.args(["--bucket-mb", "10"]).args(TINY);
    let ended = interrupted(&mut command, folder.path(), "-TERM").expect_code(9);
    let candidates = candidates(&folder.path().join("t"));
    for candidate in ["25MiB", "25MiB-again", "10MiB"] {
        assert_eq!(candidates[candidate]["blocks"], "2", "{}", ended.stderr);
    }
    let summary = json(&folder.path().join("t/tune.json"));
    let end = summary["end"].as_str().expect("an end");
    assert!(end.contains("stopped"), "{end}");
}

/// A program that runs two whole blocks below `t`, and makes the next step go on as `script` does,
/// once.
fn stuck_in_the_third_block(folder: &Path, script: &str) {
    let begins = "[ -e began ] || case $(ls t) in *B-2*|*again-2*)";
    let script = format!("#!/bin/sh\n{begins} {script};; esac\nexec \"$@\"\n");
    start_script(folder, &script);
}

/// Starts `command`, sends `signal` once a step goes on without end, and returns how it ended.
fn interrupted(command: &mut Command, folder: &Path, signal: &str) -> common::Ended {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    let began = folder.join("began");
    common::wait_until("a step that goes on", || began.exists());
    assert!(common::send_signal(signal, child.id()));
    common::ended(child)
}

#[test]
fn a_step_that_does_not_listen_does_not_hold_a_tuning() {
    let folder = super::folder();
    let marker = folder.path().join("goes-on").display().to_string();
    let script = format!(
        "exec sh -c 'trap \"\" TERM; touch began; for i in $(seq 1000); do sleep 0.1; done' \
         {marker}"
    );
    stuck_in_the_third_block(folder.path(), &script);
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
    command.args(["--bucket-mb", "10"]).args(TINY);
    let ended = interrupted(&mut command, folder.path(), "-INT").expect_code(9);
    let said = "ended with exit code 9: it had not ended 20 s after it was asked to, and was \
                killed. Its output is in t/";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    for candidate in candidates(&folder.path().join("t")).into_values() {
        assert_eq!(candidate["blocks"], "2", "{}", ended.stderr);
    }
    assert_eq!(common::processes_with(&marker), Vec::<u32>::new());
}

#[test]
fn a_first_step_that_goes_on_when_the_time_is_over_is_ended() {
    let folder = super::folder();
    start_script(folder.path(), "#!/bin/sh\nexec sleep 1000\n");
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
    command.args(["--budget", "1ms"]).args(TINY);
    let ended = run(&mut command).expect_code(4);
    let said = "the first step failed: it had not ended 30 s after the time was over, and was \
                ended. No time was left for the other steps";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(ended.took >= Duration::from_secs(30), "{:?}", ended.took);
}

#[test]
fn a_tuning_that_a_signal_ended_goes_on_with_resume() {
    let folder = super::folder();
    stuck_in_the_third_block(folder.path(), "touch began; exec sleep 1000");
    let tune = || {
        let mut command = alone(folder.path());
        command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
        command.args(["--bucket-mb", "10", "--blocks", "4"]);
        command.args(TINY);
        command
    };
    let ended = interrupted(&mut tune(), folder.path(), "-TERM").expect_code(9);
    let said = "To measure the rest, repeat the command with --resume --out t\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let out = folder.path().join("t");
    let first = json(&out.join("experiment.json"));

    run(tune().arg("--resume")).expect_code(0);
    let record = json(&out.join("experiment.json"));
    for key in ["seed", "started_at", "variants"] {
        assert_eq!(record[key], first[key]);
    }
    let before = first["steps"].as_array().expect("steps");
    let all = record["steps"].as_array().expect("steps");
    assert_eq!(all[..before.len()], before[..]);
    // The block in which it was stopped has no times, and the fourth is that of the second part.
    for (name, candidate) in candidates(&out) {
        assert_eq!(candidate["blocks"], "3", "{name}");
    }
    assert_eq!(all[all.len() - 1]["block"], 3);
}

#[test]
fn what_is_not_there_is_not_continued() {
    for words in [
        "replay --tune --start env --out absent --resume --bucket-mb 10",
        "experiment --start env --out absent --resume --bucket-mb 10,25 replay",
    ] {
        let folder = super::folder();
        let mut command = alone(folder.path());
        command.args(words.split(' ')).args(TINY);
        let ended = run(&mut command).expect_code(6);
        let said = "--resume finds no experiment: there is no absent/experiment.json. Name its \
                    folder with --out, or leave out --resume\n";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert!(!folder.path().join("absent").exists());
    }
}

/// Returns the command of a tuning of two blocks in `folder`, in a Slurm job that was started again
/// if `is_restarted`.
fn in_a_job(folder: &Path, is_restarted: bool) -> Command {
    let mut command = alone(folder);
    command.env("SLURM_JOB_ID", "77");
    command.env("SLURM_RESTART_COUNT", if is_restarted { "1" } else { "0" });
    command.args(["replay", "--tune", "--start", "env", "--out", "t"]);
    command
        .args(["--bucket-mb", "10", "--blocks", "2"])
        .args(TINY);
    command
}

#[test]
fn a_job_that_starts_again_judges_the_blocks_that_it_has() {
    let folder = super::folder();
    run(&mut in_a_job(folder.path(), false)).expect_code(0);
    let out = folder.path().join("t");
    let first = fs::read_to_string(out.join("tune.csv")).expect("candidates");
    let again = run(&mut in_a_job(folder.path(), true)).expect_code(0);
    let candidates = fs::read_to_string(out.join("tune.csv")).expect("candidates");
    assert_eq!(candidates, first, "{}", again.stderr);

    // A step whose files are damaged is said, and the others count.
    let record = json(&out.join("experiment.json"));
    let steps = record["steps"].as_array().expect("steps");
    let step = steps.iter().find(|step| step["label"] == "10MiB");
    let step = step.and_then(|step| step["folder"].as_str());
    let damaged = out.join(step.expect("a folder")).join("replay.json");
    fs::write(damaged, "{").expect("written");
    let ended = run(&mut in_a_job(folder.path(), true)).expect_code(5);
    let said = "pxnbench: the times of a step do not count: t/";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let candidates = self::candidates(&out);
    assert_eq!(candidates["10MiB"]["blocks"], "1");
    assert_eq!(candidates["25MiB-again"]["blocks"], "2");
}

#[test]
fn a_record_that_no_experiment_writes_is_refused_at_once() {
    let folder = super::folder();
    run(&mut in_a_job(folder.path(), false)).expect_code(0);
    let path = folder.path().join("t/experiment.json");
    let record = json(&path);
    for (key, value, said) in [
        ("seconds", "1e300", "took 1e300 s"),
        ("seconds", "-5", "took -5e0 s"),
        ("block", "4294967295", "has block 4294967295"),
        ("block", "1000000", "has block 1000000"),
    ] {
        let mut record = record.clone();
        record["steps"][1][key] = serde_json::from_str(value).expect("a number");
        fs::write(&path, record.to_string()).expect("written");
        let ended = run(&mut in_a_job(folder.path(), true)).expect_code(6);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    }
}

#[test]
fn what_is_found_is_printed_even_if_its_files_cannot_be_written() {
    let folder = super::folder();
    fs::create_dir_all(folder.path().join("t/tune.csv")).expect("made");
    let ended = run(&mut in_a_job(folder.path(), false)).expect_code(6);
    let rows = ended.rows();
    let labels: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(labels, ["25MiB", "25MiB-again", "10MiB"]);
    let said = "t/tune.csv cannot be written";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);

    let second = run(&mut in_a_job(folder.path(), false)).expect_code(6);
    let said = "already has an experiment (experiment.json). Name another folder with --out, or \
                continue it with --resume\n";
    assert!(second.stderr.contains(said), "{}", second.stderr);
}

#[test]
fn a_signal_in_the_first_step_ends_the_tuning_with_its_reason() {
    let folder = super::folder();
    start_script(folder.path(), "#!/bin/sh\nkill -SEGV $$\n");
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start"]);
    let ended = run(command.args(TINY)).expect_code(9);
    let said = "the experiment ends during its first step: a signal ended the step\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_replay_without_a_whole_block_is_not_compared() {
    let folder = super::folder();
    for out in ["a", "b"] {
        let mut command = alone(folder.path());
        command.args(["replay", "--blocks", "1", "--out", out]);
        run(command.args(TINY)).expect_code(0);
    }
    let steps = folder.path().join("b/steps.csv");
    let text = fs::read_to_string(&steps).expect("steps");
    let head = text.lines().next().expect("a header");
    fs::write(&steps, format!("{head}\n")).expect("written");
    let ended = run(alone(folder.path()).args(["compare", "a", "b"])).expect_code(6);
    let said = "no two runs have times of the same training step with and without its collectives";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// Its two attempts are all the time that the others lose.
#[test]
fn a_candidate_that_fails_twice_is_left_out_and_the_others_race_on() {
    let folder = super::folder();
    let script = "#!/bin/sh\ncase \"$* \" in *'--bucket-mb 10 '*) exit 3;; esac\nexec \"$@\"\n";
    start_script(folder.path(), script);
    let mut command = alone(folder.path());
    command.args(["replay", "--tune", "--start", "./start", "--out", "t"]);
    command.args(["--bucket-mb", "10,50", "--blocks", "3"]);
    let ended = run(command.args(TINY)).expect_code(3);
    let said = "10MiB ended with exit code 3: it printed nothing. Its output is in t/";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let out = folder.path().join("t");
    let candidates = candidates(&out);
    assert_eq!(candidates["10MiB"]["verdict"], "not measured");
    assert_eq!(candidates["50MiB"]["blocks"], "3");
    let record = json(&out.join("experiment.json"));
    let steps = record["steps"].as_array().expect("steps");
    let attempts = steps.iter().filter(|step| step["label"] == "10MiB");
    assert_eq!(attempts.count(), 2);
}

#[test]
fn what_cannot_be_tuned_is_refused_before_anything_starts() {
    for (words, said) in [
        (
            "--tune fsdp-7b --start env --backend host",
            "there is nothing to choose from",
        ),
        (
            "--tune fsdp-7b --start env --bucket-mb 5",
            "Leave out --bucket-mb",
        ),
        (
            "--tune ddp-gpt2 --start env --backend host --bucket-mb 25",
            "only the default is named",
        ),
        (
            "--tune ddp-gpt2 --start env --bucket-mb 5,x",
            "'x' is no size of a bucket",
        ),
        ("--tune ddp-gpt2 --start env --levels none", "level 'none'"),
        (
            "--tune ddp-gpt2 --start env --level off",
            "cannot be used with",
        ),
        ("--tune ddp-gpt2", "this is not a Slurm job"),
        ("ddp-gpt2 --budget 5m", "--tune"),
        (
            "ddp-gpt2 --bucket-mb 5,10",
            "only --tune and pxnbench experiment compare several sizes",
        ),
        (
            "ddp-gpt2 --resources none,lean",
            "only --tune and pxnbench experiment compare several resources",
        ),
    ] {
        let folder = super::folder();
        let mut command = alone(folder.path());
        command.arg("replay").args(words.split_whitespace());
        let ended = run(&mut command).expect_code(6);
        assert!(ended.stderr.contains(said), "{words}: {}", ended.stderr);
        assert_eq!(ended.sentences().len(), 1, "{words}: {}", ended.stderr);
        assert!(!folder.path().join("results").exists(), "{words}");
    }
    let folder = super::folder();
    let mut command = alone(folder.path());
    command.args(["launch", "replay", "--tune", "ddp-gpt2"]);
    let ended = run(&mut command).expect_code(6);
    let said = "--tune starts the ranks itself";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let mut command = alone(folder.path());
    command.args(["experiment", "--start", "env", "--bucket-mb", "5,10"]);
    command.args(["replay", "fsdp-7b"]);
    let ended = run(&mut command).expect_code(6);
    let said = "only training steps of data parallelism that are built in have buckets";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}
