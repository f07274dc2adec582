//! 01: all_reduce, and what busbw means.
//!
//! An all_reduce adds up the buffers of all ranks and gives each rank the sum. This program does it
//! once with numbers that you can check in your head, then times it for several sizes, and derives
//! both bandwidths from the time.
//!
//! ```sh
//! cargo run --example 01_all_reduce
//! mpirun -np 4 target/debug/examples/01_all_reduce
//! ```

use std::process::ExitCode;

use pxnbench::job::{self, Bytes, Collective, GBps, Job, RedOp};

fn main() -> ExitCode {
    job::run(|job| {
        add_up(job)?;
        time_sizes(job)?;
        explain(job)
    })
}

/// Adds up a number from each rank.
fn add_up(job: &Job) -> anyhow::Result<()> {
    let ranks = job.ranks();
    let mine = [1, job.rank() as u64];
    let mut sums = [0; 2];
    job.all_reduce(&mine, &mut sums, RedOp::Sum)?;

    job.print(
        "Every rank brings two numbers, 1 and its rank. Afterwards every rank has the sums:\n",
    )?;
    job.print(format!(
        "  ranks: {}, sum of their numbers: {}\n",
        sums[0], sums[1]
    ))?;
    // The same on every rank, not on rank 0 only.
    assert_eq!(sums, [ranks as u64, (ranks * (ranks - 1) / 2) as u64]);
    Ok(())
}

/// Prints time, algbw and busbw of several sizes.
fn time_sizes(job: &Job) -> anyhow::Result<()> {
    job.print("    size      time (us)   algbw (GB/s)   busbw (GB/s)")?;
    for size in [
        Bytes(1 << 10),
        Bytes(1 << 14),
        Bytes(1 << 18),
        Bytes(1 << 22),
    ] {
        let mut buffer = vec![1.0_f32; size.0 as usize / size_of::<f32>()];
        // The first operation also sets up connections, so it is not timed.
        job.all_reduce_in_place(&mut buffer, RedOp::Max)?;
        let time = job.time(20, || job.all_reduce_in_place(&mut buffer, RedOp::Max))?;

        // How fast a rank's buffer is reduced, whatever that takes.
        let algbw = size.0 as f64 / 1e3 / time.0;
        // How much of it the busiest link carries: see `explain`.
        let busbw = algbw * bus_factor(job.ranks());
        job.print(format!(
            "{:>8} {:>14.1} {algbw:>14.3} {busbw:>14.3}",
            size.to_string(),
            time.0
        ))?;

        // The library has this formula for every collective.
        let (_, GBps(by_library)) = job::bandwidth(Collective::AllReduce, job.ranks(), size, time);
        assert!(
            (busbw - by_library).abs() <= 1e-9 * busbw,
            "{busbw} {by_library}"
        );
    }
    Ok(())
}

/// Returns the part of its buffer that each rank must send, and receive, in an all_reduce: 2(n-1)/n
/// of it.
fn bus_factor(ranks: usize) -> f64 {
    2.0 * (ranks - 1) as f64 / ranks as f64
}

fn explain(job: &Job) -> anyhow::Result<()> {
    let ranks = job.ranks();
    let factor = bus_factor(ranks);
    job.print(format!(
        "
What you see. algbw is size / time: what the program that waits for the sum is interested in. It cannot reach the
speed of the links, because each byte crosses them more than once: in a ring of n ranks, every rank sends n-1 of n
chunks to be added up, and then n-1 of n chunks that are complete. That is 2(n-1)/n of the buffer, here {factor}.
busbw is algbw times this factor: what a link really carries. It can be compared with the speed of the hardware,
and between jobs of different sizes and different collectives; algbw cannot."
    ))?;
    if ranks == 1 {
        job.print(
            "Here one rank has nothing to add and nothing to send, so the bandwidths mean nothing.",
        )?;
    }
    job.print(
        "
What to try. Run it on 2, 4 and 8 ranks: algbw falls, the factor grows from 1 to 1.75. Small sizes have low bandwidths
because latency dominates: at which size does busbw stop growing? `mpirun -np 4 pxnbench all_reduce --backend host -b 1K
-e 4M` measures the same with warm-up, verification and a file of results.",
    )
}
