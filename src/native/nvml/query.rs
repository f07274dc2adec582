//! Asking NVML.

#![expect(
    unsafe_code,
    reason = "functions of NVML that the wrapper lacks are called as nvml.h declares them"
)]

use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, ComputeMode, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
    structs::device::CudaComputeCapability,
};

use super::{
    inventory::{Inventory, NvLink, NvlinkFabric, NvmlGpu, Reading, Remapped, Remote, bus_id},
    throttle::throttle_names,
};

/// The name that the driver installs. The name without a number comes with development packages
/// only.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";

/// More NVLinks than any GPU has: the limit if NVML never says that there are no more.
const MOST_LINKS: u32 = 64;

/// Words of 64 processors to ask for: Linux supports at most 8,192 processors.
const AFFINITY_WORDS: usize = 128;

pub(super) fn reading<T>(answer: Result<T, NvmlError>) -> Reading<T> {
    match answer {
        Ok(value) => Reading::of(value),
        Err(NvmlError::NotSupported) => Reading::none("not supported"),
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => {
            Reading::none("not known to this driver")
        }
        Err(error) => Reading::none(error.to_string()),
    }
}

impl Inventory {
    /// Asks NVML.
    ///
    /// # Errors
    /// Returns one sentence if the library is missing or cannot start.
    pub fn read() -> Result<Inventory, String> {
        let nvml = Nvml::builder()
            .lib_path(LIBRARY.as_ref())
            .init()
            .map_err(describe_init_error)?;
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML cannot count the GPUs: {error}"))?;
        let cuda = nvml
            .sys_cuda_driver_version()
            .map(|number| format!("{}.{}", number / 1000, number % 1000 / 10));
        Ok(Inventory {
            driver: reading(nvml.sys_driver_version()),
            cuda: reading(cuda),
            gpus: (0..count).map(|index| gpu_at(&nvml, index)).collect(),
        })
    }
}

impl Inventory {
    /// Asks NVML for what connects these GPUs. Nothing else is read of them, because that takes
    /// long with many processes.
    ///
    /// # Errors
    /// Returns one sentence if the library is missing or cannot start.
    pub fn links_of(uuids: &[String]) -> Result<Inventory, String> {
        let nvml = Nvml::builder()
            .lib_path(LIBRARY.as_ref())
            .init()
            .map_err(describe_init_error)?;
        let mut inventory = Inventory::default();
        for uuid in uuids {
            let device = nvml
                .device_by_uuid(uuid.as_str())
                .map_err(|error| format!("NVML does not know the GPU {uuid}: {error}"))?;
            inventory.gpus.push(links(&nvml, &device));
        }
        Ok(inventory)
    }
}

/// Returns the readings of a GPU that are about its links.
fn links(nvml: &Nvml, device: &Device) -> NvmlGpu {
    let (nvlinks, nvlinks_why) = nvlinks(nvml, device);
    NvmlGpu {
        bus_id: reading(device.pci_info().map(|pci| bus_id(&pci.bus_id))),
        uuid: reading(device.uuid()),
        capability: reading(device.cuda_compute_capability().map(capability)),
        nvlinks,
        nvlinks_why,
        fabric: fabric(nvml, device),
        ..NvmlGpu::default()
    }
}

fn capability(sm: CudaComputeCapability) -> u32 {
    u32::try_from(sm.major * 10 + sm.minor).unwrap_or_default()
}

pub(super) fn describe_init_error(error: NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(error) => format!("NVML ({LIBRARY}) cannot be loaded: {error}"),
        error => format!("NVML ({LIBRARY}) cannot start: {error}"),
    }
}

fn gpu_at(nvml: &Nvml, index: u32) -> NvmlGpu {
    match nvml.device_by_index(index) {
        Ok(device) => gpu(nvml, &device, index),
        // A GPU that fell off the bus is listed, and its readings hold the reason why they are
        // empty.
        Err(error) => NvmlGpu {
            index,
            bus_id: Reading::none(error.to_string()),
            ..NvmlGpu::default()
        },
    }
}

fn gpu(nvml: &Nvml, device: &Device, index: u32) -> NvmlGpu {
    let (nvlinks, nvlinks_why) = nvlinks(nvml, device);
    let memory = device.memory_info();
    NvmlGpu {
        index,
        bus_id: reading(device.pci_info().map(|pci| bus_id(&pci.bus_id))),
        uuid: reading(device.uuid()),
        name: reading(device.name()),
        capability: reading(device.cuda_compute_capability().map(capability)),
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
        ecc_uncorrected: uncorrected_errors(device, EccCounter::Volatile),
        ecc_uncorrected_ever: uncorrected_errors(device, EccCounter::Aggregate),
        remapped: remapped(nvml, device),
        pages_pending: reading(device.are_pages_pending_retired()),
        throttle: reading(
            device
                .current_throttle_reasons()
                .map(|mask| throttle(mask.bits())),
        ),
        memory_total: reading(
            memory
                .as_ref()
                .map(|memory| memory.total)
                .map_err(copy_error),
        ),
        memory_free: reading(
            memory
                .as_ref()
                .map(|memory| memory.free)
                .map_err(copy_error),
        ),
        sm_clock: reading(device.clock_info(Clock::SM)),
        sm_clock_max: reading(device.max_clock_info(Clock::SM)),
        temperature: reading(device.temperature(TemperatureSensor::Gpu)),
    }
}

fn uncorrected_errors(device: &Device, counter: EccCounter) -> Reading<u64> {
    reading(device.total_ecc_errors(MemoryError::Uncorrected, counter))
}

/// Copies an error, because NVML's type cannot be cloned. Only "not supported" is normal, so only
/// that is kept.
pub(super) fn copy_error(error: &NvmlError) -> NvmlError {
    if matches!(error, NvmlError::NotSupported) {
        NvmlError::NotSupported
    } else {
        NvmlError::Unknown
    }
}

fn throttle(mask: u64) -> Vec<String> {
    throttle_names(mask)
        .into_iter()
        .map(str::to_owned)
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

/// Returns the links up to the first number that the GPU lacks, and NVML's error for that number.
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

/// Returns the device at the other end. The wrapper's own function returns its input, so the
/// library is called here.
fn remote(nvml: &Nvml, device: &Device, link: u32) -> Remote {
    let Ok(ask) = nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref() else {
        return Remote::Unknown;
    };
    let mut kind = u32::MAX;
    // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and `kind`
    // of the type it fills.
    let code = unsafe { ask(device.handle(), link, &mut kind) };
    match (code, kind) {
        (0, 0) => Remote::Gpu,
        (0, 1) => Remote::Cpu,
        (0, 2) => Remote::Switch,
        _ => Remote::Unknown,
    }
}

/// Returns the fabric. The wrapper has no function for this.
fn fabric(nvml: &Nvml, device: &Device) -> Reading<NvlinkFabric> {
    let Ok(ask) = nvml.lib().nvmlDeviceGetGpuFabricInfo.as_ref() else {
        return Reading::none("not known to this driver");
    };
    let mut info = std::mem::MaybeUninit::zeroed();
    // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and `info`
    // is the structure that it fills, of plain numbers, for which zeros are values too.
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

/// Returns the remapped rows. The wrapper has no function for this.
fn remapped(nvml: &Nvml, device: &Device) -> Reading<Remapped> {
    let Ok(ask) = nvml.lib().nvmlDeviceGetRemappedRows.as_ref() else {
        return Reading::none("not known to this driver");
    };
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the function is NVML's of that name, the handle is of a device that lives, and each
    // number of the type it fills.
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

/// Lists the processors of a mask of 64-bit words, as Linux does: `0-15,64-79`.
fn cpu_list(words: &[u64]) -> String {
    let mut ranges = Vec::new();
    let mut cpu = 0;
    while cpu < words.len() * 64 {
        let first = cpu;
        while is_set(words, cpu) {
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

fn is_set(words: &[u64], cpu: usize) -> bool {
    match words.get(cpu / 64) {
        Some(word) => word >> (cpu % 64) & 1 == 1,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
