//! 02: every collective, drawn before and after.
//!
//! `cargo build --example 02_collectives`, then `mpirun -np 4 target/debug/examples/02_collectives`

use std::process::ExitCode;

use pxnbench::job::{self, Collective, Job, RedOp};

/// The rank that has the data of a broadcast or a scatter, and gets those of a reduce or a gather.
const ROOT: u32 = 0;
const UNTOUCHED: u64 = u64::MAX;
/// Letters of a line.
const WIDTH: usize = 200;

fn main() -> ExitCode {
    job::run(|job| {
        anyhow::ensure!(job.ranks() <= 6, "a line has room for 6 ranks. Start 4");
        job.print(
            "Rank r sends 1, 2, 3, ... times 10^r: the place of a digit tells which rank it is from.
What a rank sends is on the left, what it has afterwards on the right; nobody wrote to a point.",
        )?;
        for collective in Collective::ALL {
            draw(job, collective)?;
        }
        job.print(
            "
What to try. Which two of them, one after the other, do what an all_reduce does? Which one is its own inverse? Change
ROOT. Replace RedOp::Sum by RedOp::Max. Start 2 or 3 ranks.",
        )
    })
}

fn draw(job: &Job, collective: Collective) -> anyhow::Result<()> {
    job.print(format!("\n{collective}: {}", meaning(collective)))?;
    if collective == Collective::HyperCube && !job.ranks().is_power_of_two() {
        return job.print("  needs 2, 4, 8, ... ranks");
    }
    let (sends, receives) = lengths(job, collective);
    let unit = 10_u64.pow(job.rank() as u32);
    let send: Vec<u64> = (1..=sends as u64).map(|number| number * unit).collect();
    let mut recv = vec![UNTOUCHED; receives];
    call(job, collective, &send, &mut recv)?;

    // Every rank draws its line, and one prints them all.
    let (send, recv) = (cells(job, &send), cells(job, &recv));
    let line = format!("  rank {}  {send:<42} ->  {recv}", job.rank());
    let mut lines = vec![0; job.ranks() * WIDTH];
    job.gather(format!("{line:<WIDTH$}").as_bytes(), &mut lines, 0)?;
    for line in lines.chunks(WIDTH) {
        job.print(String::from_utf8_lossy(line).trim_end())?;
    }
    Ok(())
}

fn cells(job: &Job, elements: &[u64]) -> String {
    let width = job.ranks() + 1;
    let cell = |element: &u64| match *element {
        UNTOUCHED => format!("{:>width$}", "."),
        number => format!("{number:>width$}"),
    };
    elements.iter().map(cell).collect()
}

fn call(job: &Job, collective: Collective, send: &[u64], recv: &mut [u64]) -> anyhow::Result<()> {
    match collective {
        Collective::AllReduce => job.all_reduce(send, recv, RedOp::Sum),
        Collective::AllGather => job.all_gather(send, recv),
        Collective::ReduceScatter => job.reduce_scatter(send, recv, RedOp::Sum),
        Collective::Broadcast => job.broadcast(send, recv, ROOT),
        Collective::Reduce => job.reduce(send, recv, RedOp::Sum, ROOT),
        Collective::AllToAll => job.alltoall(send, recv),
        Collective::Gather => job.gather(send, recv, ROOT),
        Collective::Scatter => job.scatter(send, recv, ROOT),
        Collective::SendRecv => job.sendrecv(send, recv),
        Collective::HyperCube => job.hypercube(send, recv),
        Collective::AllToAllV => {
            let sent: Vec<usize> = (0..job.ranks()).map(part).collect();
            job.alltoallv(send, &sent, recv, &vec![part(job.rank()); job.ranks()])
        }
    }
}

/// Returns how many elements an alltoallv sends to `rank`, from every rank.
fn part(rank: usize) -> usize {
    1 + rank % 2
}

/// Returns how many elements this rank sends and receives, with chunks of one element.
fn lengths(job: &Job, collective: Collective) -> (usize, usize) {
    let ranks = job.ranks();
    let of_root = ranks * usize::from(job.rank() == ROOT as usize);
    match collective {
        Collective::AllGather | Collective::Gather | Collective::HyperCube => (1, ranks),
        Collective::ReduceScatter => (ranks, 1),
        Collective::Broadcast => (of_root, ranks),
        Collective::Scatter => (of_root, 1),
        Collective::AllToAllV => ((0..ranks).map(part).sum(), ranks * part(job.rank())),
        _ => (ranks, ranks),
    }
}

fn meaning(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "everybody gets the sum of all buffers",
        Collective::AllGather => "everybody gets everybody's chunk",
        Collective::ReduceScatter => "each rank gets its chunk of the sum",
        Collective::Broadcast => "everybody gets the root's buffer",
        Collective::Reduce => "the root gets the sum",
        Collective::AllToAll => "chunk i of rank j becomes chunk j of rank i",
        Collective::Gather => "the root gets everybody's chunk",
        Collective::Scatter => "each rank gets its chunk of the root's buffer",
        Collective::SendRecv => "each rank sends to the next one, in a ring",
        Collective::HyperCube => "an all_gather in rounds, with rank ^ 1, rank ^ 2, ...",
        Collective::AllToAllV => "an alltoall of uneven parts: odd ranks get two elements",
    }
}
