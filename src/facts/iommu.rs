//! Whether an IOMMU translates the addresses that GPUs and adapters use, from the types of their
//! groups in `/sys`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    nvidia,
    tree::{names, text},
};

/// The node's IOMMU, as `/sys` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iommu {
    /// Whether the node has any groups.
    pub has_groups: bool,
    /// GPUs by address and RDMA devices by name, with the type of their group: `identity`, `DMA`,
    /// `DMA-FQ`.
    pub devices: BTreeMap<String, String>,
    /// The types of all groups.
    pub types: BTreeSet<String>,
}

impl Iommu {
    /// Returns the GPUs and adapters whose addresses it translates, with the type of their group.
    pub fn translated(&self) -> Vec<String> {
        let mut translated = Vec::new();
        for (device, kind) in &self.devices {
            if translates(kind) {
                translated.push(format!("{device} ({kind})"));
            }
        }
        translated
    }

    /// Returns whether there is a group that it translates for.
    pub fn translates_some(&self) -> bool {
        self.types.iter().any(|kind| translates(kind))
    }
}

/// Returns whether a group of this type is translated: `DMA`, or `DMA-FQ` with deferred flushing.
fn translates(kind: &str) -> bool {
    kind.starts_with("DMA")
}

/// Reads the IOMMU under `root`.
pub(super) fn iommu(root: &Path) -> Iommu {
    let mut devices = BTreeMap::new();
    for gpu in nvidia::pci_gpus(root) {
        let folder = root.join("sys/bus/pci/devices").join(&gpu);
        devices.insert(gpu, group_type(&folder));
    }
    let adapters = root.join("sys/class/infiniband");
    for adapter in names(&adapters) {
        let folder = adapters.join(&adapter).join("device");
        devices.insert(adapter, group_type(&folder));
    }
    devices.retain(|_, kind| !kind.is_empty());

    let groups = root.join("sys/kernel/iommu_groups");
    let group_names = names(&groups);
    let mut types = BTreeSet::new();
    for group in &group_names {
        types.insert(text(&groups.join(group).join("type")));
    }
    types.remove("");
    Iommu {
        has_groups: !group_names.is_empty(),
        devices,
        types,
    }
}

fn group_type(device: &Path) -> String {
    text(&device.join("iommu_group/type"))
}
