//! The command of a pod of `pxnbench kube`, as the manifest has it, on two nodes.

use std::{process::Stdio, thread};

use crate::{
    common::{alone, csv, ended, free_port, json, run},
    machine::Machine,
};

/// The arguments of the container in a manifest.
fn arguments(manifest: &str) -> Vec<String> {
    let (_, rest) = manifest
        .split_once("- args:\n")
        .expect("a container with arguments");
    let lines = rest
        .lines()
        .map_while(|line| line.trim().strip_prefix("- "));
    lines
        .map(|word| word.trim_matches('"').to_owned())
        .collect()
}

/// Runs the pods of two nodes of two GPUs by the command that `pxnbench kube render` prints for
/// `words`, and returns their logs. The results of node K are in `pod-K`.
fn run_pods(machine: &Machine, words: &[&str]) -> Vec<String> {
    let mut render = alone(machine.path());
    let port = free_port().to_string();
    render
        .args([
            "kube", "render", "pxn", "--image", "x", "--nodes", "2", "--gpus", "2",
        ])
        .args(["--port", &port, "--"])
        .args(words);
    let manifest = run(&mut render).expect_code(0).stdout;
    let mut pods = Vec::new();
    for node in ["0", "1"] {
        let here = format!("pod-{node}");
        let words = arguments(&manifest).into_iter().map(|word| {
            word.replace("$(JOB_COMPLETION_INDEX)", node)
                .replace("pxn-0.pxn", "localhost")
                .replace("/results", &here)
        });
        let mut command = machine.on(alone(machine.path()));
        // Two nodes of one machine; the settings that the ConfigMap holds are set by --level as
        // well.
        command
            .args(words)
            .env("NCCL_HOSTID", &here)
            .env("PXNBENCH_TOKEN", "the secret")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("started");
        pods.push(thread::spawn(move || ended(child)));
    }
    let mut logs = Vec::new();
    for pod in pods {
        let pod = pod.join().expect("a pod").expect_code(0);
        logs.push(pod.stdout);
    }
    let begins = |log: &str| {
        log.lines()
            .any(|line| line.starts_with("pxnbench-results begin "))
    };
    assert!(begins(&logs[0]), "{}", logs[0]);
    logs
}

#[test]
fn pods_meet_by_the_command_of_the_manifest_and_the_first_has_the_results() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = ["all_reduce", "-b", "8", "-e", "64", "-f", "2"];
    let logs = run_pods(&machine, &words);
    assert_eq!(logs[1], "", "the table and the results are on node 0");
    let rows = csv(&machine.path().join("pod-0/pxn/results.csv"));
    assert_eq!(rows.len(), 4 * 2);
    assert!(
        rows.iter()
            .all(|row| row["ranks"] == "4" && row["nodes"] == "2")
    );
}

#[test]
fn pods_replay_a_training_step() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = "replay ddp-resnet50 --size-scale 0.001 --time-scale 0.01 -n 2 -w 1 --blocks 1";
    let words: Vec<&str> = words.split(' ').collect();
    let logs = run_pods(&machine, &words);
    let checked = "# Out of bounds values : 0 OK";
    assert!(logs[0].contains(checked), "{}", logs[0]);
    assert_eq!(logs[1], "", "the table and the results are on node 0");
    let summary = json(&machine.path().join("pod-0/pxn/replay.json"));
    assert_eq!(summary["run"]["ranks"], 4);
    assert_eq!(summary["run"]["nodes"], 2);
    // kube gives a sweep its level, and a replay too.
    assert_eq!(summary["run"]["level"], "aggressive");
}
