//! GPUs of a topology file, with their links.

use roxmltree::Node;

use super::{
    attributes::{address, flag, integer, number},
    class::{NVLINK_CPU, NVSWITCH},
    form::Form,
};
use crate::topology::{
    figures::Peak,
    node::{C2cLinks, DeviceLocation, Gpu, NvLinkEnd, NvLinks, Topology},
};

/// The beginning of the address that stands for an NVSwitch that a virtual machine does not see.
const HIDDEN_SWITCH: &str = "fffffff";

/// Adds the GPUs of a PCI device: several if several ranks share it, or if it is partitioned.
pub(super) fn read_gpus(all: &mut Topology, node: Node, place: &DeviceLocation, form: &Form) {
    let gpus: Vec<Node> = node
        .children()
        .filter(|child| child.has_tag_name("gpu"))
        .collect();
    if gpus.len() > 1 {
        all.notes.push(format!(
            "{} <gpu> in the <pci> at {}: ranks or parts of one device; paths between them are \
             not derived",
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
