//! `pxnbench kube logs` and `results`: what a pod has printed, and the files in it.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::{
    common::{self, alone, processes_with, run, send_signal, wait_until},
    fake::{Fake, cluster, condition, ended, pod, running, unschedulable},
    folder,
};

/// The log of a pod that has run this sweep.
fn log(sweep: &str) -> String {
    let home = folder();
    let mut command = alone(home.path());
    command.args(["kube", "in-pod", "--results", "out", "--"]);
    command
        .args(sweep.split_whitespace())
        .args(["--out", "out"]);
    run(&mut command).expect_code(0).stdout
}

const SWEEP: &str = "all_reduce --backend model --ranks 16 -b 1M -e 4M -f 2";

/// A cluster whose run has ended with this code.
fn after_the_run(code: i32) -> Fake {
    let kind = if code == 0 { "Complete" } else { "Failed" };
    let pods = [
        pod(0, &ended(code, "Completed", "")),
        pod(1, &ended(code, "Completed", "")),
    ];
    cluster(&condition(kind, ""), &pods, &[])
}

fn while_it_runs() -> Fake {
    cluster(&json!([]), &[pod(0, &running()), pod(1, &running())], &[])
}

#[test]
fn results_come_out_of_the_log_as_they_were() {
    let fake = after_the_run(0);
    fake.prints("logs pxn-0-abcde --tail=20000*", &log(SWEEP));
    let ended = run(&mut fake.kube("results pxn")).expect_code(0);
    let out = fake.home().join("results/pxn");
    let table = fs::read_to_string(out.join("results.csv")).expect("the results");
    assert_eq!(table.lines().count(), 1 + 6, "{table}");
    let meta: Value =
        serde_json::from_str(&fs::read_to_string(out.join("run.json")).expect("text"))
            .expect("JSON");
    assert_eq!(meta["ranks"], 16);
    assert!(
        ended.stdout.contains("results/pxn/results.csv\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stderr.contains("pxnbench report results/pxn"),
        "{}",
        ended.stderr
    );

    let again = run(&mut fake.kube("results pxn")).expect_code(6);
    assert!(
        again
            .stderr
            .contains("results are never replaced. Name another folder with --out")
    );
    fake.prints("logs *", &log(SWEEP));
    run(&mut fake.kube("results pxn --out elsewhere")).expect_code(0);
    assert!(fake.home().join("elsewhere/results.csv").is_file());
}

#[test]
fn a_log_that_has_lost_lines_is_not_taken_for_the_results() {
    let whole = log(SWEEP);
    let fake = after_the_run(0);
    let kept: Vec<&str> = whole
        .lines()
        .filter(|line| !line.starts_with("pxnbench-results 0 "))
        .collect();
    fake.prints("logs *", &kept.join("\n"));
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("has 0 of 1 line of the results: the node has dropped the rest"),
        "{}",
        ended.stderr
    );
    fake.prints(
        "logs *",
        &whole[whole.find("pxnbench-results 0").expect("it")..],
    );
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("has only the last 1 line of the results"),
        "{}",
        ended.stderr
    );
    assert!(
        !fake.home().join("results").exists(),
        "nothing is left behind"
    );
}

#[test]
fn results_that_are_too_large_come_from_a_pod_that_is_kept() {
    let too_large = "# a table\npxnbench-results too-large 99614720\n";
    let fake = after_the_run(0);
    fake.prints("logs *", too_large);
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(ended.stderr.contains(
        "too large for a log (95M), and pxn-0-abcde has ended. Run it again with --keep"
    ));

    let fake = while_it_runs();
    fake.prints("logs *", too_large);
    fake.prints(
        "exec pxn-0-abcde -- pxnbench kube in-pod --results /results/pxn --print",
        &log(SWEEP),
    );
    run(&mut fake.kube("results pxn")).expect_code(0);
    assert!(fake.home().join("results/pxn/results.csv").is_file());
}

#[test]
fn without_results_the_reason_is_said() {
    let fake = while_it_runs();
    fake.prints("logs *", "# a table\n");
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("has not ended (running), and its results come with its end")
    );

    let fake = cluster(&json!([]), &[pod(0, &unschedulable("0/1 nodes"))], &[]);
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended.stderr.contains("has not ended (pending)"),
        "{}",
        ended.stderr
    );

    let fake = after_the_run(137);
    fake.prints("logs *", "# a table\n");
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("the run failed before its first case, or was killed"),
        "{}",
        ended.stderr
    );

    let fake = cluster(&json!([]), &[], &[]);
    let ended = run(&mut fake.kube("results pxn")).expect_code(5);
    assert!(
        ended
            .stderr
            .contains("the pod with the results is not there"),
        "{}",
        ended.stderr
    );
}

#[test]
fn logs_show_what_was_printed_without_the_results() {
    let whole = log(SWEEP);
    let fake = after_the_run(0);
    fake.prints("logs pxn-0-abcde --limit-bytes=*", &whole);
    let ended = run(&mut fake.kube("logs pxn")).expect_code(0);
    assert!(ended.stdout.contains("all_reduce") && !ended.stdout.contains("pxnbench-results"));
    assert!(
        ended
            .stderr
            .contains("`pxnbench kube results pxn` copies the files"),
        "{}",
        ended.stderr
    );
    let table: Vec<&str> = whole
        .lines()
        .filter(|line| !line.starts_with("pxnbench-results "))
        .collect();
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), table);
}

#[test]
fn the_log_of_a_node_can_be_followed() {
    let fake = while_it_runs();
    fake.prints("logs pxn-1-abcde --follow*", "one\ntwo\n");
    let ended = run(&mut fake.kube("logs pxn --node 1 --follow")).expect_code(0);
    assert_eq!(ended.stdout, "one\ntwo\n");
    let ended = run(&mut fake.kube("logs pxn --node 2")).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("the nodes of pxn are numbered from 0 to 1"),
        "{}",
        ended.stderr
    );
    let fake = cluster(&json!([]), &[pod(0, &unschedulable("0/1 nodes"))], &[]);
    let ended = run(&mut fake.kube("logs pxn")).expect_code(5);
    assert!(
        ended.stderr.contains("has not started, so there is no log"),
        "{}",
        ended.stderr
    );
    let ended = run(&mut fake.kube("logs pxn --node 1")).expect_code(5);
    assert!(
        ended.stderr.contains("the pod of node 1 is not there yet"),
        "{}",
        ended.stderr
    );
}

/// Follows a log in which there is always another line, and has read one of them.
fn following(fake: &Fake) -> Child {
    fake.talks("logs pxn-0-abcde --follow*");
    let mut command = fake.kube("logs pxn --follow");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, "another line\n");
    child
}

#[test]
fn following_ends_with_a_signal_or_with_its_reader_and_so_does_kubectl() {
    let fake = while_it_runs();
    let kubectl = fake.home().with_file_name("bin/kubectl");
    let no_kubectl = || processes_with(&kubectl.display().to_string()).is_empty();
    let follows = following(&fake);
    assert!(send_signal("-INT", follows.id()));
    assert_eq!(common::ended(follows).code, Some(0));
    wait_until("kubectl ends", no_kubectl);

    let mut follows = following(&fake);
    drop(follows.stdout.take());
    assert_eq!(common::ended(follows).code, Some(0));
    wait_until("kubectl ends", no_kubectl);
}
