//! What NCCL makes of a node by its own rules and default settings: the NIC of each GPU, whether GPUDirect RDMA and PXN are
//! possible and through which relay, and which transport comes first. The rules are those of NCCL 2.30.

use serde::Serialize;

use super::{
    Nic, Topology,
    figures::Peak,
    path::{Path, PathType, speed},
};

/// Farther than this NCCL uses neither GPUDirect RDMA (`NCCL_NET_GDR_LEVEL`) nor P2P (`NCCL_P2P_LEVEL`) unless told so,
/// and no GPU is a relay.
pub const NEAR: PathType = PathType::Pxb;

/// What one GPU does on the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuChoices {
    /// Number in [`Topology::gpus`].
    pub gpu: usize,
    /// Number in [`Topology::nics`] of the NIC that it uses first; nothing where there is none.
    pub nic: Option<usize>,
    /// Why that one.
    pub why: String,
    /// Its way to each NIC, in the order of the NICs.
    pub nics: Vec<NicPath>,
}

/// The way of one GPU to one NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NicPath {
    /// Number in [`Topology::nics`].
    pub nic: usize,
    /// Without a relay.
    pub own: Path,
    /// May the NIC read and write this GPU's memory by itself?
    pub gdr: YesNo,
    /// The relay of send and receive at PXN level 2.
    pub relay: RelayChoice,
    /// The relay of rings and trees.
    pub ring_relay: RelayChoice,
    /// Transports to another node through this NIC, the preferred first, each with what it carries.
    pub transports: Vec<Transport>,
}

/// A yes or a no, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct YesNo {
    /// Yes?
    pub yes: bool,
    /// Why.
    pub why: String,
}

/// A GPU that passes data on, or why none does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelayChoice {
    /// Number in [`Topology::gpus`].
    pub gpu: Option<usize>,
    /// Why it, or why none.
    pub why: String,
}

/// A way to move data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transport {
    /// As `PXN through GPU 1`.
    pub name: String,
    /// The most it carries in one direction by its links.
    pub peak: Peak,
    /// What else limits it; empty where the links alone do.
    pub limit: &'static str,
}

impl Transport {
    fn new(name: impl Into<String>, peak: Peak, limit: &'static str) -> Transport {
        Transport {
            name: name.into(),
            peak,
            limit,
        }
    }
}

const MEMORY: &str = "host memory";
const CORES: &str = "processor cores that copy";

/// Which devices are near which.
struct Near {
    /// For each GPU the NICs that are nearest: they are as near as each other.
    nics: Vec<Vec<usize>>,
    /// For each NIC the GPU that relays to it.
    beside: Vec<Option<usize>>,
}

impl Near {
    fn of(all: &Topology) -> Near {
        // NCCL takes one network: RDMA where any works, else sockets.
        let up = |nic: &usize| all.nics[*nic].up != Some(false);
        let rdma = (0..all.nics.len())
            .filter(up)
            .any(|nic| !all.nics[nic].sockets);
        let usable: Vec<usize> = (0..all.nics.len())
            .filter(up)
            .filter(|nic| all.nics[*nic].sockets != rdma)
            .collect();
        let gpus: Vec<Vec<usize>> = (0..all.nics.len())
            .map(|nic| {
                nearest(
                    (0..all.gpus.len())
                        .map(|gpu| (gpu, all.to_nic(gpu, nic)))
                        .collect(),
                )
            })
            .collect();
        let nics: Vec<Vec<usize>> = (0..all.gpus.len())
            .map(|gpu| {
                nearest(
                    usable
                        .iter()
                        .map(|nic| (*nic, all.to_nic(gpu, *nic)))
                        .collect(),
                )
            })
            .collect();
        let on = |gpu: usize, channel: usize| {
            let near = &nics[gpu];
            let sharing = near.first().map_or(1, |nic| gpus[*nic].len().max(1));
            let start = spread(all.gpus[gpu].index as usize % sharing, near.len());
            let turn = channel % near.len().div_ceil(sharing).max(1);
            near.get((start + turn).checked_rem(near.len())?).copied()
        };
        // The GPU that uses the NIC on the earliest channel.
        let beside = |nic: usize| {
            let all_turns = (0..all.nics.len())
                .flat_map(|channel| gpus[nic].iter().map(move |gpu| (channel, *gpu)));
            all_turns
                .into_iter()
                .find(|(channel, gpu)| on(*gpu, *channel) == Some(nic))
                .map(|(_, gpu)| gpu)
        };
        let beside = (0..all.nics.len()).map(beside).collect();
        // The first channel's NIC comes first.
        let first = (0..all.gpus.len()).map(|gpu| {
            let (mut near, first) = (nics[gpu].clone(), on(gpu, 0));
            near.sort_by_key(|nic| Some(*nic) != first);
            near
        });
        Near {
            nics: first.collect(),
            beside,
        }
    }
}

/// Those of `ways` that no other is nearer than.
fn nearest(ways: Vec<(usize, Path)>) -> Vec<usize> {
    let best = ways
        .iter()
        .map(|(_, way)| way)
        .min_by(|a, b| nearer(a, b))
        .cloned();
    let is_best = |way: &Path| best.as_ref().is_some_and(|best| nearer(way, best).is_eq());
    ways.iter()
        .filter(|(_, way)| is_best(way))
        .map(|(at, _)| *at)
        .collect()
}

/// Where the GPU of this number begins among `count` NICs: with the bits turned round where that is a power of two, so
/// that neighbours begin far apart.
fn spread(number: usize, count: usize) -> usize {
    match count.is_power_of_two() && count > 1 {
        true => (number % count).reverse_bits() >> (usize::BITS - count.ilog2()),
        false => number,
    }
}

impl Topology {
    /// What each GPU does on the network, in the order of the GPUs.
    pub fn choices(&self) -> Vec<GpuChoices> {
        let near = Near::of(self);
        let choice = |gpu: usize| {
            let nics = &near.nics[gpu];
            let word = nics
                .first()
                .map_or("", |nic| self.to_nic(gpu, *nic).kind.word());
            let why = match nics.len() {
                0 => "there is none that works".into(),
                1 => format!("the nearest ({word})"),
                count => format!("one of {count} as near ({word}), by the GPU's number"),
            };
            let ways = (0..self.nics.len())
                .map(|nic| self.way(gpu, nic, near.beside[nic]))
                .collect();
            GpuChoices {
                gpu,
                nic: nics.first().copied(),
                why,
                nics: ways,
            }
        };
        (0..self.gpus.len()).map(choice).collect()
    }

    fn way(&self, gpu: usize, nic: usize, beside: Option<usize>) -> NicPath {
        let own = self.to_nic(gpu, nic);
        let gdr = self.gdr(gpu, nic);
        let (relay, ring_relay) = (
            self.relay(gpu, nic, beside),
            self.ring_relay(gpu, nic, beside),
        );
        let transports = self.transports(gpu, nic, &own, &gdr, &relay);
        NicPath {
            nic,
            own,
            gdr,
            relay,
            ring_relay,
            transports,
        }
    }

    fn gdr(&self, gpu: usize, nic: usize) -> YesNo {
        let no = |why: String| YesNo { yes: false, why };
        let kind = self.to_nic(gpu, nic).kind;
        match (self.gpus[gpu].gdr, self.nics[nic].gdr) {
            (_, Some(false)) => no(format!("{} cannot reach GPU memory", self.nics[nic].name)),
            (Some(false), _) => no(format!(
                "GPU {} does not offer its memory",
                self.gpus[gpu].index
            )),
            _ if kind > NEAR => no(format!("{} is farther than {}", kind.word(), NEAR.word())),
            (_, Some(true)) => YesNo {
                yes: true,
                why: format!("{} is near enough", kind.word()),
            },
            (_, None) => YesNo {
                yes: true,
                why: format!(
                    "{} is near enough, if the NIC's driver can do it",
                    kind.word()
                ),
            },
        }
    }

    fn relay(&self, gpu: usize, nic: usize, beside: Option<usize>) -> RelayChoice {
        let none = |why: String| RelayChoice { gpu: None, why };
        let Nic { name, gdr, up, .. } = &self.nics[nic];
        if *up == Some(false) {
            return none(format!("{name} is down"));
        }
        if *gdr == Some(false) {
            return none(format!("no GPUDirect RDMA: {name} cannot reach GPU memory"));
        }
        let Some(relay) = beside else {
            return none(format!("no GPU uses {name} first, so none is beside it"));
        };
        let index = self.gpus[relay].index;
        let (near, link) = (self.to_nic(relay, nic).kind, self.between(gpu, relay).kind);
        if near > NEAR {
            return none(format!(
                "no GPU is beside {name}: the nearest, GPU {index}, is {} from it",
                near.word()
            ));
        }
        if relay == gpu {
            return none(format!("this GPU is itself the one beside {name}"));
        }
        if link > PathType::Nvl {
            return none(format!(
                "no NVLink to GPU {index}, the one beside {name} ({})",
                link.word()
            ));
        }
        let gdr = self.gdr(relay, nic);
        if !gdr.yes {
            return none(format!("no GPUDirect RDMA: {}", gdr.why));
        }
        RelayChoice {
            gpu: Some(relay),
            why: format!(
                "NVLink to GPU {index}, which is {} from {name}",
                near.word()
            ),
        }
    }

    fn ring_relay(&self, gpu: usize, nic: usize, beside: Option<usize>) -> RelayChoice {
        let relay = self.relay(gpu, nic, beside);
        let Some(by) = relay.gpu else { return relay };
        let (own, its) = (self.to_nic(gpu, nic), self.to_nic(by, nic));
        if own.kind > PathType::Pxn {
            return RelayChoice {
                why: format!("{} is worse than PXN", own.kind.word()),
                ..relay
            };
        }
        let both_known = own.peak.gbps.is_some() && its.peak.gbps.is_some();
        if both_known && speed(&its.peak) > speed(&own.peak) {
            return RelayChoice {
                why: "the relay has more bandwidth to the NIC".into(),
                ..relay
            };
        }
        RelayChoice {
            gpu: None,
            why: format!("the own path ({}) is good enough", own.kind.word()),
        }
    }

    fn transports(
        &self,
        gpu: usize,
        nic: usize,
        own: &Path,
        gdr: &YesNo,
        relay: &RelayChoice,
    ) -> Vec<Transport> {
        let mut all = Vec::new();
        if let Some(by) = relay.gpu {
            let peak = Peak::least(&[self.between(gpu, by).peak, self.to_nic(by, nic).peak]);
            all.push(Transport::new(
                format!("PXN through GPU {}", self.gpus[by].index),
                peak,
                "",
            ));
        }
        if gdr.yes {
            all.push(Transport::new("GPUDirect RDMA", own.peak.clone(), ""));
        }
        if !self.nics[nic].sockets {
            all.push(Transport::new(
                "RDMA through host memory",
                own.peak.clone(),
                MEMORY,
            ));
        }
        all.push(Transport::new("sockets", own.peak.clone(), CORES));
        all
    }

    /// Transports between two GPUs of the node, the preferred first.
    pub fn inside(&self, a: usize, b: usize) -> Vec<Transport> {
        let path = self.between(a, b);
        // NCCL lets pairs of GPUs on AMD reach each other through the processor too.
        let amd = self.gpus.len() <= 2 && self.cpus.iter().any(|cpu| cpu.kind.contains("AMD"));
        let mut all = Vec::new();
        match path.kind {
            PathType::Nvl => all.push(Transport::new("P2P over NVLink", path.peak, "")),
            PathType::Nvb => all.push(Transport::new(
                "P2P over NVLink through a GPU between",
                path.peak,
                "",
            )),
            kind if kind <= NEAR || amd => {
                all.push(Transport::new(
                    format!("P2P over PCIe ({})", kind.word()),
                    path.peak,
                    "",
                ));
            }
            _ => {}
        }
        let links = [&self.gpus[a].place.pcie, &self.gpus[b].place.pcie];
        all.push(Transport::new("SHM", Peak::least(links), MEMORY));
        all
    }
}

/// Is `a` a nearer way than `b`? NCCL goes by bandwidth, then by type. What a link between sockets carries is not known
/// here, and is less than a NIC of today in most machines: so such a way comes last.
fn nearer(a: &Path, b: &Path) -> std::cmp::Ordering {
    let far = |path: &Path| path.kind == PathType::Sys;
    far(a)
        .cmp(&far(b))
        .then_with(|| speed(&b.peak).total_cmp(&speed(&a.peak)))
        .then_with(|| a.kind.cmp(&b.kind))
}
