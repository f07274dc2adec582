//! How ranks are started, and ways of it that are refused.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    common::{self, has_mpi, mpirun, run},
    folder,
};

#[test]
fn processes_that_each_believe_to_be_alone_are_refused() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = common::alone(folder.path());
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ]);
    let ended =
        run(command
            .env("SLURM_STEP_NUM_TASKS", "4")
            .args(["all_reduce", "-b", "8", "-e", "8"]))
        .expect_code(8);
    let sentence = ended.sentences().join("");
    assert!(
        sentence.contains("srun started 4 processes") && sentence.contains("--mpi=pmix"),
        "{sentence}"
    );
}

#[test]
fn ranks_with_other_arguments_are_refused() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(1, folder.path());
    command.args([
        "all_reduce",
        "-b",
        "8",
        "-e",
        "16",
        "-f",
        "2",
        "-d",
        "int32",
        ":",
        "-np",
        "1",
        common::BINARY,
    ]);
    let ended = run(command.args(["all_reduce", "-b", "8", "-e", "16", "-f", "2"])).expect_code(6);
    let host = pxnbench::world::placement::host_name();
    let says = format!(
        "rank 0 on {host} and rank 1 on {host} were started with different arguments (`-d int32` \
         and nothing). Start all ranks"
    );
    assert!(ended.stderr.contains(&says), "{}", ended.stderr);
}

#[test]
fn one_process_needs_no_session_folder() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    // A file where Open MPI's session folder would be.
    std::fs::write(folder.path().join(".mpi"), "").expect("written");
    let mut command = common::alone(folder.path());
    command.args(["all_reduce", "-b", "8", "-e", "8", "--backend", "host"]);
    run(&mut command).expect_code(0);
}

#[test]
fn host_memory_of_named_hosts_is_measured_by_mpirun() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = common::alone(folder.path());
    command.envs(common::MPIRUN_VARIABLES).args([
        "launch",
        "--hosts",
        "localhost:2",
        "all_reduce",
        "-b",
        "8",
        "-e",
        "64",
        "-f",
        "8",
        "--backend",
        "host",
    ]);
    let ended = run(&mut command).expect_code(0);
    let says =
        "pxnbench: 1 host (localhost), 2 ranks on each, by mpirun; the ranks meet over MPI\n";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    assert!(ended.stdout.contains("#  Rank  1 "), "{}", ended.stdout);
    let rows = ended.rows();
    assert_eq!(rows.len(), 2, "{}", ended.stdout);
    assert!(rows.iter().all(|row| row[8] == "0"), "{rows:?}");

    let mut command = common::alone(folder.path());
    let words = "launch --hosts n1,n2 --over mpirun --ranks-per-node 4 --dry-run all_reduce";
    let ended = run(command.args(words.split(' '))).expect_code(0);
    let line = ended.stdout;
    let expected = ["-np 8 ", " all_reduce\n"];
    assert!(expected.iter().all(|part| line.contains(part)), "{line}");
    assert!(
        line.contains("n1:4,n2:4") || line.contains("n1,n2"),
        "{line}"
    );
}

#[test]
fn ranks_do_not_outlive_the_launch() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let marker = folder.path().join("run").display().to_string();
    let mut command = common::alone(folder.path());
    let words =
        "launch --hosts localhost:2 all_reduce -b 1K -e 4K -f 2 -n 20 -N 0 --backend host --out";
    command
        .envs(common::MPIRUN_VARIABLES)
        .args(words.split(' '))
        .arg(&marker)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("started");
    let csv = folder.path().join("run/results.csv");
    let rows = || std::fs::read_to_string(&csv).map_or(0, |text| text.lines().count());
    common::wait_until("rows", || rows() > 3);
    assert!(common::processes_with(&marker).len() >= 4);
    child.kill().expect("killed");
    child.wait().expect("ended");
    common::wait_until("nothing is left", || {
        common::processes_with(&marker).is_empty()
    });
}

/// A launch of two ranks on this machine by an mpirun that does what `script` says in place of
/// starting them.
fn by_mpirun_that(script: &str, folder: &Path) -> Command {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("made");
    let mpirun = bin.join("mpirun");
    let others = "case $* in *--version|*' probe') PATH=${PATH#*:}; exec mpirun \"$@\";; esac";
    fs::write(&mpirun, format!("#!/bin/sh\n{others}\n{script}\n")).expect("written");
    fs::set_permissions(&mpirun, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = std::env::var("PATH").expect("a PATH");
    let mut command = common::alone(folder);
    command
        .env("PATH", format!("{}:{path}", bin.display()))
        .envs(common::MPIRUN_VARIABLES)
        .args(["launch", "--hosts", "localhost:2", "all_reduce"])
        .args(["--backend", "host"]);
    command
}

#[test]
fn a_launcher_that_does_not_end_is_killed() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let marker = folder.path().join("goes-on").display().to_string();
    let ready = folder.path().join("ready");
    let script = format!(
        "exec sh -c 'trap \"\" TERM; : >{}; for i in $(seq 1000); do sleep 0.1; done' {marker}",
        ready.display()
    );
    let mut command = by_mpirun_that(&script, folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    common::wait_until("the launcher", || ready.exists());
    assert!(common::send_signal("-INT", child.id()));
    let ended = common::ended(child).expect_code(9);
    let said = "pxnbench: mpirun had not ended 15 s after it was asked to, and was killed\n";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(common::processes_with(&marker), Vec::<u32>::new());
}

#[test]
fn what_outlives_a_launcher_is_not_waited_for() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let marker = folder.path().join("goes-on").display().to_string();
    let script = format!("sh -c 'sleep 60; :' {marker} >/dev/null &\necho bye >&2; exit 3");
    let ended = run(&mut by_mpirun_that(&script, folder.path())).expect_code(3);
    // It holds the launcher's stderr.
    let left = common::processes_with(&marker);
    for process in &left {
        common::send_signal("-KILL", *process);
    }
    assert_eq!(left.len(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("bye\n"), "{}", ended.stderr);
}
