//! How the devices of this node are connected: sysfs, without root and without a library, joined
//! with NVML's GPUs.

use std::{fs, path::Path};

use super::{
    fabric, nvidia, rdma,
    tree::{names, text},
};
use crate::{
    levels::ports::Port,
    native::nvml::{Inventory, NvLink, NvmlGpu, Remote},
    topology::{
        Cpu, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology, figures::Peak,
    },
};

/// The address that a virtual machine sees if the NVSwitch is hidden from it.
const HIDDEN_SWITCH: &str = "fffffff:ff:ff.0";

/// Reads the topology of the node under `root`, the root of the file system, with NVML's inventory
/// of its GPUs, or why there is none.
pub fn read(root: &Path, nvml: &Result<Inventory, String>) -> Topology {
    let mut reader = Reader {
        root,
        processor: processor_vendor(root),
        only_node: None,
        topology: Topology::default(),
    };
    reader.add_numa_nodes();
    match nvml {
        Ok(inventory) => {
            reader.topology.source = "sysfs and NVML".into();
            reader.add_nvml_gpus(inventory);
        }
        Err(why) => {
            reader.topology.source = "sysfs".into();
            reader.add_missing(format!(
                "{why}; GPUs are those that sysfs lists, without NVLinks"
            ));
            reader.add_pci_gpus();
        }
    }
    reader.topology.resolve_nvlink_ends();
    reader.add_rdma_nics();
    reader.add_ethernet_nics();
    reader.note_what_is_missing();
    reader.topology
}

struct Reader<'a> {
    root: &'a Path,
    /// Vendor of the processors.
    processor: String,
    /// The NUMA node, if there is only one.
    only_node: Option<i64>,
    topology: Topology,
}

impl Reader<'_> {
    fn add_missing(&mut self, what: impl Into<String>) {
        self.topology.missing.push(what.into());
    }

    fn note_what_is_missing(&mut self) {
        let cpus = &self.topology.cpus;
        if cpus.len() > 1 && cpus.iter().any(|cpu| cpu.numa < 0) {
            self.add_missing("some devices do not report their NUMA node");
        }
        let sys = self.root.join("sys");
        if self.topology.gpus.is_empty() {
            self.add_missing(format!("no NVIDIA GPU is listed in {}", sys.display()));
        }
        if self.topology.nics.is_empty() {
            self.add_missing(format!("no NIC is listed in {}", sys.display()));
        }
    }

    /// Adds the NUMA nodes, including those without a device.
    fn add_numa_nodes(&mut self) {
        let mut nodes: Vec<i64> = Vec::new();
        for name in names(&self.root.join("sys/devices/system/node")) {
            let number: Option<i64> = name.strip_prefix("node").and_then(|n| n.parse().ok());
            nodes.extend(number);
        }
        if let [only] = nodes[..] {
            self.only_node = Some(only);
        }
        for node in nodes {
            self.cpu_index(node);
        }
    }

    fn add_nvml_gpus(&mut self, inventory: &Inventory) {
        for gpu in &inventory.gpus {
            let Some(bus) = &gpu.bus_id.value else {
                self.add_missing(format!(
                    "GPU {} has no address: {}",
                    gpu.index, gpu.bus_id.why
                ));
                continue;
            };
            let is_down = |link: &&NvLink| link.active.value == Some(false);
            let down = gpu.nvlinks.iter().filter(is_down).count();
            let place = self.locate(bus);
            self.topology.gpus.push(Gpu {
                index: gpu.index,
                name: gpu.name.value.clone().unwrap_or_default(),
                place,
                nvlinks: working_nvlinks(gpu),
                nvlinks_down: down as u32,
                ..Gpu::default()
            });
        }
    }

    /// Adds the GPUs that sysfs lists.
    fn add_pci_gpus(&mut self) {
        for (index, bus) in nvidia::pci_gpus(self.root).iter().enumerate() {
            let place = self.locate(bus);
            self.topology.gpus.push(Gpu {
                index: index as u32,
                place,
                ..Gpu::default()
            });
        }
    }

    /// Adds the RDMA devices, each with its first port that works.
    fn add_rdma_nics(&mut self) {
        let class = self.root.join("sys/class/infiniband");
        let ports = rdma::ports(self.root);
        for name in names(&class) {
            let own_ports = ports.iter().filter(|port| port.device == name);
            let port = own_ports.min_by_key(|port| (!port.active, port.number));
            let place = self.locate_device(&class.join(&name).join("device"));
            self.topology.nics.push(Nic {
                place,
                kind: port.map_or_else(String::new, |port| port.link.name().to_owned()),
                port: self.port_speed(port),
                up: port.map(|port| port.active),
                sockets: Some(false),
                gdr: None,
                name,
                ..Nic::default()
            });
        }
    }

    fn port_speed(&self, port: Option<&Port>) -> Peak {
        match port.and_then(|port| fabric::rate(self.root, port)) {
            Some(gbps) => Peak::port(gbps * 1000.0),
            None => Peak::unknown("port speed not reported"),
        }
    }

    /// Adds the interfaces of devices without RDMA, which NCCL uses through sockets.
    fn add_ethernet_nics(&mut self) {
        let class = self.root.join("sys/class/net");
        for name in names(&class) {
            let interface = class.join(&name);
            if !interface.join("device").exists() {
                continue;
            }
            let place = self.locate_device(&interface.join("device"));
            if self.has_nic_at(&place.bus_id) {
                continue;
            }
            let speed = text(&interface.join("speed")).parse().unwrap_or_default();
            self.topology.nics.push(Nic {
                name,
                kind: "Ethernet".into(),
                place,
                port: Peak::port(speed),
                up: Some(text(&interface.join("operstate")) == "up"),
                sockets: Some(true),
                gdr: Some(false),
                ..Nic::default()
            });
        }
    }

    fn has_nic_at(&self, bus: &str) -> bool {
        let mut nics = self.topology.nics.iter();
        !bus.is_empty() && nics.any(|nic| nic.place.bus_id == bus)
    }

    /// Returns the index of the processor with this NUMA node, which is added if it is new.
    fn cpu_index(&mut self, numa: i64) -> usize {
        // A device that does not report its node is on the only one there is.
        let numa = match self.only_node {
            Some(only) if numa < 0 => only,
            _ => numa,
        };
        let cpus = &mut self.topology.cpus;
        if let Some(known) = cpus.iter().position(|cpu| cpu.numa == numa) {
            return known;
        }
        cpus.push(Cpu {
            numa,
            kind: self.processor.clone(),
        });
        cpus.len() - 1
    }

    /// Locates the PCI device behind a `device` link of sysfs.
    fn locate_device(&mut self, device: &Path) -> DeviceLocation {
        let real = fs::canonicalize(device).unwrap_or_default();
        let bus = components(&real)
            .into_iter()
            .rfind(|name| is_pci_address(name));
        match bus {
            Some(bus) => self.locate(&bus),
            None => DeviceLocation {
                cpu: self.cpu_index(-1),
                pcie: Peak::unknown("no PCI device"),
                ..DeviceLocation::default()
            },
        }
    }

    /// Locates the device with this address. Every second bridge on the way up is a switch: a
    /// switch has its upstream port and one port below it, and the host bridge one root port.
    fn locate(&mut self, bus: &str) -> DeviceLocation {
        let device = self.root.join("sys/bus/pci/devices").join(bus);
        let real = fs::canonicalize(&device).unwrap_or_default();
        if real.as_os_str().is_empty() {
            self.add_missing(format!("{bus} is not in sysfs, so its location is unknown"));
        }
        let path = components(&real);
        let bridge = path.iter().rfind(|name| is_host_bridge(name));
        let bridge = bridge.cloned().unwrap_or_default();
        let cpu = self.cpu_index(text(&device.join("numa_node")).parse().unwrap_or(-1));
        let mut ports_above = path;
        ports_above.retain(|name| is_pci_address(name) && name != bus);

        let mut switch = None;
        // From the processor down; the distance from the device decides which ports are switches.
        for (at, port) in ports_above.iter().enumerate() {
            let distance = ports_above.len() - at;
            if !distance.is_multiple_of(2) {
                continue;
            }
            let above = at.checked_sub(1).and_then(|above| ports_above.get(above));
            let location = DeviceLocation {
                bus_id: port.clone(),
                cpu,
                switch,
                bridge: bridge.clone(),
                pcie: self.pcie_link(port, above),
            };
            switch = Some(self.switch_index(location));
        }
        DeviceLocation {
            bus_id: bus.to_owned(),
            cpu,
            switch,
            bridge,
            pcie: self.pcie_link(bus, ports_above.last()),
        }
    }

    /// Returns the index of the switch at this location, which is added if it is new.
    fn switch_index(&mut self, place: DeviceLocation) -> usize {
        let switches = &mut self.topology.switches;
        let mut known = switches.iter();
        if let Some(known) = known.position(|switch| switch.place.bus_id == place.bus_id) {
            return known;
        }
        switches.push(Switch { place });
        switches.len() - 1
    }

    /// Returns the link between a device and the port above it, at the maximum of both: the link of
    /// an idle GPU is slow.
    fn pcie_link(&self, bus: &str, above: Option<&String>) -> Peak {
        let own = self.fastest_link(bus);
        let Some(above) = above else { return own };
        let port = self.fastest_link(above);
        if port.gbps.is_some() && own.gbps.is_some() {
            Peak::least([&own, &port])
        } else {
            own
        }
    }

    /// Returns the fastest link that a PCI device supports.
    fn fastest_link(&self, bus: &str) -> Peak {
        let device = self.root.join("sys/bus/pci/devices").join(bus);
        let speed = text(&device.join("max_link_speed"));
        let lanes = text(&device.join("max_link_width"));
        Peak::pcie(&speed, lanes.parse().unwrap_or_default())
    }
}

/// Returns the NVLinks that work, grouped by their other end; `None` if NVML does not say of any
/// link whether it works.
fn working_nvlinks(gpu: &NvmlGpu) -> Option<Vec<NvLinks>> {
    let mut groups: Vec<NvLinks> = Vec::new();
    let mut links = gpu.nvlinks.iter();
    if !gpu.nvlinks.is_empty() && links.all(|link| link.active.value.is_none()) {
        return None;
    }
    for link in &gpu.nvlinks {
        if link.active.value != Some(true) {
            continue;
        }
        let to = nvlink_end(link);
        match groups.iter_mut().find(|group| group.to == to) {
            Some(group) => group.count += 1,
            None => groups.push(NvLinks {
                to,
                count: 1,
                each: nvlink_speed(gpu, link),
            }),
        }
    }
    Some(groups)
}

fn nvlink_end(link: &NvLink) -> NvLinkEnd {
    let bus = link.remote_bus.value.clone().unwrap_or_default();
    if bus == HIDDEN_SWITCH {
        return NvLinkEnd::Switch;
    }
    match link.remote {
        Remote::Switch => NvLinkEnd::Switch,
        Remote::Gpu => NvLinkEnd::Gpu(bus),
        Remote::Cpu => NvLinkEnd::Cpu,
        Remote::Unknown => NvLinkEnd::Unknown(bus),
    }
}

fn nvlink_speed(gpu: &NvmlGpu, link: &NvLink) -> Peak {
    match (gpu.capability.value, link.version.value) {
        (Some(sm), _) => Peak::nvlink_of_sm(sm),
        (None, Some(version)) => Peak::nvlink_of_version(version),
        (None, None) => Peak::unknown("NVLink version not reported"),
    }
}

/// Returns the vendor of the processors.
fn processor_vendor(root: &Path) -> String {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let mut lines = info.lines();
    let vendor = lines.find_map(|line| line.strip_prefix("vendor_id")?.split(':').nth(1));
    vendor.unwrap_or_default().trim().to_owned()
}

fn components(path: &Path) -> Vec<String> {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect()
}

/// Returns whether this is a host bridge, such as `pci0000:15`.
fn is_host_bridge(name: &str) -> bool {
    name.starts_with("pci") && name.contains(':')
}

/// Returns whether this is a PCI address, such as `0000:18:00.0`.
fn is_pci_address(name: &str) -> bool {
    let Some((device, function)) = name.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = device.split(':').collect();
    parts.len() == 3 && is_hex(function) && parts.into_iter().all(is_hex)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
