//! [`Machine`]: the GPUs of this machine that a virtual node has, and the plugin that plays its
//! NICs.

use std::path::PathBuf;

use crate::{
    env,
    exit::{Code, Failure},
    native::{
        nvml::{Inventory, NvmlGpu},
        rail_plugin,
    },
    units::counted,
};

/// The GPUs that a rehearsal needs at least: PXN relays through another GPU of the node.
const FEWEST_GPUS: usize = 2;

/// The GPUs of a virtual node, which all virtual nodes share, and the plugin.
#[derive(Debug)]
pub(super) struct Machine {
    /// The value of CUDA_VISIBLE_DEVICES that shows these GPUs alone, in the order of their PCI
    /// addresses.
    pub(super) visible: String,
    /// Their PCI addresses.
    pub(super) bus_ids: Vec<String>,
    /// Their model.
    pub(super) device: String,
    /// The plugin's file.
    pub(super) plugin: PathBuf,
}

impl Machine {
    /// Finds so many GPUs, and the plugin.
    ///
    /// # Errors
    /// Returns an error if there are too few, or if the plugin is missing.
    pub(super) fn find(count: usize) -> anyhow::Result<Machine> {
        let needed = count.max(FEWEST_GPUS);
        let begins = format!("a rehearsal needs {needed} GPUs of this machine, but");
        let inventory = Inventory::read().map_err(|why| {
            let why = why.trim_end_matches('.');
            nothing_ran(&format!("{begins} NVML cannot list them: {why}"))
        })?;
        let visible = env::var("CUDA_VISIBLE_DEVICES");
        let gpus = shown(&inventory.gpus, visible.as_deref()).map_err(|why| nothing_ran(&why))?;
        if gpus.len() < needed {
            let found = counted(gpus.len() as u64, "GPU");
            return Err(nothing_ran(&format!("{begins} only {found} can be used")));
        }
        let gpus = &gpus[..count];
        let bus_ids: anyhow::Result<Vec<String>> = gpus.iter().map(|gpu| bus_id(gpu)).collect();
        let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
        Ok(Machine {
            visible: indices.join(","),
            bus_ids: bus_ids?,
            device: gpus[0].name.value.clone().unwrap_or_default(),
            plugin: rail_plugin::find(&std::env::current_exe()?)?,
        })
    }
}

/// Returns the error of a machine on which NCCL cannot be rehearsed.
fn nothing_ran(why: &str) -> anyhow::Error {
    let what = format!(
        "{why}. pxnbench rehearse --theory derives relays and bytes from NCCL's rules on any \
         machine, and --from shows a recorded rehearsal"
    );
    Failure::on_all_ranks(Code::NothingRan, what)
}

fn bus_id(gpu: &NvmlGpu) -> anyhow::Result<String> {
    let known = gpu.bus_id.value.clone();
    known.ok_or_else(|| {
        let why = &gpu.bus_id.why;
        nothing_ran(&format!(
            "the PCI address of GPU {} is unknown: {why}",
            gpu.index
        ))
    })
}

/// Returns the GPUs that CUDA_VISIBLE_DEVICES shows, in the order of their PCI addresses, which is
/// NVML's.
fn shown<'a>(all: &'a [NvmlGpu], visible: Option<&str>) -> Result<Vec<&'a NvmlGpu>, String> {
    let Some(visible) = visible else {
        return Ok(all.iter().collect());
    };
    let mut shown: Vec<&NvmlGpu> = Vec::new();
    for name in visible.split(',').map(str::trim) {
        if name.is_empty() || name == "-1" || name == "NoDevFiles" {
            break;
        }
        let is_named = |gpu: &&NvmlGpu| match name.parse::<u32>() {
            Ok(index) => gpu.index == index,
            Err(_) => {
                let uuid = gpu.uuid.value.as_deref().unwrap_or_default();
                uuid.starts_with(name)
            }
        };
        let gpu = all.iter().find(is_named).ok_or_else(|| {
            format!(
                "CUDA_VISIBLE_DEVICES={visible} names {name}, which is no whole GPU of this \
                 machine"
            )
        })?;
        if !shown.iter().any(|other| other.index == gpu.index) {
            shown.push(gpu);
        }
    }
    shown.sort_by_key(|gpu| gpu.index);
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::nvml::Reading;

    #[test]
    fn gpus_are_those_that_cuda_is_to_show() {
        let gpu = |index: u32| NvmlGpu {
            index,
            uuid: Reading::of(format!("GPU-{index}{index}")),
            ..NvmlGpu::default()
        };
        let all: Vec<NvmlGpu> = (0..4).map(gpu).collect();
        let indices = |visible: Option<&str>| {
            let gpus = shown(&all, visible).expect("GPUs");
            gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>()
        };
        assert_eq!(indices(None), [0, 1, 2, 3]);
        assert_eq!(indices(Some("3,1")), [1, 3]);
        assert_eq!(indices(Some("GPU-22,GPU-0")), [0, 2]);
        assert_eq!(indices(Some("2,-1,3")), [2]);
        assert_eq!(indices(Some("")), [0; 0]);
        let why = shown(&all, Some("0,MIG-1")).expect_err("no whole GPU");
        assert!(why.contains("names MIG-1"), "{why}");
    }
}
