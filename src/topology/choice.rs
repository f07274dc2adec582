//! What NCCL makes of a node by its own rules and default settings: the NIC of each GPU, whether
//! GPUDirect RDMA and PXN are possible and through which relay, and which transport it prefers. The
//! rules are those of NCCL 2.30.

use serde::Serialize;

pub use super::transport::Transport;
use super::{
    near::{Nearest, usable_nics},
    node::Topology,
    path::{NEAR, Path, PathType},
};

/// The use that one GPU makes of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuChoices {
    /// Index into [`Topology::gpus`].
    pub gpu: usize,
    /// Index into [`Topology::nics`] of the NIC that it uses first, if there is one and it is
    /// known.
    pub nic: Option<usize>,
    /// Whether it is known which NIC it uses, or that it uses none.
    pub is_nic_known: bool,
    /// Indices into [`Topology::nics`] of the nearest by path type.
    pub nearest: Vec<usize>,
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
    /// The transports to another node through this NIC, the preferred one first, if they are known.
    pub transports: Option<Vec<Transport>>,
}

/// A yes or no, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct YesNo {
    /// The answer; none if what was read does not decide it.
    pub yes: Option<bool>,
    /// The reason.
    pub why: String,
}

/// The GPU that relays data, if any, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelayChoice {
    /// Index into [`Topology::gpus`].
    pub gpu: Option<usize>,
    /// Whether it is known which GPU relays, or that none does.
    pub is_known: bool,
    /// Why this one, why none, or why it is not known.
    pub why: String,
}

impl YesNo {
    fn yes(why: String) -> YesNo {
        YesNo {
            yes: Some(true),
            why,
        }
    }

    fn no(why: String) -> YesNo {
        YesNo {
            yes: Some(false),
            why,
        }
    }

    fn unknown(why: String) -> YesNo {
        YesNo { yes: None, why }
    }
}

impl RelayChoice {
    fn none(why: String) -> RelayChoice {
        RelayChoice {
            gpu: None,
            is_known: true,
            why,
        }
    }

    fn unknown(why: String) -> RelayChoice {
        RelayChoice {
            gpu: None,
            is_known: false,
            why,
        }
    }
}

impl Topology {
    /// Returns the use that each GPU makes of the network, in the order of the GPUs.
    pub fn choices(&self) -> Vec<GpuChoices> {
        let nearest = Nearest::new(self);
        let doubts = self.nic_doubts();
        let gpus = 0..self.gpus.len();
        gpus.map(|gpu| self.choice(gpu, &nearest, doubts.as_deref()))
            .collect()
    }

    /// Returns why it is not known which NICs the GPUs use. The choice of one depends on those of
    /// the others.
    fn nic_doubts(&self) -> Option<String> {
        if self.nics.is_empty() {
            let why = "no NIC is listed; NCCL adds those of the machine";
            return self.is_template.then(|| why.to_owned());
        }
        let usable = usable_nics(self);
        if usable.iter().any(|nic| !self.nics[*nic].is_described()) {
            return Some("NCCL asks the machine for the speeds of the ports".to_owned());
        }
        let gpus = 0..self.gpus.len();
        let mut paths = gpus.flat_map(|gpu| usable.iter().map(move |nic| self.to_nic(gpu, *nic)));
        let unknown = paths.find(|path| path.kind.is_none())?;
        Some(unknown.peak.of)
    }

    fn choice(&self, gpu: usize, nearest: &Nearest, doubts: Option<&str>) -> GpuChoices {
        let near = nearest.nics_of(gpu);
        let paths = 0..self.nics.len();
        let by_type = self.nearest_by_type(gpu);
        GpuChoices {
            gpu,
            nic: near.first().copied().filter(|_| doubts.is_none()),
            is_nic_known: doubts.is_none(),
            why: match doubts {
                None => self.nic_reason(gpu, &near),
                Some(why) => self.doubtful_reason(gpu, &by_type, why),
            },
            nearest: by_type,
            nics: paths
                .map(|nic| self.nic_path(gpu, nic, nearest.gpu_beside(nic), doubts))
                .collect(),
        }
    }

    /// Returns the NICs that no other is nearer than by path type, among those not known to be
    /// down.
    fn nearest_by_type(&self, gpu: usize) -> Vec<usize> {
        let mut typed = Vec::new();
        for (at, nic) in self.nics.iter().enumerate() {
            if nic.up == Some(false) {
                continue;
            }
            if let Some(kind) = self.to_nic(gpu, at).kind {
                typed.push((kind, at));
            }
        }
        let best = typed.iter().map(|(kind, _)| *kind).min();
        typed.retain(|(kind, _)| Some(*kind) == best);
        typed.into_iter().map(|(_, nic)| nic).collect()
    }

    fn doubtful_reason(&self, gpu: usize, nearest: &[usize], why: &str) -> String {
        let Some(first) = nearest.first() else {
            return why.to_owned();
        };
        let names: Vec<&str> = nearest.iter().map(|nic| self.nics[*nic].label()).collect();
        let (names, word) = (names.join(", "), self.to_nic(gpu, *first).word());
        format!("{why}; the nearest by path type: {names} ({word})")
    }

    fn nic_reason(&self, gpu: usize, near: &[usize]) -> String {
        let Some(first) = near.first() else {
            return "none works".into();
        };
        let word = self.to_nic(gpu, *first).word();
        match near.len() {
            1 => format!("the nearest ({word})"),
            count => format!("one of {count} equally near ({word}), chosen by the GPU's number"),
        }
    }

    fn nic_path(
        &self,
        gpu: usize,
        nic: usize,
        beside: Option<usize>,
        doubts: Option<&str>,
    ) -> NicPath {
        let own = self.to_nic(gpu, nic);
        let gdr = self.gdr(gpu, nic);
        let relay = match doubts {
            Some(why) if self.nics[nic].gdr != Some(false) => {
                RelayChoice::unknown(format!("which GPU uses this NIC is not known: {why}"))
            }
            _ => self.relay(gpu, nic, beside),
        };
        let is_known = self.nics[nic].is_described() && own.kind.is_some() && relay.is_known;
        let transports = gdr.yes.filter(|_| is_known);
        NicPath {
            nic,
            transports: transports.map(|gdr| self.outside(gpu, nic, &own, gdr, relay.gpu)),
            ring_relay: self.ring_relay(gpu, nic, relay.clone()),
            own,
            gdr,
            relay,
        }
    }

    fn gdr(&self, gpu: usize, nic: usize) -> YesNo {
        let path = self.to_nic(gpu, nic);
        let word = path.word();
        let gpu = &self.gpus[gpu];
        let nic = &self.nics[nic];
        let name = nic.label();
        if nic.gdr == Some(false) {
            return YesNo::no(format!("{name} cannot reach GPU memory"));
        }
        if gpu.gdr == Some(false) {
            return YesNo::no(format!("GPU {} does not support it", gpu.index));
        }
        let Some(kind) = path.kind else {
            return YesNo::unknown(path.peak.of);
        };
        if kind > NEAR {
            return YesNo::no(format!("{word} is farther than {}", NEAR.word()));
        }
        if !nic.is_described() {
            return YesNo::unknown(format!(
                "{word} is near enough; NCCL asks the machine whether GPU and NIC support it"
            ));
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
        let name = self.nics[nic].label();
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
        let path = self.to_nic(relay, nic);
        let near = path.word();
        let Some(kind) = path.kind else {
            return RelayChoice::unknown(path.peak.of);
        };
        if kind > NEAR {
            return RelayChoice::none(format!(
                "no GPU is beside {name}: the nearest, GPU {index}, is {near} from it"
            ));
        }
        if relay == gpu {
            return RelayChoice::none(format!("this GPU is itself the one beside {name}"));
        }
        let link = self.between(gpu, relay);
        let Some(kind) = link.kind else {
            let why = link.peak.of;
            return RelayChoice::unknown(format!("GPU {index} is beside {name}, but {why}"));
        };
        if kind > PathType::Nvl {
            let link = link.word();
            return RelayChoice::none(format!(
                "no NVLink to GPU {index}, the one beside {name} ({link})"
            ));
        }
        let gdr = self.gdr(relay, nic);
        match gdr.yes {
            Some(true) => {}
            Some(false) => return RelayChoice::none(format!("no GPUDirect RDMA: {}", gdr.why)),
            None => return RelayChoice::unknown(gdr.why),
        }
        RelayChoice {
            gpu: Some(relay),
            is_known: true,
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
        if own.kind > Some(PathType::Pxn) {
            return RelayChoice {
                why: format!("{} is worse than PXN", own.word()),
                ..relay
            };
        }
        if own.peak.gbps.is_some() && relayed.peak.speed() > own.peak.speed() {
            return RelayChoice {
                why: "the relay has more bandwidth to the NIC".into(),
                ..relay
            };
        }
        RelayChoice::none(format!("its own path ({}) is good enough", own.word()))
    }
}
