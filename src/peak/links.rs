//! What the GPUs and nodes of a job are connected by, as each process reports it.

use serde::{Deserialize, Serialize};

use crate::{
    levels::ports::Port,
    topology::{Gpu, NvLinks, Topology, figures::Peak},
};

/// The links of the GPUs of one process, and the ports of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessLinks {
    /// The source from which they were read: `sysfs and NVML`.
    pub source: String,
    /// The links of each GPU of the process, in its order.
    pub gpus: Vec<GpuLinks>,
    /// The ports of the node's RDMA devices that are up.
    pub ports: Vec<PortRate>,
    /// Whether the GPU's PCIe link carries what leaves the node. Between Grace and its GPU another
    /// one does.
    pub leaves_by_pcie: bool,
}

/// The links of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuLinks {
    /// Its PCI address, such as `0000:18:00.0`.
    pub bus: String,
    /// Its working NVLinks by their other end, or why they are unknown.
    pub nvlinks: Result<Vec<NvLinks>, String>,
    /// Its PCIe link.
    pub pcie: Peak,
    /// The uplinks of the PCI switches above it, the nearest first.
    pub uplinks: Vec<Uplink>,
    /// The NVLink fabric that it shares with other nodes; empty if there is none.
    pub fabric: String,
}

/// The uplink of a PCI switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uplink {
    /// The address of the switch.
    pub bus: String,
    /// What it carries in one direction.
    pub rate: Peak,
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortRate {
    /// Device, number and network.
    pub port: Port,
    /// Its rate.
    pub rate: Peak,
    /// The PCIe link of the device.
    pub pcie: Peak,
}

/// A rank of a job, and its GPU.
#[derive(Clone, Debug)]
pub struct RankLinks {
    /// Its node.
    pub node: u32,
    /// The name of its host.
    pub host: String,
    /// The links of its GPU.
    pub gpu: GpuLinks,
}

/// All links of a job.
#[derive(Clone, Debug, Default)]
pub struct JobLinks {
    /// Each rank.
    pub ranks: Vec<RankLinks>,
    /// Each node.
    pub nodes: Vec<NodeLinks>,
    /// Why GPUs of a node do not access each other's memory; empty if they may.
    pub no_p2p: String,
    /// Why GPUs of a node do not meet in shared memory either; empty if they may.
    pub no_shared_memory: String,
}

/// What connects a node to the others.
#[derive(Clone, Debug)]
pub struct NodeLinks {
    /// The name of its host.
    pub host: String,
    /// The ports that NCCL may use, or why they are unknown.
    pub ports: Result<Vec<PortRate>, String>,
    /// Whether the GPU's PCIe link carries what leaves the node.
    pub leaves_by_pcie: bool,
}

impl GpuLinks {
    /// Returns the links of a GPU of which nothing is known, because of `why`.
    pub fn unknown(bus: &str, why: &str) -> GpuLinks {
        GpuLinks {
            bus: bus.to_owned(),
            nvlinks: Err(why.to_owned()),
            pcie: Peak::unknown(why),
            uplinks: Vec::new(),
            fabric: String::new(),
        }
    }

    /// Returns the links of a GPU of `topology`.
    pub fn new(topology: &Topology, gpu: &Gpu) -> GpuLinks {
        let uplinks = topology.chain(&gpu.place).into_iter().map(|switch| {
            let place = &topology.switches[switch].place;
            Uplink {
                bus: place.bus_id.clone(),
                rate: place.pcie.clone(),
            }
        });
        let nvlinks = gpu.nvlinks.clone();
        GpuLinks {
            bus: gpu.place.bus_id.clone(),
            nvlinks: nvlinks.ok_or_else(|| "NVLinks are not known".to_owned()),
            pcie: gpu.place.pcie.clone(),
            uplinks: uplinks.collect(),
            fabric: String::new(),
        }
    }
}
