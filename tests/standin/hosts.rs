//! Ranks that `pxnbench join` and `pxnbench launch --hosts` start: on nodes that are this machine
//! under other names.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    common::{
        self, Ended, alone, csv, ended, free_port, json, process_of_rank, run, send_signal,
        wait_until,
    },
    machine::Machine,
};

/// The command of one of two nodes with two ranks each; `master` is the place where the ranks meet.
fn join(machine: &Machine, node: u32, master: &str, options: &[&str], words: &str) -> Command {
    let mut command = machine.on(alone(machine.path()));
    command
        .env("NCCL_HOSTID", format!("node{node}"))
        .env_remove("PXNBENCH_TOKEN")
        .args(["join", &node.to_string(), master])
        .args(["--nodes", "2", "--ranks-per-node", "2"])
        .args(options)
        .arg("--")
        .args(words.split_whitespace())
        .args(["--backend", "nccl"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs two nodes to their end.
fn two_nodes(machine: &Machine, master: &str, options: &[&str], words: &str) -> [Ended; 2] {
    let start = |node| {
        join(machine, node, master, options, words)
            .spawn()
            .expect("started")
    };
    let nodes = [1, 0].map(start);
    let [second, first] = nodes.map(ended);
    [first, second]
}

#[test]
fn nodes_that_are_started_by_hand_measure_together() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for host in ["127.0.0.1", "[::1]"] {
        let master = format!("{host}:{}", free_port());
        let words = "all -b 1000 -e 34000 -i 33000 -n 2 --out results";
        let [first, second] = two_nodes(&machine, &master, &[], words);
        let first = first.expect_code(0);
        assert_eq!(second.expect_code(0).stdout, "", "node 0 prints the table");
        assert!(first.stdout.contains("#  Rank  3 "), "{}", first.stdout);
        let results = machine.path().join("results");
        let rows = csv(&results.join("results.csv"));
        assert_eq!(rows.len(), 11 * 2 * 2, "{}", first.stdout);
        assert!(
            rows.iter()
                .all(|row| ["0", ""].contains(&&row["wrong"][..]))
        );
        assert!(rows.iter().any(|row| row["wrong"] == "0"));
        assert!(
            rows.iter()
                .all(|row| row["ranks"] == "4" && row["nodes"] == "2")
        );
        fs::remove_dir_all(results).expect("removed");
    }
}

#[test]
fn a_level_given_to_join_is_in_force_on_all_nodes() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let master = format!("127.0.0.1:{}", free_port());
    let words = "all_reduce -b 8 -e 8 -n 2 --csv x.csv";
    let options = ["--level", "conservative", "--timeout", "60"];
    for node in two_nodes(&machine, &master, &options, words) {
        node.expect_code(0);
    }
    let rows = csv(&machine.path().join("x.csv"));
    assert!(
        rows.iter().all(|row| row["level"] == "conservative"),
        "{rows:?}"
    );
}

#[test]
fn a_node_that_does_not_come_is_named() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let master = format!("127.0.0.1:{}", free_port());
    let words = "all_reduce --timeout 2";
    let child = join(&machine, 0, &master, &[], words)
        .spawn()
        .expect("started");
    let ended = ended(child).expect_code(4);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains("ranks 2, 3 (node 1 of 2 nodes"),
        "{}",
        ended.stderr
    );
}

#[test]
fn hosts_measure_together_over_ssh_and_a_rank_that_is_killed_ends_all() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let launch = |words: &str| {
        let mut command = machine.on(alone(machine.path()));
        common::use_test_ssh(&mut command);
        command
            .args(["launch", "--hosts", "node[0-1]:2", "--master"])
            .arg(format!("127.0.0.1:{}", free_port()))
            .args(words.split_whitespace())
            .args(["--backend", "nccl"]);
        command
    };
    let words = "all_reduce alltoall -b 64 -e 4K -f 8 -n 2 --out results";
    let ended_well = run(&mut launch(words)).expect_code(0);
    let rows = csv(&machine.path().join("results/results.csv"));
    assert!(
        rows.iter()
            .all(|row| row["ranks"] == "4" && row["nodes"] == "2")
    );
    assert!(
        rows.iter().any(|row| row["wrong"] == "0"),
        "{}",
        ended_well.stdout
    );
    let run_json = json(&machine.path().join("results/run.json")).to_string();
    assert!(!run_json.contains("TOKEN"), "the secret is in no file");

    let csv_file = machine.path().join("killed.csv");
    let words = format!(
        "all_reduce -b 64 -e 4K -f 8 -n 2 --time 10m --csv {}",
        csv_file.display()
    );
    let mut command = launch(&words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    let has_row = || fs::read_to_string(&csv_file).is_ok_and(|text| text.lines().count() > 1);
    wait_until("results come", has_row);
    let rank = process_of_rank(&csv_file.display().to_string(), 3).expect("the rank runs");
    assert!(send_signal("-KILL", rank));
    let ended = ended(child).expect_code(8);
    let says = "was ended by a signal (SIGKILL), which ended the run; finished cases are kept";
    let named = ended
        .sentences()
        .iter()
        .any(|line| line.starts_with("pxnbench: rank 3 on ") && line.contains(says));
    assert!(named, "{}", ended.stderr);
    assert!(has_row(), "finished cases are kept");
    let name = machine.path().display().to_string();
    wait_until("all end", || common::processes_with(&name).is_empty());
}
