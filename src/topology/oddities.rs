//! What is odd about the NVLinks of a node: a GPU without any among GPUs that have some, or with
//! fewer than its peers.

use super::{
    node::{Gpu, NvLinkEnd, Topology},
    path::nvlink_count,
};
use crate::units::counted;

/// Returns what is odd about the NVLinks of `host`, compared with those of all hosts of the source.
pub(super) fn nvlinks(hosts: &[Topology], host: &Topology) -> Vec<String> {
    let mut notes = Vec::new();
    let with_links = hosts.iter().map(count_with_links).sum::<usize>();
    let most = hosts.iter().filter_map(most_to_switches).max();
    for gpu in 0..host.gpus.len() {
        let label = host.gpu_label(gpu);
        if has_links(host, gpu) == Some(false) && with_links > 0 {
            let others = match with_links {
                1 => "another GPU does".to_owned(),
                count => format!("{count} others do"),
            };
            notes.push(format!(
                "{label} has no NVLink, although {others}: rings over all GPUs cannot stay on \
                 NVLink"
            ));
        }
        if let Some(count) = links_to_switches(&host.gpus[gpu])
            && let Some(most) = most.filter(|most| *most > count)
        {
            let links = counted(count, "NVLink");
            notes.push(format!(
                "{label} has {links} to NVSwitches, fewer than the {most} of its peers"
            ));
        }
    }
    notes
}

fn count_with_links(host: &Topology) -> usize {
    let gpus = 0..host.gpus.len();
    gpus.filter(|gpu| has_links(host, *gpu) == Some(true))
        .count()
}

/// Returns whether a GPU has NVLinks, if that is known.
fn has_links(host: &Topology, gpu: usize) -> Option<bool> {
    let Some(given) = &host.given else {
        return host.gpus[gpu].has_nvlinks();
    };
    if !given.has_nvlinks {
        return None;
    }
    let row = given.words.get(gpu)?;
    let mut words = row.iter().take(host.gpus.len());
    Some(words.any(|word| nvlink_count(word).is_some()))
}

fn most_to_switches(host: &Topology) -> Option<u32> {
    host.gpus.iter().filter_map(links_to_switches).max()
}

/// Returns the number of NVLinks of a GPU whose links all end at NVSwitches.
fn links_to_switches(gpu: &Gpu) -> Option<u32> {
    let links = gpu.nvlinks.as_ref()?;
    let mut count = 0_u32;
    for group in links {
        if group.to != NvLinkEnd::Switch {
            return None;
        }
        count = count.saturating_add(group.count);
    }
    (count > 0).then_some(count)
}
