//! The way from a device to another: its type in NCCL's words and in those of nvidia-smi, and what it can carry.

use serde::Serialize;

use super::{DeviceLocation, Gpu, NvLinkEnd, Topology, figures::Peak};

/// NCCL's path types, the nearest first, and what each means. The order is that of NCCL 2.27.5 and newer.
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

/// A path type. Of these C2C and P2C are not found out here: they stay in the list for who compares with NCCL's log.
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
    /// Several.
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
    /// NCCL's word.
    pub fn word(self) -> &'static str {
        KINDS
            .iter()
            .find(|(kind, ..)| *kind == self)
            .map_or("?", |(_, word, _)| word)
    }
}

/// A way between two devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Its type.
    pub kind: PathType,
    /// nvidia-smi's word: `NV18`, `PIX`, `NODE`.
    pub smi: String,
    /// The most it carries in one direction: its slowest link.
    pub peak: Peak,
}

impl Topology {
    /// From GPU to GPU.
    pub fn between(&self, a: usize, b: usize) -> Path {
        let (from, to) = (&self.gpus[a], &self.gpus[b]);
        if a == b {
            return Path {
                kind: PathType::Loc,
                smi: "X".into(),
                peak: Peak::unknown("the GPU's own memory"),
            };
        }
        let pci = self.pci(&from.place, &to.place);
        if let Some((count, peak)) = nvlink(from, to) {
            return Path {
                kind: PathType::Nvl,
                smi: format!("NV{count}"),
                peak,
            };
        }
        let over = (0..self.gpus.len())
            .filter(|at| ![a, b].contains(at))
            .filter_map(|at| {
                let (_, first) = nvlink(from, &self.gpus[at])?;
                let (_, second) = nvlink(&self.gpus[at], to)?;
                Some(Peak::least([&first, &second]))
            });
        let best = over.max_by(|x, y| speed(x).total_cmp(&speed(y)));
        best.map_or(pci.clone(), |peak| Path {
            kind: PathType::Nvb,
            smi: pci.smi,
            peak,
        })
    }

    /// From a GPU to a NIC, by its own way.
    pub fn to_nic(&self, gpu: usize, nic: usize) -> Path {
        let nic = &self.nics[nic];
        let pci = self.pci(&self.gpus[gpu].place, &nic.place);
        // What is no PCI device, as a virtual NIC, has a port only.
        let links = [&pci.peak, &nic.port];
        let peak = Peak::least(
            links
                .into_iter()
                .skip(usize::from(nic.place.bus_id.is_empty())),
        );
        Path { peak, ..pci }
    }

    /// From NIC to NIC.
    pub fn nic_to_nic(&self, a: usize, b: usize) -> Path {
        self.pci(&self.nics[a].place, &self.nics[b].place)
    }

    /// Over PCIe alone.
    fn pci(&self, a: &DeviceLocation, b: &DeviceLocation) -> Path {
        let (up, down) = (self.chain(a), self.chain(b));
        let common = up.iter().find(|at| down.contains(at));
        let below = |chain: &[usize]| {
            chain
                .iter()
                .take_while(|at| Some(*at) != common)
                .copied()
                .collect::<Vec<_>>()
        };
        let (up, down) = (below(&up), below(&down));
        let switches = up
            .iter()
            .chain(&down)
            .filter_map(|at| self.switches.get(*at))
            .map(|switch| &switch.place.pcie);
        let peak = Peak::least([&a.pcie, &b.pcie].into_iter().chain(switches));
        let known = !a.bridge.is_empty() && !b.bridge.is_empty();
        let (kind, smi) = match common {
            Some(_) if up.is_empty() && down.is_empty() => (PathType::Pix, "PIX"),
            Some(_) => (PathType::Pxb, "PXB"),
            None if a.cpu != b.cpu => (PathType::Sys, "SYS"),
            None if known && a.bridge != b.bridge => (PathType::Phb, "NODE"),
            None => (PathType::Phb, "PHB"),
        };
        Path {
            kind,
            smi: smi.into(),
            peak,
        }
    }
}

/// GB/s of `peak`; less than nothing where it is not known.
pub(super) fn speed(peak: &Peak) -> f64 {
    peak.gbps.map_or(-1.0, |gbps| gbps.0)
}

/// The NVLinks between two GPUs, straight and over NVSwitches: how many, and what they carry.
fn nvlink(a: &Gpu, b: &Gpu) -> Option<(u32, Peak)> {
    let to = |gpu: &Gpu, end: &NvLinkEnd| {
        let mut links = gpu.nvlinks.iter().filter(|links| links.to == *end);
        let first = links.next()?;
        let count = links.fold(first.count, |sum, more| sum.saturating_add(more.count));
        (count > 0).then(|| (count, first.each.times(count)))
    };
    let straight = to(a, &NvLinkEnd::Gpu(b.place.bus_id.clone()));
    straight.or_else(|| {
        let (from, into) = (to(a, &NvLinkEnd::Switch)?, to(b, &NvLinkEnd::Switch)?);
        Some((from.0.min(into.0), Peak::least([&from.1, &into.1])))
    })
}
