//! `pxnbench replay`: training steps of real ranks on host memory.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::common::{self, csv, has_mpi, json, mpirun, run};

/// A workload with two buckets of gradients. The backward pass can hide the reduction of the first
/// one only.
const TWO_BUCKETS: &str = r#"
name = "two-buckets"
about = "Gradients of a small model."

[[dimension]]
name = "tensor"
ranks = 2

[[dimension]]
name = "data"
ranks = "rest"

[[operation]]
name = "forward"
stream = "compute"
compute_us = 300

[[operation]]
name = "activations"
stream = "tensor"
after = ["forward"]
collective = "all_gather"
size = "64K"
type = "bfloat16"
group = "tensor"

[[operation]]
name = "backward 1"
stream = "compute"
after = ["activations"]
compute_us = 300

[[operation]]
name = "bucket 1"
stream = "gradients"
after = ["backward 1"]
collective = "all_reduce"
size = "256K"
group = "data"

[[operation]]
name = "backward 0"
stream = "compute"
compute_us = 300

[[operation]]
name = "bucket 0"
stream = "gradients"
after = ["backward 0"]
collective = "all_reduce"
size = "256K"
group = "data"
"#;

/// Returns a replay of few steps on several ranks.
fn replay(ranks: u32, folder: &Path, workload: &str) -> Command {
    fs::write(folder.join("step.toml"), workload).expect("writable");
    let mut command = mpirun(ranks, folder);
    command.args(["replay", "step.toml", "--backend", "host", "--out", "out"]);
    command.args(["-n", "3", "-w", "1", "--blocks", "2"]);
    command
}

/// Returns the workload with all ranks in one dimension, so that a single rank can run it.
fn for_one_rank() -> String {
    TWO_BUCKETS.replace("ranks = 2", "ranks = 1")
}

/// Returns a replay of `workload` on one rank, with one step in each mode.
fn replay_alone(folder: &Path, workload: &str) -> Command {
    fs::write(folder.join("step.toml"), workload).expect("writable");
    let mut command = common::alone(folder);
    command.args(["replay", "step.toml", "--backend", "host", "--out", "out"]);
    command.args(["-n", "1", "-w", "0", "--blocks", "1"]);
    command
}

#[test]
fn a_step_is_timed_in_four_modes_and_its_collectives_are_verified() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let ended = run(&mut replay(4, folder.path(), TWO_BUCKETS)).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("# Out of bounds values : 0 OK, 2 kinds of collectives checked"),
        "{}",
        ended.stdout
    );
    let out = folder.path().join("out");
    let steps = csv(&out.join("steps.csv"));
    assert_eq!(steps.len(), 4 * 2 * 3, "modes, blocks and steps");
    let modes: BTreeSet<&str> = steps.iter().map(|row| row["mode"].as_str()).collect();
    let expected = ["communication", "computation", "overlapped", "serial"];
    assert_eq!(modes, BTreeSet::from(expected));
    let collectives = csv(&out.join("collectives.csv"));
    let shapes: Vec<_> = collectives
        .iter()
        .map(|row| {
            let cells = [
                "collective",
                "size_bytes",
                "type",
                "group",
                "ranks",
                "count",
            ];
            cells.map(|name| row[name].as_str())
        })
        .collect();
    assert_eq!(
        shapes,
        [
            ["all_gather", "65536", "bfloat16", "tensor", "2", "1"],
            ["all_reduce", "262144", "float", "data", "2", "2"],
        ]
    );
    for row in &collectives {
        assert!(row["in_step_us"].parse::<f64>().expect("a time") > 0.0);
    }
    let summary = json(&out.join("replay.json"));
    assert_eq!(summary["workload"], "two-buckets");
    assert_eq!(summary["wrong"], 0);
    assert_eq!(summary["run"]["ranks"], 4);
    // What is replayed can be replayed again.
    let again = summary["toml"].as_str().expect("the workload");
    run(&mut replay(4, folder.path(), again)).expect_code(0);
}

/// Each operation of each rank is in the trace once, and begins after those that it waits for.
#[test]
fn the_timeline_has_all_operations_of_all_ranks_in_their_order() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    run(&mut replay(2, folder.path(), TWO_BUCKETS)).expect_code(0);
    let trace = json(&folder.path().join("out/timeline.json"));
    let events = trace["traceEvents"].as_array().expect("events");
    let spans_of = |rank: u64| {
        let is_span = move |event: &&serde_json::Value| event["ph"] == "X" && event["pid"] == rank;
        events.iter().filter(is_span)
    };
    for rank in 0..2 {
        // On two ranks, data parallelism is a group of one and has no collectives.
        let names: Vec<&str> = spans_of(rank)
            .map(|event| event["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(
            names,
            ["forward", "activations", "backward 1", "backward 0"]
        );
        let time = |name: &str, key: &str| {
            let mut spans = spans_of(rank);
            let span = spans.find(|event| event["name"] == name).expect("there");
            span[key].as_f64().expect("a number")
        };
        let end = |name: &str| time(name, "ts") + time(name, "dur");
        assert!(time("activations", "ts") >= end("forward") - 0.01);
        assert!(time("backward 1", "ts") >= end("activations") - 0.01);
    }
}

/// Copies before and after an all_reduce.
const COPIES: &str = r#"
name = "copies"

[[dimension]]
name = "data"
ranks = "rest"

[[operation]]
name = "backward"
stream = "compute"
compute_us = 300

[[operation]]
name = "fill"
stream = "compute"
copy = "256K"
pieces = 5

[[operation]]
name = "bucket"
stream = "gradients"
after = ["fill"]
collective = "all_reduce"
size = "256K"
group = "data"

[[operation]]
name = "copy back"
stream = "compute"
after = ["bucket"]
copy = "256K"
pieces = 2
"#;

#[test]
fn copies_are_communication_and_are_told_from_collectives() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let ended = run(&mut replay(2, folder.path(), COPIES)).expect_code(0);
    let head = "# Per step and rank: 0.300 ms of computation, 1 collective of 0.262 MB in 1 \
                communicator, 7 copies of 0.524 MB\n";
    assert!(ended.stdout.contains(head), "{}", ended.stdout);
    let summary = json(&folder.path().join("out/replay.json"));
    let parts = &summary["communication"];
    assert_eq!(parts["collectives"]["count"], 1, "{parts}");
    assert_eq!(parts["copies"]["count"], 7, "{parts}");
    assert_eq!(parts["copies"]["bytes"], 2 * (256 << 10), "{parts}");
    let milliseconds = |part: &str, time: &str| {
        let time = parts[part][time].as_f64().expect("a time");
        assert!(time > 0.0, "{parts}");
        format!("{:.3} ms", time / 1e3)
    };
    let times = |part| {
        let (alone, in_step) = (
            milliseconds(part, "alone_us"),
            milliseconds(part, "in_step_us"),
        );
        format!("{alone} alone, {in_step} in the step")
    };
    let line = format!(
        "# of the communication: 1 collective {}; 7 copies {}\n",
        times("collectives"),
        times("copies")
    );
    assert!(ended.stdout.contains(&line), "{line}\n{}", ended.stdout);
    // A copy is no row of the collectives.
    assert_eq!(csv(&folder.path().join("out/collectives.csv")).len(), 1);
    let trace = json(&folder.path().join("out/timeline.json"));
    let events = trace["traceEvents"].as_array().expect("events");
    let copies: Vec<_> = events.iter().filter(|one| one["cat"] == "copies").collect();
    let pieces: Vec<_> = copies
        .iter()
        .map(|one| one["args"]["pieces"].as_u64())
        .collect();
    assert_eq!(pieces, [Some(5), Some(2), Some(5), Some(2)], "two ranks");
}

#[test]
fn ranks_with_different_workloads_are_told_so() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let other = TWO_BUCKETS.replace("256K", "128K");
    fs::write(folder.path().join("other.toml"), other).expect("writable");
    fs::write(folder.path().join("step.toml"), TWO_BUCKETS).expect("writable");
    let script = "exec \"$0\" replay $([ $OMPI_COMM_WORLD_RANK$PMI_RANK = 0 ] && echo step.toml \
                  || echo other.toml) --backend host";
    let mut command = common::launcher(folder.path());
    command.args(["-np", "2", "sh", "-c", script, common::BINARY]);
    let ended = run(&mut command).expect_code(6);
    let said =
        "ranks 0 and 1 would replay different workloads. Give all ranks the same file and options";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_step_that_does_not_fit_the_ranks_is_refused_in_one_sentence() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let ended = run(&mut replay(3, folder.path(), TWO_BUCKETS)).expect_code(6);
    let said = "pxnbench: 3 ranks cannot be divided by the dimensions of the workload";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(!folder.path().join("out").exists(), "nothing is written");
}

#[test]
fn a_step_that_does_not_fit_into_memory_is_refused_before_anything_is_allocated() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let large = TWO_BUCKETS.replace("256K", "1T");
    let ended = run(&mut replay(4, folder.path(), &large)).expect_code(6);
    let said = "the buffers of 4 ranks here need";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let large = COPIES.replace("copy = \"256K\"\npieces = 2", "copy = \"1T\"");
    let ended = run(&mut replay(2, folder.path(), &large)).expect_code(6);
    let said = "the buffers of 2 ranks here need 4398.0 GB of memory";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn one_rank_has_computation_only() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let ended = run(&mut replay(1, folder.path(), &for_one_rank())).expect_code(0);
    let said = "# no collectives: no group has more than one rank";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
}

#[test]
fn the_files_of_an_earlier_replay_are_kept() {
    let folder = super::folder();
    let once = || run(&mut replay_alone(folder.path(), &for_one_rank())).expect_code(0);
    once();
    let out = folder.path().join("out");
    let names = [
        "steps.csv",
        "collectives.csv",
        "timeline.json",
        "replay.json",
    ];
    let first = names.map(|name| fs::read_to_string(out.join(name)).expect("written"));
    let ended = once();
    for (name, before) in names.iter().zip(first) {
        let kept = fs::read_to_string(out.join(format!("{name}.1"))).expect("kept");
        assert_eq!(kept, before, "{name}");
        assert!(out.join(name).is_file());
    }
    let said = "keeping the earlier out/steps.csv as out/steps.csv.1";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_replay_writes_through_no_link_in_its_folder() {
    let folder = super::folder();
    fs::write(folder.path().join("precious"), "mine").expect("writable");
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("a folder");
    for name in ["steps.csv", "timeline.json", "replay.json"] {
        symlink("../precious", out.join(name)).expect("linked");
    }
    symlink("../new", out.join("collectives.csv")).expect("linked");
    symlink("../new", out.join(".replay.json.pxnbench-lock")).expect("linked");
    let ended = run(&mut replay_alone(folder.path(), &for_one_rank())).expect_code(0);
    let said = "out/replay.json cannot be locked";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let precious = fs::read_to_string(folder.path().join("precious"));
    assert_eq!(precious.expect("there"), "mine");
    assert!(!folder.path().join("new").exists());
    assert_eq!(csv(&out.join("steps.csv")).len(), 4);
}

/// The first replay has so many blocks that it runs until it is stopped. A second one in its folder
/// is refused; when the folder is moved away, the first one makes it again.
#[test]
fn a_running_replay_locks_its_folder_restores_it_and_keeps_whole_blocks_when_stopped() {
    let folder = super::folder();
    fs::write(folder.path().join("step.toml"), for_one_rank()).expect("writable");
    let replay = |blocks: &str| {
        let mut command = common::alone(folder.path());
        command.args(["replay", "step.toml", "--backend", "host", "--out", "out"]);
        command.args(["-n", "3", "-w", "0", "--blocks", blocks]);
        command
    };
    let started: Child = replay("1000000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let steps = folder.path().join("out/steps.csv");
    common::wait_until("a block", || steps.is_file());
    let second = run(&mut replay("1")).expect_code(6);
    let said = "replay.json is being written by another run";
    assert!(second.stderr.contains(said), "{}", second.stderr);
    fs::rename(folder.path().join("out"), folder.path().join("gone")).expect("renamed");
    common::wait_until("a block in a new folder", || steps.is_file());
    assert!(common::send_signal("-TERM", started.id()));
    let ended = common::ended(started).expect_code(9);
    expect_stop_with_blocks(&ended.stderr);
    let rows = csv(&steps);
    assert!(
        !rows.is_empty() && rows.len().is_multiple_of(12),
        "whole blocks"
    );
}

/// Each step computes for two seconds, longer than a signal leaves time for.
#[test]
fn a_replay_that_is_stopped_within_a_block_keeps_those_before() {
    let folder = super::folder();
    let slow = for_one_rank().replace("compute_us = 300", "compute_us = 1000000");
    fs::write(folder.path().join("step.toml"), slow).expect("writable");
    let started: Child = common::alone(folder.path())
        .args(["replay", "step.toml", "--backend", "host", "--out", "out"])
        .args(["-n", "1", "-w", "0", "-c", "0", "--blocks", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let steps = folder.path().join("out/steps.csv");
    common::wait_until("a block", || steps.is_file());
    assert!(common::send_signal("-TERM", started.id()));
    let ended = common::ended(started).expect_code(9);
    expect_stop_with_blocks(&ended.stderr);
    // On a busy machine the signal may come as late as in a later block.
    let rows = csv(&steps);
    assert!(
        !rows.is_empty() && rows.len().is_multiple_of(4),
        "whole blocks"
    );
}

/// Checks that a replay said once what stopped it, and what it keeps.
fn expect_stop_with_blocks(stderr: &str) {
    let said = "stopped by SIGTERM; finished blocks are kept";
    assert_eq!(stderr.matches(said).count(), 1, "{stderr}");
}

#[test]
fn options_without_an_effect_are_refused() {
    let folder = super::folder();
    fs::write(folder.path().join("step.toml"), TWO_BUCKETS).expect("writable");
    for (arguments, said) in [
        (
            ["ddp-resnet50", "--skew", "0.1"],
            "ddp-resnet50 has no --skew. Leave it out",
        ),
        (
            ["fsdp-7b", "--tensor", "4"],
            "fsdp-7b has no --tensor. Leave it out",
        ),
        (
            ["moe-8x7b", "--gradient-as-bucket-view", "--layers=1"],
            "moe-8x7b has no --gradient-as-bucket-view. Leave it out",
        ),
        (
            ["step.toml", "--size-scale", "0.1"],
            "--size-scale is for built-in workloads, and a file stays as it is. Leave it out",
        ),
        (
            ["ddp-gpt2", "--multiprocessors", "101"],
            "a share is a percentage above 0 and up to 100, such as 50",
        ),
    ] {
        let mut command = common::alone(folder.path());
        command.arg("replay").args(arguments).arg("--print");
        let ended = run(&mut command).expect_code(6);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

/// Output to a file is one workload, also if a launcher starts several processes.
#[test]
fn the_first_process_alone_prints_the_workload() {
    let folder = super::folder();
    let printed = |rank: &str| {
        let mut command = common::alone(folder.path());
        command.args(["replay", "ddp-resnet50", "--print"]);
        command.env("OMPI_COMM_WORLD_RANK", rank);
        run(&mut command).expect_code(0).stdout
    };
    assert!(printed("0").starts_with("name = \"ddp-resnet50\"\n"));
    assert_eq!(printed("1"), "");
}

#[test]
fn more_steps_than_times_are_kept_for_are_refused() {
    let folder = super::folder();
    fs::write(folder.path().join("step.toml"), for_one_rank()).expect("writable");
    for option in ["-n", "-w"] {
        let mut command = common::alone(folder.path());
        command.args(["replay", "step.toml", "--backend", "host"]);
        command.args([option, "4294967295"]);
        let ended = run(&mut command).expect_code(6);
        let said = "4294967295 steps of 3 operations are more than the 2000000 operations that a \
                    block may have in a mode";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn an_about_of_several_lines_is_one_line_of_the_table() {
    let folder = super::folder();
    let lines = for_one_rank().replace("small model.", "small\\n  model.");
    let ended = run(&mut replay_alone(folder.path(), &lines)).expect_code(0);
    let said = "# Replay of two-buckets: Gradients of a small model.\n";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
}

/// A trace as PyTorch's profiler writes it, of two buckets and a barrier.
#[test]
fn a_trace_of_a_step_is_replayed_with_its_collectives() {
    if !has_mpi() {
        return;
    }
    let folder = super::folder();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/traces/kineto-ddp.json");
    let mut command = mpirun(2, folder.path());
    command.args(["replay", "--from-trace"]).arg(trace);
    command.args(["--backend", "host", "--out", "out"]);
    command.args(["-n", "1", "-w", "0", "--blocks", "1"]);
    run(&mut command).expect_code(0);
    let collectives = csv(&folder.path().join("out/collectives.csv"));
    let found: Vec<_> = collectives
        .iter()
        .map(|row| ["collective", "size_bytes", "count"].map(|name| row[name].as_str()))
        .collect();
    // The elements of its events, 4 bytes each.
    let buckets = [
        ["all_reduce", "4194304", "1"],
        ["all_reduce", "1048576", "1"],
    ];
    assert_eq!(found[..2], buckets, "{found:?}");
}
