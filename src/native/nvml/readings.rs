//! What NVML measures on a GPU, at one moment.

use super::inventory::Reading;

/// A GPU, by the names that NVML has for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeteredGpu {
    /// NVML's index.
    pub index: u32,
    /// The UUID: `GPU-…`.
    pub uuid: Reading<String>,
    /// The PCI address as [`bus_id`](super::bus_id) writes it.
    pub bus_id: Reading<String>,
    /// The model.
    pub name: Reading<String>,
}

/// Whether PCIe throughput may be asked for with a call that waits while it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcieQuery {
    /// Counters only, which are read at once.
    CountersOnly,
    /// If there are no counters, a query that waits 20 ms for each direction.
    MayBlock,
}

/// The readings of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReadings {
    /// The clock of the multiprocessors in MHz.
    pub sm_clock: Reading<u32>,
    /// The memory clock in MHz.
    pub memory_clock: Reading<u32>,
    /// The mask of what limits the clocks.
    pub throttle: Reading<u64>,
    /// The temperature of the GPU in degrees Celsius.
    pub temperature: Reading<u32>,
    /// The temperature of its memory in degrees Celsius.
    pub memory_temperature: Reading<u32>,
    /// The power draw in mW.
    pub power: Reading<u32>,
    /// The power limit in force in mW.
    pub power_limit: Reading<u32>,
    /// The energy used since the driver was loaded, in mJ.
    pub energy: Reading<u64>,
    /// Memory in use, in bytes.
    pub memory_used: Reading<u64>,
    /// All memory, in bytes.
    pub memory_total: Reading<u64>,
    /// The part of the time in which a kernel ran, in percent.
    pub utilization: Reading<u32>,
    /// The part of the time in which memory was read or written, in percent.
    pub memory_utilization: Reading<u32>,
    /// Corrected memory errors since the driver was loaded.
    pub ecc_corrected: Reading<u64>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Reading<u64>,
    /// Data sent over all NVLinks, in bytes since some moment.
    pub nvlink_sent: Reading<u64>,
    /// Data received over all NVLinks, likewise.
    pub nvlink_received: Reading<u64>,
    /// Data sent over PCIe.
    pub pcie_sent: Reading<PcieTraffic>,
    /// Data received over PCIe.
    pub pcie_received: Reading<PcieTraffic>,
}

/// Traffic over PCIe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PcieTraffic {
    /// Bytes since some moment.
    Bytes(u64),
    /// Bytes per second, measured over the last 20 ms.
    BytesPerSecond(f64),
}

impl GpuReadings {
    /// Returns readings all of which lack a value, for the reason `why`.
    pub fn none(why: &str) -> GpuReadings {
        GpuReadings {
            sm_clock: Reading::none(why),
            memory_clock: Reading::none(why),
            throttle: Reading::none(why),
            temperature: Reading::none(why),
            memory_temperature: Reading::none(why),
            power: Reading::none(why),
            power_limit: Reading::none(why),
            energy: Reading::none(why),
            memory_used: Reading::none(why),
            memory_total: Reading::none(why),
            utilization: Reading::none(why),
            memory_utilization: Reading::none(why),
            ecc_corrected: Reading::none(why),
            ecc_uncorrected: Reading::none(why),
            nvlink_sent: Reading::none(why),
            nvlink_received: Reading::none(why),
            pcie_sent: Reading::none(why),
            pcie_received: Reading::none(why),
        }
    }
}
