//! What NCCL makes of a node by its own rules and default settings: the NIC of each GPU, whether GPUDirect RDMA and PXN are
//! possible and through which relay, and which transport comes first. The rules are those of NCCL 2.30.

use serde::Serialize;

use super::{
    Nic, Topology,
    figures::Peak,
    path::{Kind, Path, speed},
};

/// Farther than this NCCL uses neither GPUDirect RDMA (`NCCL_NET_GDR_LEVEL`) nor P2P (`NCCL_P2P_LEVEL`) unless told so,
/// and no GPU is a relay.
pub const NEAR: Kind = Kind::Pxb;

/// What one GPU does on the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfGpu {
    /// Number in [`Topology::gpus`].
    pub gpu: usize,
    /// Number in [`Topology::nics`] of the NIC that it uses first; nothing where there is none.
    pub nic: Option<usize>,
    /// Why that one.
    pub why: String,
    /// Its way to each NIC, in the order of the NICs.
    pub nics: Vec<ToNic>,
}

/// The way of one GPU to one NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToNic {
    /// Number in [`Topology::nics`].
    pub nic: usize,
    /// Without a relay.
    pub own: Path,
    /// May the NIC read and write this GPU's memory by itself?
    pub gdr: Answer,
    /// The relay of send and receive at PXN level 2.
    pub relay: Relay,
    /// The relay of rings and trees.
    pub ring_relay: Relay,
    /// Transports to another node through this NIC, the preferred first, each with what it carries.
    pub transports: Vec<Transport>,
}

/// A yes or a no, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Yes?
    pub yes: bool,
    /// Why.
    pub why: String,
}

/// A GPU that passes data on, or why none does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Relay {
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
        Transport { name: name.into(), peak, limit }
    }
}

const MEMORY: &str = "host memory";
const CORES: &str = "processor cores that copy";

impl Topology {
    /// What each GPU does on the network, in the order of the GPUs.
    pub fn choices(&self) -> Vec<OfGpu> {
        (0..self.gpus.len()).map(|gpu| self.choice(gpu)).collect()
    }

    fn choice(&self, gpu: usize) -> OfGpu {
        let (nic, why) = match self.nic_of(gpu) {
            Some((nic, why)) => (Some(nic), why),
            None => (None, "there is none that works".into()),
        };
        OfGpu { gpu, nic, why, nics: (0..self.nics.len()).map(|nic| self.way(gpu, nic)).collect() }
    }

    /// The NIC that a GPU uses on its first channel: the nearest; of several that are as near, NCCL takes one by the GPU's
    /// number, with the bits turned round where their number is a power of two, so that neighbours lie far apart.
    fn nic_of(&self, gpu: usize) -> Option<(usize, String)> {
        // NCCL takes one network: RDMA where any works, else sockets.
        let up = |nic: &usize| self.nics[*nic].up != Some(false);
        let rdma = (0..self.nics.len()).filter(up).any(|nic| !self.nics[nic].sockets);
        let usable = (0..self.nics.len()).filter(up).filter(|nic| self.nics[*nic].sockets != rdma);
        let paths: Vec<(usize, Path)> = usable.map(|nic| (nic, self.to_nic(gpu, nic))).collect();
        let (_, best) = paths.iter().min_by(|(_, a), (_, b)| nearer(a, b))?;
        let near: Vec<usize> = paths.iter().filter(|(_, way)| nearer(way, best).is_eq()).map(|(nic, _)| *nic).collect();
        let count = u32::try_from(near.len()).ok()?;
        let number = self.gpus[gpu].index % count;
        let turned = match count.is_power_of_two() && count > 1 {
            true => number.reverse_bits() >> (u32::BITS - count.ilog2()),
            false => number,
        };
        let word = best.kind.word();
        let why = match count {
            1 => format!("the nearest ({word})"),
            _ => format!("one of {count} as near ({word}), by the GPU's number"),
        };
        near.get(turned as usize).map(|nic| (*nic, why))
    }

    fn way(&self, gpu: usize, nic: usize) -> ToNic {
        let own = self.to_nic(gpu, nic);
        let gdr = self.gdr(gpu, nic);
        let (relay, ring_relay) = (self.relay(gpu, nic), self.ring_relay(gpu, nic));
        let transports = self.transports(gpu, nic, &own, &gdr, &relay);
        ToNic { nic, own, gdr, relay, ring_relay, transports }
    }

    fn gdr(&self, gpu: usize, nic: usize) -> Answer {
        let no = |why: String| Answer { yes: false, why };
        let kind = self.to_nic(gpu, nic).kind;
        match (self.gpus[gpu].gdr, self.nics[nic].gdr) {
            (_, Some(false)) => no(format!("{} cannot reach GPU memory", self.nics[nic].name)),
            (Some(false), _) => no(format!("GPU {} does not offer its memory", self.gpus[gpu].index)),
            _ if kind > NEAR => no(format!("{} is farther than {}", kind.word(), NEAR.word())),
            (_, Some(true)) => Answer { yes: true, why: format!("{} is near enough", kind.word()) },
            (_, None) => {
                Answer { yes: true, why: format!("{} is near enough, if the NIC's driver can do it", kind.word()) }
            }
        }
    }

    /// The GPU beside a NIC: the nearest, and of several the one that uses this NIC itself.
    fn beside(&self, nic: usize) -> Option<usize> {
        let key = |gpu: usize| (self.nic_of(gpu).map(|(own, _)| own) != Some(nic), gpu);
        (0..self.gpus.len())
            .min_by(|a, b| nearer(&self.to_nic(*a, nic), &self.to_nic(*b, nic)).then_with(|| key(*a).cmp(&key(*b))))
    }

    fn relay(&self, gpu: usize, nic: usize) -> Relay {
        let none = |why: String| Relay { gpu: None, why };
        let Nic { name, gdr, up, .. } = &self.nics[nic];
        if *up == Some(false) {
            return none(format!("{name} is down"));
        }
        if *gdr == Some(false) {
            return none(format!("no GPUDirect RDMA: {name} cannot reach GPU memory"));
        }
        let Some(relay) = self.beside(nic) else { return none("there is no other GPU".into()) };
        let index = self.gpus[relay].index;
        let (near, link) = (self.to_nic(relay, nic).kind, self.between(gpu, relay).kind);
        if near > NEAR {
            return none(format!("no GPU is beside {name}: the nearest, GPU {index}, is {} from it", near.word()));
        }
        if relay == gpu {
            return none(format!("this GPU is itself the one beside {name}"));
        }
        if link > Kind::Nvl {
            return none(format!("no NVLink to GPU {index}, the one beside {name} ({})", link.word()));
        }
        let gdr = self.gdr(relay, nic);
        if !gdr.yes {
            return none(format!("no GPUDirect RDMA: {}", gdr.why));
        }
        Relay { gpu: Some(relay), why: format!("NVLink to GPU {index}, which is {} from {name}", near.word()) }
    }

    fn ring_relay(&self, gpu: usize, nic: usize) -> Relay {
        let relay = self.relay(gpu, nic);
        let Some(by) = relay.gpu else { return relay };
        let (own, its) = (self.to_nic(gpu, nic), self.to_nic(by, nic));
        if own.kind > Kind::Pxn {
            return Relay { why: format!("{} is worse than PXN", own.kind.word()), ..relay };
        }
        let both_known = own.peak.gbps.is_some() && its.peak.gbps.is_some();
        if both_known && speed(&its.peak) > speed(&own.peak) {
            return Relay { why: "the relay has more bandwidth to the NIC".into(), ..relay };
        }
        Relay { gpu: None, why: format!("the own path ({}) is good enough", own.kind.word()) }
    }

    fn transports(&self, gpu: usize, nic: usize, own: &Path, gdr: &Answer, relay: &Relay) -> Vec<Transport> {
        let mut all = Vec::new();
        if let Some(by) = relay.gpu {
            let peak = Peak::least(&[self.between(gpu, by).peak, self.to_nic(by, nic).peak]);
            all.push(Transport::new(format!("PXN through GPU {}", self.gpus[by].index), peak, ""));
        }
        if gdr.yes {
            all.push(Transport::new("GPUDirect RDMA", own.peak.clone(), ""));
        }
        if !self.nics[nic].sockets {
            all.push(Transport::new("RDMA through host memory", own.peak.clone(), MEMORY));
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
            Kind::Nvl => all.push(Transport::new("P2P over NVLink", path.peak, "")),
            Kind::Nvb => all.push(Transport::new("P2P over NVLink through a GPU between", path.peak, "")),
            kind if kind <= NEAR || amd => {
                all.push(Transport::new(format!("P2P over PCIe ({})", kind.word()), path.peak, ""));
            }
            _ => {}
        }
        let links = [&self.gpus[a].place.pcie, &self.gpus[b].place.pcie];
        all.push(Transport::new("SHM", Peak::least(links), MEMORY));
        all
    }
}

/// Is `a` a nearer way than `b`? By type, then by bandwidth, as NCCL compares them.
fn nearer(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.kind.cmp(&b.kind).then_with(|| speed(&b.peak).total_cmp(&speed(&a.peak)))
}
