//! The devices of a node, as plain data.

use serde::Serialize;

use super::figures::Peak;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Topology {
    /// Where it was read from.
    pub source: String,
    /// NUMA nodes.
    pub cpus: Vec<Cpu>,
    /// PCI switches; a switch comes before the devices below it.
    pub switches: Vec<Switch>,
    /// GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// NICs that NCCL could use, in the order of its topology.
    pub nics: Vec<Nic>,
    /// What is missing, with the reasons.
    pub missing: Vec<String>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Its number; -1 if the machine has no NUMA.
    pub numa: i64,
    /// Vendor and architecture, if known: `GenuineIntel x86_64`.
    pub kind: String,
}

/// The location of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceLocation {
    /// Its address, such as `0000:18:00.0`; empty if it is not a PCI device.
    pub bus_id: String,
    /// Index into [`Topology::cpus`].
    pub cpu: usize,
    /// Index into [`Topology::switches`] of the switch above it; none if it is directly below the
    /// processor.
    pub switch: Option<usize>,
    /// The host bridge, such as `pci0000:15`; empty if unknown.
    pub bridge: String,
    /// Its own PCIe link.
    pub pcie: Peak,
}

/// A PCI switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Switch {
    /// The location of its upstream port.
    pub place: DeviceLocation,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// NVML's index.
    pub index: u32,
    /// Its name, if known.
    pub name: String,
    /// Its location.
    pub place: DeviceLocation,
    /// Its working NVLinks, grouped by their other end.
    pub nvlinks: Vec<NvLinks>,
    /// The number of its NVLinks that are down.
    pub nvlinks_down: u32,
    /// Whether it supports GPUDirect RDMA, if known.
    pub gdr: Option<bool>,
}

/// The NVLinks of a GPU with the same other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NvLinks {
    /// The other end.
    pub to: NvLinkEnd,
    /// Their number.
    pub count: u32,
    /// The most that one of them carries in one direction.
    pub each: Peak,
}

/// The other end of an NVLink.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NvLinkEnd {
    /// The NVSwitches: all GPUs of a node with links to one reach each other.
    #[default]
    Switch,
    /// The GPU at this address.
    Gpu(String),
    /// A processor.
    Cpu,
    /// An unknown device.
    Unknown(String),
}

/// A NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Nic {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its link layer, if known: `InfiniBand`, `Ethernet`.
    pub kind: String,
    /// Its location.
    pub place: DeviceLocation,
    /// The speed of its port.
    pub port: Peak,
    /// Whether its port is up, if known.
    pub up: Option<bool>,
    /// Whether it is used through sockets instead of RDMA.
    pub sockets: bool,
    /// Whether it can read and write GPU memory, if known; otherwise NCCL asks its driver.
    pub gdr: Option<bool>,
}

impl Topology {
    /// Returns the switches from the device at `place` up to its processor, the nearest first.
    pub fn chain(&self, place: &DeviceLocation) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut next = place.switch;
        while let Some(at) = next
            && let Some(switch) = self.switches.get(at)
        {
            chain.push(at);
            // A switch comes before the devices below it, so an index that is not smaller is a
            // loop.
            next = switch.place.switch.filter(|above| *above < at);
        }
        chain
    }

    /// Returns the index of the GPU at this address.
    pub fn gpu_at(&self, bus_id: &str) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.place.bus_id == bus_id)
    }
}
