//! The measurement of one case: fill, time, average over ranks, verify. The steps are those of
//! nccl-tests, so that numbers are comparable. `timing` has the timing, and `group_results` what
//! communicators measure side by side.

use std::time::{Duration, Instant};

pub use super::{average::Average, relative_speed::RelativeSpeed};
use super::{
    blocks::Reached,
    found::{Found, OwnFindings},
    memory_watch::MemoryWatch,
    spent::{Part, PhaseTimes},
    timed::Timed,
};
use crate::{
    backend::Backend,
    collective::{Case, FaultTarget},
    record::{self, Record, Status},
    world::{World, deadline, rest},
};

/// The method of measurement, and its state over a sweep.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Timed iterations; 0 to check without timing.
    pub iters: u32,
    /// Untimed operations per size before a series.
    pub warmup: u32,
    /// Checks per case, after the timing.
    pub checks: u32,
    /// Cycles over the sizes of a series; 0 for endless.
    pub cycles: u32,
    /// Operations of a timed case per iteration.
    pub operations: u32,
    /// Operations that a device gets at once, between which it shows no progress: those of a group
    /// or a graph.
    pub operations_at_once: u32,
    /// The reported time.
    pub average: Average,
    /// Whether to report the time to issue an operation to the device as well.
    pub reports_issue: bool,
    /// Half width of the interval of a case's mean time, in percent of it, up to which its timed
    /// block is repeated; `None` for a single block.
    pub precision: Option<f64>,
    /// First iterations that the statistics of single iterations exclude.
    pub skipped_iterations: u32,
    /// How long there may be no progress.
    pub timeout: Duration,
    /// What this rank changes, once, to show that the check can fail.
    pub inject_fault: Option<FaultTarget>,
    /// Seed of the data. It grows with each fill, so that no buffer passes the check with the data
    /// of an earlier case.
    pub seed: u64,
    /// This rank's times relative to the mean over all ranks.
    pub pace: RelativeSpeed,
    /// The communicator of this process, if several are measured at the same time.
    pub group: Option<u32>,
    /// Ranks of a thread, which share its time.
    pub ranks_per_thread: u32,
    /// How long the sweep is repeated; `None` for [`Measure::cycles`].
    pub repeat_for: Option<Duration>,
    /// Memory of this process while the sweep is repeated.
    pub memory: MemoryWatch,
    /// Time by part.
    pub spent: PhaseTimes,
}

impl Default for Measure {
    /// Returns the defaults of nccl-tests.
    fn default() -> Measure {
        Measure {
            iters: 20,
            warmup: 1,
            checks: 1,
            cycles: 1,
            operations: 1,
            operations_at_once: 1,
            average: Average::Mean,
            reports_issue: false,
            precision: None,
            skipped_iterations: 0,
            timeout: Duration::from_secs(600),
            inject_fault: None,
            seed: 0,
            pace: RelativeSpeed::default(),
            group: None,
            ranks_per_thread: 1,
            repeat_for: None,
            memory: MemoryWatch::default(),
            spent: PhaseTimes::default(),
        }
    }
}

impl Measure {
    /// Measures and checks one case. All ranks get the same record; with several communicators each
    /// process gets the record of its own, with the results of all in [`Record::groups`].
    ///
    /// # Errors
    /// Returns an error if the backend fails.
    pub fn case(
        &mut self,
        case: &Case,
        cycle: u32,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Record> {
        let started_at = record::now();
        let timed = self.time(case, world, backend)?;
        let found = if self.checks > 0 && !timed.computed {
            self.verify(case, world, backend)?
        } else {
            Found::default()
        };
        let groups = self.groups(case, &timed, found.mine, world)?;
        let imprecise = self.imprecision(timed.precision);
        let mut record = Record {
            cycle,
            started_at,
            note: note(&timed).into(),
            iters: timed.operations.try_into().unwrap_or(u32::MAX),
            time: timed.time,
            issue: timed.issue,
            iteration_times: timed.iteration_times,
            rank_times: timed.rank_times,
            precision: timed.precision.and_then(|reached| reached.relative),
            blocks: self.precision.and(timed.time).map(|_| timed.blocks),
            wrong: found.wrong,
            wrong_outside: found.outside,
            failed_checks: found.failed_checks,
            group: self.group,
            groups,
            ..Record::new(*case, status(timed.computed, found.wrong))
        };
        if !found.note.is_empty() {
            record.add_note(&found.note);
        }
        if let Some(note) = imprecise {
            record.add_note(&note);
        }
        Ok(record)
    }

    /// Returns what to say of a case that ended before it was as precise as requested.
    fn imprecision(&self, reached: Option<Reached>) -> Option<String> {
        let (percent, limit) = (self.precision?, reached?.limit?);
        Some(format!("not as precise as {percent} % {limit}"))
    }

    /// Fills the buffers. Nothing is timed here, so that it is the time to rest as well.
    pub(super) fn fill(&self, case: &Case, backend: &mut dyn Backend) -> anyhow::Result<()> {
        rest::if_due();
        let what = format!("filling the buffers of {case}");
        let _guard = deadline::limit(what, self.timeout);
        backend.fill(case, self.seed)
    }

    /// Runs the checks up to the first that fails. The data of some cases are not checked in place;
    /// what changed beside their buffers is.
    fn verify(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Found> {
        let mut found = Found::default();
        for _ in 0..self.checks {
            let began = Instant::now();
            self.seed += 1;
            self.fill(case, backend)?;
            let _guard = deadline::limit(format!("checking {case}"), self.timeout);
            backend.guard(case, self.seed)?;
            let began = self.spent.add(Part::Fill, began);
            // No rank may receive from one that is still filling its buffers.
            world.barrier();
            let began = self.spent.add(Part::Together, began);
            backend.once(case)?;
            if let Some(target) = self.inject_fault
                && backend.corrupt(case, target)?
            {
                self.inject_fault = None;
            }
            let wrong = if case.is_checked() {
                Some(backend.count_wrong(case, self.seed)?)
            } else {
                None
            };
            let damage = backend.damage(case, self.seed)?;
            let began = self.spent.add(Part::Checks, began);
            found = OwnFindings { wrong, damage }.together(self.group, world)?;
            self.spent.add(Part::Together, began);
            if found.failed_checks > 0 {
                break;
            }
        }
        Ok(found)
    }
}

/// Returns the status of a case with `wrong` elements; `None` if its data were not checked.
fn status(is_computed: bool, wrong: Option<u64>) -> Status {
    match wrong {
        _ if is_computed => Status::Computed,
        None => Status::Unchecked,
        Some(0) => Status::Ok,
        Some(_) => Status::Wrong,
    }
}

/// Returns what there is to say of a time.
fn note(timed: &Timed) -> &'static str {
    match timed.time {
        _ if timed.computed => "computed by the model, not measured",
        None => "not timed (-n 0)",
        Some(_) => "",
    }
}
