//! NCCL's topology file (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): `system`, `cpu`, `pci`, `gpu`, `nvlink`, `nic`, `net`.

use roxmltree::{Document, Node};

use super::{Cpu, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology, figures::Peak};

/// No node has as many switches in a row. What reads the elements calls itself as deep as they are nested.
const DEEPEST: usize = 64;

/// More devices of a kind are in no node, and the paths between all of them are worked out.
const MOST: usize = 256;

/// The class of a PCI device, by how it begins.
const GPU: [&str; 2] = ["0x0300", "0x0302"];
const NVSWITCH: &str = "0x068000";
const NVLINK_CPU: &str = "0x068001";

/// Reads a topology file.
///
/// # Errors
/// One sentence, where `text` is not XML, or not NCCL's.
pub fn read(text: &str) -> Result<Topology, String> {
    if text.trim().is_empty() {
        return Err("it is empty".into());
    }
    let document = Document::parse(text).map_err(|error| format!("it is not XML: {error}"))?;
    if document
        .descendants()
        .any(|node| node.ancestors().nth(DEEPEST).is_some())
    {
        return Err(format!(
            "its elements are nested {DEEPEST} deep or more; no topology file of NCCL's is"
        ));
    }
    let system = document.root_element();
    if !system.has_tag_name("system") {
        let name = system.tag_name().name();
        return Err(format!(
            "it is not a topology file of NCCL's: it begins with <{name}> where that has <system>"
        ));
    }
    let mut all = Topology::default();
    for cpu in system.children().filter(|node| node.has_tag_name("cpu")) {
        let kind = [cpu.attribute("vendor"), cpu.attribute("arch")];
        all.cpus.push(Cpu {
            numa: number(cpu, "numaid").unwrap_or(-1),
            kind: kind.into_iter().flatten().collect::<Vec<_>>().join(" "),
        });
        let here = DeviceLocation {
            cpu: all.cpus.len() - 1,
            ..DeviceLocation::default()
        };
        for child in cpu.children() {
            device(&mut all, child, &here);
        }
    }
    if all.cpus.is_empty() {
        return Err("it has no <cpu> inside <system>".into());
    }
    for (count, what) in [
        (all.gpus.len(), "GPUs"),
        (all.nics.len(), "NICs"),
        (all.switches.len(), "switches"),
    ] {
        if count > MOST {
            return Err(format!(
                "it names {count} {what}; no node has more than {MOST}"
            ));
        }
    }
    number_gpus(&mut all);
    Ok(all)
}

fn number<T: std::str::FromStr>(node: Node, name: &str) -> Option<T> {
    node.attribute(name)?.trim().parse().ok()
}

fn flag(node: Node, name: &str) -> Option<bool> {
    number::<i64>(node, name).map(|value| value != 0)
}

/// Adds the device `node` and what hangs from it; `above` is the place of what it hangs from.
fn device(all: &mut Topology, node: Node, above: &DeviceLocation) {
    match node.tag_name().name() {
        "pci" => pci(all, node, above),
        "nic" => node.children().for_each(|net| self::net(all, net, above)),
        _ => {}
    }
}

fn pci(all: &mut Topology, node: Node, above: &DeviceLocation) {
    let pcie = Peak::pcie(
        node.attribute("link_speed").unwrap_or_default(),
        number(node, "link_width").unwrap_or_default(),
    );
    let bus_id = node
        .attribute("busid")
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let place = DeviceLocation {
        bus_id,
        pcie,
        ..above.clone()
    };
    let class = node.attribute("class").unwrap_or_default();
    let gpu = node.children().find(|child| child.has_tag_name("gpu"));
    if gpu.is_some() || GPU.iter().any(|prefix| class.starts_with(prefix)) {
        all.gpus.push(self::gpu(gpu, place));
        return;
    }
    let holds_nic = node.children().any(|child| child.has_tag_name("nic"));
    if holds_nic && !node.children().any(|child| child.has_tag_name("pci")) {
        node.children().for_each(|child| device(all, child, &place));
        return;
    }
    let cpu = place.cpu;
    all.switches.push(Switch { place });
    let below = DeviceLocation {
        cpu,
        switch: Some(all.switches.len() - 1),
        ..DeviceLocation::default()
    };
    node.children().for_each(|child| device(all, child, &below));
}

fn gpu(node: Option<Node>, place: DeviceLocation) -> Gpu {
    // A file made to be filled in by NCCL names the address alone.
    let Some(node) = node else {
        return Gpu {
            index: u32::MAX,
            place,
            ..Gpu::default()
        };
    };
    let each = number(node, "sm").map_or_else(
        || Peak::unknown("NVLink of unknown version"),
        Peak::nvlink_of_sm,
    );
    let links = node
        .children()
        .filter(|child| child.has_tag_name("nvlink"))
        .map(|link| {
            let target = link
                .attribute("target")
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            let to = match link.attribute("tclass").unwrap_or_default() {
                NVSWITCH => NvLinkEnd::Switch,
                NVLINK_CPU => NvLinkEnd::Cpu,
                class if class.starts_with("0x03") => NvLinkEnd::Gpu(target),
                _ => NvLinkEnd::Unknown(target),
            };
            NvLinks {
                to,
                count: number(link, "count").unwrap_or(1),
                each: each.clone(),
            }
        });
    Gpu {
        index: number(node, "dev").unwrap_or(u32::MAX),
        nvlinks: links.collect(),
        gdr: flag(node, "gdr"),
        place,
        ..Gpu::default()
    }
}

fn net(all: &mut Topology, node: Node, above: &DeviceLocation) {
    if !node.has_tag_name("net") {
        return;
    }
    let port =
        number(node, "speed").map_or_else(|| Peak::unknown("port of unknown speed"), Peak::port);
    let mut place = above.clone();
    if place.bus_id.is_empty() {
        place.pcie = Peak::unknown("no PCI device");
    }
    let gdr = flag(node, "gdr");
    // An RDMA device has a number of its own.
    let sockets = gdr == Some(false) && node.attribute("guid") == Some("0x0");
    all.nics.push(Nic {
        name: node.attribute("name").unwrap_or("unnamed").to_owned(),
        gdr,
        sockets,
        place,
        port,
        ..Nic::default()
    });
}

/// GPUs without a number get those that are free, in the order of their addresses, which is NVML's.
fn number_gpus(all: &mut Topology) {
    all.gpus
        .sort_by(|a, b| (a.index, &a.place.bus_id).cmp(&(b.index, &b.place.bus_id)));
    let mut next = 0;
    let taken: Vec<u32> = all.gpus.iter().map(|gpu| gpu.index).collect();
    for gpu in all.gpus.iter_mut().filter(|gpu| gpu.index == u32::MAX) {
        while taken.contains(&next) {
            next += 1;
        }
        gpu.index = next;
        next += 1;
    }
    all.gpus.sort_by_key(|gpu| gpu.index);
}
