//! Ranks that `pxnbench join` and `pxnbench launch --hosts` start: on nodes that are this machine under other names.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{self, Ended, alone, csv, free_port, json, run},
    machine::Machine,
};

/// Nothing here takes longer, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The command of a node, of which `master` is the place where the ranks meet.
fn join(machine: &Machine, node: u32, nodes: u32, master: &str, words: &str) -> Command {
    let mut command = machine.on(alone(machine.path()));
    command
        .env("NCCL_HOSTID", format!("node{node}"))
        .env_remove("PXNBENCH_TOKEN")
        .args(["join", &node.to_string(), master, "--nodes"])
        .arg(nodes.to_string())
        .args(["--ranks-per-node", "2", "--"])
        .args(words.split_whitespace())
        .args(["--backend", "nccl"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn ended(child: Child) -> Ended {
    let began = Instant::now();
    let output = child.wait_with_output().expect("its output");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: began.elapsed(),
    }
}

/// Runs two nodes to their end.
fn two_nodes(machine: &Machine, master: &str, words: &str) -> [Ended; 2] {
    let start = |node| {
        join(machine, node, 2, master, words)
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
        let [first, second] = two_nodes(&machine, &master, words);
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
    let start = |node| {
        let mut command = join(&machine, node, 2, &master, words);
        // Options of join may follow the sweep only without --, and come before it here.
        command = with_options(&command, &["--level", "conservative", "--timeout", "60"]);
        command.spawn().expect("started")
    };
    let [second, first] = [1, 0].map(start).map(ended);
    first.expect_code(0);
    second.expect_code(0);
    let rows = csv(&machine.path().join("x.csv"));
    assert!(
        rows.iter().all(|row| row["level"] == "conservative"),
        "{rows:?}"
    );
}

/// Returns the command with options between its subcommand and the rest.
fn with_options(command: &Command, options: &[&str]) -> Command {
    let mut words = command.get_args();
    let mut other = Command::new(command.get_program());
    other.args(words.next()).args(options).args(words);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        other.current_dir(folder);
    }
    other
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    other
}

#[test]
fn a_node_that_does_not_come_is_named() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let master = format!("127.0.0.1:{}", free_port());
    let words = "all_reduce --timeout 2";
    let child = join(&machine, 0, 2, &master, words)
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
    let rank = rank_of(&csv_file.display().to_string(), 3);
    let status = Command::new("kill")
        .args(["-KILL", &rank.to_string()])
        .status();
    assert!(status.expect("kill").success());
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

/// Returns the process of a rank of the job whose command line names `what`.
fn rank_of(what: &str, rank: u32) -> u32 {
    let variable = format!("RANK={rank}");
    let processes = common::processes_with(what).into_iter();
    let mut ranks = processes.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    });
    ranks.next().expect("the rank runs")
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "not in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
