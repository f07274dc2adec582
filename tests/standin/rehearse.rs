//! Rehearsals on stand-ins: NCCL's log is the stand-in's, and the counters are those of a run that
//! was recorded with real NCCL, which the stand-in plays back. It loads no plugin.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    ROOT,
    common::{self, alone, csv, json, run, wait_until},
    machine::Machine,
};

/// The counters of an alltoall of 1 MiB at NCCL's default on topology split.
const RECORDED: &str = "tests/data/rehearsal/alltoall-split-default";

fn recorded() -> PathBuf {
    Path::new(ROOT).join(RECORDED)
}

/// A rehearsal by a program that has a plugin where `scripts/install.sh` puts it.
fn rehearse(machine: &Machine, words: &str) -> Command {
    let bare = machine.on(alone(machine.path()));
    let program = machine.path().join("bin/pxnbench");
    let plugin = machine.path().join("lib/pxnbench/libnccl-net-pxnbench.so");
    if !plugin.exists() {
        for file in [&program, &plugin] {
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        }
        fs::copy(bare.get_program(), &program).expect("copied");
        fs::write(&plugin, "").expect("written");
    }
    let mut command = Command::new(program);
    command.current_dir(machine.path());
    for (name, value) in bare.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(["rehearse", "-T", "120"])
        .args(words.split_whitespace())
        .env("STANDIN_NETWORK", "IB")
        .env_remove("CUDA_VISIBLE_DEVICES");
    machine.with_nvml(command, "")
}

#[test]
fn theory_log_and_counters_of_a_job_are_compared() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let words = "alltoall --levels default --csv x.csv --json x.json --svg x.svg --out jobs";
    let mut command = rehearse(&machine, words);
    command.env("STANDIN_RAILS", recorded());
    // What a level sets is not to be changed from outside.
    command.env("NCCL_PXN_DISABLE", "1");
    let ended = run(&mut command).expect_code(0);
    assert!(
        ended.stdout.contains("Times mean nothing"),
        "{}",
        ended.stdout
    );
    let row = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("alltoall"));
    let cells: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(
        cells.join(" "),
        "alltoall default 8 of 16 0-1 0-1: 524288 (262144) 0% send/recv yes agree"
    );
    let rows = csv(&machine.path().join("x.csv"));
    assert_eq!(rows.len(), 4, "two nodes with two rails");
    for row in rows {
        assert_eq!(
            (&*row["operations"], &*row["sent_bytes"]),
            ("15", "7864320")
        );
        assert_eq!((&*row["agrees"], &*row["verified"]), ("yes", "yes"));
    }
    let case = &json(&machine.path().join("x.json"))["cases"][0];
    assert_eq!(case["comparison"]["numbers"][0]["log"], 16);
    assert_eq!(case["flows"].as_array().map(Vec::len), Some(8));
    let record = fs::read_to_string(machine.path().join("jobs/rehearsal.json"));
    let named = fs::read_to_string(machine.path().join("x.json"));
    assert_eq!(record.expect("a record"), named.expect("the same"));
    let job = machine.path().join("jobs/split.alltoall.sendrecv.default");
    for file in [
        "nccl/rank-3.log",
        "counters/rails-3.json",
        "results/run.json",
    ] {
        assert!(job.join(file).exists(), "{file}");
    }
    let again = run(rehearse(&machine, "--from x.json").env("STANDIN_GPUS", "0")).expect_code(0);
    assert_eq!(again.stdout, ended.stdout);
}

#[test]
fn a_disagreement_has_the_three_numbers_and_keeps_the_logs() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let mut command = rehearse(&machine, "alltoall --levels off,default");
    command
        .env("STANDIN_RAILS", recorded())
        .env("TMPDIR", machine.path());
    let ended = run(&mut command).expect_code(7);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains(
            "theory, log and counters disagree on alltoall at level off: relayed bytes of node 0 \
             on rail 0: 0 by theory, 0 in NCCL's log, 3932160 by the rails' counters"
        ),
        "{last}"
    );
    assert!(ended.stdout.contains("  differ  ") || ended.stdout.contains("  differ\n"));
    // What is needed to find the cause is said at once.
    for words in [
        "counters: rank 0 to rank 3: 3932160 bytes in all operations, from rail 1 to rail 1, \
         relayed by rank 1",
        "start: pxnbench alltoall --backend=nccl -b 1048576 ",
        "start: NCCL_NET=pxnbench",
        "rank 0: NCCL INFO ",
    ] {
        let line = format!("    | {words}");
        assert!(ended.stderr.contains(&line), "{words}: {}", ended.stderr);
    }
    let kept = fs::read_dir(machine.path()).expect("a folder").flatten();
    let mut names = kept.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert!(names.any(|name| name.starts_with("pxnbench-rehearsal.")));
}

#[test]
fn counters_that_are_missing_are_said_to_be() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let mut command = rehearse(&machine, "sendrecv --levels default --out jobs");
    let ended = run(&mut command).expect_code(7);
    let sentences = ended.sentences();
    assert!(
        sentences.last().is_some_and(|last| last.contains(
            "the rehearsal of sendrecv at level default on topology split cannot be judged: NCCL \
             did not use the plugin that plays the rails"
        )),
        "{sentences:?}"
    );
    assert_eq!(ended.stdout, "");
    // What is in a named folder is of use to nobody else.
    let ended = run(&mut rehearse(&machine, "sendrecv --out jobs")).expect_code(6);
    assert!(ended.stderr.contains("it is not empty"), "{}", ended.stderr);
}

/// A rail that sends no more is an operation that does not end, and a plugin that says what waits.
#[test]
fn a_job_that_is_stuck_names_the_rail_that_holds_messages_back() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let rails = machine.path().join("rails");
    fs::create_dir(&rails).expect("made");
    for rank in 0..4 {
        let name = format!("rails-{rank}.json");
        let recorded = fs::read_to_string(recorded().join(&name));
        let waiting =
            r#""waiting": [{"rail": 1, "messages": 2, "bytes": 262144, "oldest_ms": 5200}],"#;
        let text = match rank {
            3 => recorded
                .expect("text")
                .replacen('{', &format!("{{{waiting}"), 1),
            _ => recorded.expect("text"),
        };
        fs::write(rails.join(name), text).expect("written");
    }
    let mut command = rehearse(&machine, "alltoall --levels default -T 5 --out jobs");
    command
        .env("STANDIN_RAILS", &rails)
        .env("STANDIN_FAULT", "hang:0:1");
    let ended = run(&mut command).expect_code(4);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains("the rehearsal of alltoall at level default on topology split failed: ")
            && last.contains(
                "The counters of the rails say that rail 1 of rank 3 holds 2 messages back, the \
                 oldest for 5.2 s"
            ),
        "{last}"
    );
}

#[test]
fn jobs_that_fail_end_the_rehearsal_with_the_first_sentence_and_its_code() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let mut command = rehearse(&machine, "alltoall --jobs 1");
    command
        .env("TMPDIR", machine.path())
        .args(["--nccl-lib", "/nonexistent.so"]);
    let ended = run(&mut command).expect_code(3);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains("the rehearsal of alltoall at level off on topology split failed: ")
            && last.contains("/nonexistent.so")
            && last.ends_with(". 2 more jobs failed, too"),
        "{last}"
    );
    let printed = "    | printed: pxnbench: ";
    assert!(ended.stderr.contains(printed), "{}", ended.stderr);
}

/// The operations of a job follow from its rows. NCCL runs as many.
#[test]
fn a_job_has_as_many_operations_as_its_bytes_are_compared_for() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    for (failing, code) in [(16, 0), (15, 3)] {
        let mut command = rehearse(&machine, "alltoall --levels default");
        command
            .env("STANDIN_RAILS", recorded())
            .env("STANDIN_FAULT", format!("ncclAlltoAll:{failing}:1"))
            .env("TMPDIR", machine.path());
        run(&mut command).expect_code(code);
    }
}

/// A node as a file has it, with the GPUs of this machine in the places of its own.
#[test]
fn the_node_of_a_file_is_rehearsed() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let file = Path::new(ROOT).join("tests/data/topology/split.xml");
    let words = "alltoall --levels default --csv - --out jobs --topology";
    let mut command = rehearse(&machine, words);
    command.arg(&file).env("STANDIN_RAILS", recorded());
    let ended = run(&mut command).expect_code(0);
    let rows: Vec<&str> = ended.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), 4, "{}", ended.stdout);
    let begins = format!("{},default,alltoall,send/recv,", file.display());
    for row in rows {
        assert!(
            row.starts_with(&begins) && row.contains(",8,16,yes,yes,"),
            "{row}"
        );
    }
    let jobs = machine.path().join("jobs");
    let written = fs::read_to_string(jobs.join("file.xml")).expect("a topology");
    assert!(
        written.contains("rail1") && !written.contains("0000:a2:00.0"),
        "{written}"
    );
    let start = jobs.join("file.alltoall.sendrecv.default/job.txt");
    let start = fs::read_to_string(start).expect("how it was started");
    assert!(start.contains("/jobs/file.xml\n"), "{start}");
}

#[test]
fn a_signal_ends_all_jobs() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let mut command = rehearse(&machine, "alltoall --jobs 2 --out jobs");
    command.env("STANDIN_FAULT", "hang:0:1");
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let has_begun = |level: &str| {
        let logs = format!("jobs/split.alltoall.sendrecv.{level}/nccl");
        let logs = machine.path().join(logs);
        (0..4).all(|rank| logs.join(format!("rank-{rank}.log")).exists())
    };
    wait_until("all ranks of two jobs use NCCL", || {
        has_begun("off") && has_begun("conservative")
    });
    assert!(common::send_signal("-INT", child.id()));
    let ended = common::ended(child).expect_code(9);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains("stopped by SIGINT; the rehearsal is not complete"),
        "{sentences:?}"
    );
    assert_eq!(ended.stdout, "");
    let folder = machine.path().display().to_string();
    let left = common::processes_with(&folder);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn one_gpu_is_too_few() {
    let Some(machine) = Machine::without_mpi(1) else {
        return;
    };
    let ended = run(&mut rehearse(&machine, "alltoall")).expect_code(5);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].contains("needs 2 GPUs of this machine, but only 1 GPU can be used"),
        "{sentences:?}"
    );
}
