//! What this job runs on, gathered once: each process says it of itself, and the sweep is planned from what all said.

mod acs;
pub mod audit;
mod container;
pub mod fabric;
pub mod health;
pub mod iommu;
pub mod logind;
pub mod memory;
pub mod nvidia;
mod plugins;
pub mod rdma;
pub(crate) mod slurm;
pub mod topology;
mod tree;

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    env::{self, Env},
    levels::{
        conf::{self, NcclSettings},
        ports::Port,
    },
    world::placement,
};

/// Names that are recorded beside `NCCL_*`: they change what is measured, and hold no secret.
const RECORDED: [&str; 8] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "LD_LIBRARY_PATH",
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_ID",
    "UCX_TLS",
];

/// How the GPUs that a process sees reach each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuLink {
    /// All over NVLink: the link has atomic operations, which PCIe has not between GPUs.
    NvLink,
    /// Some pairs over NVLink.
    PartlyNvLink,
    /// Directly, over a link that CUDA does not name.
    Unnamed,
    /// Not at all, or not all of them.
    None,
}

/// What one process says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Host, identity, GPUs it can see.
    pub peer: placement::ProcessIdentity,
    /// The GPUs' names and addresses, in the order of `peer.gpus`.
    pub gpus: Vec<crate::record::Device>,
    /// Their compute capabilities, in the same order: 9.0 is (9, 0).
    pub capabilities: Vec<(u32, u32)>,
    /// Is there an NVIDIA device on this host, or one given to the job? The evidence, or `None`.
    pub nvidia: Option<String>,
    /// Model name of the processor.
    pub processor: String,
    /// Why CUDA shows no GPU, where there is NVIDIA hardware but it shows none.
    pub cuda_error: Option<String>,
    /// Versions of the driver and of CUDA.
    pub versions: BTreeMap<String, String>,
    /// Does the environment let two ranks share a GPU?
    pub may_share_gpu: bool,
    /// The settings of NCCL in force that the table of levels is about, from the environment and from files.
    pub settings: NcclSettings,
    /// The ports of the node's RDMA devices.
    pub rdma: Vec<Port>,
    /// How its GPUs reach each other; `None` where it sees fewer than two, or CUDA does not tell.
    pub gpu_link: Option<GpuLink>,
    /// Has the driver cuMem, which NCCL connects later with? `None` where that is not known.
    pub cumem: Option<bool>,
}

/// Gathers what this process can say of itself. CUDA is started only where `with_gpus` asks for it and there is NVIDIA
/// hardware.
pub fn process(env: Env, with_gpus: bool) -> Process {
    let nvidia = nvidia::evidence(std::path::Path::new("/"), env);
    let mut process = Process {
        peer: placement::ProcessIdentity {
            host: placement::host_name(),
            host_id: placement::host_id(env),
            pid: std::process::id(),
            gpus: Vec::new(),
            first_gpu: env("NCCL_TESTS_DEVICE"),
        },
        gpus: Vec::new(),
        capabilities: Vec::new(),
        nvidia,
        processor: processor(),
        cuda_error: None,
        versions: BTreeMap::new(),
        may_share_gpu: env("NCCL_MULTI_RANK_GPU_ENABLE").is_some_and(|value| value.trim() == "1"),
        settings: settings().only(crate::levels::concerns),
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
    match crate::native::cuda::gpus() {
        Ok(gpus) => {
            process.peer.gpus = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
            process.capabilities = gpus.iter().map(|gpu| gpu.capability).collect();
            process.gpus = gpus
                .into_iter()
                .map(|gpu| crate::record::Device {
                    index: gpu.ordinal as u32,
                    bus: gpu.bus,
                    name: gpu.name,
                    uuid: gpu.uuid,
                })
                .collect();
        }
        Err(error) => process.cuda_error = Some(format!("{error:#}")),
    }
    process.versions = crate::native::cuda::versions();
    process.gpu_link = crate::native::cuda::peer_links().map(|links| match links {
        _ if links.iter().all(|link| link.atomics) => GpuLink::NvLink,
        _ if links.iter().any(|link| link.atomics) => GpuLink::PartlyNvLink,
        _ if links.iter().all(|link| link.access) => GpuLink::Unnamed,
        _ => GpuLink::None,
    });
    process.cumem = crate::native::cuda::has_cumem();
}

#[cfg(not(feature = "nccl"))]
fn add_gpus(process: &mut Process) {
    process.cuda_error = Some("this binary is built without the feature nccl".into());
}

/// NCCL's settings in force on this process: from the environment, and from the files that NCCL reads.
pub fn settings() -> NcclSettings {
    settings_with(&conf_files(Path::new("/")))
}

/// As [`settings`], with the files read already.
pub fn settings_with(files: &[(String, String)]) -> NcclSettings {
    NcclSettings::new(
        environment(),
        files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str())),
    )
}

/// Names and texts of the files under `root` that NCCL reads, in the order in which they win; those that can be read.
pub fn conf_files(root: &Path) -> Vec<(String, String)> {
    let files = conf::files(&env::var);
    let text = |file: String| {
        let text = std::fs::read(root.join(file.trim_start_matches('/'))).ok()?;
        Some((file, String::from_utf8_lossy(&text).into_owned()))
    };
    files.into_iter().filter_map(text).collect()
}

/// The recorded part of the environment: `NCCL_*` and `RECORDED`, nothing else, so that no secret leaves.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(|(name, _)| name.starts_with("NCCL_") || RECORDED.contains(&name.as_str()))
        .collect()
}

/// Seconds since this process was started, launching included; `None` where `/proc` does not tell.
pub fn process_age_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let uptime: f64 = std::fs::read_to_string("/proc/uptime")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    // The name in parentheses may hold spaces; the start time is the 20th field after it, in ticks of 1/100 s.
    let ticks: f64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    // In some containers the two clocks are not the same one.
    let age = uptime - ticks / 100.0;
    (age >= 0.0).then(|| (age * 100.0).round() / 100.0)
}

/// The model name of this host's processor, for the device line of a run on host memory.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| {
        line.strip_prefix("model name")?
            .split_once(':')
            .map(|(_, name)| name.trim())
    });
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}
