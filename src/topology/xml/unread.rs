//! Notes on what a topology file has that is not read, or from which not everything is derived.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::attributes::flag;

/// The elements that are read.
const ELEMENTS: [&str; 8] = ["system", "cpu", "pci", "gpu", "nvlink", "c2c", "nic", "net"];

/// AMD's links between GPUs, in files of RCCL.
pub(super) const XGMI: &str = "xgmi";

pub(super) fn several_hosts(count: usize) -> Option<String> {
    (count > 1).then(|| {
        format!(
            "this file holds {count} hosts, told apart by host_hash, as NCCL writes it if they \
             share an NVLink domain; each is drawn on its own, and paths between them are not \
             derived"
        )
    })
}

/// Names the elements that were not read.
pub(super) fn not_read(document: &Document) -> Vec<String> {
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
            "{count} <xgmi> not read: these are links between AMD GPUs, which RCCL uses; paths \
             between the GPUs are not derived"
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

/// Returns a note on networks that only other plugins of NCCL use, such as one for GPU-initiated
/// networking.
pub(super) fn not_used(document: &Document) -> Option<String> {
    let nets = document.descendants().filter(is_of_another_plugin);
    let count = nets.count();
    (count > 0).then(|| {
        format!(
            "{count} <net> with net=\"0\" left out: NCCL does not use such networks between nodes"
        )
    })
}

/// Returns whether an element is a network that only another plugin than that of the network uses.
pub(super) fn is_of_another_plugin(node: &Node) -> bool {
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
