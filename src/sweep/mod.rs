//! The sweep: plan, loop, measurement, and events that report progress. It prints nothing and writes nothing.

mod average;
pub mod blocks;
mod delay;
pub mod event;
pub mod measure;
mod per_rank;
pub mod plan;
pub mod spent;
pub mod stragglers;

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use crate::{
    backend::Backend,
    collective::Case,
    record::{Record, Status},
    world::{World, deadline, signal},
};
pub use delay::InjectedDelay;
pub use event::Event;
use measure::Measure;
use plan::Plan;
use spent::Part;

/// The records of an earlier run, the same on every rank. A case can have several: sizes that round to the same size are the
/// same case.
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

    /// Returns whether there is a record for each of `cases`.
    fn has_all(&self, cases: &[Case]) -> bool {
        let mut wanted: HashMap<&Case, usize> = HashMap::new();
        for case in cases {
            *wanted.entry(case).or_default() += 1;
        }
        wanted
            .into_iter()
            .all(|(case, count)| self.count(case) >= count)
    }

    fn count(&self, case: &Case) -> usize {
        self.0.get(case).map_or(0, VecDeque::len)
    }
}

/// Runs every case of `plan`, out of place and in place, and passes each event to `emit`. Every rank makes the same call. A
/// case that is in `earlier` is not measured again.
///
/// Returns whether a signal ended the sweep before the last case.
///
/// # Errors
/// Returns an error if the backend or `emit` fails. Other ranks may have no error, so the caller must end the job.
pub fn run(
    plan: &Plan,
    mut earlier: EarlierRecords,
    measure: &mut Measure,
    world: &dyn World,
    backend: &mut dyn Backend,
    emit: &mut dyn FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    for series in &plan.series {
        emit(Event::Series(series))?;
        if !earlier.has_all(&series.cases) {
            let began = Instant::now();
            warm_up(&series.warm_up, measure, world, backend)?;
            measure.spent.add(Part::WarmUp, began);
        }
        let cycles = match measure.cycles {
            // Endless: a signal ends it.
            0 => u32::MAX,
            cycles => cycles,
        };
        for cycle in 0..cycles {
            for case in &series.cases {
                if let Some(record) = earlier.take(case) {
                    emit(Event::Earlier(&record))?;
                    continue;
                }
                if stop_is_asked(world) {
                    return Ok(true);
                }
                emit(Event::Started(case))?;
                let record = match backend.supports(case) {
                    Ok(()) => measure.case(case, cycle, world, backend)?,
                    Err(why) => waived(case, measure, cycle, why.0),
                };
                let began = Instant::now();
                emit(Event::Finished(&record))?;
                measure.spent.add(Part::Output, began);
            }
        }
    }
    Ok(false)
}

/// Runs the untimed operations before a series, as in nccl-tests: out of place, doubling the size each step. NCCL sets up its
/// connections here.
fn warm_up(
    cases: &[Case],
    measure: &Measure,
    world: &dyn World,
    backend: &mut dyn Backend,
) -> anyhow::Result<()> {
    let _guard = deadline::watch("the barrier before the warm-up", measure.timeout);
    world.barrier();
    if measure.warmup == 0 {
        return Ok(());
    }
    for case in cases {
        if backend.supports(case).is_err() {
            continue;
        }
        let limit = measure.timeout * measure.warmup;
        let _guard = deadline::watch(format!("warming up {case}"), limit);
        backend.run(case, measure.warmup)?;
    }
    Ok(())
}

/// Returns whether any rank was asked to stop. All ranks get the same answer.
fn stop_is_asked(world: &dyn World) -> bool {
    world.all_reduce_sum(signal::received().is_some().into()) > 0
}

/// Returns the record of a case that cannot run. It has no group: either all communicators waive a case, or none.
fn waived(case: &Case, measure: &Measure, cycle: u32, note: String) -> Record {
    Record {
        cycle,
        iters: measure.iters,
        note,
        ..Record::new(*case, Status::Waived)
    }
}
