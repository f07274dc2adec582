//! What `run.json` says of the telemetry of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The telemetry of a run, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryMeta {
    /// Seconds from one sample of a GPU to the next.
    pub interval_s: f64,
    /// Samples that are lost because too many waited to be gathered.
    pub dropped: u64,
    /// What is not known, and why.
    pub unknown: Vec<String>,
    /// Each GPU that the run uses.
    pub gpus: Vec<GpuSummary>,
}

/// What was measured on one GPU over the run. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(non_snake_case, reason = "JSON keys carry the unit, as columns do")]
pub struct GpuSummary {
    /// Host name.
    pub host: String,
    /// Number of the node.
    pub node: u32,
    /// Number of the GPU on its host.
    pub gpu: u32,
    /// UUID; empty if unknown.
    pub uuid: String,
    /// PCI address; empty if unknown.
    pub bus_id: String,
    /// Samples of it.
    pub samples: u64,
    /// Clock of the multiprocessors.
    pub sm_clock_MHz: Option<Extent>,
    /// Highest temperature of the GPU.
    pub max_temperature_C: Option<f64>,
    /// Highest temperature of its memory.
    pub max_memory_temperature_C: Option<f64>,
    /// Power draw.
    pub power_W: Option<Extent>,
    /// Energy used from the first sample to the last, by the GPU's counter.
    pub energy_J: Option<f64>,
    /// Part of the samples, from 0 to 1, in which each reason limited the clocks; reasons that
    /// never did are absent. If it is absent, the reasons are not known.
    pub limited: Option<BTreeMap<String, f64>>,
}

/// The least, the mean and the most of a quantity over all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: f64,
}
