//! What is connected to what inside a node: NUMA nodes, PCI switches, GPUs, NICs, NVLinks, as plain data.
//!
//! [`xml`] reads it from NCCL's topology file; a gatherer fills it from sysfs and NVML. [`path`] types the way from each
//! device to each other, [`choice`] says what NCCL makes of that, [`figures`] what a link carries. [`text`] and [`svg`] draw it.

pub mod choice;
pub mod figures;
pub mod path;
pub mod svg;
pub mod text;
pub mod xml;

use serde::Serialize;

use figures::Peak;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Topology {
    /// Where it was read.
    pub source: String,
    /// NUMA nodes.
    pub cpus: Vec<Cpu>,
    /// PCI switches; a switch comes before what hangs from it.
    pub switches: Vec<Switch>,
    /// GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// NICs that NCCL could use, in the order in which it was told of them.
    pub nics: Vec<Nic>,
    /// What is missing, and why.
    pub missing: Vec<String>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Its number; -1 where the machine has no NUMA.
    pub numa: i64,
    /// Vendor and architecture, as far as known: `GenuineIntel x86_64`.
    pub kind: String,
}

/// Where a device is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceLocation {
    /// Its address, as `0000:18:00.0`; empty for what is no PCI device.
    pub bus_id: String,
    /// Number in [`Topology::cpus`].
    pub cpu: usize,
    /// Number in [`Topology::switches`] of the switch that it hangs from; nothing where it hangs from the processor.
    pub switch: Option<usize>,
    /// The host bridge, as `pci0000:15`; empty where that is not known.
    pub bridge: String,
    /// Its own PCIe link.
    pub pcie: Peak,
}

/// A PCI switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Switch {
    /// Where it is, by its upstream port.
    pub place: DeviceLocation,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// NVML's number.
    pub index: u32,
    /// Its name, where known.
    pub name: String,
    /// Where it is.
    pub place: DeviceLocation,
    /// Its working NVLinks, those to one place together.
    pub nvlinks: Vec<NvLinks>,
    /// Links that it has and that do not work.
    pub nvlinks_down: u32,
    /// Can it do GPUDirect RDMA? Nothing where nobody says.
    pub gdr: Option<bool>,
}

/// The NVLinks of a GPU to one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NvLinks {
    /// What is at the other end.
    pub to: NvLinkEnd,
    /// How many.
    pub count: u32,
    /// What one of them carries in one direction.
    pub each: Peak,
}

/// The other end of an NVLink.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NvLinkEnd {
    /// The NVSwitches: all GPUs of a node that have links to one reach each other.
    #[default]
    Switch,
    /// The GPU of this address.
    Gpu(String),
    /// A processor.
    Cpu,
    /// A device that is not known.
    Unknown(String),
}

/// A NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Nic {
    /// Its name, as `mlx5_0`.
    pub name: String,
    /// What it speaks, where known: `InfiniBand`, `Ethernet`.
    pub kind: String,
    /// Where it is.
    pub place: DeviceLocation,
    /// Its port.
    pub port: Peak,
    /// Is the port up? Nothing where nobody says.
    pub up: Option<bool>,
    /// Is it used through sockets, not RDMA?
    pub sockets: bool,
    /// Can it read and write GPU memory? Nothing where nobody says: then NCCL asks its driver.
    pub gdr: Option<bool>,
}

impl Topology {
    /// Switches from the device at `place` to its processor, the nearest first.
    pub fn chain(&self, place: &DeviceLocation) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut next = place.switch;
        while let Some((at, switch)) = next.and_then(|at| Some((at, self.switches.get(at)?))) {
            chain.push(at);
            // A switch comes before what hangs from it, so a number that is not smaller is a circle.
            next = switch.place.switch.filter(|above| *above < at);
        }
        chain
    }

    /// The GPU at this address.
    pub fn gpu_at(&self, bus_id: &str) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.place.bus_id == bus_id)
    }
}
