//! `pxnbench launch --hosts` over an ssh that runs the command on this machine, under the host's
//! own `NCCL_HOSTID`, or fails as the real one does.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    common::{
        self, BINARY, Ended, alone, ended, free_port, json, processes_with, run, send_signal,
        wait_until,
    },
    folder,
};

/// A machine with that ssh.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster { folder: folder() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn with_ssh(&self, mut command: Command) -> Command {
        common::use_test_ssh(&mut command);
        command
            .env("SSH_LOG", self.path().join("ssh.log"))
            .env("PROGRAM", BINARY)
            .env_remove("PXNBENCH_TOKEN");
        command
    }

    /// A launch whose ranks meet at `port` of this machine.
    fn launch(&self, hosts: &str, port: u16, words: &str) -> Command {
        let mut command = self.with_ssh(alone(self.path()));
        command
            .args(["launch", "--hosts", hosts, "--master"])
            .arg(format!("127.0.0.1:{port}"))
            .args(words.split_whitespace());
        command
    }

    #[track_caller]
    fn refused(&self, hosts: &str) -> Ended {
        let ranks = "--ranks-per-node 1 all_reduce --backend model";
        let ended = run(&mut self.launch(hosts, free_port(), ranks)).expect_code(8);
        assert_eq!(ended.stdout, "");
        ended
    }

    fn ssh_log(&self) -> String {
        fs::read_to_string(self.path().join("ssh.log")).expect("what ssh was called with")
    }
}

#[test]
fn ranks_start_on_every_host_and_the_first_prints_the_table() {
    let cluster = Cluster::new();
    let words = "--ranks-per-node 2 all_reduce -b 8 -e 64 -f 8 --backend model --out results";
    let ended = run(&mut cluster.launch("a,node[1-2]", free_port(), words)).expect_code(0);
    let says = "pxnbench: 3 hosts (a,node[1-2]), 2 ranks on each, over ssh; the ranks meet over \
                TCP at 127.0.0.1:";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    assert_eq!(ended.rows().len(), 2, "{}", ended.stdout);
    let log = cluster.ssh_log();
    for (host, node) in [("a", 0), ("node1", 1), ("node2", 2)] {
        let join = format!(" join {node} 127.0.0.1:");
        let call = log.lines().find(|line| line.contains(&join));
        let call = call.unwrap_or_else(|| panic!("{log}"));
        assert!(
            call.contains("BatchMode=yes") && call.contains(&format!(" {host} ")),
            "{call}"
        );
    }
    assert!(
        !log.contains("TOKEN"),
        "the secret is on no command line: {log}"
    );
}

#[test]
fn a_host_may_greet_in_any_encoding_and_at_any_length() {
    let cluster = Cluster::new();
    for hosts in ["noisy,a", "a,noisy"] {
        let words = "--ranks-per-node 1 all_reduce -b 8 -e 8 --backend model";
        run(&mut cluster.launch(hosts, free_port(), words)).expect_code(0);
    }
}

#[test]
fn a_secret_of_the_user_is_on_no_command_line() {
    let cluster = Cluster::new();
    let words = "--ranks-per-node 1 all_reduce -b 8 -e 8 --backend model";
    let mut command = cluster.launch("a,b", free_port(), words);
    run(command.env("PXNBENCH_TOKEN", "s3cret")).expect_code(0);
    assert!(!cluster.ssh_log().contains("s3cret"));
}

#[test]
fn a_host_that_is_not_ready_is_named_with_cause_and_remedy() {
    let cluster = Cluster::new();
    for (hosts, says) in [
        (
            "a,denied",
            "denied is not ready: ssh is refused without a password (me@denied: Permission denied \
             (publickey,password)). Run ssh-copy-id denied",
        ),
        (
            "unknown,b",
            "unknown is not ready: its name does not resolve (ssh: Could not resolve hostname \
             unknown",
        ),
        (
            "a,closed",
            "closed is not ready: no ssh server listens there",
        ),
        (
            "a,changed",
            "changed is not ready: its host key is not known, or is another one than before",
        ),
        ("a,missing", "missing is not ready: it has no "),
        (
            "a,older",
            "older is not ready: it has pxnbench 0.0.9 and this is ",
        ),
        ("a,elsewhere", "elsewhere is not ready: it has no folder "),
    ] {
        let ended = cluster.refused(hosts);
        assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
    let ended = cluster.refused("a,denied,unknown");
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 3, "{}", ended.stderr);
    assert_eq!(
        sentences[2],
        "pxnbench: 2 of 3 hosts are not ready. Nothing was started"
    );
    assert!(!cluster.ssh_log().contains(" join "), "nothing was started");
}

#[test]
fn a_host_that_does_not_answer_is_given_up_on() {
    let cluster = Cluster::new();
    let ended = cluster.refused("a,hanging");
    assert!(
        ended
            .stderr
            .contains("hanging is not ready: it did not answer within 30 s"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_port_in_use_is_found_before_ranks_start() {
    let cluster = Cluster::new();
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let words = "--ranks-per-node 1 all_reduce --backend model";
    let ended = run(&mut cluster.launch("a,b", port, words)).expect_code(8);
    let says = format!(
        "pxnbench: a is not ready: its port {port} is in use. Name another port: --master \
         HOST:PORT\n"
    );
    assert_eq!(ended.stderr, says);
}

#[test]
fn a_place_that_the_others_cannot_reach_is_found_before_ranks_start() {
    let cluster = Cluster::new();
    let mut command = cluster.with_ssh(alone(cluster.path()));
    let port = free_port().to_string();
    let place = format!("no-such-host.invalid:{port}");
    command.args([
        "launch",
        "--hosts",
        "a,b",
        "--ranks-per-node",
        "1",
        "--master",
        &place,
    ]);
    let ended = run(command.args(["all_reduce", "--backend", "model"])).expect_code(8);
    let says =
        "pxnbench: b is not ready: it cannot resolve no-such-host.invalid, where the ranks meet";
    assert!(ended.stderr.starts_with(says), "{}", ended.stderr);
}

#[test]
fn commands_that_are_printed_do_what_launch_does() {
    let cluster = Cluster::new();
    let words = "--ranks-per-node 1 --dry-run -- all_reduce -b 8 -e 64 -f 8 --backend model --csv";
    let mut command = cluster.launch("a,b", free_port(), words);
    let ended = run(command.arg("it's a file.csv").env("NCCL_DEBUG", "W\"A$R'N")).expect_code(0);
    assert_eq!(ended.stdout.lines().count(), 3, "{}", ended.stdout);
    let mut shell = cluster.with_ssh(Command::new("sh"));
    let ran = run(shell
        .arg("-c")
        .arg(&ended.stdout)
        .current_dir(cluster.path()))
    .expect_code(0);
    assert!(
        cluster.path().join("it's a file.csv").exists(),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_contradicts_itself_is_refused() {
    let cluster = Cluster::new();
    let file = cluster.path().join("hosts");
    fs::write(&file, "n1 slots=2\nn2 gpus=2\n").expect("written");
    for (words, says) in [
        (
            "--hosts a:1,b:2 all_reduce",
            "a has 1 slot but b has 2 slots, and all hosts need the same number of ranks",
        ),
        (
            "--hosts me@a all_reduce",
            "Name the user in ~/.ssh/config, and here only a; see pxnbench launch --help",
        ),
        (
            "--hosts a --over ssh all_reduce --backend host",
            "the host backend needs MPI. Use --over mpirun",
        ),
        (
            "--hosts a --over rsh all_reduce",
            "there are auto, ssh and mpirun",
        ),
        (
            "--hostfile hosts all_reduce",
            "hosts cannot be used: line 2: 'gpus=2' is unknown. Write NAME slots=N",
        ),
        ("--hostfile none all_reduce", "none cannot be read"),
        (
            "--hosts a --hostfile hosts all_reduce",
            "cannot be used with",
        ),
        (
            "--hosts a,b --over mpirun --ranks-per-node 4294967295 all_reduce",
            "2 nodes of 4294967295 ranks are too many",
        ),
        ("--over ssh all_reduce", "not provided: <--hosts"),
        ("--master node1 all_reduce", "not provided: <--hosts"),
        ("--remote-program x all_reduce", "not provided: <--hosts"),
    ] {
        let mut command = cluster.with_ssh(alone(cluster.path()));
        let ended = run(command.arg("launch").args(words.split(' '))).expect_code(6);
        assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
}

/// A launch on two hosts that goes on for ten minutes.
struct Running {
    launch: Child,
    cluster: Cluster,
}

impl Running {
    fn start() -> Running {
        let cluster = Cluster::new();
        let words = "--ranks-per-node 1 all_reduce --backend model --time 10m --out";
        let mut command = cluster.launch("a,b", free_port(), words);
        command
            .arg(cluster.path().join("results"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let launch = command.spawn().expect("started");
        let running = Running { launch, cluster };
        let results = running.cluster.path().join("results/results.csv");
        wait_until("results come", || {
            fs::read_to_string(&results).is_ok_and(|text| text.lines().count() > 1)
        });
        running
    }

    /// Sends a signal to launch, and returns how it ends, with the machine; nothing that it started
    /// may remain.
    fn end_by(self, signal: &str) -> (Ended, Cluster) {
        let Running { launch, cluster } = self;
        let pid = launch.id();
        assert!(send_signal(signal, pid));
        let name = cluster.path().display().to_string();
        wait_until("all ends", || {
            processes_with(&name).iter().all(|process| *process == pid)
        });
        (ended(launch), cluster)
    }
}

#[test]
fn ctrl_c_stops_the_ranks_of_all_hosts_and_keeps_the_results() {
    let (ended, cluster) = Running::start().end_by("-INT");
    let ended = ended.expect_code(9);
    // The rank that prints may learn it from another one first.
    assert!(ended.stderr.contains("stopped by "), "{}", ended.stderr);
    let run = json(&cluster.path().join("results/run.json"));
    assert_eq!(run["end"]["code"], 9, "{run:#}");
}

#[test]
fn no_rank_outlives_a_launch_that_is_killed() {
    let (ended, _) = Running::start().end_by("-KILL");
    assert_eq!(ended.code, None, "{}", ended.stderr);
}
