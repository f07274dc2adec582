//! The variables of a rank on a virtual node.

use std::{fmt::Write as _, path::Path};

use super::played::PlayedOnRails;
use crate::{nccl_log::subsystems::LogDetail, rehearsal::theory::Algorithm};

/// NCCL's variables that ranks inherit: where libnccl and its configuration file are, and over
/// which sockets ranks meet. Others would change what is rehearsed.
const INHERITED: [&str; 4] = [
    "NCCL_HOME",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_CONF_FILE",
];

/// Settings of every rank, whatever is rehearsed.
///
/// NVLS and MNNVL would carry data of virtual nodes, which are on one machine, past their NICs.
/// Several jobs would share the port of RAS. NCCL 2.28 forgets the name of a plugin with the last
/// communicator. There is one communicator, with the ranks of the job.
const ALWAYS: [(&str, &str); 6] = [
    ("NCCL_NET", "pxnbench"),
    ("NCCL_NET_PLUGIN_REF_COUNT", "1"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_MNNVL_ENABLE", "0"),
    ("NCCL_RAS_ENABLE", "0"),
    ("PXNBENCH_RAIL_WORLD", "1"),
];

/// What the variables of a job's ranks follow from.
#[derive(Debug)]
pub(super) struct JobEnvironment<'a> {
    pub(super) plugin: &'a Path,
    pub(super) topology: &'a Path,
    /// The value of CUDA_VISIBLE_DEVICES.
    pub(super) visible: &'a str,
    pub(super) rails: usize,
    pub(super) ranks_per_node: u32,
    pub(super) algorithm: Algorithm,
    pub(super) played: &'a PlayedOnRails,
    /// The folder for NCCL's logs.
    pub(super) logs: &'a Path,
    /// The folder for the counters of the rails.
    pub(super) counters: &'a Path,
}

impl JobEnvironment<'_> {
    /// Returns the variables of a rank.
    pub(super) fn of_rank(&self, rank: u32) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        let log = self.logs.join(format!("rank-{rank}.log"));
        let mut variables: Vec<(&'static str, String)> = ALWAYS
            .iter()
            .chain(&LogDetail::Algorithms.variables())
            .chain(of_algorithm(self.algorithm))
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        variables.extend([
            ("NCCL_HOSTID", format!("node{}", rank / self.ranks_per_node)),
            ("NCCL_NET_PLUGIN", path(self.plugin)),
            ("NCCL_TOPO_FILE", path(self.topology)),
            ("NCCL_DEBUG_FILE", path(&log)),
            ("CUDA_VISIBLE_DEVICES", self.visible.to_owned()),
            // The numbers are NVML's, which follow the PCI addresses.
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
            ("PXNBENCH_RAILS", self.rails.to_string()),
            ("PXNBENCH_RAIL_COUNTERS", path(self.counters)),
        ]);
        variables.extend(self.played.variables());
        variables
    }

    /// Describes the variables of so many ranks, a line each: first those that all have alike, then
    /// those of each rank.
    pub(super) fn description(&self, ranks: u32) -> String {
        let of_ranks: Vec<_> = (0..ranks).map(|rank| self.of_rank(rank)).collect();
        let is_common = |variable: &(&str, String)| {
            let mut all = of_ranks.iter();
            all.all(|of_rank| of_rank.contains(variable))
        };
        let mut text = String::from("# all ranks\n");
        let first = of_ranks.first().into_iter().flatten();
        for (name, value) in first.filter(|variable| is_common(variable)) {
            let _ = writeln!(text, "{name}={value}");
        }
        for (rank, variables) in of_ranks.iter().enumerate() {
            let _ = writeln!(text, "# rank {rank}");
            let own = variables.iter().filter(|variable| !is_common(variable));
            for (name, value) in own {
                let _ = writeln!(text, "{name}={value}");
            }
        }
        text
    }
}

/// Returns what tells NCCL how to run a collective; the bytes of other protocols than Simple are
/// not those of the data.
fn of_algorithm(algorithm: Algorithm) -> &'static [(&'static str, &'static str)] {
    match algorithm {
        Algorithm::SendRecv => &[],
        Algorithm::Ring => &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")],
        Algorithm::Tree => &[("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "Simple")],
    }
}

/// Returns whether ranks do not inherit a variable: the theory is that of a level alone.
pub(super) fn is_left_out(name: &str) -> bool {
    let is_of_nccl = name.starts_with("NCCL_") && !INHERITED.contains(&name);
    is_of_nccl || name.starts_with("PXNBENCH_RAIL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(algorithm: Algorithm, played: &PlayedOnRails) -> JobEnvironment<'_> {
        JobEnvironment {
            plugin: Path::new("/p/rails.so"),
            topology: Path::new("/x/split.xml"),
            visible: "0,1",
            rails: 2,
            ranks_per_node: 2,
            algorithm,
            played,
            logs: Path::new("/x/nccl"),
            counters: Path::new("/x/counters"),
        }
    }

    fn of_rank(rank: u32, algorithm: Algorithm, played: &PlayedOnRails) -> Vec<String> {
        let variables = environment(algorithm, played).of_rank(rank);
        let text = |(name, value): &(&str, String)| format!("{name}={value}");
        let mut all: Vec<String> = variables.iter().map(text).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_rank_has_its_node_its_gpus_the_plugin_and_files_of_its_own() {
        let variables = of_rank(3, Algorithm::SendRecv, &PlayedOnRails::default());
        assert_eq!(
            variables,
            [
                "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES=0,1",
                "NCCL_DEBUG=INFO",
                "NCCL_DEBUG_FILE=/x/nccl/rank-3.log",
                "NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING",
                "NCCL_HOSTID=node1",
                "NCCL_MNNVL_ENABLE=0",
                "NCCL_NET=pxnbench",
                "NCCL_NET_PLUGIN=/p/rails.so",
                "NCCL_NET_PLUGIN_REF_COUNT=1",
                "NCCL_NVLS_ENABLE=0",
                "NCCL_RAS_ENABLE=0",
                "NCCL_TOPO_FILE=/x/split.xml",
                "PXNBENCH_RAILS=2",
                "PXNBENCH_RAIL_COUNTERS=/x/counters",
                "PXNBENCH_RAIL_WORLD=1",
            ]
        );
    }

    #[test]
    fn rings_and_trees_are_asked_for_and_rails_may_be_slow() {
        let played = PlayedOnRails {
            bandwidth: vec!["1=0.5".parse().expect("a rail")],
            ..PlayedOnRails::default()
        };
        let variables = of_rank(1, Algorithm::Tree, &played);
        for wanted in [
            "NCCL_ALGO=Tree",
            "NCCL_PROTO=Simple",
            "NCCL_HOSTID=node0",
            "PXNBENCH_RAIL_BANDWIDTH=1=0.5",
        ] {
            assert!(variables.iter().any(|one| one == wanted), "{wanted}");
        }
    }

    #[test]
    fn a_description_has_what_ranks_have_alike_once() {
        let played = PlayedOnRails::default();
        let text = environment(Algorithm::Ring, &played).description(4);
        let (common, own) = text.split_once("# rank 0\n").expect("ranks");
        assert!(
            common.starts_with("# all ranks\n") && common.contains("\nNCCL_ALGO=Ring\n"),
            "{text}"
        );
        assert!(!common.contains("NCCL_HOSTID"), "{text}");
        let last = "# rank 3\nNCCL_HOSTID=node1\nNCCL_DEBUG_FILE=/x/nccl/rank-3.log\n";
        assert!(own.ends_with(last), "{text}");
    }

    #[test]
    fn settings_of_nccl_are_not_inherited() {
        for name in [
            "NCCL_ALGO",
            "NCCL_PXN_DISABLE",
            "NCCL_TESTS_DEVICE",
            "NCCL_PROFILER_PLUGIN",
            "PXNBENCH_RAILS",
            "PXNBENCH_RAIL_FAULT",
        ] {
            assert!(is_left_out(name), "{name}");
        }
        for name in ["NCCL_HOME", "NCCL_SOCKET_IFNAME", "PXNBENCH_RANKS", "PATH"] {
            assert!(!is_left_out(name), "{name}");
        }
    }
}
