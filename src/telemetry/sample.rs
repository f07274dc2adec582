//! [`Sample`]: what was measured on one GPU at one moment.

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Serialize};

/// A GPU that is sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledGpu {
    /// NVML's index.
    pub index: u32,
    /// The UUID; empty if unknown.
    pub uuid: String,
    /// The PCI address; empty if unknown.
    pub bus_id: String,
    /// The model; empty if unknown.
    pub name: String,
}

/// The samples of one GPU at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The time of day.
    pub time: DateTime<FixedOffset>,
    /// Seconds since the first sample.
    pub seconds: f64,
    /// The GPU, as an index into those that are sampled.
    pub gpu: usize,
    /// What was measured.
    pub values: Values,
}

/// What was measured on a GPU; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    missing_docs,
    reason = "each field is a quantity of QUANTITIES, which describes it"
)]
pub struct Values {
    pub sm_clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    /// The mask of what limits the clocks.
    pub throttle: Option<u64>,
    pub temperature_c: Option<u32>,
    pub memory_temperature_c: Option<u32>,
    pub power_w: Option<f64>,
    pub power_limit_w: Option<f64>,
    pub energy_j: Option<f64>,
    pub utilization_pct: Option<u32>,
    pub memory_utilization_pct: Option<u32>,
    pub memory_used: Option<u64>,
    pub memory_total: Option<u64>,
    pub nvlink_sent: Option<f64>,
    pub nvlink_received: Option<f64>,
    pub pcie_sent: Option<f64>,
    pub pcie_received: Option<f64>,
    pub ecc_corrected: Option<u64>,
    pub ecc_uncorrected: Option<u64>,
    /// Why the GPU does not answer; empty if it does.
    pub error: String,
}
