//! What is connected to what in this node: sysfs, without root and without a library, joined with NVML's GPUs.

use std::{fs, path::Path};

use super::{
    fabric, nvidia, rdma,
    tree::{names, text},
};
use crate::{
    levels::ports::Port,
    native::nvml::{self, Inventory, Remote},
    topology::{
        Cpu, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology, figures::Peak,
    },
};

/// The address that a virtual machine sees where the NVSwitch is hidden from it.
const HIDDEN: &str = "fffffff:ff:ff.0";

/// The node under `root`, the root of the file system, with what NVML said of its GPUs, or why it said nothing.
pub fn read(root: &Path, nvml: &Result<Inventory, String>) -> Topology {
    let mut reader = Reader {
        root,
        kind: kind(root),
        only_node: None,
        all: Topology::default(),
    };
    reader.nodes();
    reader.all.source = "sysfs".into();
    match nvml {
        Ok(inventory) => {
            reader.all.source = "sysfs and NVML".into();
            reader.gpus_of(inventory);
        }
        Err(why) => {
            reader.all.missing.push(format!(
                "{why}; GPUs are those that sysfs lists, without NVLinks"
            ));
            reader.gpus_listed();
        }
    }
    reader.rdma();
    reader.ethernet();
    reader.lost();
    let mut all = reader.all;
    for (none, what) in [
        (all.gpus.is_empty(), "no NVIDIA GPU"),
        (all.nics.is_empty(), "no NIC"),
    ] {
        if none {
            all.missing.push(format!(
                "{what} is listed in {}",
                root.join("sys").display()
            ));
        }
    }
    all
}

struct Reader<'a> {
    root: &'a Path,
    kind: String,
    /// The NUMA node, where there is one only.
    only_node: Option<i64>,
    all: Topology,
}

impl Reader<'_> {
    fn gpus_of(&mut self, inventory: &Inventory) {
        for gpu in &inventory.gpus {
            let Some(bus) = &gpu.bus_id.value else {
                self.all.missing.push(format!(
                    "GPU {} has no address: {}",
                    gpu.index, gpu.bus_id.why
                ));
                continue;
            };
            let place = self.place(bus);
            self.all.gpus.push(Gpu {
                index: gpu.index,
                name: gpu.name.value.clone().unwrap_or_default(),
                place,
                nvlinks: nvlinks(gpu),
                nvlinks_down: gpu
                    .nvlinks
                    .iter()
                    .filter(|link| link.active.value == Some(false))
                    .count() as u32,
                gdr: None,
            });
        }
    }

    fn gpus_listed(&mut self) {
        for (index, bus) in nvidia::pci_gpus(self.root).into_iter().enumerate() {
            let place = self.place(&bus);
            self.all.gpus.push(Gpu {
                index: index as u32,
                place,
                ..Gpu::default()
            });
        }
    }

    /// The RDMA devices, each by its first port that works.
    fn rdma(&mut self) {
        let class = self.root.join("sys/class/infiniband");
        let mut ports = rdma::ports(self.root);
        for name in names(&class) {
            let (own, others): (Vec<Port>, Vec<Port>) =
                ports.into_iter().partition(|port| port.device == name);
            ports = others;
            let port = own.iter().min_by_key(|port| (!port.active, port.number));
            let rate = port.and_then(|port| fabric::rate(self.root, port));
            let speed = rate.map_or_else(
                || Peak::unknown("port speed not reported"),
                |gbps| Peak::port(gbps * 1000.0),
            );
            let place = self.place_of(&class.join(&name).join("device"));
            let kind = port.map_or_else(String::new, |port| port.link.name().to_owned());
            let up = port.map(|port| port.active);
            self.all.nics.push(Nic {
                name,
                kind,
                place,
                port: speed,
                up,
                sockets: false,
                gdr: None,
            });
        }
    }

    /// Interfaces of devices that have no RDMA: NCCL uses them through sockets.
    fn ethernet(&mut self) {
        let class = self.root.join("sys/class/net");
        for name in names(&class) {
            let interface = class.join(&name);
            if !interface.join("device").exists() {
                continue;
            }
            let place = self.place_of(&interface.join("device"));
            if !place.bus_id.is_empty()
                && self
                    .all
                    .nics
                    .iter()
                    .any(|nic| nic.place.bus_id == place.bus_id)
            {
                continue;
            }
            let speed = text(&interface.join("speed")).parse().unwrap_or_default();
            let up = Some(text(&interface.join("operstate")) == "up");
            let kind = "Ethernet".to_owned();
            self.all.nics.push(Nic {
                name,
                kind,
                place,
                port: Peak::port(speed),
                up,
                sockets: true,
                gdr: Some(false),
            });
        }
    }

    /// NUMA nodes, also those that have no device.
    fn nodes(&mut self) {
        let names = names(&self.root.join("sys/devices/system/node"));
        let nodes: Vec<i64> = names
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .collect();
        self.only_node = nodes.first().copied().filter(|_| nodes.len() == 1);
        for node in nodes {
            self.cpu(node);
        }
    }

    fn lost(&mut self) {
        if self.all.cpus.len() > 1 && self.all.cpus.iter().any(|cpu| cpu.numa < 0) {
            self.all
                .missing
                .push("some devices do not say which NUMA node they are on".into());
        }
    }

    fn cpu(&mut self, numa: i64) -> usize {
        // A device that does not say where it is, is on the only node.
        let numa = self.only_node.filter(|_| numa < 0).unwrap_or(numa);
        let known = self.all.cpus.iter().position(|cpu| cpu.numa == numa);
        known.unwrap_or_else(|| {
            self.all.cpus.push(Cpu {
                numa,
                kind: self.kind.clone(),
            });
            self.all.cpus.len() - 1
        })
    }

    fn place_of(&mut self, device: &Path) -> DeviceLocation {
        let real = fs::canonicalize(device).unwrap_or_default();
        match components(&real).into_iter().rfind(|name| is_address(name)) {
            Some(bus) => self.place(&bus),
            None => DeviceLocation {
                cpu: self.cpu(-1),
                pcie: Peak::unknown("no PCI device"),
                ..DeviceLocation::default()
            },
        }
    }

    /// Where the device of this address is. Every second bridge on the way up is a switch: a switch shows its upstream
    /// port and one port below it, and the host bridge one root port.
    fn place(&mut self, bus: &str) -> DeviceLocation {
        let device = self.root.join("sys/bus/pci/devices").join(bus);
        let real = fs::canonicalize(&device).unwrap_or_default();
        if real.as_os_str().is_empty() {
            self.all.missing.push(format!(
                "{bus} is not in sysfs, so where it is remains unknown"
            ));
        }
        let way = components(&real);
        let bridge = way
            .iter()
            .rfind(|name| name.starts_with("pci") && name.contains(':'))
            .cloned()
            .unwrap_or_default();
        let cpu = self.cpu(text(&device.join("numa_node")).parse().unwrap_or(-1));
        let above: Vec<String> = way
            .into_iter()
            .filter(|name| is_address(name) && name != bus)
            .collect();
        let mut switch = None;
        // From the processor down; the ports counted from the device up decide which are switches.
        for (at, port) in above
            .iter()
            .enumerate()
            .filter(|(at, _)| (above.len() - at).is_multiple_of(2))
        {
            let up = at.checked_sub(1).and_then(|at| above.get(at));
            switch = Some(self.switch(port, up, cpu, &bridge, switch));
        }
        let pcie = self.link(bus, above.last());
        DeviceLocation {
            bus_id: bus.to_owned(),
            cpu,
            switch,
            bridge,
            pcie,
        }
    }

    fn switch(
        &mut self,
        bus: &str,
        up: Option<&String>,
        cpu: usize,
        bridge: &str,
        above: Option<usize>,
    ) -> usize {
        if let Some(known) = self
            .all
            .switches
            .iter()
            .position(|switch| switch.place.bus_id == bus)
        {
            return known;
        }
        let pcie = self.link(bus, up);
        let place = DeviceLocation {
            bus_id: bus.to_owned(),
            cpu,
            switch: above,
            bridge: bridge.to_owned(),
            pcie,
        };
        self.all.switches.push(Switch { place });
        self.all.switches.len() - 1
    }

    /// The link between a device and the port above it, at the maximum that both can do: an idle GPU's link is slow.
    fn link(&self, bus: &str, above: Option<&String>) -> Peak {
        let of = |bus: &String| {
            let device = self.root.join("sys/bus/pci/devices").join(bus);
            let lanes = text(&device.join("max_link_width"))
                .parse()
                .unwrap_or_default();
            Peak::pcie(&text(&device.join("max_link_speed")), lanes)
        };
        let own = of(&bus.to_owned());
        match above.map(of) {
            Some(port) if port.gbps.is_some() && own.gbps.is_some() => Peak::least([&own, &port]),
            _ => own,
        }
    }
}

/// The links that work, those to one place together.
fn nvlinks(gpu: &nvml::NvmlGpu) -> Vec<NvLinks> {
    let mut all: Vec<NvLinks> = Vec::new();
    for link in gpu
        .nvlinks
        .iter()
        .filter(|link| link.active.value == Some(true))
    {
        let bus = link.remote_bus.value.clone().unwrap_or_default();
        let to = match link.remote {
            _ if bus == HIDDEN => NvLinkEnd::Switch,
            Remote::Switch => NvLinkEnd::Switch,
            Remote::Gpu => NvLinkEnd::Gpu(bus),
            Remote::Cpu => NvLinkEnd::Cpu,
            Remote::Unknown => NvLinkEnd::Unknown(bus),
        };
        let each = match (gpu.capability.value, link.version.value) {
            (Some(sm), _) => Peak::nvlink_of_sm(sm),
            (None, Some(version)) => Peak::nvlink_of_version(version),
            (None, None) => Peak::unknown("NVLink version not reported"),
        };
        match all.iter_mut().find(|links| links.to == to) {
            Some(links) => links.count += 1,
            None => all.push(NvLinks { to, count: 1, each }),
        }
    }
    all
}

/// Vendor and architecture of the processors.
fn kind(root: &Path) -> String {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let vendor = info
        .lines()
        .find_map(|line| line.strip_prefix("vendor_id")?.split(':').nth(1));
    vendor.unwrap_or_default().trim().to_owned()
}

fn components(path: &Path) -> Vec<String> {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect()
}

/// Is it a PCI address, as `0000:18:00.0`?
fn is_address(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((device, function)) = name.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = device.split(':').collect();
    parts.len() == 3 && digits(function) && parts.into_iter().all(digits)
}
