//! What one process reports about itself for the plan of a sweep.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{environment::settings, nvidia, rdma};
use crate::{
    env::{self, Env},
    levels::{self, conf::NcclSettings, ports::Port},
    record::Device,
    world::{placement, process_stat::ProcessStat},
};

/// The way in which the GPUs that a process sees reach each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuLink {
    /// All over NVLink: the link has atomic operations, which PCIe does not have between GPUs.
    NvLink,
    /// Some pairs over NVLink.
    PartlyNvLink,
    /// Directly, over a link that CUDA does not name.
    Unnamed,
    /// Not at all, or not all of them.
    None,
}

/// The facts of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its host, identity and visible GPUs.
    pub peer: placement::ProcessIdentity,
    /// The GPUs' names and addresses, in the order of `peer.gpus`.
    pub gpus: Vec<Device>,
    /// Their compute capabilities, in the same order: 9.0 is (9, 0).
    pub capabilities: Vec<(u32, u32)>,
    /// The evidence that this host has an NVIDIA device or the job was given one.
    pub nvidia: Option<String>,
    /// Model name of the processor.
    pub processor: String,
    /// Why CUDA lists no GPU although there is NVIDIA hardware.
    pub cuda_error: Option<String>,
    /// Versions of the driver and of CUDA.
    pub versions: BTreeMap<String, String>,
    /// Whether the environment lets two ranks share a GPU.
    pub may_share_gpu: bool,
    /// Those of NCCL's settings in force that the table of levels is about, from the environment
    /// and from files.
    pub settings: NcclSettings,
    /// The ports of the node's RDMA devices.
    pub rdma: Vec<Port>,
    /// How its GPUs reach each other; `None` if it sees fewer than two, or CUDA does not tell.
    pub gpu_link: Option<GpuLink>,
    /// Whether the driver has cuMem, which NCCL needs to connect late; `None` if that is not known.
    pub cumem: Option<bool>,
}

/// Gathers the facts of this process. CUDA is started only if `with_gpus` asks for it.
pub fn process(env: Env, with_gpus: bool) -> Process {
    let may_share_gpu = env("NCCL_MULTI_RANK_GPU_ENABLE").is_some_and(|value| value.trim() == "1");
    let mut process = Process {
        peer: placement::ProcessIdentity {
            host: placement::host_name(),
            host_id: placement::host_id(env),
            pid: std::process::id(),
            gpus: Vec::new(),
            first_gpu: env::nccl_tests(env, "NCCL_TESTS_DEVICE"),
        },
        gpus: Vec::new(),
        capabilities: Vec::new(),
        nvidia: nvidia::evidence(Path::new("/"), env),
        processor: processor(),
        cuda_error: None,
        versions: BTreeMap::new(),
        may_share_gpu,
        settings: settings().only(levels::concerns),
        rdma: rdma::ports(Path::new("/")),
        gpu_link: None,
        cumem: None,
    };
    if with_gpus {
        add_gpus(&mut process);
    }
    process
}

#[cfg(feature = "nccl")]
fn add_gpus(process: &mut Process) {
    use crate::native::cuda;

    match cuda::gpus() {
        Ok(gpus) => {
            for gpu in gpus {
                process.peer.gpus.push(gpu.uuid.clone());
                process.capabilities.push(gpu.capability);
                process.gpus.push(Device {
                    index: gpu.ordinal as u32,
                    bus: gpu.bus,
                    name: gpu.name,
                    uuid: gpu.uuid,
                });
            }
        }
        Err(error) => process.cuda_error = Some(format!("{error:#}")),
    }
    process.versions = cuda::versions();
    process.gpu_link = cuda::peer_links().map(|links| {
        if links.iter().all(|link| link.atomics) {
            GpuLink::NvLink
        } else if links.iter().any(|link| link.atomics) {
            GpuLink::PartlyNvLink
        } else if links.iter().all(|link| link.access) {
            GpuLink::Unnamed
        } else {
            GpuLink::None
        }
    });
    process.cumem = cuda::has_cumem();
}

#[cfg(not(feature = "nccl"))]
fn add_gpus(process: &mut Process) {
    process.cuda_error = Some("this binary is built without the feature nccl".into());
}

/// Returns the seconds since this process was started, launching included; `None` if `/proc` does
/// not tell.
pub fn process_age_s() -> Option<f64> {
    let ticks = ProcessStat::of(std::process::id())?.started()? as f64;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    // A tick is 1/100 s.
    let age = uptime - ticks / 100.0;
    // In some containers the two come from different clocks.
    let is_plausible = age >= 0.0;
    is_plausible.then(|| (age * 100.0).round() / 100.0)
}

/// Returns the bytes of memory that this process has resident; `None` if `/proc` does not tell.
pub fn resident_memory() -> Option<u64> {
    // The same number is in /proc/self/statm, in pages of a size that is not there.
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Returns the model name of this host's processor, for the device line of a run on host memory.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for line in info.lines() {
        if let Some(rest) = line.strip_prefix("model name")
            && let Some((_, name)) = rest.split_once(':')
        {
            return name.trim().to_owned();
        }
    }
    std::env::consts::ARCH.to_owned()
}
