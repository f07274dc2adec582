//! The measurement of [`KernelCost`] on the idle GPU.

use std::{
    mem::ManuallyDrop,
    time::{Duration, Instant},
};

use super::{
    super::{compute::ComputeKernel, device::Device},
    cost::{BLOCK, KernelCost, KernelTrain},
};
use crate::{units::Micros, world::progress};

/// Waves of the kernels that are compared: few, and about as many as those of a training step have.
const FEW: u32 = 4;
const MANY: u32 = 16;

/// Iterations of the first kernel that is timed.
const FIRST: u32 = 128;

/// Kernels that run before those that are timed, and kernels that are timed together to compare
/// their shapes.
const KERNELS: u32 = 16;

/// Kernels of the final shape that are timed together: about as many as computation of a training
/// step has.
const MANY_KERNELS: u32 = 100;

/// How often each is timed. The median counts.
const RUNS: usize = 7;

/// How long the GPU computes first. Its clock rises within tens of milliseconds.
const WARM_UP: Duration = Duration::from_millis(150);

/// Times kernels in the stream of a GPU.
struct Stopwatch<'a> {
    device: &'a Device,
    kernel: &'a ComputeKernel,
}

/// Returns what the kernels of computation take in the stream of `device`, where nothing else runs.
/// `length` is that of the kernels to come, and `is_whole` says whether they fill the GPU.
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
    let waves = if is_whole { FEW } else { 1 };
    let iterations = watch.iterations_of_a_block(waves)?;
    let time = |waves, iterations| watch.time(KERNELS, waves, iterations);
    let cost = if is_whole {
        KernelCost::fitted(
            length,
            iterations,
            (FEW, time(FEW, iterations)?),
            (MANY, time(MANY, iterations)?),
            time(MANY, iterations / 2)?,
        )
    } else {
        let iterations = iterations * MANY;
        KernelCost::fitted_to_one_wave(
            length,
            iterations,
            time(1, iterations)?,
            time(1, iterations / 2)?,
        )
    };
    // What the fit is off for these kernels is the same for all.
    let KernelTrain {
        waves, iterations, ..
    } = cost.train(length, length);
    let measured = watch.time(MANY_KERNELS, waves, iterations)?.0;
    let alone = watch.median(1, waves, iterations)?.0;
    Ok(KernelCost {
        lead: (alone - measured).max(0.0),
        ..cost.scaled(measured / length.0)
    })
}

impl Stopwatch<'_> {
    /// Returns the iterations of a block that takes about [`BLOCK`], in kernels of `waves` waves,
    /// once the GPU has reached its clock.
    fn iterations_of_a_block(&self, waves: u32) -> anyhow::Result<u32> {
        let begin = Instant::now();
        let mut iterations = FIRST;
        while begin.elapsed() < WARM_UP {
            let kernel = self.time_once(KERNELS, waves, iterations)?.0 / f64::from(KERNELS);
            let block = (kernel / f64::from(waves)).max(BLOCK.0 / 64.0);
            let fit = f64::from(iterations) * BLOCK.0 / block;
            iterations = fit.clamp(16.0, 1e7) as u32;
            progress::tick();
        }
        Ok(iterations)
    }

    /// Returns the time of one of `kernels` kernels that follow each other, which is less than that
    /// of the first.
    fn time(&self, kernels: u32, waves: u32, iterations: u32) -> anyhow::Result<Micros> {
        let all = self.median(kernels, waves, iterations)?.0;
        let alone = self.median(1, waves, iterations)?.0;
        let others = f64::from(kernels - 1);
        // Where times are disturbed so much that the first one seems to take most of it, they say
        // nothing of it.
        Ok(Micros(((all - alone) / others).max(all / 2.0 / others)))
    }

    /// Returns the time of `kernels` kernels.
    fn median(&self, kernels: u32, waves: u32, iterations: u32) -> anyhow::Result<Micros> {
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            times.push(self.time_once(kernels, waves, iterations)?.0);
            progress::tick();
        }
        times.sort_by(f64::total_cmp);
        Ok(Micros(times[RUNS / 2]))
    }

    fn time_once(&self, kernels: u32, waves: u32, iterations: u32) -> anyhow::Result<Micros> {
        // What fails ends the process; an event that has not passed must not be destroyed before.
        let begin = ManuallyDrop::new(self.device.event()?);
        let end = ManuallyDrop::new(self.device.event()?);
        // While these run, the host puts the others into the stream.
        for _ in 0..KERNELS {
            self.launch(waves, iterations)?;
        }
        self.device.record(&begin)?;
        for _ in 0..kernels {
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

    fn launch(&self, waves: u32, iterations: u32) -> anyhow::Result<()> {
        let stream = self.device.stream();
        self.kernel.launch(stream, waves, iterations)
    }
}
