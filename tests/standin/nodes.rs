//! Ranks on several nodes that meet over TCP: the nodes are network namespaces, connected by a
//! bridge.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    common::{self, json},
    machine::Machine,
    tcp::{Job, only_sentence, wait_for_rows},
};

/// The number of nodes, and of the ranks of each.
const NODES: u32 = 4;
const EACH: u32 = 2;

/// Namespaces of their own: one for each node, and one with the bridge between.
struct Network {
    prefix: String,
}

impl Network {
    /// Returns the network, or nothing, with a message, if none can be made.
    fn new(name: &str) -> Option<Network> {
        let network = Network {
            prefix: format!("pxnbench-{name}-{}", std::process::id()),
        };
        let hub = network.name_of("hub");
        if !ip(&format!("netns add {hub}")) || !ip(&format!("-n {hub} link add br0 type bridge")) {
            common::skip("netns", "no network namespace with a bridge can be made");
            return None;
        }
        network.ip(&format!("-n {hub} link set br0 up"));
        for node in 0..NODES {
            let own = network.name(node);
            let host = node + 1;
            network.ip(&format!("netns add {own}"));
            network.ip(&format!(
                "-n {hub} link add v{node} type veth peer name eth0 netns {own}"
            ));
            network.ip(&format!("-n {hub} link set v{node} master br0 up"));
            network.ip(&format!("-n {own} addr add 10.99.0.{host}/24 dev eth0"));
            network.ip(&format!("-n {own} addr add fd99::{host}/64 dev eth0 nodad"));
            network.ip(&format!("-n {own} link set lo up"));
            network.ip(&format!("-n {own} link set eth0 up"));
        }
        Some(network)
    }

    fn name_of(&self, part: &str) -> String {
        format!("{}-{part}", self.prefix)
    }

    fn name(&self, node: u32) -> String {
        self.name_of(&node.to_string())
    }

    #[track_caller]
    fn ip(&self, words: &str) {
        assert!(ip(words), "ip {words}");
    }

    /// Starts all ranks of `job`.
    fn start(&self, job: &mut Job, master: &str) {
        for rank in 0..NODES * EACH {
            let node = rank / EACH;
            let name = self.name(node);
            let local_rank = (rank % EACH).to_string();
            let gpu = rank.to_string();
            let variables = [
                // The nodes are one machine, whose GPUs they would share.
                ("NCCL_TESTS_DEVICE", &*gpu),
                ("NCCL_HOSTID", &name),
                ("MASTER_ADDR", master),
                ("LOCAL_RANK", &local_rank),
                ("LOCAL_WORLD_SIZE", "2"),
            ];
            job.start_below(&["ip", "netns", "exec", &name], rank, &variables);
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in 0..NODES {
            ip(&format!("netns del {}", self.name(node)));
        }
        ip(&format!("netns del {}", self.name_of("hub")));
    }
}

/// Runs `ip`, and returns whether it succeeded.
fn ip(words: &str) -> bool {
    let ended = Command::new("ip").args(words.split(' ')).output();
    ended.is_ok_and(|ended| ended.status.success())
}

#[test]
fn four_nodes_meet_over_ipv4_and_ipv6() {
    let (Some(machine), Some(network)) = (Machine::without_mpi(8), Network::new("meet")) else {
        return;
    };
    for (master, out) in [("10.99.0.1", "four"), ("fd99::1", "six")] {
        let words = format!("all -b 1K -e 4K -f 2 -n 2 -c 1 --backend nccl --out {out}");
        let mut job = Job::new(&machine, NODES * EACH, &words);
        network.start(&mut job, master);
        job.end_with(0);
        let run = json(&machine.path().join(out).join("run.json"));
        let node = |rank: usize| run["processes"][rank]["node"].as_u64();
        let nodes: Vec<_> = (0..8).map(node).collect();
        assert_eq!(nodes, [0, 0, 1, 1, 2, 2, 3, 3].map(Some));
    }
}

#[test]
fn a_node_that_is_cut_off_is_named() {
    let (Some(machine), Some(network)) = (Machine::without_mpi(8), Network::new("cut")) else {
        return;
    };
    let words = "all_reduce -b 8 -e 1K -f 2 --backend nccl --time 100s --out here";
    let mut job = Job::new(&machine, NODES * EACH, words);
    network.start(&mut job, "10.99.0.1");
    wait_for_rows(&machine.path().join("here/results.csv"));
    let cut = Instant::now();
    network.ip(&format!("-n {} link set v2 down", network.name_of("hub")));
    let ended = job.end_with(8);
    assert!(cut.elapsed() < Duration::from_secs(60));
    let what = only_sentence(&ended);
    assert!(
        what.contains("rank 4 on ") && what.contains(" cannot be reached any more: "),
        "{what}"
    );
}
