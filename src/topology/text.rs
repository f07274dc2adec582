//! A node as text: a tree, a matrix, and the paths in sentences.

use std::fmt::Write as _;

use super::{
    choice::{GpuChoices, NicPath, RelayChoice, Transport},
    node::{Cpu, DeviceLocation, Nic, NvLinkEnd, NvLinks, Topology},
    path::{KINDS, UNKNOWN, nvlink_count},
};
use crate::units::counted;

/// nvidia-smi's names of paths in the matrix, with their meanings.
pub const SMI: [(&str, &str); 7] = [
    ("X", "itself"),
    ("NV#", "# NVLinks, also through NVSwitches"),
    ("PIX", "at most one PCIe switch"),
    ("PXB", "several PCIe switches, not the processor"),
    ("PHB", "through the processor's PCIe host bridge"),
    ("NODE", "between host bridges of a NUMA node"),
    ("SYS", "between NUMA nodes"),
];

/// What stands for an answer that what was read does not decide.
const CANNOT_TELL: &str = "cannot tell";

/// The explanation of the figures.
const PEAKS: &str = "\
Peaks are for one direction and for the slowest link, which is named; links between sockets are not counted.
\"up to\" means that host memory, or the processor cores that copy, may be slower than the links.
";

/// Returns the tree of NUMA nodes and the devices below them.
pub fn tree(all: &Topology) -> String {
    let mut out = format!("Topology from {}\n", all.source);
    for (cpu, Cpu { numa, kind }) in all.cpus.iter().enumerate() {
        let kind = if kind.is_empty() {
            String::new()
        } else {
            format!(" ({kind})")
        };
        if *numa >= 0 {
            let _ = writeln!(out, "NUMA node {numa}{kind}");
        } else if all.given.is_some() {
            let _ = writeln!(out, "NUMA node unknown");
        } else {
            let _ = writeln!(out, "processor without NUMA nodes{kind}");
        }
        let branch = Branch {
            cpu,
            switch: None,
            depth: 1,
        };
        write_branch(all, &mut out, branch);
    }
    out
}

/// The devices directly below a processor or a switch.
#[derive(Clone, Copy)]
struct Branch {
    cpu: usize,
    switch: Option<usize>,
    /// The steps of indentation.
    depth: usize,
}

impl Branch {
    fn has(self, place: &DeviceLocation) -> bool {
        place.cpu == self.cpu && place.switch == self.switch
    }
}

fn write_branch(all: &Topology, out: &mut String, branch: Branch) {
    let pad = "  ".repeat(branch.depth);
    for gpu in 0..all.gpus.len() {
        if branch.has(&all.gpus[gpu].place) {
            write_gpu(all, out, &pad, gpu);
        }
    }
    for nic in all.nics.iter().filter(|nic| branch.has(&nic.place)) {
        write_nic(all, out, &pad, nic);
    }
    for device in all.devices.iter().filter(|one| branch.has(&one.place)) {
        let bus_id = &device.place.bus_id;
        let class = match &device.class {
            Some(class) => format!("of class {class}"),
            None => "of unknown kind".to_owned(),
        };
        let _ = writeln!(out, "{pad}device {class}  {bus_id}");
    }
    for (at, switch) in all.switches.iter().enumerate() {
        if !branch.has(&switch.place) {
            continue;
        }
        let (bus_id, pcie) = (&switch.place.bus_id, switch.place.pcie.text());
        let _ = writeln!(out, "{pad}PCIe switch  {bus_id}  {pcie}");
        // A switch comes before the devices below it; anything else would be a loop.
        if branch.switch.is_none_or(|above| above < at) {
            let below = Branch {
                switch: Some(at),
                depth: branch.depth + 1,
                ..branch
            };
            write_branch(all, out, below);
        }
    }
}

fn write_gpu(all: &Topology, out: &mut String, pad: &str, at: usize) {
    let gpu = &all.gpus[at];
    let label = all.gpu_label(at);
    let name = spaced(&gpu.name);
    let (bus_id, pcie) = (&gpu.place.bus_id, gpu.place.pcie.text());
    if all.given.is_some() {
        let _ = writeln!(out, "{pad}{label}");
        write_given_nvlinks(all, out, pad, at);
        return;
    }
    let _ = writeln!(out, "{pad}{label}{name}  {bus_id}  {pcie}");
    for links in gpu.nvlinks.iter().flatten() {
        let _ = writeln!(out, "{pad}  {}", nvlinks(all, links));
    }
    if let Some(links) = &gpu.c2c {
        let count = counted(links.count, "C2C link");
        let peak = links.each.times(links.count).text();
        let _ = writeln!(out, "{pad}  {count} to the processor  {peak}");
    }
    if gpu.nvlinks_down > 0 {
        let _ = writeln!(out, "{pad}  NVLinks down: {}", gpu.nvlinks_down);
    }
}

/// Writes the NVLinks of a GPU in a matrix, grouped by their number.
fn write_given_nvlinks(all: &Topology, out: &mut String, pad: &str, gpu: usize) {
    let word = |to| Some(all.between(gpu, to).smi).filter(|word| nvlink_count(word).is_some());
    for PeerGroup { path, gpus } in grouped(all, gpu, word) {
        let _ = writeln!(out, "{pad}  {path} to GPU {}", gpus.join(", "));
    }
}

fn write_nic(all: &Topology, out: &mut String, pad: &str, nic: &Nic) {
    let label = nic.label();
    if all.given.is_some() {
        let _ = writeln!(out, "{pad}NIC {label}");
        return;
    }
    let kind = spaced(&nic.kind);
    let down = if nic.up == Some(false) { "  down" } else { "" };
    let bus_id = if nic.place.bus_id.is_empty() {
        "no PCI device"
    } else {
        &nic.place.bus_id
    };
    let port = nic.port.text();
    if label == bus_id {
        let _ = writeln!(out, "{pad}NIC at {bus_id}{kind}  {port}{down}");
    } else {
        let _ = writeln!(out, "{pad}NIC {label}{kind}  {bus_id}  {port}{down}");
    }
}

/// Puts a space before a text, unless it is empty.
fn spaced(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

fn nvlinks(all: &Topology, links: &NvLinks) -> String {
    let to = match &links.to {
        NvLinkEnd::Switch => "NVSwitch".to_owned(),
        NvLinkEnd::Cpu => "processor".to_owned(),
        NvLinkEnd::Unknown(bus) => format!("unknown device {bus}"),
        NvLinkEnd::Gpu(bus) => match all.gpu_at(bus) {
            Some(gpu) => format!("GPU {}", all.gpus[gpu].index),
            None => format!("GPU at {bus}, which is not listed"),
        },
    };
    let count = links.count;
    let peak = links.each.times(count).text();
    format!("{} to {to}  {peak}", counted(count, "NVLink"))
}

/// Returns the matrix of GPUs and NICs, with nvidia-smi's names of paths.
pub fn matrix(all: &Topology) -> String {
    let mut names: Vec<String> = Vec::new();
    let labels = (0..all.gpus.len()).map(|gpu| all.gpu_label(gpu));
    names.extend(labels.map(|label| label.replace(' ', "")));
    names.extend((0..all.nics.len()).map(|nic| format!("NIC{nic}")));
    if names.is_empty() {
        return String::new();
    }

    let mut header = vec![String::new()];
    header.extend_from_slice(&names);
    header.push("NUMA".to_owned());
    let mut rows = vec![header];
    for (at, name) in names.iter().enumerate() {
        let mut row = vec![name.clone()];
        row.extend((0..names.len()).map(|to| cell(all, at, to)));
        row.push(numa(all, at));
        rows.push(row);
    }

    let mut out = aligned(&rows);
    for (at, nic) in all.nics.iter().enumerate() {
        let _ = writeln!(out, "  NIC{at}: {}", nic.label());
    }
    for (word, meaning) in SMI {
        let _ = writeln!(out, "  {word:4} {meaning}");
    }
    if rows.iter().flatten().any(|cell| cell == UNKNOWN) {
        let _ = writeln!(out, "  {UNKNOWN:4} not decided by what was read");
    }
    out
}

/// Returns the path between two devices of the matrix, in which NICs follow GPUs.
fn cell(all: &Topology, a: usize, b: usize) -> String {
    if a == b {
        return "X".into();
    }
    let gpus = all.gpus.len();
    match (a.checked_sub(gpus), b.checked_sub(gpus)) {
        (None, None) => all.between(a, b).smi,
        (None, Some(nic)) => all.to_nic(a, nic).smi,
        (Some(nic), None) => all.to_nic(b, nic).smi,
        (Some(a), Some(b)) => all.nic_to_nic(a, b).smi,
    }
}

/// Returns the NUMA node of a device of the matrix.
fn numa(all: &Topology, device: usize) -> String {
    let place = match device.checked_sub(all.gpus.len()) {
        None => &all.gpus[device].place,
        Some(nic) => &all.nics[nic].place,
    };
    match all.cpus.get(place.cpu) {
        Some(cpu) if cpu.numa >= 0 => cpu.numa.to_string(),
        _ => "-".into(),
    }
}

/// Aligns cells in columns of equal width.
fn aligned(rows: &[Vec<String>]) -> String {
    let longest = rows.iter().flatten().map(String::len).max();
    let width = longest.unwrap_or_default() + 1;
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for cell in row {
            let _ = write!(line, "{cell:width$}");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Returns what NCCL makes of the node, one paragraph per GPU.
pub fn paths(all: &Topology) -> String {
    let mut out = String::new();
    for choices in all.choices() {
        write_choices(all, &mut out, &choices);
    }
    if out.is_empty() {
        return out;
    }
    out.push_str("Path types, the nearest first:\n");
    for (_, word, meaning) in KINDS {
        let _ = writeln!(out, "  {word}  {meaning}");
    }
    out.push_str(PEAKS);
    out
}

fn write_choices(all: &Topology, out: &mut String, choices: &GpuChoices) {
    let _ = writeln!(out, "{}", all.gpu_label(choices.gpu));
    for PeerGroup { path, gpus } in peers(all, choices.gpu) {
        let _ = writeln!(out, "  to GPU {}: {path}", gpus.join(", "));
    }
    let nic = match choices.nic {
        Some(nic) => all.nics[nic].label(),
        None if choices.is_nic_known => "none",
        None => CANNOT_TELL,
    };
    let _ = writeln!(out, "  NIC: {nic}, {}", choices.why);
    for path in &choices.nics {
        write_nic_path(all, out, path);
    }
}

fn write_nic_path(all: &Topology, out: &mut String, path: &NicPath) {
    let name = all.nics[path.nic].label();
    let (word, peak) = (path.own.word(), path.own.peak.text());
    let _ = writeln!(out, "  to {name}: {word}, {peak}");

    let gdr = match path.gdr.yes {
        Some(true) => "yes",
        Some(false) => "no",
        None => CANNOT_TELL,
    };
    let _ = writeln!(out, "    GPUDirect RDMA: {gdr}, {}", path.gdr.why);

    if path.relay.gpu.is_some() {
        let send_recv = relay(all, &path.relay);
        let rings = relay(all, &path.ring_relay);
        let _ = writeln!(out, "    PXN: send/recv {send_recv}; rings, trees {rings}");
    } else {
        let no = if path.relay.is_known {
            "no"
        } else {
            CANNOT_TELL
        };
        let _ = writeln!(out, "    PXN: {no}, {}", path.relay.why);
    }
    let order = order(path.transports.as_deref());
    let _ = writeln!(out, "    order: {order}");
}

fn relay(all: &Topology, relay: &RelayChoice) -> String {
    match relay.gpu {
        Some(gpu) => format!("through GPU {} ({})", all.gpus[gpu].index, relay.why),
        None if relay.is_known => format!("no ({})", relay.why),
        None => format!("{CANNOT_TELL} ({})", relay.why),
    }
}

/// GPUs with the same path from one GPU.
struct PeerGroup {
    path: String,
    gpus: Vec<String>,
}

/// Returns the other GPUs, grouped by the path from this one.
fn peers(all: &Topology, gpu: usize) -> Vec<PeerGroup> {
    grouped(all, gpu, |to| Some(peer_path(all, gpu, to)))
}

/// Groups the other GPUs by what `describe` returns for each, without those that it does not
/// describe.
fn grouped(
    all: &Topology,
    gpu: usize,
    describe: impl Fn(usize) -> Option<String>,
) -> Vec<PeerGroup> {
    let mut groups: Vec<PeerGroup> = Vec::new();
    for to in (0..all.gpus.len()).filter(|to| *to != gpu) {
        let Some(path) = describe(to) else {
            continue;
        };
        let index = all.gpu_label(to).replacen("GPU ", "", 1);
        match groups.iter_mut().find(|group| group.path == path) {
            Some(group) => group.gpus.push(index),
            None => groups.push(PeerGroup {
                path,
                gpus: vec![index],
            }),
        }
    }
    groups
}

/// Returns the path to another GPU, and the transports over it.
fn peer_path(all: &Topology, gpu: usize, to: usize) -> String {
    let path = all.between(gpu, to);
    let transports = all.inside(gpu, to);
    if path.kind.is_none() {
        let why = &path.peak.of;
        let pci = all.pci_between(gpu, to);
        let over_pci = match pci.kind {
            Some(_) => format!("; over PCIe it is {}, {}", pci.word(), pci.peak.text()),
            None => String::new(),
        };
        return format!("{CANNOT_TELL}, {why}{over_pci}");
    }
    let order = order(transports.as_deref());
    format!("{}, {}; order: {order}", path.word(), path.peak.text())
}

/// Lists transports on one line, the preferred one first.
fn order(transports: Option<&[Transport]>) -> String {
    let Some(transports) = transports else {
        return CANNOT_TELL.to_owned();
    };
    let mut words = Vec::new();
    for Transport { name, peak, limit } in transports {
        let up_to = if limit.is_empty() { "" } else { " up to" };
        words.push(format!("{name}{up_to} {}", peak.short()));
    }
    words.join(", ")
}
