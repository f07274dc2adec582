//! Is there NVIDIA hardware here? From device files, `/proc` and `/sys`, and from what Slurm gave the job: without any
//! library, so that a broken driver does not look like a machine without GPUs.

use std::path::Path;

use super::tree::{names, text};
use crate::env::Env;

/// What Slurm sets where it gave GPUs to a job or step, and the value that means none: in a list, 0 is a GPU's number.
const ALLOCATED: [(&str, &str); 3] = [
    ("SLURM_STEP_GPUS", ""),
    ("SLURM_JOB_GPUS", ""),
    ("SLURM_GPUS_ON_NODE", "0"),
];

/// PCI vendor of NVIDIA, and the start of the class of display and 3D controllers, as in `/sys/bus/pci/devices/*/`.
const PCI_VENDOR: &str = "0x10de";
const PCI_CLASS: &str = "0x03";

/// The evidence that this host has an NVIDIA device or that Slurm gave the job one; `None` where there is none.
/// `root` is the root of the file system.
pub fn evidence(root: &Path, env: Env) -> Option<String> {
    hardware(root).or_else(|| allocated(env))
}

/// The evidence that this host itself has an NVIDIA device.
pub fn hardware(root: &Path) -> Option<String> {
    device_file(root)
        .or_else(|| driver(root))
        .or_else(|| pci(root))
}

/// How many GPUs a job has here: those that Slurm gave it, and where Slurm knows of none, those there are.
pub fn count(root: &Path, env: Env) -> u32 {
    let given = env("SLURM_GPUS_ON_NODE").and_then(|count| count.trim().parse().ok());
    given.unwrap_or_else(|| {
        names(&root.join("dev"))
            .iter()
            .filter(|name| is_gpu(name))
            .count() as u32
    })
}

fn is_gpu(name: &str) -> bool {
    name.strip_prefix("nvidia")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn device_file(root: &Path) -> Option<String> {
    // WSL 2 shows GPUs as /dev/dxg with NVIDIA's library beside it; the library tells it from another vendor's.
    let wsl = root.join("dev/dxg").exists() && root.join("usr/lib/wsl/lib/libcuda.so.1").exists();
    let name = names(&root.join("dev"))
        .iter()
        .filter(|name| is_gpu(name))
        .min()
        .cloned();
    name.or(wsl.then(|| "dxg".to_owned()))
        .map(|name| format!("/dev/{name} exists"))
}

fn driver(root: &Path) -> Option<String> {
    let gpus = names(&root.join("proc/driver/nvidia/gpus")).len();
    (gpus > 0).then(|| format!("the NVIDIA driver lists {gpus} GPUs"))
}

fn pci(root: &Path) -> Option<String> {
    pci_gpus(root)
        .into_iter()
        .next()
        .map(|device| format!("PCI device {device} is an NVIDIA GPU"))
}

/// The addresses of NVIDIA's GPUs on the PCI bus.
pub(super) fn pci_gpus(root: &Path) -> Vec<String> {
    let devices = root.join("sys/bus/pci/devices");
    let read = |device: &str, file: &str| text(&devices.join(device).join(file));
    let is_gpu = |device: &String| {
        read(device, "vendor") == PCI_VENDOR && read(device, "class").starts_with(PCI_CLASS)
    };
    names(&devices).into_iter().filter(is_gpu).collect()
}

fn allocated(env: Env) -> Option<String> {
    ALLOCATED.iter().find_map(|(name, none)| {
        let value = env(name)?;
        let given = !["", *none].contains(&value.trim());
        given.then(|| format!("Slurm gave this job GPUs ({name}={value})"))
    })
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
}
