//! What NVML says of this node's GPUs, as plain data: [`Inventory`].
//!
//! The library is libnvidia-ml.so.1, which comes with the driver and is loaded when
//! [`Inventory::read`] is called. A GPU may lack some readings: each [`Reading`] holds a value, or
//! the reason why there is none. An inventory can be written as JSON and read back, so that the
//! answers of another node can be examined. A [`Meter`] reads what changes: clocks, power, traffic.

mod inventory;
#[cfg(feature = "nccl")]
mod meter;
#[cfg(feature = "nccl")]
mod query;
mod readings;
mod throttle;
#[cfg(not(feature = "nccl"))]
mod unavailable;

pub use inventory::{Inventory, NvLink, NvlinkFabric, NvmlGpu, Reading, Remapped, Remote, bus_id};
#[cfg(feature = "nccl")]
pub use meter::Meter;
pub use readings::{GpuReadings, MeteredGpu, PcieQuery, PcieTraffic};
pub use throttle::{THROTTLE_REASONS, ThrottleReason, is_slowed, slowing_names, throttle_names};
#[cfg(not(feature = "nccl"))]
pub use unavailable::Meter;

#[cfg(test)]
mod tests {
    use super::Inventory;

    /// Holds on every machine: there is an answer or one sentence.
    #[test]
    fn a_missing_library_is_a_sentence() {
        if let Err(what) = Inventory::read() {
            assert!(what.starts_with("NVML ") && !what.contains('\n'), "{what}");
        }
    }
}
