//! The transports between two devices, in NCCL's order of preference.

use serde::Serialize;

use super::{
    figures::Peak,
    node::Topology,
    path::{NEAR, Path, PathType},
};

/// A way to move data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transport {
    /// Its name, such as `PXN through GPU 1`.
    pub name: String,
    /// The most its links carry in one direction.
    pub peak: Peak,
    /// What else limits it; empty if only the links do.
    pub limit: &'static str,
}

const MEMORY: &str = "host memory";
const CORES: &str = "processor cores that copy";

impl Transport {
    fn new(name: impl Into<String>, peak: &Peak, limit: &'static str) -> Transport {
        Transport {
            name: name.into(),
            peak: peak.clone(),
            limit,
        }
    }
}

impl Topology {
    /// Returns the transports from a GPU to another node through a NIC.
    pub(super) fn outside(
        &self,
        gpu: usize,
        nic: usize,
        own: &Path,
        gdr: bool,
        relay: Option<usize>,
    ) -> Vec<Transport> {
        let mut all = Vec::new();
        if let Some(relay) = relay {
            let name = format!("PXN through GPU {}", self.gpus[relay].index);
            let to_relay = self.between(gpu, relay).peak;
            let to_nic = self.to_nic(relay, nic).peak;
            all.push(Transport::new(name, &Peak::least([&to_relay, &to_nic]), ""));
        }
        if gdr {
            all.push(Transport::new("GPUDirect RDMA", &own.peak, ""));
        }
        if self.nics[nic].sockets != Some(true) {
            all.push(Transport::new(
                "RDMA through host memory",
                &own.peak,
                MEMORY,
            ));
        }
        all.push(Transport::new("sockets", &own.peak, CORES));
        all
    }

    /// Returns the transports between two GPUs of the node, if their path is known.
    pub fn inside(&self, a: usize, b: usize) -> Option<Vec<Transport>> {
        let mut all = Vec::new();
        let path = self.between(a, b);
        let kind = path.kind?;
        if kind > NEAR && self.may_be_pair_on_amd() {
            return None;
        }
        if let Some(name) = self.p2p(&path) {
            all.push(Transport::new(name, &path.peak, ""));
        }
        let links = [&self.gpus[a].place.pcie, &self.gpus[b].place.pcie];
        all.push(Transport::new("SHM", &Peak::least(links), MEMORY));
        Some(all)
    }

    /// Returns the kind of P2P over a path between two GPUs, if NCCL uses any.
    fn p2p(&self, path: &Path) -> Option<String> {
        match path.kind? {
            PathType::Nvl => Some("P2P over NVLink".to_owned()),
            PathType::Nvb => Some("P2P over NVLink through a GPU between".to_owned()),
            kind if kind <= NEAR || self.is_pair_on_amd() => {
                Some(format!("P2P over PCIe ({})", kind.word()))
            }
            _ => None,
        }
    }

    /// Returns whether the node has at most two GPUs and AMD processors; NCCL then uses P2P through
    /// the processor too.
    fn is_pair_on_amd(&self) -> bool {
        self.gpus.len() <= 2 && self.cpus.iter().any(|cpu| cpu.kind.contains("AMD"))
    }

    /// Returns whether the vendor of the processors is unknown, on which the use of P2P through
    /// them depends.
    fn may_be_pair_on_amd(&self) -> bool {
        self.gpus.len() <= 2 && self.cpus.iter().all(|cpu| cpu.kind.is_empty())
    }
}
