//! CPUs of a topology file, and the PCI devices below them.

use roxmltree::Node;

use super::{
    attributes::{LEFT_OUT, address, integer},
    class::PciKind,
    form::Form,
    gpu::read_gpus,
    nic::{read_nic, read_pci_nic},
};
use crate::topology::{
    figures::Peak,
    node::{Cpu, Device, DeviceLocation, Switch, Topology},
};

pub(super) fn read_cpu(all: &mut Topology, node: Node, form: &Form) {
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

/// Adds a device and those below it; `above` is the location of what it is connected to.
fn read_device(all: &mut Topology, node: Node, above: &DeviceLocation, form: &Form) {
    match node.tag_name().name() {
        "pci" => read_pci(all, node, above, form),
        "nic" => read_nic(all, node, above),
        _ => {}
    }
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
