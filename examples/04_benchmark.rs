//! 04: a benchmark of one's own.
//!
//! An all_reduce is a reduce_scatter followed by an all_gather. Is it as fast as the two? This
//! program measures all three with the library's sweep, which warms up, times, averages over ranks
//! and checks every element, and makes of the records a table that no tool has: the sum of two rows
//! beside the third.
//!
//! ```sh
//! cargo build --example 04_benchmark
//! mpirun -np 4 target/debug/examples/04_benchmark [FILE.csv]
//! ```

use std::{collections::BTreeMap, env, fs, process::ExitCode};

use pxnbench::job::{
    self, BufferMode, Bytes, Collective, Job, Measure, Record, SizeStep, Status, SweepSpec,
};

/// Time of each collective in microseconds, by size.
type Times = BTreeMap<Bytes, BTreeMap<Collective, f64>>;

fn main() -> ExitCode {
    job::run(|job| {
        job.print("all_reduce = reduce_scatter + all_gather. Is it as fast as the two?\n")?;
        let times = measure(job)?;
        print_table(job, &times)?;
        if let Some(path) = env::args_os().nth(1)
            && job.rank() == 0
        {
            fs::write(path, csv(&times))?;
        }
        job.print(
            "
What you see. Times in microseconds; a bar of 20 is a ratio of 1. Below 1, the all_reduce is faster than its two halves:
an MPI library has other algorithms for small sizes, which send everything in fewer steps instead of in chunks.

What to try. On a loaded machine ratios jump: set `iters: 200`, or `precision: Some(5.0)` for blocks until the mean is known
to 5 %. Other questions of this kind: gather + broadcast against all_gather; float against half (`dtypes`).",
        )
    })
}

/// Measures three collectives at each size.
fn measure(job: &Job) -> anyhow::Result<Times> {
    let spec = SweepSpec {
        collectives: vec![
            Collective::AllReduce,
            Collective::ReduceScatter,
            Collective::AllGather,
        ],
        begin: Bytes(1 << 10),
        end: Bytes(1 << 18),
        step: SizeStep::Factor(4),
        ..SweepSpec::default()
    };
    let mut method = Measure {
        iters: 10,
        ..Measure::default()
    };
    let mut times = Times::new();
    let mut keep = |record: &Record| {
        anyhow::ensure!(
            record.status != Status::Wrong,
            "wrong data in {}",
            record.case
        );
        let case = record.case;
        if case.buffer_mode == BufferMode::OutOfPlace
            && let Some(time) = record.time
        {
            // A size is rounded down to a multiple of 16 bytes per rank.
            let requested = Bytes(case.size().0.next_power_of_two());
            let row = times.entry(requested).or_default();
            row.insert(case.collective, time.0);
        }
        Ok(())
    };
    job.sweep(&spec, &mut method, &mut keep)?;
    Ok(times)
}

/// Returns the times of the all_reduce and of its two halves together.
fn whole_and_halves(row: &BTreeMap<Collective, f64>) -> (f64, f64) {
    let halves = row[&Collective::ReduceScatter] + row[&Collective::AllGather];
    (row[&Collective::AllReduce], halves)
}

fn print_table(job: &Job, times: &Times) -> anyhow::Result<()> {
    job.print("    size  all_reduce  two halves   ratio")?;
    for (size, row) in times {
        let (whole, halves) = whole_and_halves(row);
        let ratio = whole / halves;
        let bar = "#".repeat((ratio * 20.0).round().min(60.0) as usize);
        let size = size.to_string();
        job.print(format!(
            "{size:>8} {whole:>11.1} {halves:>11.1} {ratio:>7.2}  {bar}"
        ))?;
    }
    Ok(())
}

fn csv(times: &Times) -> String {
    let mut text = String::from("size_bytes,all_reduce_us,halves_us\n");
    for (size, row) in times {
        let (whole, halves) = whole_and_halves(row);
        text += &format!("{},{whole:.2},{halves:.2}\n", size.0);
    }
    text
}
