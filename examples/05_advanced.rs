//! 05: what makes training wait less: accumulation, half precision, overlap, buckets.
//! Run `cargo run --example 05_advanced`, then `mpirun -np 4 target/debug/examples/05_advanced`.

use std::{hint::black_box, process::ExitCode};

use anyhow::Result;
use pxnbench::job::{self, Element, Job, Pending, RedOp, bf16, f16};

/// Gradients of the model, 2 MB of floats, and the parts of a batch or layers that they are from.
const GRADIENTS: usize = 1 << 19;
const PARTS: usize = 4;

fn main() -> ExitCode {
    job::run(|job| {
        accumulation(job)?;
        job.print("\n2. Precision: 2 bytes per gradient instead of 4, and fewer digits")?;
        precision(job, |number| number, |number| number)?;
        precision(job, f16::from_f32, f16::to_f32)?;
        precision(job, bf16::from_f32, bf16::to_f32)?;
        overlap(job)?;
        buckets(job)?;
        job.print(
            "\nWhat you see. MPI has no half and no bfloat16, so 2 converts them, slowly in a debug build. Less than 0 us
hidden in 3 means that overlap costs time. It does if all cores are busy anyway: here they also do what a network does.
What to try. Start fewer ranks than there are cores. Raise GRADIENTS. On GPUs: `pxnbench all_reduce -d half`.",
        )
    })
}

/// Prints the shortest of five times of `run`, because other programs only make times longer.
fn time(job: &Job, name: &str, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut shortest = f64::INFINITY;
    for _ in 0..5 {
        shortest = shortest.min(job.time(1, &mut run)?.0);
    }
    job.print(format!("  {name:30} {shortest:9.0} us"))?;
    Ok(shortest)
}

fn accumulation(job: &Job) -> Result<()> {
    job.print("1. Accumulation: the backward passes of a batch add to the same gradients")?;
    let mut gradients = vec![0.0; GRADIENTS];
    let backward = |part: usize, gradients: &mut [f32]| {
        gradients.iter_mut().for_each(|sum| *sum += part as f32);
    };
    time(job, "an all_reduce per part", || {
        for part in 1..=PARTS {
            gradients.fill(0.0);
            backward(part, &mut gradients);
            job.all_reduce_in_place(&mut gradients, RedOp::Sum)?;
        }
        Ok(())
    })?;
    time(job, "one for all parts", || {
        gradients.fill(0.0);
        (1..=PARTS).for_each(|part| backward(part, &mut gradients));
        job.all_reduce_in_place(&mut gradients, RedOp::Sum)
    })?;
    let sum = (1 + 2 + 3 + 4) as f32 * job.ranks() as f32;
    assert_eq!(gradients, vec![sum; GRADIENTS]);
    Ok(())
}

/// Adds up 1, 1/2, 1/3, ... of all ranks.
fn precision<T: Element>(job: &Job, to: fn(f32) -> T, from: fn(T) -> f32) -> Result<()> {
    let exact = |number: usize| 1.0 / (number % 1000 + 1) as f32;
    let mine: Vec<T> = (0..GRADIENTS).map(|number| to(exact(number))).collect();
    let mut sums = mine.clone();
    let name = T::DTYPE.name();
    time(job, name, || job.all_reduce(&mine, &mut sums, RedOp::Sum))?;
    let mut largest = 0.0_f32;
    for (number, sum) in sums.into_iter().enumerate() {
        let error = from(sum) / (job.ranks() as f32 * exact(number)) - 1.0;
        largest = largest.max(error.abs());
    }
    job.print(format!("    largest relative error {largest:.1e}"))
}

fn overlap(job: &Job) -> Result<()> {
    job.print("\n3. Overlap: a layer's all_reduce runs while the next layer is computed")?;
    let gradients = vec![1.0_f32; GRADIENTS / PARTS];
    let compute = |pieces: usize| -> Result<()> {
        (0..2_000 * pieces).for_each(|number| _ = black_box((number as f32).sqrt()));
        Ok(())
    };
    let computing = time(job, "computing", || compute(10 * PARTS))?;
    let reduce = || job.start_all_reduce(gradients.clone(), RedOp::Sum);
    let reducing = time(job, "all_reduces, each waited for", || {
        (0..PARTS).try_for_each(|_| reduce()?.wait().map(drop))
    })?;
    let both = time(job, "both at the same time", || {
        let mut started: Vec<Pending<f32>> = Vec::new();
        for piece in 1..=10 * PARTS {
            compute(1)?;
            for pending in &mut started {
                // MPI goes on with it only while it is called.
                pending.has_ended()?;
            }
            if piece % 10 == 0 {
                started.push(reduce()?);
            }
        }
        started.into_iter().try_for_each(|one| one.wait().map(drop))
    })?;
    let hidden = computing + reducing - both;
    job.print(format!("  hidden: {hidden:.0} of {reducing:.0} us"))
}

fn buckets(job: &Job) -> Result<()> {
    job.print("\n4. Buckets: each costs a latency, but a single one cannot overlap")?;
    let mut gradients = vec![1.0_f32; GRADIENTS];
    for count in [1, 4, 16, 64, 256] {
        let name = format!("{count:3} of {:7} bytes", 4 * GRADIENTS / count);
        time(job, &name, || {
            let mut buckets = gradients.chunks_mut(GRADIENTS / count);
            buckets.try_for_each(|bucket| job.all_reduce_in_place(bucket, RedOp::Max))
        })?;
    }
    Ok(())
}
