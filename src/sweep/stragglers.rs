//! The search for stragglers: a pass of its own after the sweep, which times single operations that
//! follow a barrier.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    delay::{Delays, InjectedDelay},
    stop_is_asked,
};
use crate::{
    backend::Backend,
    collective::{Case, Collective},
    stats::lateness::{CaseLateness, Late, RankIteration, median},
    units::Micros,
    world::{self, World, deadline},
};

/// Iterations between two exchanges of times.
const BATCH: u32 = 20;

/// Fewer iterations clear nobody.
const FEWEST: u32 = 100;

/// A case whose result is not clear ends with this many.
const MOST: u32 = 400;

/// After this time a case ends with the batch that runs.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Iterations before those that count, which find the time of an operation.
const TRIALS: u32 = 10;

/// The pass over some cases.
#[derive(Clone, Debug)]
pub struct StragglerSearch {
    /// How long there may be no progress.
    pub timeout: Duration,
    /// The delay of a self-test.
    pub delay: Option<InjectedDelay>,
    /// Seed of the data.
    pub seed: u64,
}

/// Returns why times of `case` do not tell who is late; `None` if they do. Only in a collective
/// where every rank needs data of every other does nobody end before all have arrived.
pub fn cannot_tell(case: &Case) -> Option<&'static str> {
    use Collective::{
        AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, Gather, HyperCube, Reduce,
        ReduceScatter, Scatter, SendRecv,
    };
    match case.collective {
        AllReduce | AllGather | ReduceScatter | AllToAll | HyperCube => None,
        AllToAllV if is_full(case) => None,
        AllToAllV => Some("not every rank sends to every other"),
        Broadcast | Reduce | Gather | Scatter | SendRecv => {
            Some("a rank may end before all have arrived")
        }
    }
}

/// Tells whether every rank receives from every other.
fn is_full(case: &Case) -> bool {
    let receives_all = |rank| case.flows(rank).iter().all(|flow| flow.recv > 0);
    (0..case.ranks).all(receives_all)
}

impl StragglerSearch {
    /// Observes each of `cases`, which the backend supports. All processes get the same result; a
    /// signal ends the pass early.
    ///
    /// # Errors
    /// Returns an error if the backend fails. Other ranks may have no error, so the caller must end
    /// the job.
    pub fn run(
        &self,
        cases: &[Case],
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Vec<CaseLateness>> {
        let mut observed = Vec::with_capacity(cases.len());
        for case in cases {
            if stop_is_asked(world) {
                break;
            }
            observed.push(self.observe(case, cases.len(), world, backend)?);
        }
        Ok(observed)
    }

    /// Observes one of `cases` cases until it is clear who is late, or for the most iterations or
    /// the longest time.
    fn observe(
        &self,
        case: &Case,
        cases: usize,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<CaseLateness> {
        let _guard = deadline::limit(format!("the first operations of {case}"), self.timeout);
        backend.fill(case, self.seed)?;
        backend.run(case, 1)?;
        let mut own = Vec::with_capacity(BATCH as usize);
        for _ in 0..TRIALS {
            own.push(iteration(case, None, world, backend)?);
        }
        let mut delays = self.own_delays(world);
        let mut by_rank = vec![Vec::new(); world.size() as usize];
        let began = Instant::now();
        loop {
            let what = format!("looking for stragglers in {case}");
            let _guard = deadline::limit(what, self.timeout);
            // A rank that is late waits for nobody, so its own operations just now tell how long
            // one takes.
            let mut operations: Vec<f64> = own.iter().map(|own| own.operation).collect();
            let operation_us = median(&mut operations);
            own.clear();
            for _ in 0..BATCH {
                let delay = delays
                    .as_mut()
                    .map(|(delays, kind)| (*kind, delays.next_wait(operation_us)));
                own.push(iteration(case, delay, world, backend)?);
            }
            gather(&own, &mut by_rank, world)?;
            let lateness = CaseLateness::new(&by_rank);
            let count = lateness.iterations;
            let is_enough = count >= MOST || (count >= FEWEST && lateness.is_clear(cases));
            // The clock of process 0 decides for all.
            if world::broadcast(world, &(is_enough || began.elapsed() > TIME_LIMIT))? {
                return Ok(lateness);
            }
        }
    }

    /// Returns the delays of this process, if it has any.
    fn own_delays(&self, world: &dyn World) -> Option<(Delays, Late)> {
        let delay = self.delay.as_ref()?;
        (delay.rank == world.rank()).then(|| (delay.start(), delay.kind))
    }
}

/// Adds the times of every process to those in `by_rank`.
fn gather(
    own: &[RankIteration],
    by_rank: &mut [Vec<RankIteration>],
    world: &dyn World,
) -> anyhow::Result<()> {
    for (rank, times) in world::all_gather(world, &own.to_vec())?
        .into_iter()
        .enumerate()
    {
        by_rank[rank].extend(times);
    }
    Ok(())
}

/// Times one operation after a barrier; `delay` delays this process before it or at its end.
fn iteration(
    case: &Case,
    delay: Option<(Late, Duration)>,
    world: &dyn World,
    backend: &mut dyn Backend,
) -> anyhow::Result<RankIteration> {
    // The first barrier waits for ranks that are late, and the second one is timed.
    world.barrier();
    let entered = Instant::now();
    world.barrier();
    let released = Instant::now();
    if let Some((Late::Arrival, delay)) = delay {
        wait(delay);
    }
    let timing = backend.run(case, 1)?;
    let run_ended = Instant::now();
    if let Some((Late::Transfer, delay)) = delay {
        wait(delay);
    }
    let total = released.elapsed();
    let longest = timing.longest();
    // What runs an operation inside the call does not hand it over to anybody: it has started at
    // once.
    let handing_over = if timing.issued < longest {
        timing.issued
    } else {
        Duration::ZERO
    };
    let operation = (longest - handing_over) + (total - (run_ended - released));
    Ok(RankIteration {
        barrier: Micros::from(released - entered).0,
        total: Micros::from(total).0,
        operation: Micros::from(operation).0,
    })
}

fn wait(delay: Duration) {
    if !delay.is_zero() {
        thread::sleep(delay);
    }
}
