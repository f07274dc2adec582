//! What NVML says of this node's GPUs, as plain data: [`Inventory`].
//!
//! The library is libnvidia-ml.so.1, which comes with the driver and is loaded when [`Inventory::read`] is called. A
//! reading that a GPU does not have is normal: each [`Reading`] holds a value or the reason why there is none. The
//! inventory is JSON both ways, so that what another node answered can be read again.

use serde::{Deserialize, Serialize};

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading<T> {
    /// What was read.
    pub value: Option<T>,
    /// Why nothing was read; empty where there is a value.
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
    /// A reading with a value.
    pub fn of(value: T) -> Reading<T> {
        Reading {
            value: Some(value),
            why: String::new(),
        }
    }

    /// A reading without one.
    pub fn none(why: impl Into<String>) -> Reading<T> {
        Reading {
            value: None,
            why: why.into(),
        }
    }

    /// What `read` makes of the value; its error is the reason.
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
    /// The driver's version, as `570.86.15`.
    pub driver: Reading<String>,
    /// The newest CUDA that the driver can run, as `12.8`.
    pub cuda: Reading<String>,
    /// In NVML's order, which is that of the PCI bus.
    pub gpus: Vec<NvmlGpu>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlGpu {
    /// NVML's number, which NCCL's log prints in brackets.
    pub index: u32,
    /// As [`bus_id`] writes it.
    pub bus_id: Reading<String>,
    /// As `GPU-…`.
    pub uuid: Reading<String>,
    /// As `NVIDIA H200`.
    pub name: Reading<String>,
    /// Compute capability, as 90 for 9.0.
    pub capability: Reading<u32>,
    /// The NVLinks that it has, working or not.
    pub nvlinks: Vec<NvLink>,
    /// Why there are no more of them.
    pub nvlinks_why: String,
    /// The NVLink fabric that it is part of.
    pub fabric: Reading<NvlinkFabric>,
    /// PCIe generation now. A GPU that does nothing may lower it.
    pub pcie_gen: Reading<u32>,
    /// The highest generation of the GPU and its slot.
    pub pcie_gen_max: Reading<u32>,
    /// PCIe lanes now.
    pub pcie_width: Reading<u32>,
    /// The most lanes of the GPU and its slot.
    pub pcie_width_max: Reading<u32>,
    /// NUMA node.
    pub numa: Reading<u32>,
    /// Processors near it, as Linux lists them: `0-15,64-79`.
    pub cpus: Reading<String>,
    /// `default`, `exclusive process`, `prohibited` or `exclusive thread`.
    pub compute_mode: Reading<String>,
    /// Is it cut into MIG instances?
    pub mig: Reading<bool>,
    /// Does the driver stay loaded without a client?
    pub persistence: Reading<bool>,
    /// Is ECC on?
    pub ecc: Reading<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Reading<u64>,
    /// Uncorrected memory errors of the GPU's life.
    pub ecc_uncorrected_ever: Reading<u64>,
    /// Rows replaced by spare ones.
    pub remapped: Reading<Remapped>,
    /// Do pages wait for a reset to be retired?
    pub pages_pending: Reading<bool>,
    /// What holds the clocks back, in words: `thermal slowdown`.
    pub throttle: Reading<Vec<String>>,
    /// Bytes of memory.
    pub memory_total: Reading<u64>,
    /// Bytes of it that are free.
    pub memory_free: Reading<u64>,
    /// Clock of the multiprocessors in MHz.
    pub sm_clock: Reading<u32>,
    /// Its maximum in MHz.
    pub sm_clock_max: Reading<u32>,
    /// Degrees Celsius.
    pub temperature: Reading<u32>,
}

/// A GPU's place in an NVLink fabric, which may span several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvlinkFabric {
    /// How far the fabric manager has come with it: `completed`, `in progress`, `not started` or `not supported`.
    pub state: String,
    /// The cluster of nodes that the fabric spans, in hexadecimal digits; all of them 0 where it is this node's own.
    pub cluster: String,
    /// GPUs of one clique of it reach each other.
    pub clique: u32,
}

/// One NVLink of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLink {
    /// Its number on this GPU.
    pub link: u32,
    /// Does it work?
    pub active: Reading<bool>,
    /// The version as NVML numbers it.
    pub version: Reading<u32>,
    /// What is at the other end.
    pub remote: Remote,
    /// The bus address of that, as [`bus_id`] writes it. Virtual machines see a placeholder for the switch.
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
    /// NVML does not say.
    #[default]
    Unknown,
}

/// Rows of memory that were replaced by spare ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remapped {
    /// For errors that were corrected.
    pub corrected: u32,
    /// For errors that were not.
    pub uncorrected: u32,
    /// Does one wait for a reset?
    pub pending: bool,
    /// Did one fail? Then the GPU has to be replaced.
    pub failed: bool,
}

impl Inventory {
    /// Asks NVML.
    ///
    /// # Errors
    /// One sentence, where the library is missing or cannot start.
    #[cfg(feature = "nccl")]
    pub fn read() -> Result<Inventory, String> {
        ask::all()
    }

    /// Asks nobody: this binary is built without it.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "nccl"))]
    pub fn read() -> Result<Inventory, String> {
        Err("NVML is not asked: this binary is built without the feature nccl".into())
    }

    /// Reads what an inventory's JSON says.
    ///
    /// # Errors
    /// Where `text` is none.
    pub fn from_json(text: &str) -> Result<Inventory, String> {
        serde_json::from_str(text).map_err(|error| format!("no inventory of NVML's: {error}"))
    }
}

/// A PCI address as Linux writes it, `0000:18:00.0`, from NVML's `00000000:18:00.0` or another spelling. What is no address
/// comes back in lower case.
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

/// Processor numbers of a mask of words of 64 bits, as Linux lists them.
#[cfg(any(feature = "nccl", test))]
fn cpu_list(words: &[u64]) -> String {
    let set = |cpu: usize| {
        words
            .get(cpu / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    };
    let mut ranges = Vec::new();
    let mut cpu = 0;
    while cpu < words.len() * 64 {
        let first = cpu;
        while set(cpu) {
            cpu += 1;
        }
        match cpu - first {
            0 => {}
            1 => ranges.push(first.to_string()),
            _ => ranges.push(format!("{first}-{}", cpu - 1)),
        }
        cpu += 1;
    }
    ranges.join(",")
}

#[cfg(feature = "nccl")]
mod ask {
    use nvml_wrapper::{
        Device, Nvml,
        bitmasks::device::ThrottleReasons,
        enum_wrappers::device::{Clock, ComputeMode, EccCounter, MemoryError, TemperatureSensor},
        error::NvmlError,
    };

    use super::{
        Inventory, NvLink, NvlinkFabric, NvmlGpu, Reading, Remapped, Remote, bus_id, cpu_list,
    };

    /// The name that the driver installs; the one without a number comes with development packages only.
    const LIBRARY: &str = "libnvidia-ml.so.1";

    /// No GPU has as many NVLinks: where to stop if NVML never says that there are no more.
    const MOST_LINKS: u32 = 64;

    /// Words of 64 processors asked for: Linux is built for at most 8,192.
    const AFFINITY_WORDS: usize = 128;

    /// What slows a GPU down, and the words for it. An idle GPU, or clocks set by an administrator, are no fault.
    const THROTTLES: [(ThrottleReasons, &str); 9] = [
        (ThrottleReasons::GPU_IDLE, "idle"),
        (
            ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
            "application clocks",
        ),
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "thermal slowdown"),
        (
            ThrottleReasons::HW_THERMAL_SLOWDOWN,
            "hardware thermal slowdown",
        ),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clocks"),
    ];

    fn reading<T>(answer: Result<T, NvmlError>) -> Reading<T> {
        match answer {
            Ok(value) => Reading::of(value),
            Err(NvmlError::NotSupported) => Reading::none("not supported"),
            Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => {
                Reading::none("not known to this driver")
            }
            Err(error) => Reading::none(error.to_string()),
        }
    }

    pub(super) fn all() -> Result<Inventory, String> {
        let nvml =
            Nvml::builder()
                .lib_path(LIBRARY.as_ref())
                .init()
                .map_err(|error| match error {
                    NvmlError::LibloadingError(error) => {
                        format!("NVML ({LIBRARY}) cannot be loaded: {error}")
                    }
                    error => format!("NVML ({LIBRARY}) cannot start: {error}"),
                })?;
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML cannot count the GPUs: {error}"))?;
        let cuda = nvml
            .sys_cuda_driver_version()
            .map(|number| format!("{}.{}", number / 1000, number % 1000 / 10));
        let gpu = |index| match nvml.device_by_index(index) {
            Ok(device) => gpu(&nvml, &device, index),
            // A GPU that fell off the bus: it is there, and every reading says why it is empty.
            Err(error) => NvmlGpu {
                index,
                bus_id: Reading::none(error.to_string()),
                ..NvmlGpu::default()
            },
        };
        Ok(Inventory {
            driver: reading(nvml.sys_driver_version()),
            cuda: reading(cuda),
            gpus: (0..count).map(gpu).collect(),
        })
    }

    fn gpu(nvml: &Nvml, device: &Device, index: u32) -> NvmlGpu {
        let (nvlinks, nvlinks_why) = nvlinks(nvml, device);
        let memory = device.memory_info();
        let uncorrected = |life| reading(device.total_ecc_errors(MemoryError::Uncorrected, life));
        NvmlGpu {
            index,
            bus_id: reading(device.pci_info().map(|pci| bus_id(&pci.bus_id))),
            uuid: reading(device.uuid()),
            name: reading(device.name()),
            capability: reading(
                device
                    .cuda_compute_capability()
                    .map(|sm| u32::try_from(sm.major * 10 + sm.minor).unwrap_or_default()),
            ),
            nvlinks,
            nvlinks_why,
            fabric: fabric(nvml, device),
            pcie_gen: reading(device.current_pcie_link_gen()),
            pcie_gen_max: reading(device.max_pcie_link_gen()),
            pcie_width: reading(device.current_pcie_link_width()),
            pcie_width_max: reading(device.max_pcie_link_width()),
            numa: reading(device.numa_node_id()),
            cpus: reading(
                device
                    .cpu_affinity(AFFINITY_WORDS)
                    .map(|words| cpu_list(&words)),
            ),
            compute_mode: reading(
                device
                    .compute_mode()
                    .map(|mode| compute_mode(&mode).to_owned()),
            ),
            mig: reading(device.mig_mode().map(|mode| mode.current == 1)),
            persistence: reading(device.is_in_persistent_mode()),
            ecc: reading(device.is_ecc_enabled().map(|ecc| ecc.currently_enabled)),
            ecc_uncorrected: uncorrected(EccCounter::Volatile),
            ecc_uncorrected_ever: uncorrected(EccCounter::Aggregate),
            remapped: remapped(nvml, device),
            pages_pending: reading(device.are_pages_pending_retired()),
            throttle: reading(device.current_throttle_reasons().map(throttle)),
            memory_total: reading(memory.as_ref().map(|memory| memory.total).map_err(again)),
            memory_free: reading(memory.as_ref().map(|memory| memory.free).map_err(again)),
            sm_clock: reading(device.clock_info(Clock::SM)),
            sm_clock_max: reading(device.max_clock_info(Clock::SM)),
            temperature: reading(device.temperature(TemperatureSensor::Gpu)),
        }
    }

    /// NVML's errors cannot be copied; of those of a call that is used twice only one is normal.
    fn again(error: &NvmlError) -> NvmlError {
        if matches!(error, NvmlError::NotSupported) {
            NvmlError::NotSupported
        } else {
            NvmlError::Unknown
        }
    }

    fn throttle(reasons: ThrottleReasons) -> Vec<String> {
        THROTTLES
            .iter()
            .filter(|(bit, _)| reasons.contains(*bit))
            .map(|(_, words)| (*words).to_owned())
            .collect()
    }

    fn compute_mode(mode: &ComputeMode) -> &'static str {
        match mode {
            ComputeMode::Default => "default",
            ComputeMode::ExclusiveThread => "exclusive thread",
            ComputeMode::Prohibited => "prohibited",
            ComputeMode::ExclusiveProcess => "exclusive process",
        }
    }

    /// The links up to the first number that the GPU does not have, and what it says of that.
    fn nvlinks(nvml: &Nvml, device: &Device) -> (Vec<NvLink>, String) {
        let mut links = Vec::new();
        for link in 0..MOST_LINKS {
            let nvlink = device.link_wrapper_for(link);
            let active = nvlink.is_active();
            if let Err(error @ (NvmlError::InvalidArg | NvmlError::NotSupported)) = active {
                return (links, error.to_string());
            }
            links.push(NvLink {
                link,
                active: reading(active),
                version: reading(nvlink.version()),
                remote: remote(nvml, device, link),
                remote_bus: reading(nvlink.remote_pci_info().map(|pci| bus_id(&pci.bus_id))),
            });
        }
        (links, String::new())
    }

    /// What is at the other end. The wrapper's own function gives back what it put in, so the library is called here.
    fn remote(nvml: &Nvml, device: &Device, link: u32) -> Remote {
        let Ok(ask) = nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref() else {
            return Remote::Unknown;
        };
        let mut kind = u32::MAX;
        // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and `kind` of the type it fills.
        let code = unsafe { ask(device.handle(), link, &mut kind) };
        match (code, kind) {
            (0, 0) => Remote::Gpu,
            (0, 1) => Remote::Cpu,
            (0, 2) => Remote::Switch,
            _ => Remote::Unknown,
        }
    }

    /// The wrapper has no function for this.
    fn fabric(nvml: &Nvml, device: &Device) -> Reading<NvlinkFabric> {
        let Ok(ask) = nvml.lib().nvmlDeviceGetGpuFabricInfo.as_ref() else {
            return Reading::none("not known to this driver");
        };
        let mut info = std::mem::MaybeUninit::zeroed();
        // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and `info` is the structure that
        // it fills, of plain numbers, for which zeros are values too.
        let (code, info) = unsafe { (ask(device.handle(), info.as_mut_ptr()), info.assume_init()) };
        let state = match info.state {
            0 => "not supported",
            1 => "not started",
            2 => "in progress",
            3 => "completed",
            _ => "unknown",
        };
        let cluster = info
            .clusterUuid
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let fabric = NvlinkFabric {
            state: state.into(),
            cluster,
            clique: info.cliqueId,
        };
        reading(nvml_wrapper::error::nvml_try(code).map(|()| fabric))
    }

    /// The wrapper has no function for this.
    fn remapped(nvml: &Nvml, device: &Device) -> Reading<Remapped> {
        let Ok(ask) = nvml.lib().nvmlDeviceGetRemappedRows.as_ref() else {
            return Reading::none("not known to this driver");
        };
        let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
        // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and each number of the type it
        // fills.
        let code = unsafe {
            ask(
                device.handle(),
                &mut corrected,
                &mut uncorrected,
                &mut pending,
                &mut failed,
            )
        };
        let rows = Remapped {
            corrected,
            uncorrected,
            pending: pending != 0,
            failed: failed != 0,
        };
        reading(nvml_wrapper::error::nvml_try(code).map(|()| rows))
    }
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
    fn masks_of_processors_become_lists() {
        for (words, list) in [
            (&[] as &[u64], ""),
            (&[0], ""),
            (&[0xffff], "0-15"),
            (&[0b1011], "0-1,3"),
            (&[1 << 63, 1], "63-64"),
            (&[0, u64::MAX], "64-127"),
        ] {
            assert_eq!(cpu_list(words), list, "{words:?}");
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

    /// Whatever the machine: an answer or one sentence.
    #[test]
    fn a_missing_library_is_a_sentence() {
        if let Err(what) = Inventory::read() {
            assert!(what.starts_with("NVML ") && !what.contains('\n'), "{what}");
        }
    }
}
