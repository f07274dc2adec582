//! What NCCL makes of a node by its own rules and default settings: the NIC of each GPU, whether
//! GPUDirect RDMA and PXN are possible and through which relay, and which transport it prefers. The
//! rules are those of NCCL 2.30.

use serde::Serialize;

pub use super::transport::Transport;
use super::{
    near::Nearest,
    node::Topology,
    path::{NEAR, Path, PathType},
};

/// The use that one GPU makes of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuChoices {
    /// Index into [`Topology::gpus`].
    pub gpu: usize,
    /// Index into [`Topology::nics`] of the NIC that it uses first, if there is one.
    pub nic: Option<usize>,
    /// The reason for that choice.
    pub why: String,
    /// Its path to each NIC, in the order of the NICs.
    pub nics: Vec<NicPath>,
}

/// The path of one GPU to one NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NicPath {
    /// Index into [`Topology::nics`].
    pub nic: usize,
    /// The path without a relay.
    pub own: Path,
    /// Whether NCCL uses GPUDirect RDMA on it.
    pub gdr: YesNo,
    /// The relay of send and receive at PXN level 2.
    pub relay: RelayChoice,
    /// The relay of rings and trees.
    pub ring_relay: RelayChoice,
    /// The transports to another node through this NIC, the preferred one first.
    pub transports: Vec<Transport>,
}

/// A yes or no, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct YesNo {
    /// The answer.
    pub yes: bool,
    /// The reason.
    pub why: String,
}

/// The GPU that relays data, if any, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelayChoice {
    /// Index into [`Topology::gpus`].
    pub gpu: Option<usize>,
    /// Why this one, or why none.
    pub why: String,
}

impl YesNo {
    fn yes(why: String) -> YesNo {
        YesNo { yes: true, why }
    }

    fn no(why: String) -> YesNo {
        YesNo { yes: false, why }
    }
}

impl RelayChoice {
    fn none(why: String) -> RelayChoice {
        RelayChoice { gpu: None, why }
    }
}

impl Topology {
    /// Returns the use that each GPU makes of the network, in the order of the GPUs.
    pub fn choices(&self) -> Vec<GpuChoices> {
        let nearest = Nearest::new(self);
        let gpus = 0..self.gpus.len();
        gpus.map(|gpu| self.choice(gpu, &nearest)).collect()
    }

    fn choice(&self, gpu: usize, nearest: &Nearest) -> GpuChoices {
        let near = nearest.nics_of(gpu);
        let paths = 0..self.nics.len();
        GpuChoices {
            gpu,
            nic: near.first().copied(),
            why: self.nic_reason(gpu, &near),
            nics: paths
                .map(|nic| self.nic_path(gpu, nic, nearest.gpu_beside(nic)))
                .collect(),
        }
    }

    fn nic_reason(&self, gpu: usize, near: &[usize]) -> String {
        let Some(first) = near.first() else {
            return "none works".into();
        };
        let word = self.to_nic(gpu, *first).kind.word();
        match near.len() {
            1 => format!("the nearest ({word})"),
            count => format!("one of {count} equally near ({word}), chosen by the GPU's number"),
        }
    }

    fn nic_path(&self, gpu: usize, nic: usize, beside: Option<usize>) -> NicPath {
        let own = self.to_nic(gpu, nic);
        let gdr = self.gdr(gpu, nic);
        let relay = self.relay(gpu, nic, beside);
        NicPath {
            nic,
            transports: self.outside(gpu, nic, &own, gdr.yes, relay.gpu),
            ring_relay: self.ring_relay(gpu, nic, relay.clone()),
            own,
            gdr,
            relay,
        }
    }

    fn gdr(&self, gpu: usize, nic: usize) -> YesNo {
        let kind = self.to_nic(gpu, nic).kind;
        let word = kind.word();
        let gpu = &self.gpus[gpu];
        let nic = &self.nics[nic];
        if nic.gdr == Some(false) {
            return YesNo::no(format!("{} cannot reach GPU memory", nic.name));
        }
        if gpu.gdr == Some(false) {
            return YesNo::no(format!("GPU {} does not support it", gpu.index));
        }
        if kind > NEAR {
            return YesNo::no(format!("{word} is farther than {}", NEAR.word()));
        }
        if nic.gdr.is_none() {
            return YesNo::yes(format!(
                "{word} is near enough, if the NIC's driver supports it"
            ));
        }
        YesNo::yes(format!("{word} is near enough"))
    }

    /// Returns the relay of send and receive at PXN level 2.
    fn relay(&self, gpu: usize, nic: usize, beside: Option<usize>) -> RelayChoice {
        let name = &self.nics[nic].name;
        if self.nics[nic].up == Some(false) {
            return RelayChoice::none(format!("{name} is down"));
        }
        if self.nics[nic].gdr == Some(false) {
            return RelayChoice::none(format!("no GPUDirect RDMA: {name} cannot reach GPU memory"));
        }
        let Some(relay) = beside else {
            return RelayChoice::none(format!("no GPU uses {name} first, so none is beside it"));
        };
        let index = self.gpus[relay].index;
        let near = self.to_nic(relay, nic).kind;
        if near > NEAR {
            let near = near.word();
            return RelayChoice::none(format!(
                "no GPU is beside {name}: the nearest, GPU {index}, is {near} from it"
            ));
        }
        if relay == gpu {
            return RelayChoice::none(format!("this GPU is itself the one beside {name}"));
        }
        let link = self.between(gpu, relay).kind;
        if link > PathType::Nvl {
            let link = link.word();
            return RelayChoice::none(format!(
                "no NVLink to GPU {index}, the one beside {name} ({link})"
            ));
        }
        let gdr = self.gdr(relay, nic);
        if !gdr.yes {
            return RelayChoice::none(format!("no GPUDirect RDMA: {}", gdr.why));
        }
        let near = near.word();
        RelayChoice {
            gpu: Some(relay),
            why: format!("NVLink to GPU {index}, which is {near} from {name}"),
        }
    }

    /// Returns the relay of rings and trees, which use `relay` only if their own path is worse.
    fn ring_relay(&self, gpu: usize, nic: usize, relay: RelayChoice) -> RelayChoice {
        let Some(by) = relay.gpu else {
            return relay;
        };
        let own = self.to_nic(gpu, nic);
        let relayed = self.to_nic(by, nic);
        if own.kind > PathType::Pxn {
            return RelayChoice {
                why: format!("{} is worse than PXN", own.kind.word()),
                ..relay
            };
        }
        if own.peak.gbps.is_some() && relayed.peak.speed() > own.peak.speed() {
            return RelayChoice {
                why: "the relay has more bandwidth to the NIC".into(),
                ..relay
            };
        }
        RelayChoice::none(format!("its own path ({}) is good enough", own.kind.word()))
    }
}
