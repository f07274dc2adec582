//! The path from one device to another: its type as NCCL and as nvidia-smi call it, and what it can
//! carry.

use serde::Serialize;

use super::{
    figures::Peak,
    node::{DeviceLocation, Gpu, NvLinkEnd, NvLinks, Topology},
};

/// The farthest path type over which NCCL uses GPUDirect RDMA (`NCCL_NET_GDR_LEVEL`) and P2P
/// (`NCCL_P2P_LEVEL`) by default, and a GPU is a relay.
pub const NEAR: PathType = PathType::Pxb;

/// NCCL's path types, the nearest first, with their names and meanings. The order is that of NCCL
/// 2.27.5 and newer.
pub const KINDS: [(PathType, &str, &str); 10] = [
    (PathType::Loc, "LOC", "the same device"),
    (PathType::Nvl, "NVL", "NVLink, also through NVSwitches"),
    (PathType::Nvb, "NVB", "NVLink through another GPU"),
    (PathType::C2c, "C2C", "chip to chip, as Grace to Hopper"),
    (PathType::Pix, "PIX", "at most one PCIe switch"),
    (
        PathType::Pxb,
        "PXB",
        "several PCIe switches, not the processor",
    ),
    (
        PathType::P2c,
        "P2C",
        "PCIe to the processor and on over C2C",
    ),
    (
        PathType::Pxn,
        "PXN",
        "NVLink to a GPU beside the NIC, and on from there",
    ),
    (PathType::Phb, "PHB", "through the processor"),
    (PathType::Sys, "SYS", "between the sockets or NUMA nodes"),
];

/// A path type. C2C and P2C are not detected here; they are listed for comparison with NCCL's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// The same device.
    Loc,
    /// NVLink.
    Nvl,
    /// NVLink through another GPU.
    Nvb,
    /// Chip to chip.
    C2c,
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// PCIe and C2C.
    P2c,
    /// Through a relay.
    Pxn,
    /// Through the processor.
    Phb,
    /// Between sockets.
    Sys,
}

impl PathType {
    /// Returns NCCL's name for it.
    pub fn word(self) -> &'static str {
        KINDS
            .iter()
            .find(|(kind, ..)| *kind == self)
            .map_or("?", |(_, word, _)| word)
    }
}

/// A path between two devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Its type.
    pub kind: PathType,
    /// nvidia-smi's name for it: `NV18`, `PIX`, `NODE`.
    pub smi: String,
    /// The most its slowest link carries in one direction.
    pub peak: Peak,
}

impl Topology {
    /// Returns the path from GPU to GPU.
    pub fn between(&self, a: usize, b: usize) -> Path {
        if a == b {
            return Path {
                kind: PathType::Loc,
                smi: "X".into(),
                peak: Peak::unknown("the GPU's own memory"),
            };
        }
        let (from, to) = (&self.gpus[a], &self.gpus[b]);
        if let Some(links) = nvlinks(from, to) {
            return Path {
                kind: PathType::Nvl,
                smi: format!("NV{}", links.count),
                peak: links.peak,
            };
        }
        let pci = self.over_pci(&from.place, &to.place);
        match self.through_gpu(a, b) {
            None => pci,
            Some(peak) => Path {
                kind: PathType::Nvb,
                smi: pci.smi,
                peak,
            },
        }
    }

    /// Returns the peak of the best path over NVLinks through a third GPU.
    fn through_gpu(&self, a: usize, b: usize) -> Option<Peak> {
        let mut peaks = Vec::new();
        for (at, middle) in self.gpus.iter().enumerate() {
            if at == a || at == b {
                continue;
            }
            if let Some(first) = nvlinks(&self.gpus[a], middle)
                && let Some(second) = nvlinks(middle, &self.gpus[b])
            {
                peaks.push(Peak::least([&first.peak, &second.peak]));
            }
        }
        peaks
            .into_iter()
            .max_by(|x, y| x.speed().total_cmp(&y.speed()))
    }

    /// Returns the path from a GPU to a NIC without a relay.
    pub fn to_nic(&self, gpu: usize, nic: usize) -> Path {
        let nic = &self.nics[nic];
        let mut path = self.over_pci(&self.gpus[gpu].place, &nic.place);
        // A NIC that is not a PCI device, such as a virtual one, has only a port.
        path.peak = if nic.place.bus_id.is_empty() {
            nic.port.clone()
        } else {
            Peak::least([&path.peak, &nic.port])
        };
        path
    }

    /// Returns the path from NIC to NIC.
    pub fn nic_to_nic(&self, a: usize, b: usize) -> Path {
        self.over_pci(&self.nics[a].place, &self.nics[b].place)
    }

    /// Returns the path over PCIe alone.
    fn over_pci(&self, a: &DeviceLocation, b: &DeviceLocation) -> Path {
        let mut up = self.chain(a);
        let mut down = self.chain(b);
        let common = up.iter().copied().find(|switch| down.contains(switch));
        if let Some(common) = common {
            keep_below(&mut up, common);
            keep_below(&mut down, common);
        }

        let (kind, smi) = match common {
            Some(_) if up.is_empty() && down.is_empty() => (PathType::Pix, "PIX"),
            Some(_) => (PathType::Pxb, "PXB"),
            None if a.cpu != b.cpu => (PathType::Sys, "SYS"),
            None if are_other_bridges(a, b) => (PathType::Phb, "NODE"),
            None => (PathType::Phb, "PHB"),
        };
        let mut links = vec![&a.pcie, &b.pcie];
        for switch in up.iter().chain(&down) {
            links.push(&self.switches[*switch].place.pcie);
        }
        Path {
            kind,
            smi: smi.into(),
            peak: Peak::least(links),
        }
    }
}

/// Keeps the switches of a chain that are below this one.
fn keep_below(chain: &mut Vec<usize>, switch: usize) {
    if let Some(at) = chain.iter().position(|other| *other == switch) {
        chain.truncate(at);
    }
}

/// Returns whether the devices are known to be below different host bridges.
fn are_other_bridges(a: &DeviceLocation, b: &DeviceLocation) -> bool {
    let are_known = !a.bridge.is_empty() && !b.bridge.is_empty();
    are_known && a.bridge != b.bridge
}

/// NVLinks between two devices, together.
struct LinkGroup {
    count: u32,
    peak: Peak,
}

/// Returns the NVLinks between two GPUs, direct ones or else those over NVSwitches.
fn nvlinks(a: &Gpu, b: &Gpu) -> Option<LinkGroup> {
    let direct = links_to(a, &NvLinkEnd::Gpu(b.place.bus_id.clone()));
    if direct.is_some() {
        return direct;
    }
    let up = links_to(a, &NvLinkEnd::Switch)?;
    let down = links_to(b, &NvLinkEnd::Switch)?;
    Some(LinkGroup {
        count: up.count.min(down.count),
        peak: Peak::least([&up.peak, &down.peak]),
    })
}

/// Returns the NVLinks of a GPU to this end.
fn links_to(gpu: &Gpu, end: &NvLinkEnd) -> Option<LinkGroup> {
    let links: Vec<&NvLinks> = gpu
        .nvlinks
        .iter()
        .filter(|links| links.to == *end)
        .collect();
    let mut count = 0_u32;
    for group in &links {
        count = count.saturating_add(group.count);
    }
    let peak = links.first()?.each.times(count);
    (count > 0).then_some(LinkGroup { count, peak })
}
