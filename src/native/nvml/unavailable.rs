//! A build without NVML.

use std::convert::Infallible;

use super::{
    inventory::Inventory,
    readings::{GpuReadings, MeteredGpu, PcieQuery},
};

const WHY: &str = "NVML is not asked: this binary is built without the feature nccl";

impl Inventory {
    /// Fails, as [`Inventory::read`] does.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn links_of(_uuids: &[String]) -> Result<Inventory, String> {
        Inventory::read()
    }

    /// Fails: this binary is built without NVML.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn read() -> Result<Inventory, String> {
        Err(WHY.into())
    }
}

/// A connection to NVML, which this binary cannot have.
pub struct Meter(Infallible);

impl Meter {
    /// Fails: this binary is built without NVML.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn open() -> Result<Meter, String> {
        Err(WHY.into())
    }

    /// Returns the GPUs.
    ///
    /// # Errors
    /// Is never called.
    pub fn gpus(&self) -> Result<Vec<MeteredGpu>, String> {
        match self.0 {}
    }

    /// Reads a GPU.
    ///
    /// # Errors
    /// Is never called.
    pub fn read(&self, _: u32, _: PcieQuery) -> Result<GpuReadings, String> {
        match self.0 {}
    }
}
