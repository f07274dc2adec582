//! `pxnbench experiment`: blocks of steps, each a process of its own, and what is concluded from
//! them.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{Ended, alone, csv, has_mpi, json, only_entry, run, wall_clock};

/// A sweep that needs no ranks.
const COMPUTED: &str = "all_reduce -b 1K -e 1M -f 32 --backend model --ranks 4";

/// Runs an experiment in `folder` with these words.
fn experiment(folder: &Path, words: &str) -> Ended {
    run(&mut command(folder, words))
}

fn command(folder: &Path, words: &str) -> Command {
    let mut command = alone(folder);
    command.arg("experiment").args(words.split_whitespace());
    command
}

/// Returns the labels of each block, in the order of the steps. The warm-up is not in any.
fn blocks(record: &serde_json::Value) -> BTreeMap<u64, Vec<String>> {
    let mut blocks = BTreeMap::<u64, Vec<String>>::new();
    for step in record["steps"].as_array().expect("steps") {
        let label = step["label"].as_str().expect("a label").to_owned();
        if let Some(block) = step["block"].as_u64() {
            blocks.entry(block).or_default().push(label);
        }
    }
    blocks
}

fn verdicts(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut verdicts = BTreeMap::<String, Vec<String>>::new();
    for row in csv(&folder.join("comparison.csv")) {
        verdicts
            .entry(row["label"].clone())
            .or_default()
            .push(row["verdict"].clone());
    }
    verdicts
}

/// Writes a program that starts steps, for `--start ./slow`.
fn start_script(folder: &Path, script: &str) {
    let path = folder.join("slow");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn each_block_runs_every_level_once_and_the_first_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("--start env --levels off,balanced,aggressive --seed 1 --out e {COMPUTED}");
    let ended = experiment(folder.path(), &words).expect_code(0);

    let record = json(&folder.path().join("e/experiment.json"));
    assert_eq!(record["seed"], 1);
    assert!(
        record["steps"][0]["block"].is_null(),
        "the warm-up step comes first"
    );
    let blocks = blocks(&record);
    assert_eq!(blocks.len(), 4, "a balanced cycle of four steps");
    for (block, labels) in &blocks {
        let mut sorted = labels.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            ["aggressive", "balanced", "off", "off-again"],
            "block {block}"
        );
    }
    for position in 0..4 {
        let mut at_position: Vec<&str> = blocks
            .values()
            .map(|labels| labels[position].as_str())
            .collect();
        at_position.sort_unstable();
        at_position.dedup();
        assert_eq!(
            at_position.len(),
            4,
            "each level comes once at position {position}"
        );
    }
    assert!(
        ended.stdout.contains("the levels cannot differ here"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("block 4 of 4: "), "{}", ended.stderr);

    // The same seed gives the same order, and --quiet announces nothing.
    let words = words.replace("--out e", "--out f --quiet");
    let quiet = experiment(folder.path(), &words).expect_code(0);
    assert_eq!(
        self::blocks(&json(&folder.path().join("f/experiment.json"))),
        blocks
    );
    assert!(!quiet.stderr.contains("block"), "{}", quiet.stderr);
    assert!(!quiet.stderr.contains("ends"), "{}", quiet.stderr);
}

#[test]
fn real_ranks_on_host_memory_show_no_difference_between_levels() {
    if !has_mpi() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = alone(folder.path());
    command.envs(common::MPIRUN_VARIABLES);
    command.args([
        "experiment",
        "--start",
        "mpirun -np 2",
        "--levels",
        "off aggressive",
        "--blocks",
        "2",
        "--out",
        "e",
    ]);
    command.args([
        "alltoall", "-b", "8", "-e", "64", "-f", "8", "-n", "2", "-w", "1",
    ]);
    run(&mut command).expect_code(0);

    let verdicts = verdicts(&folder.path().join("e"));
    assert!(
        verdicts["off"].iter().all(|verdict| verdict == "reference"),
        "{verdicts:?}"
    );
    assert!(
        verdicts["off-again"]
            .iter()
            .all(|verdict| verdict == "control"),
        "{verdicts:?}"
    );
    assert!(
        verdicts["aggressive"]
            .iter()
            .all(|verdict| verdict == "cannot differ"),
        "{verdicts:?}"
    );
    let rows = csv(&folder.path().join("e/results.csv"));
    assert!(
        rows.iter()
            .all(|row| row["ranks"] == "2" && row["backend"] == "host")
    );
}

/// A start command that runs the program and then changes what it wrote: times in us by level, as
/// if NCCL had measured them on two nodes.
fn falsifier(folder: &Path, off: f64, others: f64) -> PathBuf {
    let script = format!(
        r#"#!/bin/bash
"$@" || exit
while (($#)) && [[ $1 != --out ]]; do shift; done
count=$(ls "$2/.." | wc -l)
awk -F, -v OFS=, -v count="$count" '
    NR == 1 {{ for (i = 1; i <= NF; i++) at[$i] = i }}
    NR > 1 {{
        time = $(at["level"]) == "off" ? {off} : {others}
        $(at["backend"]) = "nccl"; $(at["nodes"]) = 2
        $(at["time_us"]) = sprintf("%.2f", time * (1 + 0.001 * (count * 7 % 5)))
    }} 1' "$2/results.csv" > "$2/new" && mv "$2/new" "$2/results.csv"
"#
    );
    let path = folder.join("falsifier");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

#[test]
fn a_faster_level_is_found_and_recommended() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = falsifier(folder.path(), 100.0, 80.0);
    let words = format!(
        "--start {} --levels off,aggressive --seed 2 --out e {COMPUTED}",
        start.display()
    );
    let ended = experiment(folder.path(), &words).expect_code(0);
    let found = verdicts(&folder.path().join("e"));
    assert!(
        found["aggressive"]
            .iter()
            .all(|verdict| verdict == "better"),
        "{found:?}"
    );
    assert!(
        ended
            .stdout
            .contains("aggressive takes 0.80 of the time of off."),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .contains("Level aggressive is NCCL_PXN_DISABLE=0"),
        "{}",
        ended.stdout
    );

    falsifier(folder.path(), 100.0, 100.0);
    let words = words.replace("--out e", "--out f");
    let ended = experiment(folder.path(), &words).expect_code(0);
    let found = verdicts(&folder.path().join("f"));
    assert!(
        found["aggressive"]
            .iter()
            .all(|verdict| verdict == "no difference shown"),
        "{found:?}"
    );
    assert!(
        ended
            .stdout
            .contains("No level is shown to be better than off"),
        "{}",
        ended.stdout
    );
}

#[test]
fn precision_ends_an_experiment_early() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = falsifier(folder.path(), 100.0, 80.0);
    let words = format!(
        "--start {} --blocks 20 --precision 2% --levels off,aggressive --out e {COMPUTED}",
        start.display()
    );
    experiment(folder.path(), &words).expect_code(0);
    let record = json(&folder.path().join("e/experiment.json"));
    assert_eq!(record["end"], "all intervals are as narrow as requested");
    assert!(blocks(&record).len() < 20);
}

#[test]
fn what_cannot_be_an_experiment_is_refused_before_anything_starts() {
    for (words, expected) in [
        ("--start env --levels off,agressive all_reduce", "agressive"),
        ("--start env --levels off all_reduce", "at least two levels"),
        ("--start env all_reduze", "all_reduze"),
        ("--start env all_reduce --iterz 3", "--iterz"),
        ("--start env all_reduce --level off", "Use --levels"),
        ("--start env all_reduce --csv x.csv", "Use --out"),
        ("--start env doctor", "runs sweeps and training steps only"),
        ("all_reduce", "this is not a Slurm job"),
        ("--start env --precision 0 all_reduce", "percentage above 0"),
        ("--start env --time soon all_reduce", "soon"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = experiment(folder.path(), words).expect_code(6);
        assert!(ended.stderr.contains(expected), "{words}: {}", ended.stderr);
        assert_eq!(ended.sentences().len(), 1, "{words}: {}", ended.stderr);
        assert!(!folder.path().join("results").exists(), "{words}");
    }
}

#[test]
fn the_first_failure_ends_it_if_every_step_would_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "--start false --out e all_reduce";
    let ended = experiment(folder.path(), words).expect_code(1);
    assert!(
        ended.stderr.contains("the first step failed"),
        "{}",
        ended.stderr
    );
    let record = json(&folder.path().join("e/experiment.json"));
    assert_eq!(record["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(record["end"], "the warm-up step failed");

    let ended = experiment(folder.path(), "--start ./absent --out g all_reduce").expect_code(8);
    assert!(
        ended.stderr.contains("./absent cannot be started"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_experiment_continues_where_it_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = |rest: &str| {
        format!("--start env --levels off,aggressive --seed 3 --out e {rest} {COMPUTED}")
    };
    experiment(folder.path(), &words("--blocks 1")).expect_code(0);
    let refused = experiment(folder.path(), &words("--blocks 2")).expect_code(6);
    assert!(
        refused.stderr.contains("already has an experiment"),
        "{}",
        refused.stderr
    );
    let refused =
        experiment(folder.path(), &(words("--blocks 2 --resume") + " -n 3")).expect_code(6);
    assert!(
        refused.stderr.contains("measures something else"),
        "{}",
        refused.stderr
    );
    experiment(folder.path(), &words("--blocks 3 --resume")).expect_code(0);
    let blocks = blocks(&json(&folder.path().join("e/experiment.json")));
    assert_eq!(blocks.len(), 3);
    let rows = csv(&folder.path().join("e/comparison.csv"));
    assert!(rows.iter().all(|row| row["blocks"] == "3"), "{rows:?}");
}

#[test]
fn what_was_measured_before_a_signal_is_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each step takes a while, so that the signal comes in the middle.
    start_script(folder.path(), "#!/bin/sh\n\"$@\"\nsleep 0.3\n");
    let words = format!("--start ./slow --levels off,aggressive --blocks 1000 --out e {COMPUTED}");
    let mut child = command(folder.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let started = Instant::now();
    while !folder.path().join("e").is_dir()
        || fs::read_dir(folder.path().join("e")).expect("e").count() < 9
    {
        assert!(started.elapsed() < Duration::from_secs(60), "no steps");
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    let status = child.wait().expect("ended");
    let record = json(&folder.path().join("e/experiment.json"));
    let end = record["end"].as_str().expect("an end");
    assert!(end.contains("stopped"), "{end}");
    assert_eq!(status.code(), Some(9));
    let rows = csv(&folder.path().join("e/comparison.csv"));
    assert!(rows.iter().any(|row| row["blocks"] != "0"), "{rows:?}");
}

#[test]
fn an_experiment_that_is_stopped_before_anything_can_be_compared_says_so() {
    for (is_warm, sentence) in [
        (
            false,
            "the experiment ends during its first step: it was stopped by SIGTERM",
        ),
        (true, "the experiment ends: it was stopped by SIGTERM"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "#!/bin/sh\nif [ -e is_warm ]; then touch began; exec sleep 100; fi\ntouch \
                    is_warm\nexec \"$@\"\n";
        start_script(folder.path(), text);
        if !is_warm {
            fs::write(folder.path().join("is_warm"), "").expect("written");
        }
        let words = format!("--start ./slow --levels off,aggressive --out e {COMPUTED}");
        let child = command(folder.path(), &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let began = folder.path().join("began");
        common::wait_until("a step that goes on", || began.exists());
        assert!(common::send_signal("-TERM", child.id()));
        let ended = common::ended(child).expect_code(9);
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
        assert!(!ended.stderr.contains("would fail"), "{}", ended.stderr);
        let record = json(&folder.path().join("e/experiment.json"));
        assert_eq!(record["end"], "it was stopped by SIGTERM");
    }
}

#[test]
fn a_step_that_goes_on_when_the_time_is_over_is_ended_and_the_others_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    // One whole block, and then nothing more.
    let script = "#!/bin/sh\ncase $(ls e) in *[a-z]-1*) exec sleep 1000;; esac\nexec \"$@\"\n";
    start_script(folder.path(), script);
    let words =
        format!("--start ./slow --levels off,aggressive --blocks 3 --time 25s --out e {COMPUTED}");
    let ended = experiment(folder.path(), &words).expect_code(4);
    let said = "ended with exit code 4: it had not ended 30 s after the time was over, and was \
                ended. Its output is in e/";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let said = "the experiment ends: a step was still running after the time was over. To measure \
                the rest, repeat the command with --resume --out e\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(ended.took >= Duration::from_secs(55), "{:?}", ended.took);
    let rows = csv(&folder.path().join("e/comparison.csv"));
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row["blocks"] == "1"), "{rows:?}");
}

/// The record of such a step says that all was well, and the experiment is not complete all the
/// same.
#[test]
fn a_step_that_goes_on_after_its_record_is_ended_and_the_exit_code_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let script =
        "#!/bin/sh\ncase $(ls e) in *[a-z]-1*) \"$@\"; exec sleep 1000;; esac\nexec \"$@\"\n";
    start_script(folder.path(), script);
    let words =
        format!("--start ./slow --levels off,aggressive --blocks 3 --time 25s --out e {COMPUTED}");
    let ended = experiment(folder.path(), &words).expect_code(4);
    let said = "the experiment ends: a step was still running after the time was over. To measure \
                the rest, repeat the command with --resume --out e\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let record = json(&folder.path().join("e/experiment.json"));
    let steps = record["steps"].as_array().expect("steps");
    let last = steps.last().expect("a step");
    assert_eq!(last["code"], "fine", "{last}");
}

#[test]
fn a_step_does_not_outlive_an_experiment_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().join("goes-on").display().to_string();
    let script =
        format!("#!/bin/sh\nexec sh -c 'for i in $(seq 1000); do sleep 0.1; done' {marker}\n");
    start_script(folder.path(), &script);
    let words = format!("--start ./slow --levels off,aggressive --out e {COMPUTED}");
    let mut child = command(folder.path(), &words).spawn().expect("started");
    common::wait_until("a step", || !common::processes_with(&marker).is_empty());
    child.kill().expect("killed");
    child.wait().expect("its end");
    common::wait_until("nothing is left", || {
        common::processes_with(&marker).is_empty()
    });
}

/// A wall clock that is set forward by hours does not end the time of an experiment, and one that
/// is set back does not lengthen a step.
#[test]
fn a_wall_clock_that_is_set_does_not_change_the_time_of_an_experiment() {
    for seconds in [18_000, -18_000] {
        let folder = tempfile::tempdir().expect("a folder");
        start_script(folder.path(), "#!/bin/sh\n\"$@\" && touch once\n");
        let words = format!(
            "--start ./slow --levels off,aggressive --blocks 2 --time 1h --out e {COMPUTED}"
        );
        let mut command = command(folder.path(), &words);
        if !wall_clock::set(&mut command, seconds, &folder.path().join("once")) {
            return;
        }
        run(&mut command).expect_code(0);
        let record = json(&folder.path().join("e/experiment.json"));
        assert_eq!(record["end"], "2 blocks ran");
        for step in record["steps"].as_array().expect("steps") {
            let took = step["seconds"].as_f64().expect("seconds");
            assert!((0.0..600.0).contains(&took), "{step}");
        }
    }
}

#[test]
fn an_experiment_whose_output_nobody_reads_ends_at_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("--start env --levels off,aggressive --blocks 3 --out e {COMPUTED}");
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    let mut options = fs::File::options();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let mut unread = options.open(&pipe).expect("opened");
    while unread.write(b"....").is_ok() {}
    let stdout = fs::File::options().write(true).open(&pipe).expect("opened");
    let child = command(folder.path(), &words)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let compared = folder.path().join("e/comparison.csv");
    common::wait_until("the comparison", || compared.exists());
    assert!(common::send_signal("-TERM", child.id()));
    let ended = common::ended(child).expect_code(9);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
}

#[test]
fn without_a_folder_it_makes_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    experiment(
        folder.path(),
        &format!("--start env --levels off,default --blocks 1 {COMPUTED}"),
    )
    .expect_code(0);
    let made = only_entry(&folder.path().join("results"));
    assert!(made.join("comparison.json").is_file());
}

#[test]
fn what_did_not_get_as_far_as_a_block_is_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let words =
        |start: &str| format!("--start {start} --levels off,default --blocks 1 --out e {COMPUTED}");
    experiment(folder.path(), &words("./absent")).expect_code(8);
    let compared = run(alone(folder.path()).args(["compare", "e"])).expect_code(5);
    assert_eq!(compared.sentences().len(), 1, "{}", compared.stderr);
    experiment(folder.path(), &words("env")).expect_code(0);
    // A run is not a folder of runs, by its folder or by its rows.
    let step = fs::read_dir(folder.path().join("e"))
        .expect("e")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("run.json").is_file())
        .expect("a step");
    let ended = run(alone(folder.path()).arg("compare").arg(step)).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("is one run. Name the folder above it"),
        "{}",
        ended.stderr
    );
    let file = folder.path().join("e/results.csv");
    let ended = run(alone(folder.path()).arg("compare").arg(file)).expect_code(5);
    assert!(ended.stderr.contains("is one run"), "{}", ended.stderr);
}
