//! What the GPUs of this process and its node are connected by.

use std::path::Path;

use super::{fabric, rdma, topology};
use crate::{
    native::nvml::{Inventory, NvlinkFabric, NvmlGpu},
    peak::links::{GpuLinks, PortRate, ProcessLinks},
    topology::{Topology, figures::Peak},
};

/// Reads the links under `root`, the root of the file system. `uuids` are the GPUs of this process,
/// and `nvml` is what NVML says of them, or why it says nothing.
pub fn read(root: &Path, uuids: &[String], nvml: &Result<Inventory, String>) -> ProcessLinks {
    let topology = topology::read(root, nvml);
    let mut gpus = Vec::new();
    for uuid in uuids {
        gpus.push(match nvml {
            Ok(inventory) => gpu_links(uuid, inventory, &topology),
            Err(why) => GpuLinks::unknown(uuid, why),
        });
    }
    ProcessLinks {
        source: topology.source.clone(),
        gpus,
        ports: ports(root, &topology),
        // Grace's GPUs are connected to it by C2C, of which neither source tells.
        leaves_by_pcie: std::env::consts::ARCH == "x86_64",
    }
}

fn gpu_links(uuid: &str, inventory: &Inventory, topology: &Topology) -> GpuLinks {
    let mut gpus = inventory.gpus.iter();
    let has_uuid = |gpu: &&NvmlGpu| gpu.uuid.value.as_deref() == Some(uuid);
    let Some(gpu) = gpus.find(has_uuid) else {
        return GpuLinks::unknown(uuid, "NVML does not list the GPU");
    };
    let bus = gpu.bus_id.value.as_deref().unwrap_or_default();
    let Some(at) = topology.gpu_at(bus) else {
        return GpuLinks::unknown(uuid, "the GPU's PCI address is unknown");
    };
    GpuLinks {
        fabric: shared_fabric(gpu.fabric.value.as_ref()),
        ..GpuLinks::new(topology, &topology.gpus[at])
    }
}

/// Returns the name of a fabric that may span nodes; empty if there is none.
fn shared_fabric(fabric: Option<&NvlinkFabric>) -> String {
    let is_shared = |fabric: &&NvlinkFabric| fabric.cluster.bytes().any(|digit| digit != b'0');
    match fabric.filter(is_shared) {
        Some(NvlinkFabric {
            cluster, clique, ..
        }) => format!("{cluster}, clique {clique}"),
        None => String::new(),
    }
}

/// Returns the RDMA ports that are up.
fn ports(root: &Path, topology: &Topology) -> Vec<PortRate> {
    let mut ports = Vec::new();
    for port in rdma::ports(root) {
        if !port.active {
            continue;
        }
        let rate = match fabric::rate(root, &port) {
            Some(gbps) => Peak::port(gbps * 1000.0),
            None => Peak::unknown("port speed not reported"),
        };
        let mut nics = topology.nics.iter();
        let nic = nics.find(|nic| nic.name == port.device);
        let pcie = match nic {
            Some(nic) => nic.place.pcie.clone(),
            None => Peak::unknown("no PCI device"),
        };
        ports.push(PortRate { port, rate, pcie });
    }
    ports
}
