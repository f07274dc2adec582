//! The devices of a node, as plain data.

use serde::{Deserialize, Serialize, Serializer};

use super::figures::Peak;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Topology {
    /// The file or system from which it was read.
    pub source: String,
    /// The hash by which NCCL tells hosts apart, if the source has one.
    pub host: Option<String>,
    /// NUMA nodes.
    pub cpus: Vec<Cpu>,
    /// PCI switches; a switch comes before the devices below it.
    pub switches: Vec<Switch>,
    /// GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// NICs that NCCL could use, in the order of their numbers, which are those of rails.
    pub nics: Vec<Nic>,
    /// Devices whose kind is unknown, or that are neither GPU, NIC nor switch.
    pub devices: Vec<Device>,
    /// Whether the GPUs and NICs are only those that a template lists, which NCCL completes.
    pub is_template: bool,
    /// Paths that the source gives directly, in place of the links they follow from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenPaths>,
    /// What is missing, with the reasons.
    pub missing: Vec<String>,
    /// What a reader should know about the source, or about what it holds.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The paths between all pairs of devices, GPUs first and then NICs, as nvidia-smi prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GivenPaths {
    /// A row of words per device.
    pub words: Vec<Vec<String>>,
    /// Whether NVLinks would be shown if there were any.
    pub has_nvlinks: bool,
}

/// A PCI device that is neither GPU, NIC nor switch, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Device {
    /// Its PCI class, if known.
    pub class: Option<String>,
    /// Its location.
    pub place: DeviceLocation,
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
    /// Its rank in the communicator that wrote the source, if known.
    pub rank: Option<u32>,
    /// Its number among the parts of a partitioned GPU, if it is one.
    pub part: Option<u32>,
    /// Its working NVLinks, grouped by their other end, if known.
    pub nvlinks: Option<Vec<NvLinks>>,
    /// Its C2C links to the processor, if any are known.
    pub c2c: Option<C2cLinks>,
    /// The number of its NVLinks that are down.
    pub nvlinks_down: u32,
    /// Whether it supports GPUDirect RDMA, if known.
    pub gdr: Option<bool>,
    /// Its place in NCCL's list of GPUs, which has the order of the file.
    #[serde(skip)]
    pub listed: usize,
}

/// The NVLinks of a GPU with the same other end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NvLinks {
    /// The other end.
    pub to: NvLinkEnd,
    /// Their number.
    pub count: u32,
    /// The most that one of them carries in one direction.
    pub each: Peak,
}

/// The C2C links of a GPU to its processor, as between Grace and Hopper.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct C2cLinks {
    /// Their number.
    pub count: u32,
    /// The most that one of them carries in one direction.
    pub each: Peak,
}

/// The other end of an NVLink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Its name, such as `mlx5_0`; empty if unknown.
    #[serde(serialize_with = "null_if_empty")]
    pub name: String,
    /// Its link layer, if known: `InfiniBand`, `Ethernet`.
    pub kind: String,
    /// Its location.
    pub place: DeviceLocation,
    /// The speed of its port.
    pub port: Peak,
    /// Whether its port is up, if known.
    pub up: Option<bool>,
    /// Whether it is used through sockets instead of RDMA, if known.
    pub sockets: Option<bool>,
    /// Whether it can read and write GPU memory, if known; otherwise NCCL asks its driver.
    pub gdr: Option<bool>,
    /// Its number in NCCL, if known.
    #[serde(skip)]
    pub number: Option<u32>,
    /// Its place in NCCL's list of NICs, which has the order of the file.
    #[serde(skip)]
    pub listed: usize,
}

fn null_if_empty<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() {
        serializer.serialize_none()
    } else {
        serializer.serialize_str(text)
    }
}

impl Nic {
    /// Returns its name, or its address if it has none.
    pub fn label(&self) -> &str {
        if !self.name.is_empty() {
            &self.name
        } else if !self.place.bus_id.is_empty() {
            &self.place.bus_id
        } else {
            "unnamed"
        }
    }

    /// Returns whether the source describes its port. Otherwise NCCL asks the machine.
    pub fn is_described(&self) -> bool {
        self.sockets.is_some()
    }
}

impl Gpu {
    /// Returns whether it has working NVLinks, if that is known.
    pub fn has_nvlinks(&self) -> Option<bool> {
        let links = self.nvlinks.as_ref()?;
        Some(links.iter().any(|links| links.count > 0))
    }
}

impl Topology {
    /// Returns the name of a GPU: `GPU 0`; with its part or its rank if several share that number.
    pub fn gpu_label(&self, gpu: usize) -> String {
        let Gpu {
            index, part, rank, ..
        } = self.gpus[gpu];
        let same = self.gpus.iter().filter(|other| other.index == index);
        let is_shared = same.count() > 1;
        match (part, rank) {
            (Some(part), _) if is_shared => format!("GPU {index} part {part}"),
            (None, Some(rank)) if is_shared => format!("GPU {index} rank {rank}"),
            _ => format!("GPU {index}"),
        }
    }

    /// Names the other end of NVLinks whose kind was not given, if it is a GPU that is listed.
    pub fn resolve_nvlink_ends(&mut self) {
        let places: Vec<String> = self
            .gpus
            .iter()
            .map(|gpu| gpu.place.bus_id.clone())
            .collect();
        for links in self.gpus.iter_mut().filter_map(|gpu| gpu.nvlinks.as_mut()) {
            for link in links {
                if let NvLinkEnd::Unknown(bus) = &link.to
                    && !bus.is_empty()
                    && places.contains(bus)
                {
                    link.to = NvLinkEnd::Gpu(bus.clone());
                }
            }
        }
    }

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
