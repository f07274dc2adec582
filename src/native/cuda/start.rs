//! Starting the driver, and why it does not start.

use std::{
    ffi::c_int,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::{
    driver::{Driver, SUCCESS, failure, library},
    kernel_driver::kernel_driver,
};
use crate::env;

/// `CUDA_ERROR_NO_DEVICE`.
pub(super) const NO_DEVICE: c_int = 100;

/// Returns the driver, which the first call initialises.
///
/// # Errors
/// Returns an error that says what to do if there is no driver, or it does not start.
pub fn driver() -> anyhow::Result<&'static Driver> {
    static STARTED: OnceLock<Result<&'static Driver, String>> = OnceLock::new();
    STARTED.get_or_init(start).clone().map_err(failure)
}

fn start() -> Result<&'static Driver, String> {
    let driver = library().ok_or(
        "there is no libcuda.so.1, the NVIDIA driver's library: this node has no NVIDIA driver, \
         or the container was started without it (Apptainer: --nv; Enroot, Docker: the NVIDIA \
         container toolkit)",
    )?;
    // SAFETY: cuInit takes the flags 0 and nothing else.
    let result = driver.symbols.init.get().map(|init| unsafe { init(0) });
    match result {
        Ok(SUCCESS) => Ok(driver),
        Ok(code) => Err(explain_start(driver, code)),
        Err(missing) => Err(format!(
            "libcuda has no {}: its file is not NVIDIA's driver",
            missing.name
        )),
    }
}

/// What the failure of cuInit is explained from.
struct StartFacts {
    /// The value of `CUDA_VISIBLE_DEVICES`.
    visible: Option<String>,
    /// The version of the kernel's driver.
    kernel: Option<String>,
    /// The file of libcuda.
    file: Option<PathBuf>,
}

/// Explains why the driver does not start if cuInit returned `code`.
pub(super) fn explain_start(driver: &Driver, code: c_int) -> String {
    let facts = StartFacts {
        visible: env::var("CUDA_VISIBLE_DEVICES"),
        kernel: kernel_driver(Path::new("/")),
        file: driver.file(),
    };
    describe_start_failure(code, &driver.name_of(code), &facts)
}

/// Returns the sentence for a cuInit that returned `code`: what is wrong, and what to do.
fn describe_start_failure(code: c_int, name: &str, facts: &StartFacts) -> String {
    let kernel = facts.kernel.as_deref().unwrap_or("unknown");
    let file = facts
        .file
        .as_ref()
        .map_or("libcuda".into(), |file| file.display().to_string());
    let why = match (code, facts.visible.as_deref()) {
        (NO_DEVICE, Some(visible)) => format!(
            "CUDA_VISIBLE_DEVICES={visible} shows no GPU of this node. Unset it, or ask Slurm for \
             GPUs (--gpus-per-node=N)"
        ),
        (NO_DEVICE, None) => "this node has no GPU, or the job was given none. Ask Slurm for GPUs \
                              (--gpus-per-node=N), and see what nvidia-smi -L shows"
            .into(),
        (101, Some(visible)) => {
            format!(
                "CUDA_VISIBLE_DEVICES={visible} names a GPU that is not there. Correct or unset it"
            )
        }
        (34, _) => format!(
            "{file} is a stub that is only good for linking; take its directory (it often ends in \
             /stubs) out of LD_LIBRARY_PATH"
        ),
        (802, _) => "the GPUs of this node are not ready: on machines with NVSwitch, \
                     nvidia-fabricmanager must run; have it started, or drain the node"
            .into(),
        (803, _) => format!(
            "{file} and the kernel's driver ({kernel}) are of different versions: reboot the node \
             after a driver update; in a container, use the host's libcuda"
        ),
        (804, _) => format!(
            "{file} is CUDA's forward compatibility package, which this GPU or driver ({kernel}) \
             does not support; take its directory (it often ends in /compat) out of \
             LD_LIBRARY_PATH"
        ),
        (304 | 999, _) => format!(
            "the kernel's driver ({kernel}) does not respond. Check that /dev/nvidia-uvm exists \
             (nvidia-modprobe -u -c 0) and that the job may open /dev/nvidia*, and look for Xid \
             in dmesg"
        ),
        _ => {
            format!(
                "see whether nvidia-smi works on this node (kernel's driver: {kernel}), and look \
                 for Xid in dmesg"
            )
        }
    };
    format!("CUDA does not start: {name} (code {code}): {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_does_not_start_is_explained() {
        let facts = |visible: Option<&str>| StartFacts {
            visible: visible.map(str::to_owned),
            kernel: Some("550.1".into()),
            file: Some("/opt/cuda/lib64/stubs/libcuda.so".into()),
        };
        let why = |code, visible| describe_start_failure(code, "NAME", &facts(visible));
        for (code, visible, part) in [
            (100, Some(""), "CUDA_VISIBLE_DEVICES= shows no GPU"),
            (100, Some("7"), "CUDA_VISIBLE_DEVICES=7 shows no GPU"),
            (100, None, "--gpus-per-node=N"),
            (
                101,
                Some("GPU-1"),
                "CUDA_VISIBLE_DEVICES=GPU-1 names a GPU that is not there",
            ),
            (34, None, "/opt/cuda/lib64/stubs/libcuda.so is a stub"),
            (802, None, "nvidia-fabricmanager"),
            (
                803,
                None,
                "the kernel's driver (550.1) are of different versions",
            ),
            (804, None, "forward compatibility"),
            (999, None, "/dev/nvidia-uvm"),
            (46, None, "nvidia-smi"),
        ] {
            let sentence = why(code, visible);
            assert!(
                sentence.starts_with(&format!("CUDA does not start: NAME (code {code}): ")),
                "{sentence}"
            );
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}
