//! [`PciKind`]: what a PCI device of a topology file is, by its class.

use roxmltree::Node;

use super::attributes::has_child;

/// Prefixes of the class of a PCI device by which NCCL tells GPUs; 0x12 is RCCL's.
const GPU: [&str; 2] = ["0x03", "0x12"];

/// Prefixes of the classes of NICs and switches.
const NIC: &str = "0x02";
const SWITCH: &str = "0x0604";

/// The classes of an NVSwitch, and of the NVLinks of a CPU.
pub(super) const NVSWITCH: &str = "0x068000";
pub(super) const NVLINK_CPU: &str = "0x068001";

/// The class of a display adapter, which a server's management controller has too.
const DISPLAY: &str = "0x0300";

/// The vendors of GPUs, and the number that templates put for an unknown one.
const GPU_VENDORS: [&str; 3] = ["0x10de", "0x1002", "0x0000"];

/// What an element of a PCI device stands for.
pub(super) enum PciKind {
    Gpu,
    Nic,
    /// A switch, or a bridge.
    Switch,
    NvSwitch,
    /// Something else, or nobody knows.
    Other,
}

impl PciKind {
    pub(super) fn of(node: Node) -> PciKind {
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
