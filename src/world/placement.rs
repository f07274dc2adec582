//! Which process is on which node, and which GPU it takes. Pure: from what every process said of itself.
//!
//! Nodes and local ranks come from the processes themselves, not from `SLURM_LOCALID` or `SLURM_NODEID`, which are wrong
//! under mpirun inside an allocation.

use serde::{Deserialize, Serialize};

use crate::exit::{Code, Failure};

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Host name, up to the first dot.
    pub host: String,
    /// Identity of the host as NCCL sees it: processes with the same one are on one node.
    pub host_id: String,
    /// Process id.
    pub pid: u32,
    /// UUIDs of the GPUs that it can see, in its own order.
    pub gpus: Vec<String>,
    /// `NCCL_TESTS_DEVICE`: the first GPU that it is told to take, as an index into those; `None` leaves it to its order on
    /// the node.
    #[serde(default)]
    pub first_gpu: Option<String>,
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlacement {
    /// Its node, numbered in the order in which ranks first name them.
    pub node: u32,
    /// Its order among the processes of its node.
    pub local_rank: u32,
}

/// Identity of this host as NCCL forms it: `NCCL_HOSTID` if set, else host name and boot id.
pub fn host_id(env: crate::env::Env) -> String {
    env("NCCL_HOSTID").unwrap_or_else(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        format!("{}/{}", host_name(), boot.trim())
    })
}

/// This host's name up to the first dot, as nccl-tests prints it.
pub fn host_name() -> String {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".into());
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// The place of each process, in rank order.
pub fn places(peers: &[ProcessIdentity]) -> Vec<RankPlacement> {
    let mut nodes: Vec<(&str, u32)> = Vec::new();
    peers
        .iter()
        .map(|peer| {
            let node = nodes
                .iter()
                .position(|(id, _)| *id == peer.host_id)
                .unwrap_or_else(|| {
                    nodes.push((&peer.host_id, 0));
                    nodes.len() - 1
                });
            let local_rank = nodes[node].1;
            nodes[node].1 += 1;
            RankPlacement {
                node: node as u32,
                local_rank,
            }
        })
        .collect()
}

/// How many nodes there are.
pub fn node_count(places: &[RankPlacement]) -> u32 {
    places.iter().map(|place| place.node + 1).max().unwrap_or(0)
}

/// The GPUs of each process, `each` of them, as indices into what it can see.
///
/// Processes of one node that see the same GPUs share them out in order; one that sees GPUs of its own
/// (`--gpus-per-task`, CUDA_VISIBLE_DEVICES) starts at 0, and one that is told its first GPU (`NCCL_TESTS_DEVICE`) there.
/// Two ranks of a node never share a GPU, unless `may_share` (NCCL 2.30's NCCL_MULTI_RANK_GPU_ENABLE).
///
/// # Errors
/// [`Code::NothingRan`] where a process is left without a GPU, [`Code::Usage`] where two ranks would share one. Every process
/// has the same facts and so the same error.
pub fn gpus(
    peers: &[ProcessIdentity],
    places: &[RankPlacement],
    each: u32,
    may_share: bool,
) -> anyhow::Result<Vec<Vec<usize>>> {
    let of = |rank| gpus_of(rank, peers, places, each as usize);
    let chosen = (0..peers.len())
        .map(of)
        .collect::<anyhow::Result<Vec<Vec<usize>>>>()?;
    if !may_share {
        refuse_sharing(peers, places, &chosen)?;
    }
    Ok(chosen)
}

/// The GPUs of one process: by its order among the processes of its node that see the same GPUs.
fn gpus_of(
    process: usize,
    peers: &[ProcessIdentity],
    places: &[RankPlacement],
    each: usize,
) -> anyhow::Result<Vec<usize>> {
    let ProcessIdentity {
        host, first_gpu, ..
    } = &peers[process];
    let seen = sorted(&peers[process].gpus);
    let same = |other: &usize| {
        places[*other].node == places[process].node && sorted(&peers[*other].gpus) == seen
    };
    let before: Vec<usize> = (0..process).filter(same).collect();
    let told = first_gpu
        .as_deref()
        .map(|value| first_of(value, process))
        .transpose()?;
    let first = told.unwrap_or(before.len() * each);
    if first.saturating_add(each) <= seen.len() {
        return Ok((first..first + each).collect());
    }
    let what = match (seen.len(), told) {
        (0, _) => format!(
            "rank {process} on {host} sees no GPU: check CUDA_VISIBLE_DEVICES there, and that the job asks for GPUs"
        ),
        (n, Some(first)) => format!(
            "NCCL_TESTS_DEVICE={first} and {each} GPUs a process ask for GPU {} on {host}, and rank {process} sees {n} of \
             them there: say a smaller number, or unset it",
            first.saturating_add(each) - 1
        ),
        (n, None) if each > n => format!(
            "-t and -g ask for {each} GPUs a process, and rank {process} on {host} sees {n}: ask for fewer, or let it see \
             more (CUDA_VISIBLE_DEVICES, --gpus-per-node)"
        ),
        (n, None) => format!(
            "{} {} and {process} on {host} would share a GPU, which NCCL does not allow: they see {n} of them, which is \
             too few for the processes there; start at most {} a node",
            if each > 1 { "processes" } else { "ranks" },
            before.get(first % n / each).unwrap_or(&0),
            n / each
        ),
    };
    Err(Failure::on_all_ranks(Code::NothingRan, what))
}

/// The number in `NCCL_TESTS_DEVICE`; nccl-tests takes what it cannot read for 0.
fn first_of(value: &str, process: usize) -> anyhow::Result<usize> {
    let what = || {
        let what = format!(
            "NCCL_TESTS_DEVICE={value} on rank {process} is not the number of a GPU, such as 0 or 4"
        );
        Failure::on_all_ranks(Code::Usage, what)
    };
    value.trim().parse().map_err(|_| what())
}

fn sorted(uuids: &[String]) -> Vec<&String> {
    let mut uuids: Vec<&String> = uuids.iter().collect();
    uuids.sort();
    uuids
}

/// Two ranks of one node on one GPU: NCCL would hang or fail with less to go by.
fn refuse_sharing(
    peers: &[ProcessIdentity],
    places: &[RankPlacement],
    chosen: &[Vec<usize>],
) -> anyhow::Result<()> {
    let uuids = |process: usize| {
        chosen[process]
            .iter()
            .map(move |&gpu| &peers[process].gpus[gpu])
    };
    for second in 0..peers.len() {
        for uuid in uuids(second) {
            let same = |first: &usize| {
                places[*first].node == places[second].node
                    && uuids(*first).any(|other| other == uuid)
            };
            if let Some(first) = (0..second).find(same) {
                let what = format!(
                    "ranks {first} and {second} on {} would both use GPU {uuid}, which NCCL does not allow: give each rank \
                     its own GPU in CUDA_VISIBLE_DEVICES, or let every rank see all of them (srun --gpu-bind=none)",
                    peers[second].host
                );
                return Err(Failure::on_all_ranks(Code::Usage, what));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: &str, gpus: &[&str]) -> ProcessIdentity {
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
        gpus(peers, &places(peers), each, false).map_err(|e| e.to_string())
    }

    #[test]
    fn processes_may_have_several_gpus() {
        let four = ["g0", "g1", "g2", "g3"];
        assert_eq!(
            assign_several(&[peer("a", &four), peer("a", &four)], 2),
            Ok(vec![vec![0, 1], vec![2, 3]])
        );
        assert_eq!(
            assign_several(&[peer("a", &four)], 4),
            Ok(vec![vec![0, 1, 2, 3]])
        );
        let few = assign_several(&[peer("a", &four[..2])], 4).expect_err("two GPUs");
        assert!(
            few.contains("ask for 4 GPUs a process") && few.contains("sees 2"),
            "{few}"
        );
        let many = assign_several(&[peer("a", &four[..3]), peer("a", &four[..3])], 2)
            .expect_err("three GPUs");
        assert!(
            many.contains("processes 0 and 1 on a") && many.contains("at most 1 a node"),
            "{many}"
        );
    }

    #[test]
    fn a_process_may_be_told_its_first_gpu() {
        let told = |first: u32| ProcessIdentity {
            first_gpu: Some(first.to_string()),
            ..peer("a", &["g0", "g1"])
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
                ..peer("a", &["g0", "g1"])
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
        let peers = [peer("b", &[]), peer("a", &[]), peer("b", &[])];
        let places = places(&peers);
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
            assign(&[peer("a", &all), peer("a", &all), peer("b", &["h0", "h1"])]),
            Ok(vec![0, 1, 0])
        );
        // The order in which a process sees them is its own; the set decides.
        let swapped = [peer("a", &["g0", "g1"]), peer("a", &["g1", "g0"])];
        assert!(
            assign(&swapped).is_err(),
            "index 1 of the swapped list is g0 again"
        );
    }

    #[test]
    fn ranks_that_see_a_gpu_each_start_at_0() {
        assert_eq!(
            assign(&[peer("a", &["g0"]), peer("a", &["g1"])]),
            Ok(vec![0, 0])
        );
        // Two ranks to each half of a node.
        let (low, high) = (["g0", "g1"], ["g2", "g3"]);
        assert_eq!(
            assign(&[
                peer("a", &low),
                peer("a", &low),
                peer("a", &high),
                peer("a", &high)
            ]),
            Ok(vec![0, 1, 0, 1])
        );
    }

    #[test]
    fn what_cannot_be_is_said() {
        let shared =
            assign(&[peer("a", &["g0", "g1"]), peer("a", &["g0"])]).expect_err("both take g0");
        assert!(
            shared.contains("ranks 0 and 1 on a") && shared.contains("g0"),
            "{shared}"
        );
        let many =
            assign(&[peer("a", &["g0"]), peer("a", &["g0"])]).expect_err("one GPU, two ranks");
        assert!(
            many.contains("ranks 0 and 1 on a") && many.contains("at most 1"),
            "{many}"
        );
        assert!(
            assign(&[peer("a", &[])])
                .expect_err("none")
                .contains("sees no GPU")
        );
    }

    #[test]
    fn virtual_nodes_of_one_machine_may_use_one_gpu() {
        let mut peers = [peer("m", &["g0"]), peer("m", &["g0"])];
        peers[1].host_id = "other".into();
        assert_eq!(assign(&peers), Ok(vec![0, 0]));
    }
}
