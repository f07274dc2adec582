//! The GPUs of a node as plain data.

use serde::{Deserialize, Serialize};

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading<T> {
    /// The value.
    pub value: Option<T>,
    /// Why there is none; empty if there is a value.
    pub why: String,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading {
            value: None,
            why: "not read".into(),
        }
    }
}

impl<T> Reading<T> {
    /// Returns a reading with a value.
    pub fn of(value: T) -> Reading<T> {
        Reading {
            value: Some(value),
            why: String::new(),
        }
    }

    /// Returns a reading without a value.
    pub fn none(why: impl Into<String>) -> Reading<T> {
        Reading {
            value: None,
            why: why.into(),
        }
    }

    /// Converts the value with `read`, whose error becomes the reason.
    pub fn and<U>(self, read: impl FnOnce(T) -> Result<U, String>) -> Reading<U> {
        match self.value.map(read) {
            Some(Ok(value)) => Reading::of(value),
            Some(Err(why)) => Reading::none(why),
            None => Reading::none(self.why),
        }
    }
}

/// The GPUs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inventory {
    /// The driver's version: `570.86.15`.
    pub driver: Reading<String>,
    /// The newest CUDA that the driver can run: `12.8`.
    pub cuda: Reading<String>,
    /// The GPUs in NVML's order, which is that of the PCI bus.
    pub gpus: Vec<NvmlGpu>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlGpu {
    /// NVML's index, which NCCL's log prints in brackets.
    pub index: u32,
    /// The PCI address as [`bus_id`] writes it.
    pub bus_id: Reading<String>,
    /// The UUID: `GPU-…`.
    pub uuid: Reading<String>,
    /// The model: `NVIDIA H200`.
    pub name: Reading<String>,
    /// The compute capability: 90 for 9.0.
    pub capability: Reading<u32>,
    /// Its NVLinks, active or not.
    pub nvlinks: Vec<NvLink>,
    /// Why there are no more NVLinks.
    pub nvlinks_why: String,
    /// The NVLink fabric that it is part of.
    pub fabric: Reading<NvlinkFabric>,
    /// The current PCIe generation. An idle GPU may lower it.
    pub pcie_gen: Reading<u32>,
    /// The highest generation of the GPU and its slot.
    pub pcie_gen_max: Reading<u32>,
    /// The current number of PCIe lanes.
    pub pcie_width: Reading<u32>,
    /// The most lanes of the GPU and its slot.
    pub pcie_width_max: Reading<u32>,
    /// The NUMA node.
    pub numa: Reading<u32>,
    /// Processors near it, as Linux lists them: `0-15,64-79`.
    pub cpus: Reading<String>,
    /// `default`, `exclusive process`, `prohibited` or `exclusive thread`.
    pub compute_mode: Reading<String>,
    /// Whether MIG is on.
    pub mig: Reading<bool>,
    /// Whether the driver stays loaded without a client.
    pub persistence: Reading<bool>,
    /// Whether ECC is on.
    pub ecc: Reading<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Reading<u64>,
    /// Uncorrected memory errors over the GPU's lifetime.
    pub ecc_uncorrected_ever: Reading<u64>,
    /// Memory rows replaced by spare ones.
    pub remapped: Reading<Remapped>,
    /// Whether pages wait for a reset to be retired.
    pub pages_pending: Reading<bool>,
    /// What limits the clocks: `thermal slowdown`.
    pub throttle: Reading<Vec<String>>,
    /// Memory in bytes.
    pub memory_total: Reading<u64>,
    /// Free memory in bytes.
    pub memory_free: Reading<u64>,
    /// The clock of the multiprocessors in MHz.
    pub sm_clock: Reading<u32>,
    /// The maximum of that clock in MHz.
    pub sm_clock_max: Reading<u32>,
    /// The temperature in degrees Celsius.
    pub temperature: Reading<u32>,
}

/// A GPU's place in an NVLink fabric, which may span several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvlinkFabric {
    /// The state of the GPU's registration with the fabric manager: `completed`, `in progress`,
    /// `not started` or `not supported`.
    pub state: String,
    /// The cluster of nodes that the fabric spans, in hexadecimal digits; all zeros if the fabric
    /// is this node's own.
    pub cluster: String,
    /// The clique. GPUs of one clique reach each other.
    pub clique: u32,
}

/// One NVLink of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLink {
    /// The link's number on this GPU.
    pub link: u32,
    /// Whether it is active.
    pub active: Reading<bool>,
    /// The version as NVML numbers it.
    pub version: Reading<u32>,
    /// The device at the other end.
    pub remote: Remote,
    /// The PCI address of that device, as [`bus_id`] writes it. Virtual machines see a placeholder
    /// for a switch.
    pub remote_bus: Reading<String>,
}

/// The kind of device at the other end of an NVLink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remote {
    /// Another GPU.
    Gpu,
    /// An NVSwitch.
    Switch,
    /// A processor with NVLink.
    Cpu,
    /// A device that NVML does not name.
    #[default]
    Unknown,
}

/// Rows of memory that were replaced by spare ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remapped {
    /// Rows with corrected errors.
    pub corrected: u32,
    /// Rows with uncorrected errors.
    pub uncorrected: u32,
    /// Whether a row waits for a reset.
    pub pending: bool,
    /// Whether a replacement failed; the GPU then has to be replaced.
    pub failed: bool,
}

impl Inventory {
    /// Reads an inventory from JSON.
    ///
    /// # Errors
    /// Returns an error if `text` is not an inventory.
    pub fn from_json(text: &str) -> Result<Inventory, String> {
        serde_json::from_str(text).map_err(|error| format!("no inventory of NVML's: {error}"))
    }
}

/// Writes a PCI address as Linux does, `0000:18:00.0`, from NVML's `00000000:18:00.0` or another
/// spelling. Text that is not an address is returned in lower case.
pub fn bus_id(text: &str) -> String {
    let lower = text.trim().to_ascii_lowercase();
    let parts: Vec<&str> = lower.split(':').collect();
    let (domain, rest) = match parts.as_slice() {
        [bus, device] => ("0", format!("{bus}:{device}")),
        [domain, bus, device] => (*domain, format!("{bus}:{device}")),
        _ => return lower,
    };
    u32::from_str_radix(domain, 16).map_or(lower.clone(), |domain| format!("{domain:04x}:{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_linux_does() {
        for (text, address) in [
            ("00000000:18:00.0", "0000:18:00.0"),
            ("0000:5D:00.0", "0000:5d:00.0"),
            ("5D:00.0", "0000:5d:00.0"),
            ("0FFFFFFF:FF:FF.0", "fffffff:ff:ff.0"),
            ("0001:c3:00.0\n", "0001:c3:00.0"),
            ("NULL", "null"),
            ("", ""),
        ] {
            assert_eq!(bus_id(text), address, "{text:?}");
        }
    }

    #[test]
    fn an_inventory_is_json_both_ways_and_may_be_partial() {
        let text = r#"{"driver": {"value": "570.86.15"}, "gpus": [{"index": 1, "mig": {"why": "not supported"},
            "nvlinks": [{"link": 0, "active": {"value": true}, "remote": "switch"}]}]}"#;
        let inventory = Inventory::from_json(text).expect("an inventory");
        assert_eq!(inventory.gpus[0].nvlinks[0].remote, Remote::Switch);
        assert_eq!(inventory.gpus[0].mig, Reading::none("not supported"));
        assert_eq!(inventory.gpus[0].name, Reading::none("not read"));
        let again = serde_json::to_string(&inventory).expect("JSON");
        assert_eq!(Inventory::from_json(&again), Ok(inventory));
        assert!(
            Inventory::from_json("[")
                .expect_err("an error")
                .contains("line 1")
        );
    }
}
