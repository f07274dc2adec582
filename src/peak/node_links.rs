//! [`NodeMembers`]: the ranks of a node, and what limits traffic between them.

use std::collections::BTreeMap;

use super::{
    limit::{Limit, Place},
    links::{JobLinks, RankLinks},
};
use crate::{
    record::peak::RankRate,
    topology::{NvLinkEnd, NvLinks, figures::Peak},
};

/// The ranks of a node.
pub(super) struct NodeMembers<'a>(pub(super) Vec<(u32, &'a RankLinks)>);

impl<'a> NodeMembers<'a> {
    /// Returns the ranks of `node`.
    pub(super) fn of(job: &'a JobLinks, node: u32) -> NodeMembers<'a> {
        let all = (0_u32..).zip(&job.ranks);
        NodeMembers(all.filter(|(_, rank)| rank.node == node).collect())
    }

    /// Returns their numbers.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|(rank, _)| *rank).collect()
    }

    /// Returns what limits traffic inside the node.
    pub(super) fn limits(
        &self,
        job: &JobLinks,
        rates: &mut Vec<RankRate>,
    ) -> Result<Vec<Limit>, String> {
        if !job.no_p2p.is_empty() {
            if !job.no_shared_memory.is_empty() {
                return Err(format!(
                    "GPUs of a node meet neither directly ({}) nor in shared memory ({})",
                    job.no_p2p, job.no_shared_memory
                ));
            }
            return Ok(self.over_pcie("through shared memory", rates));
        }
        let mut to_switches = Vec::new();
        let mut to_members = Vec::new();
        for (rank, links) in &self.0 {
            let nvlinks = links.gpu.nvlinks.as_ref();
            let nvlinks = nvlinks.map_err(|why| format!("rank {rank}: {why}"))?;
            let ends_unknown = |links: &NvLinks| matches!(links.to, NvLinkEnd::Unknown(_));
            if nvlinks.iter().any(ends_unknown) {
                return Err(format!("rank {rank}: where some NVLinks end is not known"));
            }
            to_switches.push(sum(nvlinks, |end| *end == NvLinkEnd::Switch));
            to_members.push(sum(nvlinks, |end| self.is_member(end)));
        }
        if to_switches.iter().all(Option::is_some) {
            return Ok(self.over_nvlink(to_switches, "to NVSwitches", rates));
        }
        if to_switches.iter().chain(&to_members).all(Option::is_none) {
            return Ok(self.over_pcie("", rates));
        }
        if to_members.iter().all(Option::is_some) && self.is_connected() {
            let mut limits = self.over_nvlink(to_members, "to other ranks", rates);
            limits.extend(self.pairs());
            return Ok(limits);
        }
        Err("some GPUs of a node are connected by NVLink and others are not".into())
    }

    fn is_member(&self, end: &NvLinkEnd) -> bool {
        let NvLinkEnd::Gpu(bus) = end else {
            return false;
        };
        self.0.iter().any(|(_, rank)| rank.gpu.bus == *bus)
    }

    /// Returns whether every rank reaches every other one over direct NVLinks, through third ones
    /// too.
    fn is_connected(&self) -> bool {
        let mut reached = vec![0];
        let mut next = 0;
        while let Some(&from) = reached.get(next) {
            for to in 0..self.0.len() {
                if !reached.contains(&to) && self.between(from, to).is_some() {
                    reached.push(to);
                }
            }
            next += 1;
        }
        reached.len() == self.0.len()
    }

    /// Returns the direct NVLinks from one member to another, by their places in the list.
    fn between(&self, from: usize, to: usize) -> Option<Links> {
        let nvlinks = self.0[from].1.gpu.nvlinks.as_ref().ok()?;
        let end = NvLinkEnd::Gpu(self.0[to].1.gpu.bus.clone());
        sum(nvlinks, |other| *other == end)
    }

    fn over_nvlink(
        &self,
        links: Vec<Option<Links>>,
        to: &str,
        rates: &mut Vec<RankRate>,
    ) -> Vec<Limit> {
        let mut limits = Vec::new();
        for ((rank, _), links) in self.0.iter().zip(links) {
            let Some(Links { count, each }) = links else {
                continue;
            };
            let all = each.times(count);
            rates.push(RankRate {
                rank: *rank,
                kind: each.of.clone(),
                count,
                each: each.gbps,
                all: all.gbps,
                source: format!(
                    "NVML: active NVLinks {to}, and their generation. NVIDIA's data sheets: GB/s \
                     of a link of it"
                ),
            });
            limits.push(Limit::new(Place::Rank(*rank), &all));
        }
        limits
    }

    /// Returns the limits of pairs of ranks that send each other messages over direct NVLinks.
    fn pairs(&self) -> Vec<Limit> {
        let mut limits = Vec::new();
        for from in 0..self.0.len() {
            for to in from + 1..self.0.len() {
                let place = Place::Pair(self.0[from].0, self.0[to].0);
                let peak = match self.between(from, to) {
                    Some(Links { count, each }) => each.times(count),
                    None => Peak::unknown("no NVLink between them"),
                };
                limits.push(Limit::new(place, &peak));
            }
        }
        limits
    }

    fn over_pcie(&self, how: &str, rates: &mut Vec<RankRate>) -> Vec<Limit> {
        let mut limits = Vec::new();
        let mut switches: BTreeMap<&str, (&Peak, Vec<u32>)> = BTreeMap::new();
        for (rank, links) in &self.0 {
            let pcie = &links.gpu.pcie;
            rates.push(RankRate {
                rank: *rank,
                kind: [&pcie.of, how].join(" ").trim_end().to_owned(),
                count: 1,
                each: pcie.gbps,
                all: pcie.gbps,
                source: "/sys/bus/pci/devices: max_link_speed and max_link_width of the GPU and \
                         of the port above it"
                    .into(),
            });
            limits.push(Limit::new(Place::Rank(*rank), pcie));
            for uplink in &links.gpu.uplinks {
                let below = switches.entry(&uplink.bus);
                let (_, members) = below.or_insert((&uplink.rate, Vec::new()));
                members.push(*rank);
            }
        }
        for (bus, (rate, members)) in switches {
            // What all ranks are below, nothing has to cross.
            if members.len() < self.0.len() {
                let place = Place::Switch {
                    bus: bus.to_owned(),
                    node: self.0[0].1.node,
                    members,
                };
                limits.push(Limit::new(place, rate));
            }
        }
        limits
    }
}

/// NVLinks of one kind.
struct Links {
    count: u32,
    each: Peak,
}

/// Returns the NVLinks whose end is one of those; `None` if there is none.
fn sum(nvlinks: &[NvLinks], is_counted: impl Fn(&NvLinkEnd) -> bool) -> Option<Links> {
    let mut links = nvlinks.iter().filter(|links| is_counted(&links.to));
    let first = links.next()?;
    let mut all = Links {
        count: first.count,
        each: first.each.clone(),
    };
    for more in links {
        all.count += more.count;
    }
    (all.count > 0).then_some(all)
}
