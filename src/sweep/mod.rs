//! The sweep: plan, loop, measurement, and events that report progress. It prints nothing and
//! writes nothing.

mod average;
pub mod blocks;
mod capacity;
mod delay;
pub mod event;
mod found;
mod group_results;
mod injected_fault;
pub mod measure;
pub mod memory_watch;
mod per_rank;
pub mod plan;
mod relative_speed;
pub mod spent;
pub mod stragglers;
mod timed;
mod timing;

use std::{
    collections::{HashMap, VecDeque},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use crate::{
    backend::Backend,
    collective::{BufferMode, Case},
    record::{Record, Status},
    world::{World, deadline, progress, signal},
};
pub use capacity::capacity;
pub use delay::InjectedDelay;
pub use event::Event;
pub use injected_fault::InjectedFault;
use measure::Measure;
use plan::{Plan, Series};
use spent::Part;

/// The records of an earlier run, the same on every rank. A case can have several: sizes that round
/// to the same size are the same case.
#[derive(Debug, Default)]
pub struct EarlierRecords(HashMap<Case, VecDeque<Record>>);

impl FromIterator<Record> for EarlierRecords {
    fn from_iter<Records: IntoIterator<Item = Record>>(records: Records) -> EarlierRecords {
        let mut all: HashMap<Case, VecDeque<Record>> = HashMap::new();
        for record in records {
            all.entry(record.case).or_default().push_back(record);
        }
        EarlierRecords(all)
    }
}

impl EarlierRecords {
    fn take(&mut self, case: &Case) -> Option<Record> {
        self.0.get_mut(case)?.pop_front()
    }

    /// Returns how many of `cases` there is a record for.
    pub fn count_of(&self, cases: &[Case]) -> usize {
        let mut wanted: HashMap<&Case, usize> = HashMap::new();
        for case in cases {
            *wanted.entry(case).or_default() += 1;
        }
        let found = wanted.into_iter();
        found.map(|(case, count)| self.count(case).min(count)).sum()
    }

    /// Returns whether there is a record for each of `cases`.
    fn has_all(&self, cases: &[Case]) -> bool {
        self.count_of(cases) == cases.len()
    }

    fn count(&self, case: &Case) -> usize {
        self.0.get(case).map_or(0, VecDeque::len)
    }
}

/// Runs every case of `plan`, out of place and in place, and passes each event to `emit`. Every
/// rank makes the same call. A case that is in `earlier` is not measured again. With
/// [`Measure::repeat_for`] all of it is repeated until the time is over; each pass counts as a
/// cycle, and only the first has [`Event::Series`] and waived cases.
///
/// Returns whether a signal ended the sweep before the last case.
///
/// # Errors
/// Returns an error if the backend or `emit` fails. Other ranks may have no error, so the caller
/// must end the job.
pub fn run(
    plan: &Plan,
    earlier: EarlierRecords,
    measure: &mut Measure,
    world: &dyn World,
    backend: &mut dyn Backend,
    emit: &mut dyn FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let can_run = plan.cases().any(|case| backend.supports(case).is_ok());
    let passes = match measure.repeat_for {
        Some(_) if can_run => u32::MAX,
        _ => 1,
    };
    let mut sweep = Sweep {
        earlier,
        measure,
        world,
        backend,
        emit,
        began: Instant::now(),
    };
    for pass in 0..passes {
        for series in &plan.series {
            if let ControlFlow::Break(end) = sweep.series(series, pass)? {
                return Ok(end == End::Stopped);
            }
        }
    }
    Ok(false)
}

/// The reason for which a sweep ends before its last case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A rank received a signal.
    Stopped,
    /// The time of [`Measure::repeat_for`] is over.
    TimeIsOver,
}

/// What the parts of a sweep share.
struct Sweep<'a> {
    earlier: EarlierRecords,
    measure: &'a mut Measure,
    world: &'a dyn World,
    backend: &'a mut dyn Backend,
    emit: &'a mut dyn FnMut(Event) -> anyhow::Result<()>,
    began: Instant,
}

impl Sweep<'_> {
    /// Runs the cycles of a series.
    fn series(&mut self, series: &Series, pass: u32) -> anyhow::Result<ControlFlow<End>> {
        if pass == 0 {
            self.start_series(series)?;
        }
        let cycles = match self.measure.cycles {
            // Endless: a signal ends it.
            0 => u32::MAX,
            cycles => cycles,
        };
        for cycle in 0..cycles {
            for case in &series.cases {
                let end = self.case(case, pass.saturating_add(cycle))?;
                if end.is_break() {
                    return Ok(end);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs the warm-up of a series.
    fn start_series(&mut self, series: &Series) -> anyhow::Result<()> {
        (self.emit)(Event::Series(series))?;
        if !self.earlier.has_all(&series.cases) {
            let began = Instant::now();
            warm_up(&series.warm_up, self.measure, self.world, self.backend)?;
            self.measure.spent.add(Part::WarmUp, began);
        }
        Ok(())
    }

    /// Measures a case, unless an earlier run has, or the sweep ends before it.
    fn case(&mut self, case: &Case, cycle: u32) -> anyhow::Result<ControlFlow<End>> {
        let supported = self.backend.supports(case);
        let repeats = self.measure.repeat_for.is_some() && cycle > 0;
        if repeats && supported.is_err() {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(record) = self.earlier.take(case) {
            (self.emit)(Event::Earlier(&record))?;
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(end) = self.end_before(case) {
            return Ok(ControlFlow::Break(end));
        }
        (self.emit)(Event::Started(case))?;
        let record = match supported {
            Ok(()) => self.measure.case(case, cycle, self.world, self.backend)?,
            Err(why) => waived(case, self.measure, cycle, why.0),
        };
        let began = Instant::now();
        let writing = deadline::limit(format!("writing down {case}"), self.measure.timeout);
        (self.emit)(Event::Finished(&record))?;
        drop(writing);
        if repeats {
            self.measure.memory.look(self.backend)?;
        }
        self.measure.spent.add(Part::Output, began);
        Ok(ControlFlow::Continue(()))
    }

    /// Returns why the sweep ends before `case`, if it does. All ranks get the same answer, in one
    /// exchange: any rank may have received a signal, and the clock of process 0 tells whether the
    /// time is over. A pair of cases, out of place and in place, stays together.
    fn end_before(&self, case: &Case) -> Option<End> {
        const TIME_IS_OVER: u64 = 1 << 32;
        let mut own = u64::from(signal::received().is_some());
        if let Some(time) = self.measure.repeat_for
            && self.world.rank() == 0
            && case.buffer_mode == BufferMode::OutOfPlace
            && self.began.elapsed() >= time
        {
            own += TIME_IS_OVER;
        }
        let sum = self.world.all_reduce_sum(own);
        if !sum.is_multiple_of(TIME_IS_OVER) {
            Some(End::Stopped)
        } else if sum > 0 {
            Some(End::TimeIsOver)
        } else {
            None
        }
    }
}

/// Runs the untimed operations before a series, as in nccl-tests: out of place, doubling the size
/// each step. NCCL sets up its connections here.
fn warm_up(
    cases: &[Case],
    measure: &Measure,
    world: &dyn World,
    backend: &mut dyn Backend,
) -> anyhow::Result<()> {
    let _guard = deadline::limit("the barrier before the warm-up", measure.timeout);
    world.barrier();
    if measure.warmup == 0 {
        return Ok(());
    }
    for case in cases {
        if backend.supports(case).is_err() {
            continue;
        }
        progress::expect_operations_of(Duration::ZERO);
        let _guard = deadline::limit(format!("warming up {case}"), measure.timeout);
        backend.run(case, measure.warmup)?;
    }
    Ok(())
}

/// Returns whether any rank was asked to stop. All ranks get the same answer.
fn stop_is_asked(world: &dyn World) -> bool {
    world.all_reduce_sum(signal::received().is_some().into()) > 0
}

/// Returns the record of a case that cannot run. It has no group: either all communicators waive a
/// case, or none.
fn waived(case: &Case, measure: &Measure, cycle: u32, note: String) -> Record {
    Record {
        cycle,
        iters: measure.iters,
        note,
        ..Record::new(*case, Status::Waived)
    }
}
