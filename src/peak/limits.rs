//! The links that limit a job, and the rate of each.

use std::{collections::BTreeMap, fmt};

use super::links::{JobLinks, PortRate, RankLinks};
use crate::{
    levels::ports::Port,
    record::peak::{NodeRate, PortUse, RankRate},
    topology::{NvLinkEnd, NvLinks, figures::Peak},
    units::GBps,
};

/// A place in a job where traffic passes one link, or several that work together.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The links of a rank to the other ranks of its node.
    Rank(u32),
    /// The direct NVLinks between two ranks.
    Pair(u32, u32),
    /// The uplink of a PCI switch, with the ranks below it.
    Switch {
        /// Its address.
        bus: String,
        /// The number of its node.
        node: u32,
        /// The ranks below it.
        members: Vec<u32>,
    },
    /// The NICs of a node.
    Node {
        /// Its number.
        node: u32,
        /// Its ranks.
        members: Vec<u32>,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Rank(rank) => write!(f, "rank {rank}"),
            Place::Pair(a, b) => write!(f, "ranks {a} and {b}"),
            Place::Switch { bus, node, .. } => write!(f, "PCI switch {bus} of node {node}"),
            Place::Node { node, .. } => write!(f, "NICs of node {node}"),
        }
    }
}

/// A limit of busbw.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The place of the links.
    pub place: Place,
    /// GB/s in one direction, or why that is unknown.
    pub rate: Result<f64, String>,
    /// The links: `18 x NVLink 4`.
    pub of: String,
}

impl Limit {
    fn new(place: Place, peak: &Peak) -> Limit {
        Limit {
            place,
            rate: peak.gbps.map(|gbps| gbps.0).ok_or_else(|| peak.of.clone()),
            of: peak.of.clone(),
        }
    }

    /// Describes the limit, of whose rate busbw is 1 in `share`.
    pub fn text(&self, share: f64) -> String {
        let Limit { place, of, .. } = self;
        let rate = self.rate.as_ref().copied().unwrap_or_default();
        if share == 1.0 {
            return format!("{place}: {of}, {rate:.1} GB/s in one direction");
        }
        format!(
            "{place}: {of}, {rate:.1} GB/s in one direction, which {share:.3} of what busbw counts cross"
        )
    }
}

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
        let members = Members::of(job, node);
        if members.0.len() > 1 {
            limits.extend(members.limits(job, ranks)?);
        }
        if job.nodes.len() > 1 {
            limits.push(members.leave(job, node, node_rates));
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
            "the nodes may share an NVLink fabric ({fabric}), and whether NCCL uses it is not derived"
        ));
    }
    Ok(())
}

/// The ranks of a node.
struct Members<'a>(Vec<(u32, &'a RankLinks)>);

impl<'a> Members<'a> {
    fn of(job: &'a JobLinks, node: u32) -> Members<'a> {
        let all = (0_u32..).zip(&job.ranks);
        Members(all.filter(|(_, rank)| rank.node == node).collect())
    }

    fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|(rank, _)| *rank).collect()
    }

    /// Returns what limits traffic inside the node.
    fn limits(&self, job: &JobLinks, rates: &mut Vec<RankRate>) -> Result<Vec<Limit>, String> {
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

    /// Returns whether every rank reaches every other one over direct NVLinks, through third ones too.
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
                    "NVML: active NVLinks {to}, and their generation. NVIDIA's data sheets: GB/s of a link of it"
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
                source: "/sys/bus/pci/devices: max_link_speed and max_link_width of the GPU and of the port above it".into(),
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

    /// Returns what limits traffic out of the node.
    fn leave(&self, job: &JobLinks, node: u32, rates: &mut Vec<NodeRate>) -> Limit {
        let links = &job.nodes[node as usize];
        let ports = links.ports.as_deref().unwrap_or_default();
        let peak = match &links.ports {
            Err(why) => Peak::unknown(why),
            Ok(ports) => {
                let nics = all_ports(ports);
                let gpus = self.all_pcie();
                match (links.leaves_by_pcie, gpus.gbps) {
                    (true, Some(_)) => Peak::least([&nics, &gpus]),
                    _ => nics,
                }
            }
        };
        rates.push(NodeRate {
            node,
            host: links.host.clone(),
            ports: ports.iter().map(port_use).collect(),
            all: peak.gbps,
            because: peak.of.clone(),
        });
        let place = Place::Node {
            node,
            members: self.numbers(),
        };
        Limit::new(place, &peak)
    }

    /// Returns the PCIe links of all GPUs together.
    fn all_pcie(&self) -> Peak {
        let of = self.0.iter().map(|(_, rank)| &rank.gpu.pcie);
        together(of, "PCIe links of the GPUs")
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

/// Returns the rate of all ports, those of one device limited by its PCIe link.
fn all_ports(ports: &[PortRate]) -> Peak {
    if ports.is_empty() {
        return Peak::unknown("no RDMA port that NCCL may use is up");
    }
    let mut devices: BTreeMap<&str, Vec<&PortRate>> = BTreeMap::new();
    for port in ports {
        devices.entry(&port.port.device).or_default().push(port);
    }
    let mut rates = Vec::new();
    for (device, ports) in devices {
        let all = together(ports.iter().map(|port| &port.rate), device);
        let pcie = &ports[0].pcie;
        rates.push(match pcie.gbps {
            Some(_) => Peak::least([&all, pcie]),
            None => all,
        });
    }
    let names: Vec<String> = ports.iter().map(port_text).collect();
    together(rates.iter(), &names.join(", "))
}

fn port_text(port: &PortRate) -> String {
    format!("{} {}", port_name(&port.port), port.rate.of)
}

fn port_name(port: &Port) -> String {
    format!("{}:{}", port.device, port.number)
}

/// Returns the sum of `rates`; unknown if one of them is.
fn together<'a>(rates: impl Iterator<Item = &'a Peak>, of: &str) -> Peak {
    let mut sum = 0.0;
    for rate in rates {
        match rate.gbps {
            Some(gbps) => sum += gbps.0,
            None => return rate.clone(),
        }
    }
    Peak {
        gbps: Some(GBps(sum)),
        of: of.to_owned(),
    }
}

fn port_use(port: &PortRate) -> PortUse {
    let rate = match port.pcie.gbps {
        Some(_) => Peak::least([&port.rate, &port.pcie]),
        None => port.rate.clone(),
    };
    PortUse {
        name: port_name(&port.port),
        rate: rate.gbps,
        because: rate.of,
        source: format!(
            "/sys/class/infiniband/{}/ports/{}/rate",
            port.port.device, port.port.number
        ),
    }
}
