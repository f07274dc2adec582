//! [`Form`]: what kind of file a topology file is.

use roxmltree::Document;

use super::unread::XGMI;
use crate::{topology::node::Topology, units::counted};

/// What kind of file it is: what NCCL wrote, or what NCCL completes.
pub(super) struct Form {
    /// Whether its GPUs have ranks, which NCCL gives them.
    pub(super) has_ranks: bool,
    /// Whether a GPU without a link in it has none. NCCL adds NVLinks to the GPUs of a file that
    /// has none.
    pub(super) lists_nvlinks: bool,
    /// Whether it is a file of RCCL, whose GPUs have links of another kind.
    pub(super) has_xgmi: bool,
}

impl Form {
    pub(super) fn of(document: &Document) -> Form {
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
    pub(super) fn describe(&self, host: &mut Topology) {
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
