//! Rehearsals on stand-ins: NCCL's log is the stand-in's, and the counters are those of a run that was recorded with real NCCL,
//! which the stand-in plays back. It loads no plugin.

use std::{fs, path::Path, process::Command};

use crate::{
    ROOT,
    common::{alone, csv, json, run},
    machine::Machine,
};

/// The counters of an alltoall of 1 MiB at NCCL's default on topology split.
const RECORDED: &str = "tests/data/rehearsal/alltoall-split-default";

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
    command.env("STANDIN_RAILS", Path::new(ROOT).join(RECORDED));
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
        .env("STANDIN_RAILS", Path::new(ROOT).join(RECORDED))
        .env("TMPDIR", machine.path());
    let ended = run(&mut command).expect_code(7);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains(
            "the rehearsal of alltoall at level off disagrees with itself: relayed bytes of node 0 on rail 0: 0 by theory, 0 in NCCL's \
             log, 3932160 by the rails' counters"
        ),
        "{last}"
    );
    assert!(ended.stdout.contains("  differ  ") || ended.stdout.contains("  differ\n"));
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
            "the rehearsal of sendrecv at level default on topology split cannot be judged: NCCL did not use the plugin that plays \
             the rails"
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
        let recorded = fs::read_to_string(Path::new(ROOT).join(RECORDED).join(&name));
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
                "The counters of the rails say that rail 1 of rank 3 holds 2 messages back, the oldest for 5.2 s"
            ),
        "{last}"
    );
}

#[test]
fn a_job_that_fails_ends_the_rehearsal_with_its_sentence_and_code() {
    let Some(machine) = Machine::without_mpi(2) else {
        return;
    };
    let mut command = rehearse(&machine, "alltoall");
    command
        .env("TMPDIR", machine.path())
        .args(["--nccl-lib", "/nonexistent.so"]);
    let ended = run(&mut command).expect_code(3);
    let sentences = ended.sentences();
    let last = sentences.last().expect("a sentence");
    assert!(
        last.contains("the rehearsal of alltoall at level off on topology split failed: ")
            && last.contains("/nonexistent.so"),
        "{last}"
    );
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
        sentences[0].contains("runs NCCL on 2 GPUs of this machine, and 1 GPU can be used"),
        "{sentences:?}"
    );
}
