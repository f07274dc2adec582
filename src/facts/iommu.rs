//! Does an IOMMU translate what GPUs and adapters send? From the types of their groups in `/sys`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    nvidia,
    tree::{names, text},
};

/// What `/sys` says of the node's IOMMU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iommu {
    /// Has the node groups at all?
    pub has_groups: bool,
    /// GPUs by address and RDMA devices by name, and the type of their group: `identity`, `DMA`, `DMA-FQ`.
    pub devices: BTreeMap<String, String>,
    /// The types of all groups.
    pub types: BTreeSet<String>,
}

impl Iommu {
    /// Those of GPUs and adapters whose addresses it translates, with the type.
    pub fn translated(&self) -> Vec<String> {
        let translated = self.devices.iter().filter(|(_, kind)| translates(kind));
        translated
            .map(|(device, kind)| format!("{device} ({kind})"))
            .collect()
    }

    /// Is there a group that it translates for?
    pub fn translates_some(&self) -> bool {
        self.types.iter().any(|kind| translates(kind))
    }
}

/// `DMA`, and `DMA-FQ` where it is flushed later.
fn translates(kind: &str) -> bool {
    kind.starts_with("DMA")
}

/// The IOMMU under `root`.
pub(super) fn iommu(root: &Path) -> Iommu {
    let groups = root.join("sys/kernel/iommu_groups");
    let all = names(&groups);
    let gpus = nvidia::pci_gpus(root)
        .into_iter()
        .map(|gpu| (root.join("sys/bus/pci/devices").join(&gpu), gpu));
    let class = root.join("sys/class/infiniband");
    let adapters = names(&class)
        .into_iter()
        .map(|name| (class.join(&name).join("device"), name));
    let of_device = gpus
        .chain(adapters)
        .map(|(folder, name)| (name, text(&folder.join("iommu_group/type"))));
    Iommu {
        has_groups: !all.is_empty(),
        devices: of_device.filter(|(_, kind)| !kind.is_empty()).collect(),
        types: all
            .iter()
            .map(|group| text(&groups.join(group).join("type")))
            .filter(|kind| !kind.is_empty())
            .collect(),
    }
}
