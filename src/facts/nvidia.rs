//! Whether there is NVIDIA hardware, from device files, `/proc` and `/sys`, and from what Slurm
//! gave the job: without any library, so that a broken driver does not look like a machine without
//! GPUs.

use std::path::Path;

use super::tree::{names, reading, text};
use crate::{env::Env, native::nvml::Reading, units::counted};

/// Lists of the GPUs that Slurm gave to a step or job: a 0 in them is the index of a GPU.
const GPU_LISTS: [&str; 2] = ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS"];

/// The number of GPUs that Slurm gave to a job on this node.
const GPU_COUNT: &str = "SLURM_GPUS_ON_NODE";

/// What a job requested: `8`, `h100:8`, `cpu=4,gres/gpu=1`.
const GPU_REQUESTS: [&str; 4] = [
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
];

/// The GPUs that a job is confined to.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// NVIDIA's PCI vendor id, and the prefix of the class of display and 3D controllers, as in
/// `/sys/bus/pci/devices/*/`.
const PCI_VENDOR: &str = "0x10de";
const PCI_CLASS: &str = "0x03";

/// The device file of the GPUs in WSL 2.
const WSL_DEVICE: &str = "dev/dxg";

/// Returns the evidence that this host has an NVIDIA device or that Slurm gave the job one. `root`
/// is the root of the file system.
pub fn evidence(root: &Path, env: Env) -> Option<String> {
    hardware(root).or_else(|| allocated(env))
}

/// Returns the evidence that this host itself has an NVIDIA device.
pub fn hardware(root: &Path) -> Option<String> {
    device_file(root)
        .or_else(|| driver_gpus(root))
        .or_else(|| pci_device(root))
}

/// Returns how many GPUs a job has here: as many as Slurm gave it, or if Slurm does not say, as
/// many as there are.
pub fn count(root: &Path, env: Env) -> u32 {
    let given = env(GPU_COUNT).and_then(|count| count.trim().parse().ok());
    given.unwrap_or_else(|| gpu_files(root).len() as u32)
}

/// Returns the names of the device files through which programs use GPUs, such as `nvidia0`.
pub(super) fn device_files(root: &Path) -> Vec<String> {
    let mut files = gpu_files(root);
    if root.join(WSL_DEVICE).exists() {
        files.push("dxg".into());
    }
    files
}

/// Returns how many GPUs CUDA_VISIBLE_DEVICES shows: CUDA stops at the first of its names that is
/// none. `None` if it is not set, so that all are shown.
pub fn visible(env: Env) -> Option<u32> {
    let list = env(VISIBLE)?;
    let shown = list.split(',').take_while(|name| names_gpus(name));
    Some(shown.count() as u32)
}

/// Returns the names of the GPUs' device files, such as `nvidia0`.
fn gpu_files(root: &Path) -> Vec<String> {
    let mut files = names(&root.join("dev"));
    files.retain(|name| {
        let index = name.strip_prefix("nvidia").unwrap_or_default();
        !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())
    });
    files
}

fn device_file(root: &Path) -> Option<String> {
    if let Some(name) = gpu_files(root).iter().min() {
        return Some(format!("/dev/{name} exists"));
    }
    // WSL 2 shows the GPUs of any vendor as /dev/dxg; NVIDIA's library beside it tells whose they
    // are.
    let has_device = root.join(WSL_DEVICE).exists();
    let has_library = root.join("usr/lib/wsl/lib/libcuda.so.1").exists();
    (has_device && has_library).then(|| "/dev/dxg exists".to_owned())
}

fn driver_gpus(root: &Path) -> Option<String> {
    let gpus = names(&root.join("proc/driver/nvidia/gpus")).len();
    (gpus > 0).then(|| format!("the NVIDIA driver lists {}", counted(gpus, "GPU")))
}

fn pci_device(root: &Path) -> Option<String> {
    let gpus = pci_gpus(root);
    let device = gpus.first()?;
    Some(format!("PCI device {device} is an NVIDIA GPU"))
}

/// Returns the addresses of NVIDIA's GPUs on the PCI bus.
pub(super) fn pci_gpus(root: &Path) -> Vec<String> {
    let devices = root.join("sys/bus/pci/devices");
    let mut addresses = names(&devices);
    addresses.retain(|address| {
        let vendor = text(&devices.join(address).join("vendor"));
        let class = text(&devices.join(address).join("class"));
        vendor == PCI_VENDOR && class.starts_with(PCI_CLASS)
    });
    addresses
}

/// Returns the evidence that Slurm gave GPUs to this job or step.
fn allocated(env: Env) -> Option<String> {
    for name in [GPU_LISTS[0], GPU_LISTS[1], GPU_COUNT] {
        let value = env(name).unwrap_or_default();
        let is_none = match value.trim() {
            "" => true,
            "0" => name == GPU_COUNT,
            _ => false,
        };
        if !is_none {
            return Some(format!("Slurm gave this job GPUs ({name}={value})"));
        }
    }
    // Where Slurm tells how many there are on this node, that is the answer.
    if env(GPU_COUNT).is_some() || env("SLURM_JOB_ID").is_none() {
        return None;
    }
    for name in GPU_REQUESTS {
        let value = env(name).unwrap_or_default();
        if requests_gpus(name, &value) {
            return Some(format!("this job asked Slurm for GPUs ({name}={value})"));
        }
    }
    let visible = env(VISIBLE).filter(|visible| names_gpus(visible))?;
    Some(format!("this job has GPUs ({VISIBLE}={visible})"))
}

fn requests_gpus(name: &str, value: &str) -> bool {
    let mut parts = value.split(',').filter(|part| {
        let is_of_gpus = part.contains("gpu");
        is_of_gpus || !name.contains("TRES")
    });
    parts.any(|part| {
        let number = part.rsplit([':', '=']).next().unwrap_or_default();
        number.trim().parse().is_ok_and(|count: u32| count > 0)
    })
}

/// Returns whether a value of CUDA_VISIBLE_DEVICES shows a GPU. Slurm writes `NoDevFiles` where it
/// gave none.
fn names_gpus(visible: &str) -> bool {
    let first = visible.split(',').next().unwrap_or_default().trim();
    let is_number = first.parse::<u32>().is_ok();
    is_number || first.starts_with("GPU-") || first.starts_with("MIG-")
}

/// The driver's version file, which names the kind of its kernel modules too.
const VERSION_FILE: &str = "proc/driver/nvidia/version";

/// Reads the driver's version, as in
/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …`.
pub(super) fn driver_version(root: &Path) -> Reading<String> {
    reading(root, VERSION_FILE).and(|text| {
        let first_line = text.lines().next().unwrap_or_default();
        match first_line.split_whitespace().find(|word| is_version(word)) {
            Some(version) => Ok(version.to_owned()),
            None => Err("/proc/driver/nvidia/version names no version".into()),
        }
    })
}

fn is_version(word: &str) -> bool {
    word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Reads whether the driver's kernel modules are the open ones.
pub(super) fn has_open_modules(root: &Path) -> Reading<bool> {
    reading(root, VERSION_FILE).and(|text| Ok(text.contains("Open Kernel Module")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn evidence_is_found_in_each_place() {
        let root = tempfile::tempdir().expect("a folder");
        let none = |_: &str| None;
        assert_eq!(evidence(root.path(), &none), None);

        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        make("dev/nvidiactl", "");
        make("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
        make("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
        assert_eq!(
            evidence(root.path(), &none),
            None,
            "neither nvidiactl nor another vendor's GPU is one"
        );

        make("sys/bus/pci/devices/0000:18:00.0/vendor", "0x10de\n");
        make("sys/bus/pci/devices/0000:18:00.0/class", "0x030200\n");
        assert_eq!(
            evidence(root.path(), &none).as_deref(),
            Some("PCI device 0000:18:00.0 is an NVIDIA GPU")
        );
        make("proc/driver/nvidia/gpus/0000:18:00.0/information", "");
        assert!(
            evidence(root.path(), &none)
                .expect("some")
                .contains("lists 1 GPU")
        );
        assert_eq!(count(root.path(), &none), 0);
        make("dev/nvidia0", "");
        assert_eq!(count(root.path(), &none), 1);
        assert_eq!(
            count(root.path(), &|name| (name == "SLURM_GPUS_ON_NODE")
                .then(|| "4".into())),
            4
        );
        assert_eq!(
            evidence(root.path(), &none).as_deref(),
            Some("/dev/nvidia0 exists")
        );
    }

    #[test]
    fn visible_devices_are_counted_up_to_the_first_that_is_none() {
        let seen = |value: Option<&str>| {
            visible(&|name| value.filter(|_| name == VISIBLE).map(str::to_owned))
        };
        assert_eq!(seen(None), None);
        for (value, gpus) in [
            ("0,1, 2", 3),
            ("GPU-5d5d,GPU-6e6e", 2),
            ("0,-1,2", 1),
            ("", 0),
            ("NoDevFiles", 0),
        ] {
            assert_eq!(seen(Some(value)), Some(gpus), "{value}");
        }
    }

    #[test]
    fn what_slurm_gave_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let with = |name: &'static str, value: &'static str| {
            move |n: &str| (n == name).then(|| value.to_owned())
        };
        // In the lists a 0 is the GPU of that number; in the count it is none.
        for (name, value, given) in [
            ("SLURM_JOB_GPUS", "0", true),
            ("SLURM_STEP_GPUS", "0,1", true),
            ("SLURM_GPUS_ON_NODE", "0", false),
            ("SLURM_GPUS_ON_NODE", "8", true),
            ("SLURM_JOB_GPUS", "", false),
        ] {
            assert_eq!(
                evidence(root.path(), &with(name, value)).is_some(),
                given,
                "{name}={value}"
            );
        }
    }

    #[test]
    fn what_a_job_asked_for_counts_if_slurm_does_not_say_what_it_got() {
        let root = tempfile::tempdir().expect("a folder");
        let given = |variables: &[(&str, &str)]| {
            let env = |name: &str| {
                let mut variables = variables.iter();
                let variable = variables.find(|(known, _)| *known == name)?;
                Some(variable.1.to_owned())
            };
            evidence(root.path(), &env).is_some()
        };
        let job = ("SLURM_JOB_ID", "7");
        for (name, value, expected) in [
            ("SLURM_GPUS_PER_NODE", "h100:8", true),
            ("SLURM_GPUS_PER_NODE", "0", false),
            ("SLURM_GPUS", "16", true),
            ("SLURM_GPUS_PER_TASK", "a100:1", true),
            ("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu=1", true),
            ("SLURM_TRES_PER_TASK", "cpu=4", false),
            ("CUDA_VISIBLE_DEVICES", "0,1", true),
            ("CUDA_VISIBLE_DEVICES", "GPU-5d5d", true),
            ("CUDA_VISIBLE_DEVICES", "", false),
            ("CUDA_VISIBLE_DEVICES", "NoDevFiles", false),
            ("CUDA_VISIBLE_DEVICES", "-1", false),
        ] {
            let variable = (name, value);
            assert_eq!(given(&[job, variable]), expected, "{name}={value}");
            assert!(!given(&[variable]), "no job: {name}={value}");
            let none = ("SLURM_GPUS_ON_NODE", "0");
            assert!(!given(&[job, variable, none]), "{name}={value}");
        }
    }
}
