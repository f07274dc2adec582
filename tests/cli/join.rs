//! `pxnbench join`: what is refused, and how the ranks of a node end.

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{
        Ended, alone, ended, free_port, json, process_of_rank, processes_with, run, send_signal,
        wait_until,
    },
    folder,
};

/// A command line, and what is said of it.
struct Line {
    words: &'static str,
    says: &'static str,
}

#[test]
fn join_refuses_what_cannot_come_together() {
    let folder = folder();
    for Line { words, says } in [
        Line {
            words: "join 2 node1 --nodes 2 --ranks-per-node 8 -- all_reduce",
            says: "there is no node 2 among 2. Number the nodes from 0 to 1",
        },
        Line {
            words: "join 0 node1 --ranks-per-node 8 -- all_reduce",
            says: "--nodes <N>",
        },
        Line {
            words: "join 0 node1 --nodes 0 --ranks-per-node 8 -- all_reduce",
            says: "a whole number of at least 1 is needed",
        },
        Line {
            words: "join first node1 --nodes 2 -- all_reduce",
            says: "a whole number of at least 0 is needed",
        },
        Line {
            words: "join 0 node1:x --nodes 2 -- all_reduce",
            says: "'x' is no port. Use a number from 1 to 65535; see pxnbench join --help",
        },
        Line {
            words: "join 0 node1:1 --port 2 --nodes 2 --ranks-per-node 8 -- all_reduce",
            says: "the port is given twice, as 1 and as 2. Leave one out",
        },
        Line {
            words: "join 0 fd00::1:29500:x --nodes 2 -- all_reduce",
            says: "Write HOST:PORT or [ADDRESS]:PORT",
        },
        Line {
            words: "join 0 node1 --nodes 2 --ranks-per-node 8 -- all_reduce --backend host",
            says: "the host backend needs MPI, which join does without. Use mpirun, or --backend \
                   nccl",
        },
        Line {
            words: "join 0 node1 --nodes 65536 --ranks-per-node 65536 -- all_reduce",
            says: "65536 nodes of 65536 ranks are too many",
        },
        Line {
            words: "join 0 node1 --nodes 2 --ranks-per-node 8 -- allreduce",
            says: "did you mean all_reduce?",
        },
        Line {
            words: "join 0 node1 --nodes 2 --ranks-per-node 8 --level agressive -- all_reduce",
            says: "see pxnbench join --help",
        },
        Line {
            words: "join 0 node1 --nodes 2 --ranks-per-node 8 --level off -- doctor",
            says: "'--level'",
        },
        Line {
            words: "join 0 node1 --nodes 2 --ranks-per-node 8 -- topo",
            says: "Name collectives, replay or doctor",
        },
    ] {
        let words = words.split(' ');
        let ended = run(alone(folder.path()).args(words)).expect_code(6);
        assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_node_without_gpus_needs_the_number_of_its_ranks() {
    let folder = folder();
    let words = "join 0 node1 --nodes 2 -- all_reduce --backend model --ranks 2";
    let mut command = alone(folder.path());
    command.env("CUDA_VISIBLE_DEVICES", "-1");
    let ended = run(command.args(words.split(' '))).expect_code(6);
    let says = "CUDA_VISIBLE_DEVICES shows no GPU. Give --ranks-per-node";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

/// Two ranks that go on for ten minutes, under a join.
struct Node {
    join: Child,
    folder: tempfile::TempDir,
}

impl Node {
    fn start() -> Node {
        Node::start_with(&[])
    }

    /// Starts it with more arguments of the sweep.
    fn start_with(more: &[&str]) -> Node {
        let folder = folder();
        let words = "join 0 127.0.0.1 --nodes 1 --ranks-per-node 2 --port";
        let mut command = alone(folder.path());
        command
            .args(words.split(' '))
            .arg(free_port().to_string())
            .args([
                "--",
                "all_reduce",
                "--backend",
                "model",
                "--time",
                "10m",
                "--out",
            ])
            .arg(folder.path().join("results"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let join = command.spawn().expect("started");
        let node = Node { join, folder };
        wait_until("it runs", || {
            node.rank(0).is_some() && node.rank(1).is_some()
        });
        wait_until("results come", || node.results() > 1);
        node
    }

    /// Returns the process of a rank.
    fn rank(&self, rank: u32) -> Option<u32> {
        process_of_rank(&self.folder.path().display().to_string(), rank)
    }

    /// Returns the number of lines in the results, of which the first is a header.
    fn results(&self) -> usize {
        let text = fs::read_to_string(self.folder.path().join("results/results.csv"));
        text.unwrap_or_default().lines().count()
    }

    fn is_gone(&self) -> bool {
        let name = self.folder.path().display().to_string();
        let mut processes = processes_with(&name);
        processes.retain(|pid| *pid != self.join.id());
        processes.is_empty()
    }

    /// Sends a signal to a process, and returns how join ends, with the folder of the ranks, which
    /// end too.
    fn end_by(self, signal: &str, process: u32) -> (Ended, tempfile::TempDir) {
        assert!(send_signal(signal, process));
        wait_until("the ranks end", || self.is_gone());
        (ended(self.join), self.folder)
    }
}

#[test]
fn a_signal_to_join_stops_the_ranks_and_keeps_the_results() {
    let node = Node::start();
    let join = node.join.id();
    let (ended, folder) = node.end_by("-TERM", join);
    let ended = ended.expect_code(9);
    // The rank that prints may learn it from another one first.
    assert!(ended.stderr.contains("stopped by "), "{}", ended.stderr);
    let run = json(&folder.path().join("results/run.json"));
    assert_eq!(run["end"]["code"], 9, "{run:#}");
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_end() {
    let node = Node::start();
    let rank = node.rank(1).expect("rank 1");
    let (ended, _) = node.end_by("-KILL", rank);
    let stderr = ended.expect_code(8).stderr;
    assert!(
        stderr.contains("pxnbench: rank 1 on ")
            && stderr.contains("was ended by a signal (SIGKILL), which ended the run"),
        "{stderr}"
    );
}

#[test]
fn a_rank_that_is_stopped_is_named_and_not_waited_for() {
    let node = Node::start_with(&["-T", "3"]);
    // Each process has heard of the others.
    std::thread::sleep(Duration::from_secs(2));
    let rank = node.rank(1).expect("rank 1");
    let stopped = Instant::now();
    let (ended, _) = node.end_by("-STOP", rank);
    let took = stopped.elapsed();
    let stderr = ended.expect_code(4).stderr;
    assert!(
        stderr.contains(&format!("pid {rank}) has been silent since "))
            && stderr.contains("rank 1 did not end by itself and was ended"),
        "{stderr}"
    );
    // 3 s until it is named and 5 s for the others to end; to ask it for 10 s more is of no use.
    assert!(took < Duration::from_secs(18), "{took:?}");
}

#[test]
fn no_rank_outlives_a_join_that_is_killed() {
    let node = Node::start();
    let join = node.join.id();
    let (ended, _) = node.end_by("-KILL", join);
    assert_eq!(ended.code, None, "{}", ended.stderr);
}
