//! [`NodeRules`]: the NIC of each GPU, and the relays between GPUs and NICs, as NCCL chooses them.
//!
//! The choices follow from [`crate::topology::choice`]: the NIC of a GPU (`ncclTopoGetLocalNet` in
//! graph/topo.cc), the GPU beside a NIC (`ncclTopoGetLocalGpu` in graph/topo.cc), and the paths
//! that become PXN (`ncclTopoComputePaths` in graph/paths.cc).

use super::{cluster::Cluster, settings::PxnSettings};
use crate::topology::{
    Topology,
    choice::{NicPath, RelayChoice},
    path::PathType,
};

/// The choices of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeRules {
    gpus: Vec<GpuRules>,
}

/// The choices of one GPU.
#[derive(Clone, Debug)]
struct GpuRules {
    /// The NIC that it sends through without a relay and receives through, or why that is not
    /// known.
    nic: Result<usize, String>,
    /// How it reaches each NIC.
    to: Vec<NicRules>,
}

/// How a GPU reaches a NIC. Each answer may be the reason why it is not known.
#[derive(Clone, Debug)]
struct NicRules {
    /// The relay of send/recv at level 2 of `NCCL_P2P_PXN_LEVEL`.
    always: Result<Option<usize>, String>,
    /// The relay of rings and trees, and of send/recv at level 1.
    if_needed: Result<Option<usize>, String>,
    /// Whether the GPU's own path to the NIC does not pass through the processor.
    is_near: Result<bool, String>,
}

impl NodeRules {
    /// Derives the choices of the nodes of a cluster.
    pub(super) fn new(cluster: &Cluster, settings: &PxnSettings) -> NodeRules {
        let node = &cluster.node;
        let mut gpus = Vec::new();
        for (choice, uses_one_nic) in node.choices().into_iter().zip(node.use_one_nic()) {
            let nic = match choice.nic {
                Some(nic) if uses_one_nic => Ok(nic),
                Some(_) => Err(several_nics(node, choice.gpu)),
                None => Err(choice.why),
            };
            let to = choice.nics.iter();
            gpus.push(GpuRules {
                nic,
                to: to.map(|path| NicRules::new(path, settings)).collect(),
            });
        }
        NodeRules { gpus }
    }

    /// Returns the NIC that a GPU uses without a relay.
    pub(super) fn nic(&self, gpu: usize) -> Result<usize, String> {
        self.gpus[gpu].nic.clone()
    }

    /// Returns the relay to a NIC for send/recv that relays whenever a GPU is beside the NIC;
    /// `None` if there is no such GPU, or if it is the sender.
    pub(super) fn relay(&self, gpu: usize, nic: usize) -> Result<Option<usize>, String> {
        self.gpus[gpu].to[nic].always.clone()
    }

    /// Returns the relay to a NIC if NCCL calls the path PXN, because the GPU's own path is worse;
    /// `None` if it does not.
    pub(super) fn needed_relay(&self, gpu: usize, nic: usize) -> Result<Option<usize>, String> {
        self.gpus[gpu].to[nic].if_needed.clone()
    }

    /// Returns whether a GPU reaches a NIC itself without passing through the processor.
    pub(super) fn is_near(&self, gpu: usize, nic: usize) -> Result<bool, String> {
        self.gpus[gpu].to[nic].is_near.clone()
    }

    /// Returns whether a path from a GPU to a NIC is PXN. Rings and trees use relays on such paths
    /// only.
    pub(super) fn has_pxn_path(&self) -> Result<bool, String> {
        for nic in self.gpus.iter().flat_map(|gpu| &gpu.to) {
            if nic.if_needed.clone()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl NicRules {
    fn new(path: &NicPath, settings: &PxnSettings) -> NicRules {
        let can_relay = !settings.is_off && settings.has_p2p && settings.has_gpudirect;
        let relay = |choice: &RelayChoice| match (can_relay, choice.is_known) {
            (false, _) => Ok(None),
            (true, true) => Ok(choice.gpu),
            (true, false) => Err(choice.why.clone()),
        };
        NicRules {
            always: relay(&path.relay),
            if_needed: relay(&path.ring_relay),
            is_near: is_near(path, settings),
        }
    }
}

/// Returns whether a GPU's own path to a NIC does not pass through the processor, as it does
/// without GPUDirect RDMA.
fn is_near(path: &NicPath, settings: &PxnSettings) -> Result<bool, String> {
    if !settings.has_gpudirect || path.gdr.yes == Some(false) {
        return Ok(false);
    }
    match path.own.kind {
        Some(kind) if kind > PathType::Pxn => Ok(false),
        None => Err(path.own.peak.of.clone()),
        Some(_) if path.gdr.yes.is_none() => Err(path.gdr.why.clone()),
        Some(_) => Ok(true),
    }
}

fn several_nics(node: &Topology, gpu: usize) -> String {
    format!(
        "{} is equally near to several NICs, and takes one or the other by the number of the \
         channel",
        node.gpu_label(gpu)
    )
}
