//! NCCL's topology file, the matrix of nvidia-smi, and the answers of NVML.

use std::path::Path;

use crate::{
    facts,
    native::nvml::Inventory,
    topology::{
        self, Topology,
        render::{TopologyFormat, render},
    },
};

/// Reads a topology, and draws it.
pub(super) fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(hosts) = topology::read(&text) {
        draw(&hosts);
    }
}

/// Reads the answers of NVML, on a node without a sysfs, and draws what they say.
pub(super) fn nvml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(inventory) = Inventory::from_json(&text) else {
        return;
    };
    let again = serde_json::to_string(&inventory).expect("JSON");
    assert_eq!(Inventory::from_json(&again).as_ref(), Ok(&inventory));
    let node = facts::topology::read(Path::new("/nowhere"), &Ok(inventory));
    draw(&[node]);
}

/// Draws a topology in every format.
fn draw(hosts: &[Topology]) {
    for format in [
        TopologyFormat::All,
        TopologyFormat::Tree,
        TopologyFormat::Matrix,
        TopologyFormat::Paths,
    ] {
        render(hosts, format).expect("text");
    }
    let json = render(hosts, TopologyFormat::Json).expect("JSON");
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON that can be read");
    let svg = render(hosts, TopologyFormat::Svg).expect("a picture");
    roxmltree::Document::parse(&svg).expect("a picture that can be read");
}
