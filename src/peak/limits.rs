//! The limits of a job: inside its nodes and between them.

use std::collections::BTreeMap;

pub use super::limit::{Limit, Place};
use super::{links::JobLinks, node_links::NodeMembers, node_nics};
use crate::record::peak::{NodeRate, RankRate};

/// Returns all limits of `job`, and fills what connects its ranks and nodes.
///
/// # Errors
/// Returns the reason if something is not known on which every peak depends.
pub(super) fn limits(
    job: &JobLinks,
    ranks: &mut Vec<RankRate>,
    node_rates: &mut Vec<NodeRate>,
) -> Result<Vec<Limit>, String> {
    refuse_what_is_not_derived(job)?;
    let mut limits = Vec::new();
    for node in 0..job.nodes.len() as u32 {
        let members = NodeMembers::of(job, node);
        if members.0.len() > 1 {
            limits.extend(members.limits(job, ranks)?);
        }
        if job.nodes.len() > 1 {
            limits.push(node_nics::leave(&members, job, node, node_rates));
        }
    }
    Ok(limits)
}

fn refuse_what_is_not_derived(job: &JobLinks) -> Result<(), String> {
    if job.ranks.len() < 2 {
        return Err("one rank transfers nothing".into());
    }
    let mut hosts = BTreeMap::new();
    let mut gpus = BTreeMap::new();
    for (rank, links) in job.ranks.iter().enumerate() {
        let node = hosts.entry(&links.host).or_insert(links.node);
        if *node != links.node {
            return Err(format!(
                "several nodes of this job are one host, {}, whose NICs and GPUs they share",
                links.host
            ));
        }
        if let Some(other) = gpus.insert((links.node, &links.gpu.bus), rank) {
            return Err(format!("ranks {other} and {rank} share a GPU"));
        }
    }
    let fabric = &job.ranks[0].gpu.fabric;
    let has_one_fabric = job.ranks.iter().any(|rank| !rank.gpu.fabric.is_empty());
    if job.nodes.len() > 1 && has_one_fabric {
        return Err(format!(
            "the nodes may share an NVLink fabric ({fabric}), and whether NCCL uses it is not \
             derived"
        ));
    }
    Ok(())
}
