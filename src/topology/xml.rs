//! NCCL's topology file (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): `system`, `cpu`, `pci`, `gpu`,
//! `nvlink`, `c2c`, `nic`, `net`. It is a dump of what NCCL found, or a template that NCCL
//! completes on the machine; a template leaves out what this module then leaves unknown.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::{
    figures::Peak,
    node::{C2cLinks, Cpu, Device, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology},
};
use crate::units::counted;

/// The deepest nesting of elements, which is far beyond any chain of switches. Reading them
/// recurses.
const DEEPEST: usize = 64;

/// The most devices of one kind, which is far beyond any node. Paths are computed between all of
/// them.
const MOST: usize = 256;

/// The most hosts in a file, which NCCL writes for those that share NVLinks.
const MOST_HOSTS: usize = 4096;

/// Prefixes of the class of a PCI device, as NCCL tells them; 0x12 is RCCL's.
const GPU: [&str; 2] = ["0x03", "0x12"];
const NIC: &str = "0x02";
const SWITCH: &str = "0x0604";
const NVSWITCH: &str = "0x068000";
const NVLINK_CPU: &str = "0x068001";

/// The class of a display adapter, which a server's management controller has too.
const DISPLAY: &str = "0x0300";

/// The vendors of GPUs, and the number that templates put for an unknown one.
const GPU_VENDORS: [&str; 3] = ["0x10de", "0x1002", "0x0000"];

/// The PCI classes of InfiniBand and Ethernet adapters.
const LINK_LAYERS: [(&str, &str); 2] = [("0x0207", "InfiniBand"), ("0x0200", "Ethernet")];

/// The beginning of the address that stands for an NVSwitch that a virtual machine does not see.
const HIDDEN_SWITCH: &str = "fffffff";

/// The elements that are read.
const ELEMENTS: [&str; 8] = ["system", "cpu", "pci", "gpu", "nvlink", "c2c", "nic", "net"];

/// AMD's links between GPUs, in files of RCCL.
const XGMI: &str = "xgmi";

/// What stands for a value that a template leaves to the machine.
const LEFT_OUT: &str = "not in this file";

/// Reads a topology file: one topology per host, in the order of the file.
///
/// # Errors
/// Returns an error if `text` is not XML, or not a topology file of NCCL.
pub fn read(text: &str) -> Result<Vec<Topology>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
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
    let form = Form::of(&document);
    let mut hosts: Vec<Topology> = Vec::new();
    for cpu in system.children().filter(|node| node.has_tag_name("cpu")) {
        let host = host_of(&mut hosts, cpu.attribute("host_hash"));
        read_cpu(host, cpu, &form);
        if hosts.len() > MOST_HOSTS {
            return Err(format!("it lists more than {MOST_HOSTS} hosts"));
        }
    }
    if hosts.is_empty() {
        return Err("it has no <cpu> inside <system>".into());
    }
    for host in &mut hosts {
        check_count(host.gpus.len(), "GPUs")?;
        check_count(host.nics.len(), "NICs")?;
        check_count(host.switches.len(), "switches")?;
        check_count(host.devices.len(), "devices")?;
        note_places(host);
        number_gpus(host);
        order_nics(host);
        host.resolve_nvlink_ends();
        form.describe(host);
    }
    let several = hosts.len();
    if let Some(first) = hosts.first_mut() {
        first.notes.extend(several_hosts(several));
        first.notes.extend(not_read(&document));
        first.notes.extend(not_used(&document));
    }
    Ok(hosts)
}

/// Returns the topology of the host with this hash, which is added if it is new.
fn host_of<'a>(hosts: &'a mut Vec<Topology>, hash: Option<&str>) -> &'a mut Topology {
    let known = hosts.iter().position(|host| host.host.as_deref() == hash);
    let at = known.unwrap_or_else(|| {
        hosts.push(Topology {
            host: hash.map(str::to_owned),
            ..Topology::default()
        });
        hosts.len() - 1
    });
    &mut hosts[at]
}

/// What kind of file it is: what NCCL wrote, or what NCCL completes.
struct Form {
    /// Whether its GPUs have ranks, which NCCL gives them.
    has_ranks: bool,
    /// Whether a GPU without a link in it has none. NCCL adds NVLinks to the GPUs of a file that
    /// has none.
    lists_nvlinks: bool,
    /// Whether it is a file of RCCL, whose GPUs have links of another kind.
    has_xgmi: bool,
}

impl Form {
    fn of(document: &Document) -> Form {
        let has = |name: &str| document.descendants().any(|node| node.has_tag_name(name));
        let has_attribute = |element: &str, name: &str| {
            let mut nodes = document.descendants();
            nodes.any(|node| node.has_tag_name(element) && node.has_attribute(name))
        };
        let is_fused = has_attribute("cpu", "host_hash");
        let has_ranks = has_attribute("gpu", "rank");
        let lists_nvlinks = has_ranks && (is_fused || has("nvlink"));
        Form {
            has_ranks,
            lists_nvlinks,
            has_xgmi: has(XGMI),
        }
    }

    /// Notes what the file holds, and what NCCL adds to it.
    fn describe(&self, host: &mut Topology) {
        host.is_template = !self.lists_nvlinks;
        if self.lists_nvlinks || self.has_xgmi {
            return;
        }
        let mut held = vec![format!(
            "the places of {} and {}",
            counted(host.gpus.len() as u32, "GPU"),
            counted(host.nics.len() as u32, "NIC")
        )];
        if !host.devices.is_empty() {
            held.push(counted(host.devices.len() as u32, "device") + " of another or unknown kind");
        }
        let mut added = Vec::new();
        if host.gpus.iter().any(|gpu| gpu.nvlinks.is_none()) || host.gpus.is_empty() {
            added.push("NVLinks and other attributes of the GPUs");
        }
        if host.nics.iter().any(|nic| !nic.is_described()) || host.nics.is_empty() {
            added.push("names, ports and speeds of the NICs");
        }
        if !host.devices.is_empty() {
            added.push("kinds of the other devices");
        }
        let what = if self.has_ranks {
            "this file lists no NVLink, as a template for NCCL_TOPO_FILE or the dump of an old NCCL"
        } else {
            "this file is a template for NCCL_TOPO_FILE, not a dump"
        };
        let mut note = format!("{what}: it holds {}. ", held.join(" and "));
        if !added.is_empty() {
            note += &format!("On the machine NCCL adds the {}. ", added.join(", the "));
        }
        note += "It drops branches without a device that it uses";
        host.notes.push(note);
    }
}

fn several_hosts(count: usize) -> Option<String> {
    (count > 1).then(|| {
        format!(
            "this file holds {count} hosts, told apart by host_hash, as NCCL writes it if they share an NVLink \
             domain; each is drawn on its own, and paths between them are not derived"
        )
    })
}

/// Names the elements that were not read.
fn not_read(document: &Document) -> Vec<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        if !ELEMENTS.contains(&name) || is_misplaced(node) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut notes = Vec::new();
    if let Some(count) = counts.remove(XGMI) {
        let what = format!(
            "{count} <xgmi> not read: these are links between AMD GPUs, which RCCL uses; paths between the GPUs are not derived"
        );
        notes.push(what);
    }
    let others: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} <{name}>"))
        .collect();
    if !others.is_empty() {
        notes.push(format!(
            "not read, because NCCL has no such element there: {}",
            others.join(", ")
        ));
    }
    notes
}

/// Returns a note on networks that only other plugins of NCCL use, such as one for GPU-initiated networking.
fn not_used(document: &Document) -> Option<String> {
    let nets = document.descendants().filter(is_of_another_plugin);
    let count = nets.count();
    (count > 0).then(|| {
        format!(
            "{count} <net> with net=\"0\" left out: NCCL does not use such networks between nodes"
        )
    })
}

/// Returns whether an element is a network that only another plugin than that of the network uses.
fn is_of_another_plugin(node: &Node) -> bool {
    node.has_tag_name("net") && flag(*node, "net") == Some(false)
}

/// Returns whether an element is not where NCCL writes it.
fn is_misplaced(node: Node) -> bool {
    let parents: &[&str] = match node.tag_name().name() {
        "cpu" => &["system"],
        "pci" | "nic" => &["cpu", "pci"],
        "gpu" => &["pci"],
        "nvlink" | "c2c" => &["gpu"],
        "net" => &["nic"],
        _ => return false,
    };
    let parent = node.parent_element();
    parent.is_none_or(|parent| !parents.contains(&parent.tag_name().name()))
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

fn read_cpu(all: &mut Topology, node: Node, form: &Form) {
    let kind = [node.attribute("vendor"), node.attribute("arch")];
    let kind: Vec<&str> = kind.into_iter().flatten().collect();
    all.cpus.push(Cpu {
        numa: integer(node, "numaid").unwrap_or(-1),
        kind: kind.join(" "),
    });
    let here = DeviceLocation {
        cpu: all.cpus.len() - 1,
        ..DeviceLocation::default()
    };
    for child in node.children() {
        read_device(all, child, &here, form);
    }
}

fn number<T: std::str::FromStr>(node: Node, name: &str) -> Option<T> {
    node.attribute(name)?.trim().parse().ok()
}

/// Returns an integer, which may be hexadecimal.
fn integer<T: TryFrom<i64>>(node: Node, name: &str) -> Option<T> {
    let text = node.attribute(name)?.trim();
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}

fn flag(node: Node, name: &str) -> Option<bool> {
    integer::<i64>(node, name).map(|value| value != 0)
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
fn read_device(all: &mut Topology, node: Node, above: &DeviceLocation, form: &Form) {
    match node.tag_name().name() {
        "pci" => read_pci(all, node, above, form),
        "nic" => read_nic(all, node, above),
        _ => {}
    }
}

/// What an element of a PCI device stands for.
enum PciKind {
    Gpu,
    Nic,
    /// A switch, or a bridge.
    Switch,
    NvSwitch,
    /// Something else, or nobody knows.
    Other,
}

impl PciKind {
    fn of(node: Node) -> PciKind {
        let class = node.attribute("class").unwrap_or_default();
        let has_devices = has_child(node, "pci");
        if has_child(node, "gpu") || is_gpu_class(node, class) {
            PciKind::Gpu
        } else if !has_devices && (has_child(node, "nic") || class.starts_with(NIC)) {
            PciKind::Nic
        } else if has_devices || class.starts_with(SWITCH) {
            PciKind::Switch
        } else if class == NVSWITCH {
            PciKind::NvSwitch
        } else {
            PciKind::Other
        }
    }
}

fn is_gpu_class(node: Node, class: &str) -> bool {
    let vendor = node.attribute("vendor");
    let is_others = vendor.is_some_and(|vendor| !GPU_VENDORS.contains(&vendor));
    let is_management = class.starts_with(DISPLAY) && is_others;
    !is_management && GPU.iter().any(|prefix| class.starts_with(prefix))
}

fn read_pci(all: &mut Topology, node: Node, above: &DeviceLocation, form: &Form) {
    let place = pci_place(node, above);
    match PciKind::of(node) {
        PciKind::Gpu => read_gpus(all, node, &place, form),
        PciKind::Nic => read_pci_nic(all, node, &place),
        PciKind::Switch => {
            all.switches.push(Switch { place });
            let below = DeviceLocation {
                cpu: above.cpu,
                switch: Some(all.switches.len() - 1),
                ..DeviceLocation::default()
            };
            for child in node.children() {
                read_device(all, child, &below, form);
            }
        }
        // GPUs name the NVSwitches that they are connected to.
        PciKind::NvSwitch => {}
        PciKind::Other => all.devices.push(Device {
            class: node.attribute("class").map(str::to_owned),
            place,
        }),
    }
}

fn pci_place(node: Node, above: &DeviceLocation) -> DeviceLocation {
    let pcie = match node.attribute("link_speed") {
        Some(speed) => Peak::pcie(speed, integer(node, "link_width").unwrap_or_default()),
        None => Peak::unknown(format!("PCIe speed {LEFT_OUT}")),
    };
    DeviceLocation {
        bus_id: address(node, "busid"),
        pcie,
        ..above.clone()
    }
}

/// Adds the GPUs of a PCI device: several if several ranks share it, or if it is partitioned.
fn read_gpus(all: &mut Topology, node: Node, place: &DeviceLocation, form: &Form) {
    let gpus: Vec<Node> = node
        .children()
        .filter(|child| child.has_tag_name("gpu"))
        .collect();
    if gpus.len() > 1 {
        all.notes.push(format!(
            "{} <gpu> in the <pci> at {}: ranks or parts of one device; paths between them are not derived",
            gpus.len(),
            place.bus_id
        ));
    }
    // A template has only the address.
    if gpus.is_empty() {
        all.gpus.push(Gpu {
            index: u32::MAX,
            place: place.clone(),
            ..Gpu::default()
        });
    }
    for gpu in gpus {
        all.gpus.push(read_gpu(gpu, place.clone(), form));
    }
}

fn read_gpu(node: Node, place: DeviceLocation, form: &Form) -> Gpu {
    let each = match number(node, "sm") {
        Some(sm) => Peak::nvlink_of_sm(sm),
        None => Peak::unknown("NVLink version not reported"),
    };
    let links = node.children().filter(|child| child.has_tag_name("nvlink"));
    let links: Vec<NvLinks> = links.map(|link| read_nvlink(link, &each)).collect();
    let are_known = form.lists_nvlinks || !links.is_empty();
    Gpu {
        index: integer(node, "dev").unwrap_or(u32::MAX),
        rank: integer(node, "rank"),
        part: integer(node, "mlopart"),
        nvlinks: (are_known && !form.has_xgmi).then_some(links),
        c2c: read_c2c(node),
        gdr: flag(node, "gdr"),
        place,
        ..Gpu::default()
    }
}

fn read_c2c(node: Node) -> Option<C2cLinks> {
    let link = node.children().find(|child| child.has_tag_name("c2c"))?;
    let each = match number::<f64>(link, "bw") {
        Some(mbps) if mbps > 0.0 && mbps.is_finite() => Peak::c2c(mbps),
        _ => Peak::unknown("C2C speed not reported"),
    };
    Some(C2cLinks {
        count: integer(link, "count").unwrap_or(1),
        each,
    })
}

fn read_nvlink(node: Node, each: &Peak) -> NvLinks {
    let target = address(node, "target");
    let class = node.attribute("tclass").unwrap_or_default();
    NvLinks {
        to: match class {
            NVSWITCH => NvLinkEnd::Switch,
            NVLINK_CPU => NvLinkEnd::Cpu,
            "" if target.starts_with(HIDDEN_SWITCH) => NvLinkEnd::Switch,
            class if class.starts_with("0x03") => NvLinkEnd::Gpu(target),
            _ => NvLinkEnd::Unknown(target),
        },
        count: integer(node, "count").unwrap_or(1),
        each: each.clone(),
    }
}

/// Adds the NICs of a PCI device: those that NCCL's network named, or one that a template lists.
fn read_pci_nic(all: &mut Topology, node: Node, place: &DeviceLocation) {
    for nic in node.children().filter(|child| child.has_tag_name("nic")) {
        read_nic(all, nic, place);
    }
    let mut nics = node.children().filter(|child| child.has_tag_name("nic"));
    if nics.any(|nic| has_child(nic, "net")) {
        return;
    }
    let class = node.attribute("class").unwrap_or_default();
    let mut layers = LINK_LAYERS.iter();
    let layer = layers.find(|(prefix, _)| class.starts_with(prefix));
    all.nics.push(Nic {
        kind: layer.map_or("", |(_, name)| name).to_owned(),
        place: place.clone(),
        port: Peak::unknown(format!("port {LEFT_OUT}")),
        ..Nic::default()
    });
}

fn read_nic(all: &mut Topology, node: Node, place: &DeviceLocation) {
    let nets = node.children().filter(|child| child.has_tag_name("net"));
    for net in nets.filter(|net| !is_of_another_plugin(net)) {
        read_net(all, net, place);
    }
}

fn read_net(all: &mut Topology, node: Node, above: &DeviceLocation) {
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
    let is_described = node.has_attribute("speed");
    all.nics.push(Nic {
        name: node.attribute("name").unwrap_or_default().to_owned(),
        gdr,
        sockets: is_described.then_some(sockets),
        number: integer(node, "dev"),
        place,
        port,
        ..Nic::default()
    });
}

/// Notes the places of the devices in the file: NCCL lists them in this order.
fn note_places(all: &mut Topology) {
    for (at, gpu) in all.gpus.iter_mut().enumerate() {
        gpu.listed = at;
    }
    for (at, nic) in all.nics.iter_mut().enumerate() {
        nic.listed = at;
    }
}

/// Puts NICs in the order of their numbers. Those that NCCL has yet to number come last, as in the file.
fn order_nics(all: &mut Topology) {
    all.nics.sort_by_key(|nic| nic.number.unwrap_or(u32::MAX));
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
