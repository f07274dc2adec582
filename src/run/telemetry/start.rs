//! How a process starts to sample the GPUs that it uses.

use std::time::Duration;

use crate::{
    native::nvml::PcieQuery,
    record::Device,
    telemetry::{Probe, SampledGpu, Sampler},
};

/// Starts to sample the GPUs that are used. Returns remarks on those that NVML does not show.
pub(super) fn start_sampler(
    used: &[&Device],
    interval: Duration,
) -> Result<(Sampler, Vec<String>), String> {
    let mut probe = Probe::open(PcieQuery::CountersOnly)?;
    probe.keep(|gpu| used.iter().any(|device| is_same(gpu, device)));
    let missing = used
        .iter()
        .filter(|device| !probe.gpus().iter().any(|gpu| is_same(gpu, device)));
    let missing: Vec<&str> = missing.map(|device| device.bus.as_str()).collect();
    if probe.gpus().is_empty() {
        return Err(format!(
            "NVML shows none of the GPUs in use ({})",
            missing.join(", ")
        ));
    }
    let remarks = if missing.is_empty() {
        Vec::new()
    } else {
        let missing = missing.join(", ");
        vec![format!(
            "no telemetry of GPU {missing}: NVML does not show it to the first process of the \
             node, which samples all GPUs there. Let every process see all GPUs (srun \
             --gpu-bind=none)"
        )]
    };
    let sampler = Sampler::start(probe, interval)
        .map_err(|error| format!("the system starts no thread: {error}"))?;
    Ok((sampler, remarks))
}

/// Returns whether CUDA's device is NVML's GPU.
fn is_same(gpu: &SampledGpu, device: &Device) -> bool {
    let has_same_uuid = !gpu.uuid.is_empty() && gpu.uuid == device.uuid;
    // CUDA's address has no function: `0000:18:00`.
    has_same_uuid || (!device.bus.is_empty() && gpu.bus_id.starts_with(&format!("{}.", device.bus)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cudas_device_is_found_by_uuid_or_address() {
        let gpu = SampledGpu {
            index: 0,
            uuid: "GPU-1".into(),
            bus_id: "0000:18:00.0".into(),
            name: String::new(),
        };
        let device = |uuid: &str, bus: &str| Device {
            uuid: uuid.into(),
            bus: bus.into(),
            ..Device::default()
        };
        assert!(is_same(&gpu, &device("GPU-1", "")));
        assert!(is_same(&gpu, &device("MIG-7", "0000:18:00")));
        assert!(!is_same(&gpu, &device("GPU-2", "0000:19:00")));
        assert!(!is_same(&SampledGpu::default(), &device("", "")));
    }
}
