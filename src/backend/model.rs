//! `model`: times computed from a formula, without moving data. For tests that need the same times
//! in every run, and to plan for more ranks than are available.
//!
//! The formula is the usual one of latency and bandwidth: an operation takes one latency for each
//! step of its algorithm, plus the time that its bus bytes take at the peak bus bandwidth.

use std::time::Duration;

use super::{Backend, Timing, Waived, check_possible, options::ExecOptions};
use crate::{
    collective::{Case, FaultTarget},
    units::{Bytes, Micros},
};

/// Latency of one step in microseconds: about what NVLink and a kernel launch take.
pub const STEP_US: f64 = 5.0;

/// Peak bus bandwidth in bytes per microsecond: 400 GB/s, about what one rail of 400 Gb/s for each
/// of 8 GPUs carries.
pub const BUS_BYTES_PER_US: f64 = 400e3;

/// The backend that computes times. Of how operations are run, only their number per iteration and
/// the times of each iteration have an effect.
#[derive(Default)]
pub struct Model {
    exec: ExecOptions,
}

impl Model {
    /// Returns the backend for operations that are run as `exec` says.
    pub fn new(exec: ExecOptions) -> Model {
        Model { exec }
    }

    /// Returns the time of one operation.
    pub fn operation_time(case: &Case) -> Micros {
        let steps = (case.collective.spec().steps)(case.ranks as f64);
        // busbw is defined as the bytes that pass the slowest link per second.
        let bus_bytes = case.bandwidth(Micros(1.0)).1.0 * 1e3;
        Micros(STEP_US * (1.0 + steps) + bus_bytes / BUS_BYTES_PER_US)
    }
}

impl Backend for Model {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        check_possible(case)
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        Ok(None)
    }

    fn allocate(&mut self, _largest: Bytes) -> anyhow::Result<()> {
        Ok(())
    }

    fn fill(&mut self, _case: &Case, _seed: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let elapsed = Duration::from_nanos((Model::operation_time(case).0 * 1e3) as u64) * times;
        Ok(Timing {
            computed: true,
            ..Timing::new(elapsed, times)
        })
    }

    fn time(&mut self, case: &Case, iters: u32, _: &dyn Fn()) -> anyhow::Result<Timing> {
        let timing = self.run(case, iters.saturating_mul(self.exec.operations()))?;
        let iteration_times = if self.exec.iteration_times {
            vec![Model::operation_time(case); iters as usize]
        } else {
            Vec::new()
        };
        Ok(Timing {
            iteration_times,
            ..timing
        })
    }

    fn count_wrong(&mut self, _case: &Case, _seed: u64) -> anyhow::Result<u64> {
        Ok(0)
    }

    fn corrupt(&mut self, _case: &Case, _target: FaultTarget) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}
