//! One case: warm, time, reduce over ranks, verify. A number is made as nccl-tests makes it, so that numbers compare.

use std::time::Duration;

use crate::{
    backend::Backend,
    collective::Case,
    record::{self, Record, Seen, Status},
    units::{Bytes, Micros},
    world::{World, deadline},
};

/// How cases are measured.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Timed operations.
    pub iters: u32,
    /// Untimed operations of each size before a group.
    pub warmup: u32,
    /// Checks after the timing; 0 for none.
    pub checks: u32,
    /// How long a single operation may take.
    pub timeout: Duration,
    /// This rank flips one element, once, to show that the check can fail.
    pub inject_fault: bool,
    /// Grows with each fill, so that no buffer passes with what an earlier case left in it.
    pub seed: u64,
    /// This rank's times against the mean over all ranks.
    pub pace: Pace,
}

/// How this rank's own times compare with the mean over all ranks, over the cases in which all ranks do the same: a root
/// has more to do than the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    sum: f64,
    cases: u32,
}

impl Pace {
    fn add(&mut self, case: &Case, mine: f64, mean: f64) {
        if case.root.is_none() && mean > 0.0 {
            self.sum += mine / mean;
            self.cases += 1;
        }
    }

    /// 1 for a rank that takes as long as the mean; `None` where nothing tells.
    pub fn mean(&self) -> Option<f64> {
        (self.cases > 0).then(|| self.sum / f64::from(self.cases))
    }
}

/// The timed operations may take this many times what the first one took, each.
const SLACK: u32 = 10;

impl Measure {
    /// Measures and checks one case.
    ///
    /// # Errors
    /// Where the backend fails.
    pub fn case(&mut self, case: &Case, world: &dyn World, backend: &mut dyn Backend) -> anyhow::Result<Record> {
        let started_at = record::now();
        let (time, computed) = self.time(case, world, backend)?;
        let checked = self.checks > 0 && case.is_checked() && !computed;
        let (wrong, failed_checks) = if checked { self.verify(case, world, backend)? } else { (None, 0) };
        let status = match wrong {
            _ if computed => Status::Computed,
            None => Status::Unchecked,
            Some(0) => Status::Ok,
            Some(_) => Status::Wrong,
        };
        let note = if computed { "computed by the model, not measured".into() } else { String::new() };
        let (iters, seen) = (self.iters, Seen::default());
        Ok(Record { case: *case, started_at, iters, time: Some(time), wrong, failed_checks, status, note, seen })
    }

    /// Time of one operation, mean over ranks, and whether it was computed.
    fn time(&mut self, case: &Case, world: &dyn World, backend: &mut dyn Backend) -> anyhow::Result<(Micros, bool)> {
        let first = {
            let _guard = deadline::watch(format!("the first {case}"), self.timeout);
            self.seed += 1;
            backend.fill(case, self.seed)?;
            let first = backend.run(case, 1)?;
            world.barrier();
            first
        };
        let limit = self.timeout.max(first.elapsed * SLACK * self.iters);
        let _guard = deadline::watch(format!("{} times {case}", self.iters), limit);
        let timing = backend.run(case, self.iters)?;
        let mine = Micros::from(timing.elapsed).0 / f64::from(self.iters);
        let mean = world.mean(mine);
        self.pace.add(case, mine, mean);
        Ok((Micros(mean), timing.computed))
    }

    /// Wrong elements over all ranks, and how many ranks found any. Stops at the first check that fails.
    fn verify(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<(Option<u64>, u64)> {
        for _ in 0..self.checks {
            let _guard = deadline::watch(format!("checking {case}"), self.timeout);
            self.seed += 1;
            backend.fill(case, self.seed)?;
            // Nobody may receive from a rank that still fills.
            world.barrier();
            backend.run(case, 1)?;
            if self.inject_fault && backend.corrupt(case)? {
                self.inject_fault = false;
            }
            let mine = backend.count_wrong(case, self.seed)?;
            let (wrong, failed) = (world.sum(mine), world.sum((mine > 0).into()));
            if wrong > 0 {
                return Ok((Some(wrong), failed));
            }
        }
        Ok((Some(0), 0))
    }
}

/// Bytes of the largest buffer that every process can hold twice; `None` where nothing limits it.
///
/// # Errors
/// Where a process cannot say.
pub fn capacity(world: &dyn World, backend: &dyn Backend) -> anyhow::Result<Option<Bytes>> {
    let mine = crate::world::together(world, backend.capacity())?;
    let all = crate::world::gather(world, &mine)?;
    Ok(all.into_iter().flatten().min())
}
