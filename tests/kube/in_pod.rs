//! What runs in a pod, run here: the results are in its log, and the code is that of the run.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    common::{self, BINARY, alone, run},
    folder,
};

/// The program in a pod, with the model, which needs neither GPUs nor other ranks.
fn in_pod(home: &std::path::Path, options: &str, sweep: &str) -> Command {
    let mut command = alone(home);
    command.args(["kube", "in-pod", "--results", "out/pxn"]);
    command.args(options.split_whitespace()).arg("--");
    command.args(sweep.split_whitespace());
    command
}

#[test]
fn a_run_leaves_its_results_in_the_log() {
    let home = folder();
    let sweep = "all_reduce --backend model --ranks 8 -b 1M -e 1M --out out/pxn";
    let log = run(&mut in_pod(home.path(), "", sweep))
        .expect_code(0)
        .stdout;
    assert!(log.contains("all_reduce"), "the table comes first: {log}");
    assert!(
        log.lines()
            .any(|line| line.starts_with("pxnbench-results begin ")),
        "{log}"
    );
    assert!(log.ends_with("pxnbench-results end\n"), "{log}");
    let mut print = Command::new(BINARY);
    print
        .current_dir(home.path())
        .args(["kube", "in-pod", "--results", "out/pxn", "--print"]);
    let printed = run(&mut print).expect_code(0).stdout;
    assert!(log.ends_with(&printed), "the same as in the log");
}

#[test]
fn a_run_that_fails_gives_its_code_and_no_results() {
    let home = folder();
    let ended = run(&mut in_pod(home.path(), "", "all_reduce -b 2G -e 1G")).expect_code(6);
    assert!(
        !ended.stdout.contains("pxnbench-results"),
        "{}",
        ended.stdout
    );
    let mut print = in_pod(home.path(), "--print", "");
    let ended = run(&mut print).expect_code(5);
    assert!(
        ended.stderr.contains("has no results yet"),
        "{}",
        ended.stderr
    );
}

#[test]
fn of_the_ranks_in_a_pod_the_first_leaves_the_results() {
    let home = folder();
    fs::create_dir_all(home.path().join("out/pxn")).expect("made");
    fs::write(home.path().join("out/pxn/results.csv"), "size\n8\n").expect("written");
    for (rank, leaves) in [("0", true), ("1", false)] {
        let mut command = in_pod(home.path(), "", "--version");
        command.env("OMPI_COMM_WORLD_RANK", rank);
        let log = run(&mut command).expect_code(0).stdout;
        assert_eq!(log.contains("pxnbench-results end"), leaves, "{log}");
    }
}

#[test]
fn a_run_that_does_not_end_with_its_pod_is_killed() {
    let home = folder();
    let out = home.path().join("out/pxn").display().to_string();
    let sweep = format!("all_reduce --backend model --ranks 8 -b 8 -e 8 -N 0 --out {out}");
    let mut command = in_pod(home.path(), "", &sweep);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let pod = command.spawn().expect("started");
    let csv = home.path().join("out/pxn/results.csv");
    common::wait_until("rows", || {
        fs::metadata(&csv).is_ok_and(|file| file.len() > 1000)
    });
    let mut processes = common::processes_with(&out);
    processes.retain(|process| *process != pod.id());
    assert_eq!(processes.len(), 1);
    assert!(common::send_signal("-STOP", processes[0]));
    assert!(common::send_signal("-TERM", pod.id()));
    let ended = common::ended(pod).expect_code(9);
    let said = "pxnbench: the ranks of this pod had not ended 15 s after they were asked to, and \
                were killed\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let is_left = ended.stdout.ends_with("pxnbench-results end\n");
    assert!(is_left, "{}", ended.stdout);
    assert_eq!(common::processes_with(&out), Vec::<u32>::new());
}
