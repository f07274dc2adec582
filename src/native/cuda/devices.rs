//! The GPUs that this process sees.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_int},
    path::Path,
};

use super::{
    driver::{CudaVersion, Driver, call, failure, library},
    kernel_driver::kernel_driver,
    start::{NO_DEVICE, driver, explain_start},
};
use crate::units::Bytes;

/// Attributes of a device, `CU_DEVICE_ATTRIBUTE_…`.
const PCI_BUS_ID: c_int = 33;
const PCI_DEVICE_ID: c_int = 34;
const PCI_DOMAIN_ID: c_int = 50;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;

/// Attributes of a pair of devices, `CU_DEVICE_P2P_ATTRIBUTE_…`.
const ACCESS_SUPPORTED: c_int = 2;
const NATIVE_ATOMIC_SUPPORTED: c_int = 3;

/// The first CUDA with whose driver NCCL uses cuMem.
const CUMEM_SINCE: CudaVersion = CudaVersion(12_000);

/// A GPU, or a part of one, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaGpu {
    /// CUDA's number of it in this process.
    pub ordinal: usize,
    /// The model: `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// The UUID as nvidia-smi prints it: `GPU-…`, or `MIG-…` for a part of a GPU.
    pub uuid: String,
    /// The PCI address as nccl-tests prints it: `0000:18:00`.
    pub bus: String,
    /// The total memory.
    pub memory: Bytes,
    /// The compute capability: 9.0 is (9, 0).
    pub capability: (u32, u32),
}

/// Returns the GPUs that this process sees, by ordinal.
///
/// # Errors
/// Returns an error that says what to do if there is no driver, it does not start, or there is no
/// GPU.
#[doc(alias = "cuInit")]
pub fn gpus() -> anyhow::Result<Vec<CudaGpu>> {
    let driver = driver()?;
    let count = driver.count()?;
    if count == 0 {
        return Err(failure(explain_start(driver, NO_DEVICE)));
    }
    (0..count).map(|ordinal| driver.gpu(ordinal)).collect()
}

/// Returns the installed versions: `driver`, of the kernel's driver, and `cuda`, the newest CUDA
/// that libcuda supports. A version that cannot be read is absent. Starts nothing.
pub fn versions() -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    if let Some(version) = kernel_driver(Path::new("/")) {
        versions.insert("driver".to_owned(), version);
    }
    if let Some(version) = library().and_then(|driver| driver.version().ok()) {
        versions.insert("cuda".to_owned(), version.to_string());
    }
    versions
}

/// The link by which one GPU reaches the memory of another, according to CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// Whether it can at all.
    pub access: bool,
    /// Whether it can with atomic operations: over NVLink it can, over PCIe it cannot.
    pub atomics: bool,
}

/// Returns how each GPU that this process sees reaches each other one; `None` if there are fewer
/// than two, or the driver does not tell.
#[doc(alias = "cuDeviceGetP2PAttribute")]
pub fn peer_links() -> Option<Vec<PeerLink>> {
    let driver = driver().ok()?;
    let count = driver.count().ok()?;
    if count < 2 {
        return None;
    }
    let mut links = Vec::new();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            links.push(driver.peer_link(from, to).ok()?);
        }
    }
    Some(links)
}

/// Returns whether NCCL can use cuMem here, as far as driver and GPUs allow it; `None` if the
/// driver does not tell.
#[doc(alias = "cuMemCreate")]
pub fn has_cumem() -> Option<bool> {
    let driver = driver().ok()?;
    let mut has_cumem = driver.version().ok()? >= CUMEM_SINCE;
    for ordinal in 0..driver.count().ok()? {
        has_cumem &= driver.has_virtual_memory(ordinal).ok()?;
    }
    Some(has_cumem)
}

/// Writes a UUID as nvidia-smi does. A part of a GPU has a UUID of its own beside that of the
/// whole.
fn uuid_text(own: &[u8; 16], whole: Option<&[u8; 16]>) -> String {
    let kind = if whole.is_none_or(|whole| whole == own) {
        "GPU"
    } else {
        "MIG"
    };
    let hex: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{kind}-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Properties of devices. Nothing is changed.
impl Driver {
    /// Returns the number of GPUs that this process sees.
    pub(super) fn count(&self) -> anyhow::Result<c_int> {
        let mut count = 0;
        call!(self, device_get_count(&mut count))?;
        Ok(count)
    }

    pub(super) fn device(&self, ordinal: c_int) -> anyhow::Result<c_int> {
        let mut device = 0;
        call!(self, device_get(&mut device, ordinal))?;
        Ok(device)
    }

    fn attribute(&self, attribute: c_int, device: c_int) -> anyhow::Result<u32> {
        let mut value = 0;
        call!(self, device_get_attribute(&mut value, attribute, device))?;
        Ok(value as u32)
    }

    fn gpu(&self, ordinal: c_int) -> anyhow::Result<CudaGpu> {
        let device = self.device(ordinal)?;
        let name = self.gpu_name(device)?;
        let mut memory = 0;
        call!(self, device_total_mem(&mut memory, device))?;
        let domain = self.attribute(PCI_DOMAIN_ID, device)?;
        let bus = self.attribute(PCI_BUS_ID, device)?;
        let slot = self.attribute(PCI_DEVICE_ID, device)?;
        let uuid = self.uuid(device)?;
        let major = self.attribute(COMPUTE_CAPABILITY_MAJOR, device)?;
        let minor = self.attribute(COMPUTE_CAPABILITY_MINOR, device)?;
        Ok(CudaGpu {
            ordinal: ordinal as usize,
            name,
            uuid,
            bus: format!("{domain:04x}:{bus:02x}:{slot:02x}"),
            memory: Bytes(memory as u64),
            capability: (major, minor),
        })
    }

    fn gpu_name(&self, device: c_int) -> anyhow::Result<String> {
        let mut name = [0_u8; 256];
        let room = name.len() as c_int - 1;
        call!(
            self,
            device_get_name(name.as_mut_ptr().cast(), room, device)
        )?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    fn peer_link(&self, from: c_int, to: c_int) -> anyhow::Result<PeerLink> {
        let from = self.device(from)?;
        let to = self.device(to)?;
        Ok(PeerLink {
            access: self.peer_attribute(ACCESS_SUPPORTED, from, to)?,
            atomics: self.peer_attribute(NATIVE_ATOMIC_SUPPORTED, from, to)?,
        })
    }

    fn peer_attribute(&self, attribute: c_int, from: c_int, to: c_int) -> anyhow::Result<bool> {
        let mut value = 0;
        call!(
            self,
            device_get_p2p_attribute(&mut value, attribute, from, to)
        )?;
        Ok(value != 0)
    }

    fn has_virtual_memory(&self, ordinal: c_int) -> anyhow::Result<bool> {
        let device = self.device(ordinal)?;
        let value = self.attribute(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)?;
        Ok(value != 0)
    }

    /// Returns the UUID of a device. The first version of the function returns that of the whole
    /// GPU, the second that of the part.
    #[doc(alias = "cuDeviceGetUuid")]
    fn uuid(&self, device: c_int) -> anyhow::Result<String> {
        match (self.whole_uuid(device), self.own_uuid(device)) {
            (Ok(whole), Ok(own)) => Ok(uuid_text(&own, Some(&whole))),
            (Err(_), Ok(own)) => Ok(uuid_text(&own, None)),
            (Ok(whole), Err(_)) => Ok(uuid_text(&whole, None)),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn whole_uuid(&self, device: c_int) -> anyhow::Result<[u8; 16]> {
        let mut uuid = [0; 16];
        call!(self, device_get_uuid(&mut uuid, device))?;
        Ok(uuid)
    }

    fn own_uuid(&self, device: c_int) -> anyhow::Result<[u8; 16]> {
        let mut uuid = [0; 16];
        call!(self, device_get_uuid_v2(&mut uuid, device))?;
        Ok(uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Code, code_of};

    #[test]
    fn uuids_are_printed_as_nvidia_smi_does() {
        let uuid: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(
            uuid_text(&uuid, Some(&uuid)),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
        assert_eq!(
            uuid_text(&uuid, None),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
        assert_eq!(
            uuid_text(&uuid, Some(&[0; 16])),
            "MIG-00112233-4455-6677-8899-aabbccddeeff"
        );
    }

    #[test]
    fn what_is_missing_is_said_and_nothing_panics() {
        // True on a machine with a GPU as on one without.
        match gpus() {
            Ok(gpus) => assert!(gpus.iter().enumerate().all(|(at, gpu)| gpu.ordinal == at)),
            Err(error) => assert_eq!(code_of(&error), Code::Cuda),
        }
        versions();
    }
}
