//! NICs of a topology file.

use roxmltree::Node;

use super::{
    attributes::{LEFT_OUT, flag, has_child, integer, number},
    unread::is_of_another_plugin,
};
use crate::topology::{
    figures::Peak,
    node::{DeviceLocation, Nic, Topology},
};

/// The PCI classes of InfiniBand and Ethernet adapters.
const LINK_LAYERS: [(&str, &str); 2] = [("0x0207", "InfiniBand"), ("0x0200", "Ethernet")];

/// Adds the NICs of a PCI device: those that NCCL's network named, or one that a template lists.
pub(super) fn read_pci_nic(all: &mut Topology, node: Node, place: &DeviceLocation) {
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

pub(super) fn read_nic(all: &mut Topology, node: Node, place: &DeviceLocation) {
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
