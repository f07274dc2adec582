//! NCCL's topology file and the matrix of nvidia-smi.

use crate::topology::{
    self,
    render::{TopologyFormat, render},
};

/// Reads a topology, and draws it in every format.
pub(super) fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(hosts) = topology::read(&text) else {
        return;
    };
    for format in [
        TopologyFormat::All,
        TopologyFormat::Tree,
        TopologyFormat::Matrix,
        TopologyFormat::Paths,
    ] {
        render(&hosts, format).expect("text");
    }
    let json = render(&hosts, TopologyFormat::Json).expect("JSON");
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON that can be read");
    let svg = render(&hosts, TopologyFormat::Svg).expect("a picture");
    roxmltree::Document::parse(&svg).expect("a picture that can be read");
}
