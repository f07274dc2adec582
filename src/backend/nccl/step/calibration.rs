//! The measurement of [`KernelCost`] on the idle GPU.

use std::mem::ManuallyDrop;

use super::{
    super::{compute::ComputeKernel, device::Device},
    cost::{BLOCK, KernelCost},
};
use crate::{units::Micros, world::progress};

/// Waves of the kernels that are compared with those of one.
const WAVES: u32 = 8;

/// Iterations of the first kernel that is timed.
const FIRST: u64 = 512;

/// Kernels that are timed together.
const KERNELS: u32 = 16;

/// How often each is timed. The fastest counts: whatever disturbs a kernel makes it slower.
const RUNS: u32 = 5;

/// Times kernels in the stream of a GPU.
struct Stopwatch<'a> {
    device: &'a Device,
    kernel: &'a ComputeKernel,
}

/// Returns what the kernels of computation take in the stream of `device`, where nothing else runs. `length` is that of the
/// kernels to come, and `is_whole` says whether they fill the GPU.
///
/// # Errors
/// Returns an error if the GPU fails.
pub(super) fn calibrated(
    device: &Device,
    kernel: &ComputeKernel,
    length: Micros,
    is_whole: bool,
) -> anyhow::Result<KernelCost> {
    let watch = Stopwatch { device, kernel };
    let waves = if is_whole { WAVES } else { 1 };
    let iterations = watch.iterations_of_a_block(waves)?;
    let cost = if is_whole {
        KernelCost::fitted(
            iterations,
            waves,
            watch.time(1, iterations)?,
            watch.time(waves, iterations)?,
            watch.time(waves, iterations / 2)?,
        )
    } else {
        let iterations = iterations * u64::from(WAVES);
        KernelCost::fitted_to_one_wave(
            iterations,
            watch.time(1, iterations)?,
            watch.time(1, iterations / 2)?,
        )
    };
    // What the fit is off for these kernels is the same for all.
    let train = cost.train(length, length);
    let measured = watch.time(train.waves, train.iterations)?;
    Ok(cost.scaled(measured.0 / length.0))
}

impl Stopwatch<'_> {
    /// Returns the iterations of a block that takes about [`BLOCK`], in kernels of `waves` waves. The GPU reaches its clock
    /// meanwhile.
    fn iterations_of_a_block(&self, waves: u32) -> anyhow::Result<u64> {
        let mut iterations = FIRST;
        for _ in 0..4 {
            let block = self.time(waves, iterations)?.0 / f64::from(waves);
            let fit = iterations as f64 * BLOCK.0 / block.max(BLOCK.0 / 64.0);
            iterations = fit.clamp(16.0, 1e7) as u64;
        }
        Ok(iterations)
    }

    /// Returns the time of a kernel among others of its kind.
    fn time(&self, waves: u32, iterations: u64) -> anyhow::Result<Micros> {
        let mut fastest = f64::INFINITY;
        for _ in 0..RUNS {
            fastest = fastest.min(self.time_once(waves, iterations)?.0);
            progress::tick();
        }
        Ok(Micros(fastest / f64::from(KERNELS)))
    }

    fn time_once(&self, waves: u32, iterations: u64) -> anyhow::Result<Micros> {
        // What fails ends the process; an event that has not passed must not be destroyed before.
        let begin = ManuallyDrop::new(self.device.event()?);
        let end = ManuallyDrop::new(self.device.event()?);
        // While these run, the host puts the others into the stream.
        for _ in 0..KERNELS {
            self.launch(WAVES, iterations)?;
        }
        self.device.record(&begin)?;
        for _ in 0..KERNELS {
            self.launch(waves, iterations)?;
        }
        self.device.record(&end)?;
        self.device.wait(|| Ok(()))?;
        let (begin, end) = (
            ManuallyDrop::into_inner(begin),
            ManuallyDrop::into_inner(end),
        );
        Device::time_between(&begin, &end)
    }

    fn launch(&self, waves: u32, iterations: u64) -> anyhow::Result<()> {
        let stream = self.device.stream();
        self.kernel.launch(stream, waves, iterations)
    }
}
