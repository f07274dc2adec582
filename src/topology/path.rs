//! The path from one device to another: its type as NCCL and as nvidia-smi call it, and what it can
//! carry.

use serde::Serialize;

use super::{
    figures::Peak,
    node::{DeviceLocation, GivenPaths, Gpu, NvLinkEnd, NvLinks, Topology},
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

/// A path type. C2C and P2C are not derived here; they are listed for comparison with NCCL's log.
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
    /// Its type, if what was read decides it.
    pub kind: Option<PathType>,
    /// nvidia-smi's name for it: `NV18`, `PIX`, `NODE`; `?` if unknown.
    pub smi: String,
    /// The most its slowest link carries in one direction.
    pub peak: Peak,
}

/// nvidia-smi's name for a path that is unknown.
pub const UNKNOWN: &str = "?";

impl Path {
    fn unknown(why: &str) -> Path {
        Path {
            kind: None,
            smi: UNKNOWN.into(),
            peak: Peak::unknown(why),
        }
    }

    /// Returns NCCL's name for its type, or `unknown`.
    pub fn word(&self) -> &'static str {
        self.kind.map_or("unknown", PathType::word)
    }
}

impl Topology {
    /// Returns the path from GPU to GPU.
    pub fn between(&self, a: usize, b: usize) -> Path {
        if a == b {
            return Path {
                kind: Some(PathType::Loc),
                smi: "X".into(),
                peak: Peak::unknown("the GPU's own memory"),
            };
        }
        let (from, to) = (&self.gpus[a], &self.gpus[b]);
        if is_same_device(&from.place, &to.place) {
            return Path::unknown("both are on one PCI device");
        }
        if let Some(links) = self.nvlinks(a, b) {
            return Path {
                kind: Some(PathType::Nvl),
                smi: format!("NV{}", links.count),
                peak: links.peak,
            };
        }
        let pci = self.pci_between(a, b);
        if let Some(why) = self.doubt_between(a, b, &pci) {
            let smi = match self.given {
                Some(_) => pci.smi,
                None => UNKNOWN.into(),
            };
            return Path {
                smi,
                ..Path::unknown(why)
            };
        }
        match self.through_gpu(a, b) {
            None => pci,
            Some(peak) => Path {
                kind: Some(PathType::Nvb),
                smi: pci.smi,
                peak,
            },
        }
    }

    /// Returns why the path between two GPUs without a known NVLink is not simply that over PCIe.
    fn doubt_between(&self, a: usize, b: usize, pci: &Path) -> Option<&'static str> {
        if let Some(given) = &self.given {
            return (!given.has_nvlinks).then_some("NVLinks are not shown");
        }
        let (from, to) = (&self.gpus[a], &self.gpus[b]);
        let (Some(_), Some(_)) = (&from.nvlinks, &to.nvlinks) else {
            return Some("NVLinks are not known");
        };
        if has_unknown_end(from) || has_unknown_end(to) {
            return Some("where some NVLinks end is not known");
        }
        let is_through_cpu = pci.kind > Some(NEAR);
        let has_c2c = from.c2c.is_some() || to.c2c.is_some();
        (is_through_cpu && has_c2c).then_some("paths over C2C are not derived")
    }

    /// Returns the path from GPU to GPU over PCIe alone.
    pub fn pci_between(&self, a: usize, b: usize) -> Path {
        match &self.given {
            Some(given) => given_path(given, a, b),
            None => self.over_pci(&self.gpus[a].place, &self.gpus[b].place),
        }
    }

    /// Returns the NVLinks between two GPUs.
    fn nvlinks(&self, a: usize, b: usize) -> Option<LinkGroup> {
        let Some(given) = &self.given else {
            return nvlinks(&self.gpus[a], &self.gpus[b]);
        };
        let count = nvlink_count(given_word(given, a, b))?;
        Some(LinkGroup {
            count,
            peak: Peak::unknown(format!("{count} x NVLink of unknown version")),
        })
    }

    /// Returns the peak of the best path over NVLinks through a third GPU.
    fn through_gpu(&self, a: usize, b: usize) -> Option<Peak> {
        let mut peaks = Vec::new();
        for middle in 0..self.gpus.len() {
            if middle == a || middle == b {
                continue;
            }
            if let Some(first) = self.nvlinks(a, middle)
                && let Some(second) = self.nvlinks(middle, b)
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
        if let Some(given) = &self.given {
            return given_path(given, gpu, self.gpus.len() + nic);
        }
        let gpu = &self.gpus[gpu];
        let nic = &self.nics[nic];
        let mut path = self.over_pci(&gpu.place, &nic.place);
        if gpu.c2c.is_some() && path.kind > Some(NEAR) {
            return Path::unknown("paths over C2C are not derived");
        }
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
        let gpus = self.gpus.len();
        match &self.given {
            Some(given) => given_path(given, gpus + a, gpus + b),
            None => self.over_pci(&self.nics[a].place, &self.nics[b].place),
        }
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
            kind: Some(kind),
            smi: smi.into(),
            peak: Peak::least(links),
        }
    }
}

fn given_word(given: &GivenPaths, a: usize, b: usize) -> &str {
    let row = given.words.get(a);
    row.and_then(|row| row.get(b))
        .map_or(UNKNOWN, String::as_str)
}

/// Returns a path that nvidia-smi gives.
fn given_path(given: &GivenPaths, a: usize, b: usize) -> Path {
    let word = given_word(given, a, b);
    let kind = match word {
        "X" => Some(PathType::Loc),
        "PIX" => Some(PathType::Pix),
        "PXB" => Some(PathType::Pxb),
        "PHB" | "NODE" => Some(PathType::Phb),
        "SYS" => Some(PathType::Sys),
        _ => None,
    };
    Path {
        kind,
        smi: word.to_owned(),
        peak: Peak::unknown("nvidia-smi gives no speeds"),
    }
}

/// Returns the number of NVLinks in a word such as `NV18`.
pub(super) fn nvlink_count(word: &str) -> Option<u32> {
    word.strip_prefix("NV")?.parse().ok()
}

/// Returns whether two GPUs are ranks or parts of one PCI device.
fn is_same_device(a: &DeviceLocation, b: &DeviceLocation) -> bool {
    !a.bus_id.is_empty() && a.bus_id == b.bus_id
}

fn has_unknown_end(gpu: &Gpu) -> bool {
    let mut links = gpu.nvlinks.iter().flatten();
    links.any(|links| matches!(links.to, NvLinkEnd::Unknown(_)))
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
    let all = gpu.nvlinks.iter().flatten();
    let links: Vec<&NvLinks> = all.filter(|links| links.to == *end).collect();
    let mut count = 0_u32;
    for group in &links {
        count = count.saturating_add(group.count);
    }
    let peak = links.first()?.each.times(count);
    (count > 0).then_some(LinkGroup { count, peak })
}
