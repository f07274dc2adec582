//! `model`: times computed from a formula, nothing moved. For tests that must be the same every time, and to plan for
//! more ranks than are here.
//!
//! The formula is the usual one of latency and bandwidth: an operation takes a latency for each step of its algorithm,
//! and the time in which its bus bytes pass at the peak bus bandwidth.

use std::time::Duration;

use super::{Backend, Timing, Waived, possible};
use crate::{
    collective::{Case, Collective},
    units::{Bytes, Micros},
};

/// Latency of one step, in microseconds: near what NVLink and a launched kernel take.
pub const STEP_US: f64 = 5.0;

/// Peak bus bandwidth, in bytes a microsecond: 400 GB/s, near what one rail of 400 Gb/s for each of 8 GPUs carries.
pub const BUS_BYTES_PER_US: f64 = 400e3;

/// Computes times.
pub struct Model;

impl Model {
    /// The time of one operation.
    pub fn operation(case: &Case) -> Micros {
        let ranks = case.ranks as f64;
        let steps = match case.collective {
            // Reduce and spread again along a tree.
            Collective::AllReduce => 2.0 * ranks.log2().ceil(),
            Collective::Broadcast | Collective::Reduce => ranks.log2().ceil(),
            Collective::AllGather | Collective::ReduceScatter | Collective::HyperCube => {
                ranks.log2().ceil()
            }
            // Every pair at once.
            Collective::AllToAll | Collective::AllToAllV => 1.0,
            Collective::Gather | Collective::Scatter | Collective::SendRecv => 1.0,
        };
        // busbw is by definition the bytes that pass the slowest link in a second.
        let bus_bytes = case.bandwidth(Micros(1.0)).1.0 * 1e3;
        Micros(STEP_US * (1.0 + steps) + bus_bytes / BUS_BYTES_PER_US)
    }
}

impl Backend for Model {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        possible(case)
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
        let elapsed = Duration::from_nanos((Model::operation(case).0 * 1e3) as u64) * times;
        Ok(Timing {
            computed: true,
            ..Timing::of(elapsed, times)
        })
    }

    fn count_wrong(&mut self, _case: &Case, _seed: u64) -> anyhow::Result<u64> {
        Ok(0)
    }

    fn corrupt(&mut self, _case: &Case) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}
