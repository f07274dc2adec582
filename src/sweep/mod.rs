//! The sweep: plan, loop, measurement, and events that say what happened. It prints nothing and writes nothing.

pub mod event;
pub mod measure;
pub mod plan;
pub mod spent;

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use crate::{
    backend::Backend,
    collective::Case,
    record::{self, NcclEvidence, Record, Status},
    world::{World, deadline, signal},
};
pub use event::Event;
use measure::Measure;
use plan::Plan;
use spent::Part;

/// What an earlier run measured, the same on every rank: each record for one case, for sizes that round to the same one are
/// the same case.
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

    /// Is there a record for each of `cases`?
    fn has_all(&self, cases: &[Case]) -> bool {
        let mut wanted: HashMap<&Case, usize> = HashMap::new();
        cases
            .iter()
            .for_each(|case| *wanted.entry(case).or_default() += 1);
        wanted.into_iter().all(|(case, count)| {
            self.0
                .get(case)
                .is_some_and(|records| records.len() >= count)
        })
    }
}

/// Runs every case of `plan`, out of place and in place, and tells `emit` what happens. Every rank calls it alike. A case
/// that is in `earlier` is not measured again.
///
/// Returns whether a signal ended it before the last case.
///
/// # Errors
/// Where the backend or `emit` fails. The error is this rank's alone: the job has to be ended.
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
        // Without end where no number is given: a signal ends it.
        let cycles = if measure.cycles == 0 {
            u32::MAX
        } else {
            measure.cycles
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

/// As in nccl-tests: out of place, over the sizes doubled, not timed. It also makes NCCL set up its connections.
fn warm_up(
    cases: &[Case],
    measure: &Measure,
    world: &dyn World,
    backend: &mut dyn Backend,
) -> anyhow::Result<()> {
    let cases = cases
        .iter()
        .filter(|case| measure.warmup > 0 && backend.supports(case).is_ok());
    let cases: Vec<&Case> = cases.collect();
    let _guard = deadline::watch("the barrier before the warm-up", measure.timeout);
    world.barrier();
    for case in cases {
        let _guard = deadline::watch(
            format!("warming up {case}"),
            measure.timeout * measure.warmup,
        );
        backend.run(case, measure.warmup)?;
    }
    Ok(())
}

/// Has any rank been asked to stop? All ranks get the same answer.
fn stop_is_asked(world: &dyn World) -> bool {
    world.all_reduce_sum(signal::received().is_some().into()) > 0
}

fn waived(case: &Case, measure: &Measure, cycle: u32, note: String) -> Record {
    Record {
        case: *case,
        cycle,
        started_at: record::now(),
        iters: measure.iters,
        time: None,
        issue: None,
        iteration_times: None,
        wrong: None,
        failed_checks: 0,
        status: Status::Waived,
        note,
        seen: NcclEvidence::default(),
        pattern: case.pattern(),
        // All communicators waive it, or none.
        group: None,
        groups: Vec::new(),
    }
}
