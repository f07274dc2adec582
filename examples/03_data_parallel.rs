//! 03: data-parallel training.
//!
//! Every rank has the whole model, but only some samples. In each step the ranks add up their
//! gradients, in buckets, so that all take the step of one process with all samples.
//!
//! `cargo build --examples`, then `mpirun -np 4 target/debug/examples/03_data_parallel`

use std::process::ExitCode;

use pxnbench::job::{self, Job, RedOp};

/// Hidden units. Each has the weights of x and y, a bias, and the weight of its output.
const UNITS: usize = 8;
const WEIGHTS: usize = 4 * UNITS + 1;
const SAMPLES: usize = 64;
const STEPS: usize = 1000;
const LEARNING_RATE: f32 = 0.3;
/// Gradients that are added up at a time. PyTorch takes 25 MB of them.
const BUCKET: usize = 10;

/// x, y, and the value that the model shall learn.
type Sample = [f32; 3];

fn main() -> ExitCode {
    job::run(|job| {
        let mine = (job.rank()..SAMPLES).step_by(job.ranks());
        let mine: Vec<Sample> = mine.map(sample).collect();
        let all: Vec<Sample> = (0..SAMPLES).map(sample).collect();
        job.print(format!(
            "A model with {WEIGHTS} weights learns x * y from {SAMPLES} points, {} on rank 0.\n",
            mine.len()
        ))?;
        job.print("all ranks, each with its samples:")?;
        let together = train(job, &mine, |gradient| add_up(job, gradient))?;
        job.print("one process with all samples:")?;
        let alone = train(job, &all, |_| Ok(()))?;
        compare(job, &together, &alone)
    })
}

/// Returns point number `number` of a grid from -1 to 1, and the product of its coordinates.
fn sample(number: usize) -> Sample {
    let x = (number % 8) as f32 / 3.5 - 1.0;
    let y = (number / 8) as f32 / 3.5 - 1.0;
    [x, y, x * y]
}

/// Adds up the gradients of all ranks, from the last bucket to the first. In a deep model those of
/// the last layer are ready first, so that their bucket is sent while others are computed.
fn add_up(job: &Job, gradient: &mut [f32]) -> anyhow::Result<()> {
    for bucket in gradient.rchunks_mut(BUCKET) {
        job.all_reduce_in_place(bucket, RedOp::Sum)?;
    }
    Ok(())
}

/// Returns the weights after training with `samples`. `add_up` adds the gradients of other ranks.
fn train(
    job: &Job,
    samples: &[Sample],
    add_up: impl Fn(&mut [f32]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f32>> {
    // Every rank begins with the same weights. Otherwise rank 0 would broadcast its own.
    let first = |number: usize| (number * 37 % 100) as f32 / 50.0 - 1.0;
    let mut weights: Vec<f32> = (0..WEIGHTS).map(first).collect();
    for step in 0..STEPS {
        let mut gradient = gradient(&weights, samples);
        add_up(&mut gradient)?;
        for (weight, slope) in weights.iter_mut().zip(&gradient) {
            *weight -= LEARNING_RATE * slope / SAMPLES as f32;
        }
        if step % 250 == 0 || step == STEPS - 1 {
            let root_mean_square = (gradient[WEIGHTS] / SAMPLES as f32).sqrt();
            job.print(format!("  step {step:4}: error {root_mean_square:.4}"))?;
        }
    }
    Ok(weights)
}

/// Returns the slope of half the square error for each weight, followed by the square error.
fn gradient(weights: &[f32], samples: &[Sample]) -> Vec<f32> {
    let mut gradient = vec![0.0; WEIGHTS + 1];
    for &[x, y, value] in samples {
        let output = |unit: &[f32]| (unit[0] * x + unit[1] * y + unit[2]).tanh();
        let units = weights.chunks_exact(4);
        let sum: f32 = units.clone().map(|unit| unit[3] * output(unit)).sum();
        let error = sum + weights[WEIGHTS - 1] - value;
        for (unit, slopes) in units.zip(gradient.chunks_exact_mut(4)) {
            let output = output(unit);
            let inner = error * unit[3] * (1.0 - output * output);
            slopes[0] += inner * x;
            slopes[1] += inner * y;
            slopes[2] += inner;
            slopes[3] += error * output;
        }
        gradient[WEIGHTS - 1] += error;
        gradient[WEIGHTS] += error * error;
    }
    gradient
}

fn compare(job: &Job, together: &[f32], alone: &[f32]) -> anyhow::Result<()> {
    let differences = together.iter().zip(alone).map(|(a, b)| (a - b).abs());
    let mut largest = [differences.fold(0.0, f32::max)];
    job.all_reduce_in_place(&mut largest, RedOp::Max)?;
    let mut of_ranks = vec![0.0; WEIGHTS * job.ranks()];
    job.all_gather(together, &mut of_ranks)?;
    let are_equal = of_ranks.chunks(WEIGHTS).all(|weights| weights == together);
    job.print(format!(
        "
What you see. It does not matter how many ranks share the work: the largest difference of a weight is {:.1e}, because
floats are added in another order. All ranks have the same weights: {are_equal}.

What to try. Leave out `add_up`: every rank learns its own points only, and the ranks drift apart. A BUCKET of 1 is as
right, but slow: 05_advanced measures it. Start 3 ranks: samples need not be divided evenly, because sums are added.",
        largest[0]
    ))?;
    anyhow::ensure!(are_equal && largest[0] < 1e-3, "the weights differ");
    Ok(())
}
