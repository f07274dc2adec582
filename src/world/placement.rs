//! Which process is on which node and which GPUs it uses, computed from what every process reports.
//!
//! Nodes and local ranks come from the processes themselves, not from `SLURM_LOCALID` or
//! `SLURM_NODEID`, which are wrong under mpirun inside an allocation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde::{Deserialize, Serialize};

use crate::{
    env::Env,
    exit::{Code, Failure},
    units::counted,
};

/// The report of a process about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Host name, up to the first dot.
    pub host: String,
    /// Identity of the host as NCCL sees it; processes with the same identity are on the same node.
    pub host_id: String,
    /// Process id.
    pub pid: u32,
    /// UUIDs of the GPUs that it sees, in its own order.
    pub gpus: Vec<String>,
    /// `NCCL_TESTS_DEVICE`: the first GPU that it has to use, as an index into `gpus`. If it is
    /// `None`, its order on the node decides.
    #[serde(default)]
    pub first_gpu: Option<String>,
}

/// The node of a process and its order there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlacement {
    /// Its node; nodes are numbered in the order of their first ranks.
    pub node: u32,
    /// Its order among the processes of its node.
    pub local_rank: u32,
}

/// Returns the identity of this host as NCCL forms it: `NCCL_HOSTID` if set, else host name and
/// boot id.
pub fn host_id(env: Env) -> String {
    if let Some(id) = env("NCCL_HOSTID") {
        return id;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{}/{}", host_name(), boot.trim())
}

/// Returns the name of this host up to the first dot, as nccl-tests prints it.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".into());
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// Returns the placement of each process, in rank order.
pub fn place_ranks(processes: &[ProcessIdentity]) -> Vec<RankPlacement> {
    /// A node and the number of its processes so far.
    struct Node<'a> {
        host_id: &'a str,
        processes: u32,
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut placements = Vec::with_capacity(processes.len());
    for process in processes {
        let host_id = process.host_id.as_str();
        let known = nodes.iter().position(|node| node.host_id == host_id);
        let index = known.unwrap_or(nodes.len());
        if known.is_none() {
            nodes.push(Node {
                host_id,
                processes: 0,
            });
        }
        placements.push(RankPlacement {
            node: index as u32,
            local_rank: nodes[index].processes,
        });
        nodes[index].processes += 1;
    }
    placements
}

/// Returns the number of nodes.
pub fn node_count(placements: &[RankPlacement]) -> u32 {
    placements
        .iter()
        .map(|placement| placement.node + 1)
        .max()
        .unwrap_or(0)
}

/// Returns the GPUs of each process, `gpus_per_process` of them, as indices into what it sees.
///
/// Processes of a node that see the same GPUs divide them in order. A process that sees GPUs of its
/// own (`--gpus-per-task`, CUDA_VISIBLE_DEVICES) starts at 0, and one with `NCCL_TESTS_DEVICE` at
/// that index. Two ranks of a node never share a GPU, unless `may_share` is set
/// (NCCL_MULTI_RANK_GPU_ENABLE of NCCL 2.30).
///
/// # Errors
/// Returns [`Code::NothingRan`] if a process is left without a GPU, and [`Code::Usage`] if two
/// ranks would share one. Every process has the same facts and so the same error.
pub fn assign_gpus(
    processes: &[ProcessIdentity],
    placements: &[RankPlacement],
    gpus_per_process: u32,
    may_share: bool,
) -> anyhow::Result<Vec<Vec<usize>>> {
    let job = JobPlacement {
        processes,
        placements,
    };
    let mut assigned = Vec::with_capacity(processes.len());
    for rank in 0..processes.len() {
        assigned.push(job.gpus_of(rank, gpus_per_process as usize)?);
    }
    if !may_share {
        job.refuse_sharing(&assigned)?;
    }
    Ok(assigned)
}

/// Groups the ranks of one node by the GPUs that they see, in whatever order. The ranks of a group
/// divide its GPUs, so without sharing there cannot be more ranks than GPUs in it.
pub fn group_by_visible_gpus<Rank>(
    ranks: impl IntoIterator<Item = (Rank, BTreeSet<String>)>,
) -> BTreeMap<BTreeSet<String>, Vec<Rank>> {
    let mut groups: BTreeMap<BTreeSet<String>, Vec<Rank>> = BTreeMap::new();
    for (rank, gpus) in ranks {
        groups.entry(gpus).or_default().push(rank);
    }
    groups
}

/// The processes of a job and where they are.
struct JobPlacement<'a> {
    processes: &'a [ProcessIdentity],
    placements: &'a [RankPlacement],
}

impl JobPlacement<'_> {
    fn share_a_node(&self, first: usize, second: usize) -> bool {
        self.placements[first].node == self.placements[second].node
    }

    /// Returns the earlier processes on the same node that see the same GPUs as `rank`.
    fn earlier_peers(&self, rank: usize) -> Vec<usize> {
        let on_node = (0..rank)
            .filter(|&other| self.share_a_node(other, rank))
            .map(|other| (other, self.visible_gpus(other)));
        group_by_visible_gpus(on_node)
            .remove(&self.visible_gpus(rank))
            .unwrap_or_default()
    }

    fn visible_gpus(&self, rank: usize) -> BTreeSet<String> {
        self.processes[rank].gpus.iter().cloned().collect()
    }

    /// Returns the GPUs of one process: as it is told, or else by its order among the processes
    /// that see the same GPUs.
    fn gpus_of(&self, rank: usize, count: usize) -> anyhow::Result<Vec<usize>> {
        let process = &self.processes[rank];
        let requested = match &process.first_gpu {
            None => None,
            Some(value) => Some(parse_first_gpu(value, rank)?),
        };
        let peers = self.earlier_peers(rank);
        let first = requested.unwrap_or(peers.len() * count);
        let visible = process.gpus.len();
        if first.saturating_add(count) <= visible {
            return Ok((first..first + count).collect());
        }
        let host = &process.host;
        let what = if visible == 0 {
            format!(
                "rank {rank} on {host} sees no GPU. Check CUDA_VISIBLE_DEVICES there, and that \
                 the job requests GPUs"
            )
        } else if let Some(first) = requested {
            let last = first.saturating_add(count) - 1;
            format!(
                "NCCL_TESTS_DEVICE={first} and {} ask for GPU {last} on {host}, and rank {rank} \
                 sees {visible} of them there: use a smaller number, or unset it",
                per_process(count)
            )
        } else if count > visible {
            format!(
                "-t and -g ask for {}, and rank {rank} on {host} sees {visible}: ask for fewer, \
                 or let it see more (CUDA_VISIBLE_DEVICES, --gpus-per-node)",
                per_process(count)
            )
        } else {
            let other = peers.get(first % visible / count).unwrap_or(&0);
            format!(
                "{} {other} and {rank} on {host} would share a GPU, which NCCL does not allow: \
                 they see {visible} of them, which is too few for the processes there. Start at \
                 most {} per node",
                if count > 1 { "processes" } else { "ranks" },
                visible / count
            )
        };
        Err(Failure::on_all_ranks(Code::NothingRan, what))
    }

    fn uuids<'a>(&'a self, rank: usize, gpus: &'a [usize]) -> impl Iterator<Item = &'a String> {
        gpus.iter().map(move |&gpu| &self.processes[rank].gpus[gpu])
    }

    /// Refuses two ranks of a node on one GPU: NCCL would hang, or fail with a less helpful
    /// message.
    fn refuse_sharing(&self, assigned: &[Vec<usize>]) -> anyhow::Result<()> {
        for second in 0..assigned.len() {
            for uuid in self.uuids(second, &assigned[second]) {
                let sharer = (0..second).find(|&first| {
                    self.share_a_node(first, second)
                        && self
                            .uuids(first, &assigned[first])
                            .any(|other| other == uuid)
                });
                if let Some(first) = sharer {
                    let what = format!(
                        "ranks {first} and {second} on {} would both use GPU {uuid}, which NCCL \
                         does not allow. Give each rank its own GPU in CUDA_VISIBLE_DEVICES, or \
                         let every rank see all of them (srun --gpu-bind=none)",
                        self.processes[second].host
                    );
                    return Err(Failure::on_all_ranks(Code::Usage, what));
                }
            }
        }
        Ok(())
    }
}

/// Returns `1 GPU per process`, `4 GPUs per process`.
fn per_process(count: usize) -> String {
    format!("{} per process", counted(count, "GPU"))
}

/// Returns the number in `NCCL_TESTS_DEVICE`. Unlike nccl-tests, which reads anything else as 0, it
/// accepts numbers only.
fn parse_first_gpu(value: &str, rank: usize) -> anyhow::Result<usize> {
    value.trim().parse().map_err(|_| {
        let what = format!(
            "NCCL_TESTS_DEVICE={value} on rank {rank} is not the number of a GPU, such as 0 or 4"
        );
        Failure::on_all_ranks(Code::Usage, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(host: &str, gpus: &[&str]) -> ProcessIdentity {
        ProcessIdentity {
            host: host.into(),
            host_id: host.into(),
            pid: 1,
            gpus: gpus.iter().map(|g| (*g).to_owned()).collect(),
            first_gpu: None,
        }
    }

    fn assign(peers: &[ProcessIdentity]) -> Result<Vec<usize>, String> {
        Ok(assign_several(peers, 1)?.concat())
    }

    fn assign_several(peers: &[ProcessIdentity], each: u32) -> Result<Vec<Vec<usize>>, String> {
        assign_gpus(peers, &place_ranks(peers), each, false).map_err(|e| e.to_string())
    }

    #[test]
    fn processes_may_have_several_gpus() {
        let four = ["g0", "g1", "g2", "g3"];
        assert_eq!(
            assign_several(&[process("a", &four), process("a", &four)], 2),
            Ok(vec![vec![0, 1], vec![2, 3]])
        );
        assert_eq!(
            assign_several(&[process("a", &four)], 4),
            Ok(vec![vec![0, 1, 2, 3]])
        );
        let few = assign_several(&[process("a", &four[..2])], 4).expect_err("two GPUs");
        assert!(
            few.contains("ask for 4 GPUs per process") && few.contains("sees 2"),
            "{few}"
        );
        let many = assign_several(&[process("a", &four[..3]), process("a", &four[..3])], 2)
            .expect_err("three GPUs");
        assert!(
            many.contains("processes 0 and 1 on a") && many.contains("at most 1 per node"),
            "{many}"
        );
    }

    #[test]
    fn a_process_may_be_told_its_first_gpu() {
        let told = |first: u32| ProcessIdentity {
            first_gpu: Some(first.to_string()),
            ..process("a", &["g0", "g1"])
        };
        assert_eq!(assign(&[told(1), told(0)]), Ok(vec![1, 0]));
        assert!(
            assign(&[told(0), told(0)])
                .expect_err("one GPU")
                .contains("would both use GPU g0")
        );
        assert!(
            assign(&[told(2)])
                .expect_err("no such GPU")
                .contains("NCCL_TESTS_DEVICE=2")
        );
        for odd in ["4x", "0x4", "-1", "", "99999999999999999999"] {
            let odd_one = ProcessIdentity {
                first_gpu: Some(odd.into()),
                ..process("a", &["g0", "g1"])
            };
            let why = assign(&[odd_one]).expect_err("no number");
            assert!(
                why.contains(&format!(
                    "NCCL_TESTS_DEVICE={odd} on rank 0 is not the number of a GPU"
                )),
                "{why}"
            );
        }
    }

    #[test]
    fn nodes_are_numbered_as_ranks_name_them() {
        let peers = [process("b", &[]), process("a", &[]), process("b", &[])];
        let places = place_ranks(&peers);
        assert_eq!(
            places
                .iter()
                .map(|p| (p.node, p.local_rank))
                .collect::<Vec<_>>(),
            [(0, 0), (1, 0), (0, 1)]
        );
        assert_eq!(node_count(&places), 2);
    }

    #[test]
    fn ranks_that_see_the_same_gpus_share_them_out() {
        let all = ["g0", "g1"];
        assert_eq!(
            assign(&[
                process("a", &all),
                process("a", &all),
                process("b", &["h0", "h1"])
            ]),
            Ok(vec![0, 1, 0])
        );
        // The order in which a process sees them is its own; the set decides.
        let swapped = [process("a", &["g0", "g1"]), process("a", &["g1", "g0"])];
        assert!(
            assign(&swapped).is_err(),
            "index 1 of the swapped list is g0 again"
        );
    }

    #[test]
    fn ranks_that_see_a_gpu_each_start_at_0() {
        assert_eq!(
            assign(&[process("a", &["g0"]), process("a", &["g1"])]),
            Ok(vec![0, 0])
        );
        // Two ranks to each half of a node.
        let (low, high) = (["g0", "g1"], ["g2", "g3"]);
        assert_eq!(
            assign(&[
                process("a", &low),
                process("a", &low),
                process("a", &high),
                process("a", &high)
            ]),
            Ok(vec![0, 1, 0, 1])
        );
    }

    #[test]
    fn impossible_assignments_are_refused() {
        let shared = assign(&[process("a", &["g0", "g1"]), process("a", &["g0"])])
            .expect_err("both take g0");
        assert!(
            shared.contains("ranks 0 and 1 on a") && shared.contains("g0"),
            "{shared}"
        );
        let many = assign(&[process("a", &["g0"]), process("a", &["g0"])])
            .expect_err("one GPU, two ranks");
        assert!(
            many.contains("ranks 0 and 1 on a") && many.contains("at most 1"),
            "{many}"
        );
        assert!(
            assign(&[process("a", &[])])
                .expect_err("none")
                .contains("sees no GPU")
        );
    }

    #[test]
    fn virtual_nodes_of_one_machine_may_use_one_gpu() {
        let mut peers = [process("m", &["g0"]), process("m", &["g0"])];
        peers[1].host_id = "other".into();
        assert_eq!(assign(&peers), Ok(vec![0, 0]));
    }
}
