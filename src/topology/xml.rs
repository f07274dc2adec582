//! NCCL's topology file (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): `system`, `cpu`, `pci`, `gpu`,
//! `nvlink`, `nic`, `net`.

use roxmltree::{Document, Node};

use super::{
    figures::Peak,
    node::{Cpu, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology},
};

/// The deepest nesting of elements, which is far beyond any chain of switches. Reading them
/// recurses.
const DEEPEST: usize = 64;

/// The most devices of one kind, which is far beyond any node. Paths are computed between all of
/// them.
const MOST: usize = 256;

/// Prefixes of the class of a PCI device.
const GPU: [&str; 2] = ["0x0300", "0x0302"];
const NVSWITCH: &str = "0x068000";
const NVLINK_CPU: &str = "0x068001";

/// Reads a topology file.
///
/// # Errors
/// Returns an error if `text` is not XML, or not a topology file of NCCL.
pub fn read(text: &str) -> Result<Topology, String> {
    if text.trim().is_empty() {
        return Err("it is empty".into());
    }
    let document = Document::parse(text).map_err(|error| format!("it is not XML: {error}"))?;
    check_depth(&document)?;
    let system = document.root_element();
    if !system.has_tag_name("system") {
        let name = system.tag_name().name();
        return Err(format!(
            "it is not an NCCL topology file: it begins with <{name}> instead of <system>"
        ));
    }
    let mut all = Topology::default();
    for cpu in system.children().filter(|node| node.has_tag_name("cpu")) {
        read_cpu(&mut all, cpu);
    }
    if all.cpus.is_empty() {
        return Err("it has no <cpu> inside <system>".into());
    }
    check_count(all.gpus.len(), "GPUs")?;
    check_count(all.nics.len(), "NICs")?;
    check_count(all.switches.len(), "switches")?;
    number_gpus(&mut all);
    Ok(all)
}

fn check_depth(document: &Document) -> Result<(), String> {
    let is_too_deep = |node: Node| node.ancestors().nth(DEEPEST).is_some();
    if document.descendants().any(is_too_deep) {
        return Err(format!(
            "its elements are nested {DEEPEST} deep or more, unlike those of any NCCL topology file"
        ));
    }
    Ok(())
}

fn check_count(count: usize, what: &str) -> Result<(), String> {
    if count > MOST {
        return Err(format!(
            "it lists {count} {what}; no node has more than {MOST}"
        ));
    }
    Ok(())
}

fn read_cpu(all: &mut Topology, node: Node) {
    let kind = [node.attribute("vendor"), node.attribute("arch")];
    let kind: Vec<&str> = kind.into_iter().flatten().collect();
    all.cpus.push(Cpu {
        numa: number(node, "numaid").unwrap_or(-1),
        kind: kind.join(" "),
    });
    let here = DeviceLocation {
        cpu: all.cpus.len() - 1,
        ..DeviceLocation::default()
    };
    for child in node.children() {
        read_device(all, child, &here);
    }
}

fn number<T: std::str::FromStr>(node: Node, name: &str) -> Option<T> {
    node.attribute(name)?.trim().parse().ok()
}

fn flag(node: Node, name: &str) -> Option<bool> {
    number::<i64>(node, name).map(|value| value != 0)
}

/// Returns an attribute that is an address, as sysfs writes it.
fn address(node: Node, name: &str) -> String {
    let address = node.attribute(name).unwrap_or_default();
    address.trim().to_ascii_lowercase()
}

fn has_child(node: Node, name: &str) -> bool {
    node.children().any(|child| child.has_tag_name(name))
}

/// Adds a device and those below it; `above` is the location of what it is connected to.
fn read_device(all: &mut Topology, node: Node, above: &DeviceLocation) {
    match node.tag_name().name() {
        "pci" => read_pci(all, node, above),
        "nic" => {
            for net in node.children() {
                read_net(all, net, above);
            }
        }
        _ => {}
    }
}

fn read_pci(all: &mut Topology, node: Node, above: &DeviceLocation) {
    let speed = node.attribute("link_speed").unwrap_or_default();
    let lanes = number(node, "link_width").unwrap_or_default();
    let place = DeviceLocation {
        bus_id: address(node, "busid"),
        pcie: Peak::pcie(speed, lanes),
        ..above.clone()
    };

    let class = node.attribute("class").unwrap_or_default();
    let gpu = node.children().find(|child| child.has_tag_name("gpu"));
    if gpu.is_some() || GPU.iter().any(|prefix| class.starts_with(prefix)) {
        all.gpus.push(read_gpu(gpu, place));
        return;
    }

    let below = if has_child(node, "nic") && !has_child(node, "pci") {
        place
    } else {
        all.switches.push(Switch { place });
        DeviceLocation {
            cpu: above.cpu,
            switch: Some(all.switches.len() - 1),
            ..DeviceLocation::default()
        }
    };
    for child in node.children() {
        read_device(all, child, &below);
    }
}

fn read_gpu(node: Option<Node>, place: DeviceLocation) -> Gpu {
    // A file that NCCL is to complete has only the address.
    let Some(node) = node else {
        return Gpu {
            index: u32::MAX,
            place,
            ..Gpu::default()
        };
    };
    let each = match number(node, "sm") {
        Some(sm) => Peak::nvlink_of_sm(sm),
        None => Peak::unknown("NVLink version not reported"),
    };
    let links = node.children().filter(|child| child.has_tag_name("nvlink"));
    Gpu {
        index: number(node, "dev").unwrap_or(u32::MAX),
        nvlinks: links.map(|link| read_nvlink(link, &each)).collect(),
        gdr: flag(node, "gdr"),
        place,
        ..Gpu::default()
    }
}

fn read_nvlink(node: Node, each: &Peak) -> NvLinks {
    let target = address(node, "target");
    NvLinks {
        to: match node.attribute("tclass").unwrap_or_default() {
            NVSWITCH => NvLinkEnd::Switch,
            NVLINK_CPU => NvLinkEnd::Cpu,
            class if class.starts_with("0x03") => NvLinkEnd::Gpu(target),
            _ => NvLinkEnd::Unknown(target),
        },
        count: number(node, "count").unwrap_or(1),
        each: each.clone(),
    }
}

fn read_net(all: &mut Topology, node: Node, above: &DeviceLocation) {
    if !node.has_tag_name("net") {
        return;
    }
    let port = match number(node, "speed") {
        Some(mbps) => Peak::port(mbps),
        None => Peak::unknown("port speed not reported"),
    };
    let mut place = above.clone();
    if place.bus_id.is_empty() {
        place.pcie = Peak::unknown("no PCI device");
    }
    let gdr = flag(node, "gdr");
    // An RDMA device has its own GUID.
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

/// Gives GPUs without an index the free ones, in the order of their addresses, as NVML does.
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
