//! A node as text: as a tree, as a matrix, and the paths in sentences.

use std::fmt::Write as _;

use super::{
    DeviceLocation, NvLinkEnd, NvLinks, Topology,
    choice::{RelayChoice, Transport},
    path::KINDS,
};

/// nvidia-smi's words in the matrix, and what each means.
pub const SMI: [(&str, &str); 7] = [
    ("X", "itself"),
    ("NV#", "# NVLinks, also through NVSwitches"),
    ("PIX", "at most one PCIe switch"),
    ("PXB", "several PCIe switches, not the processor"),
    ("PHB", "through the processor's PCIe host bridge"),
    ("NODE", "between host bridges of a NUMA node"),
    ("SYS", "between NUMA nodes"),
];

/// What the figures are.
const PEAKS: &str =
    "Peaks are of one direction and of the slowest link, which is named; a link between sockets is not counted.
Where it says up to, host memory or the processor cores that copy may be slower than the links.
";

/// NUMA nodes, and what hangs from them.
pub fn tree(all: &Topology) -> String {
    let mut out = format!("Topology from {}\n", all.source);
    for (at, cpu) in all.cpus.iter().enumerate() {
        let kind = if cpu.kind.is_empty() {
            String::new()
        } else {
            format!(" ({})", cpu.kind)
        };
        match cpu.numa {
            0.. => _ = writeln!(out, "NUMA node {}{kind}", cpu.numa),
            _ => _ = writeln!(out, "processor without NUMA nodes{kind}"),
        }
        branch(all, &mut out, at, None, 1);
    }
    out
}

fn branch(all: &Topology, out: &mut String, cpu: usize, switch: Option<usize>, depth: usize) {
    let here = |place: &DeviceLocation| place.cpu == cpu && place.switch == switch;
    let pad = "  ".repeat(depth);
    for gpu in all.gpus.iter().filter(|gpu| here(&gpu.place)) {
        let name = if gpu.name.is_empty() {
            String::new()
        } else {
            format!(" {}", gpu.name)
        };
        let _ = writeln!(
            out,
            "{pad}GPU {}{name}  {}  {}",
            gpu.index,
            gpu.place.bus_id,
            gpu.place.pcie.text()
        );
        for links in &gpu.nvlinks {
            let _ = writeln!(out, "{pad}  {}", nvlinks(all, links));
        }
        if gpu.nvlinks_down > 0 {
            let _ = writeln!(out, "{pad}  NVLinks down: {}", gpu.nvlinks_down);
        }
    }
    for nic in all.nics.iter().filter(|nic| here(&nic.place)) {
        let kind = if nic.kind.is_empty() {
            String::new()
        } else {
            format!(" {}", nic.kind)
        };
        let down = if nic.up == Some(false) { "  down" } else { "" };
        let bus = if nic.place.bus_id.is_empty() {
            "no PCI device"
        } else {
            &nic.place.bus_id
        };
        let _ = writeln!(
            out,
            "{pad}NIC {}{kind}  {bus}  {}{down}",
            nic.name,
            nic.port.text()
        );
    }
    for (at, below) in all
        .switches
        .iter()
        .enumerate()
        .filter(|(_, below)| here(&below.place))
    {
        let _ = writeln!(
            out,
            "{pad}PCIe switch  {}  {}",
            below.place.bus_id,
            below.place.pcie.text()
        );
        // A switch comes before what hangs from it: no circle.
        if switch.is_none_or(|above| above < at) {
            branch(all, out, cpu, Some(at), depth + 1);
        }
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
    let word = if links.count == 1 {
        "NVLink"
    } else {
        "NVLinks"
    };
    format!(
        "{} {word} to {to}  {}",
        links.count,
        links.each.times(links.count).text()
    )
}

/// GPUs and NICs against GPUs and NICs, in nvidia-smi's words.
pub fn matrix(all: &Topology) -> String {
    let gpus = all.gpus.iter().map(|gpu| format!("GPU{}", gpu.index));
    let nics = (0..all.nics.len()).map(|nic| format!("NIC{nic}"));
    let names: Vec<String> = gpus.chain(nics).collect();
    if names.is_empty() {
        return String::new();
    }
    let mut rows = vec![[&[String::new()], names.as_slice(), &["NUMA".to_owned()]].concat()];
    for (at, name) in names.iter().enumerate() {
        let cells = (0..names.len()).map(|to| cell(all, at, to));
        let gpus = all.gpus.len();
        let place = if at < gpus {
            &all.gpus[at].place
        } else {
            &all.nics[at - gpus].place
        };
        let numa = all
            .cpus
            .get(place.cpu)
            .filter(|cpu| cpu.numa >= 0)
            .map_or("-".into(), |cpu| cpu.numa.to_string());
        rows.push(
            [name.clone()]
                .into_iter()
                .chain(cells)
                .chain([numa])
                .collect(),
        );
    }
    let width = rows
        .iter()
        .flatten()
        .map(String::len)
        .max()
        .unwrap_or_default()
        + 1;
    let line = |row: &Vec<String>| {
        row.iter()
            .map(|cell| format!("{cell:width$}"))
            .collect::<String>()
    };
    let mut out = rows
        .iter()
        .map(|row| format!("{}\n", line(row).trim_end()))
        .collect::<String>();
    for (at, nic) in all.nics.iter().enumerate() {
        let _ = writeln!(out, "  NIC{at}: {}", nic.name);
    }
    for (word, what) in SMI {
        let _ = writeln!(out, "  {word:4} {what}");
    }
    out
}

fn cell(all: &Topology, a: usize, b: usize) -> String {
    let gpus = all.gpus.len();
    match (a.checked_sub(gpus), b.checked_sub(gpus)) {
        _ if a == b => "X".into(),
        (None, None) => all.between(a, b).smi,
        (None, Some(nic)) => all.to_nic(a, nic).smi,
        (Some(nic), None) => all.to_nic(b, nic).smi,
        (Some(a), Some(b)) => all.nic_to_nic(a, b).smi,
    }
}

/// The ways of a GPU to the others, those that are alike together: the way, and the GPUs.
fn to_gpus(all: &Topology, gpu: usize) -> Vec<(String, Vec<String>)> {
    let mut ways: Vec<(String, Vec<String>)> = Vec::new();
    for to in (0..all.gpus.len()).filter(|to| *to != gpu) {
        let path = all.between(gpu, to);
        let way = format!(
            "{}, {}; order: {}",
            path.kind.word(),
            path.peak.text(),
            order(&all.inside(gpu, to))
        );
        let index = all.gpus[to].index.to_string();
        match ways.iter_mut().find(|(other, _)| *other == way) {
            Some((_, gpus)) => gpus.push(index),
            None => ways.push((way, vec![index])),
        }
    }
    ways
}

/// Transports in one line, the preferred first.
fn order(transports: &[Transport]) -> String {
    let one = |way: &Transport| match way.limit {
        "" => format!("{} {}", way.name, way.peak.short()),
        _ => format!("{} up to {}", way.name, way.peak.short()),
    };
    transports.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What NCCL makes of it, one paragraph a GPU.
pub fn paths(all: &Topology) -> String {
    let mut out = String::new();
    for choice in all.choices() {
        let _ = writeln!(out, "GPU {}", all.gpus[choice.gpu].index);
        for (way, gpus) in to_gpus(all, choice.gpu) {
            let _ = writeln!(out, "  to GPU {}: {way}", gpus.join(", "));
        }
        match choice.nic {
            Some(nic) => _ = writeln!(out, "  NIC: {}, {}", all.nics[nic].name, choice.why),
            None => _ = writeln!(out, "  NIC: none, {}", choice.why),
        }
        for way in &choice.nics {
            let _ = writeln!(
                out,
                "  to {}: {}, {}",
                all.nics[way.nic].name,
                way.own.kind.word(),
                way.own.peak.text()
            );
            let yes = if way.gdr.yes { "yes" } else { "no" };
            let _ = writeln!(out, "    GPUDirect RDMA: {yes}, {}", way.gdr.why);
            let by = |relay: &RelayChoice| match relay.gpu {
                Some(gpu) => format!("through GPU {} ({})", all.gpus[gpu].index, relay.why),
                None => format!("no ({})", relay.why),
            };
            match way.relay.gpu {
                Some(_) => {
                    _ = writeln!(
                        out,
                        "    PXN: send/recv {}; rings, trees {}",
                        by(&way.relay),
                        by(&way.ring_relay)
                    );
                }
                None => _ = writeln!(out, "    PXN: no, {}", way.relay.why),
            }
            let _ = writeln!(out, "    order: {}", order(&way.transports));
        }
    }
    if !out.is_empty() {
        out.push_str("Path types, the nearest first:\n");
        for (_, word, what) in KINDS {
            let _ = writeln!(out, "  {word}  {what}");
        }
        out.push_str(PEAKS);
    }
    out
}
