//! The measurement of one case: fill, time, average over ranks, verify. The steps are those of nccl-tests, so that numbers are
//! comparable.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

pub use super::average::Average;
use super::{
    blocks::{Blocks, Reached},
    found::{Found, OwnFindings},
    memory_watch::MemoryWatch,
    per_rank,
    spent::{Part, PhaseTimes},
};
use crate::{
    backend::{Backend, Timing},
    collective::{Case, Counts, FaultTarget},
    record::{self, GroupResult, IterationStats, RankTime, RankTimes, Record, Status},
    units::{Bytes, Micros},
    world::{self, World, deadline, progress},
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
    /// Operations that a device gets at once, between which it shows no progress: those of a group or a graph.
    pub operations_at_once: u32,
    /// The reported time.
    pub average: Average,
    /// Whether to report the time to issue an operation to the device as well.
    pub reports_issue: bool,
    /// Half width of the interval of a case's mean time, in percent of it, up to which its timed block is repeated; `None` for
    /// a single block.
    pub precision: Option<f64>,
    /// First iterations that the statistics of single iterations exclude.
    pub skipped_iterations: u32,
    /// How long there may be no progress.
    pub timeout: Duration,
    /// What this rank changes, once, to show that the check can fail.
    pub inject_fault: Option<FaultTarget>,
    /// Seed of the data. It grows with each fill, so that no buffer passes the check with the data of an earlier case.
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

/// The ratio of this rank's own times to the mean over all ranks. Only cases without a root count: a root has more to do than
/// other ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelativeSpeed {
    sum: f64,
    cases: u32,
}

impl RelativeSpeed {
    fn add(&mut self, case: &Case, mine: f64, mean: f64) {
        if case.root.is_none() && mean > 0.0 {
            self.sum += mine / mean;
            self.cases += 1;
        }
    }

    /// Returns the mean ratio, 1 for a rank that takes as long as the mean; `None` if no case counts.
    pub fn mean(&self) -> Option<f64> {
        (self.cases > 0).then(|| self.sum / f64::from(self.cases))
    }
}

/// The timing of a case.
#[derive(Default)]
struct Timed {
    /// Time of one operation, over all ranks; `None` if it was not timed.
    time: Option<Micros>,
    /// Time in which process 0 issued one operation to the device.
    issue: Option<Micros>,
    /// The same for this process.
    my_issue: Option<Micros>,
    /// Time of one operation on this process, in microseconds.
    mine: Option<f64>,
    operations: u64,
    iteration_times: Option<IterationStats>,
    rank_times: Option<RankTimes>,
    blocks: u32,
    precision: Option<Reached>,
    /// Times of the iterations on this process.
    my_iteration_times: Vec<Micros>,
    computed: bool,
}

/// The results of one process, which are exchanged if there are several communicators.
#[derive(Serialize, Deserialize)]
struct ProcessResult {
    ranks: u64,
    counts: Counts,
    time: Option<f64>,
    issue: Option<Micros>,
    iteration_times: Vec<Micros>,
    wrong: Option<u64>,
}

impl Measure {
    /// Measures and checks one case. All ranks get the same record; with several communicators each process gets the record of
    /// its own, with the results of all in [`Record::groups`].
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
        let status = match found.wrong {
            _ if timed.computed => Status::Computed,
            None => Status::Unchecked,
            Some(0) => Status::Ok,
            Some(_) => Status::Wrong,
        };
        let note = match timed.time {
            _ if timed.computed => "computed by the model, not measured",
            None => "not timed (-n 0)",
            Some(_) => "",
        };
        let groups = self.groups(case, &timed, found.mine, world)?;
        let mut record = Record {
            cycle,
            started_at,
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
            note: note.into(),
            group: self.group,
            groups,
            ..Record::new(*case, status)
        };
        if !found.note.is_empty() {
            record.add_note(&found.note);
        }
        if let (Some(percent), Some(reached)) = (self.precision, timed.precision)
            && let Some(limit) = reached.limit
        {
            record.add_note(&format!("not as precise as {percent} % {limit}"));
        }
        Ok(record)
    }

    /// Returns the results of each communicator, if there are several; `wrong` are the wrong elements of this process.
    fn groups(
        &self,
        case: &Case,
        timed: &Timed,
        wrong: Option<u64>,
        world: &dyn World,
    ) -> anyhow::Result<Vec<GroupResult>> {
        let Some(group) = self.group else {
            return Ok(Vec::new());
        };
        let mine = ProcessResult {
            ranks: case.ranks,
            counts: case.counts,
            time: timed.mine,
            issue: timed.my_issue,
            iteration_times: timed.my_iteration_times.clone(),
            wrong,
        };
        let mut by_group: BTreeMap<u32, Vec<ProcessResult>> = BTreeMap::new();
        let mut groups = Vec::new();
        for (group, result) in world::all_gather(world, &(group, mine))? {
            by_group.entry(group).or_default().push(result);
            groups.push(group);
        }
        let mut ranks = per_rank::by_group(timed.rank_times.as_ref(), &groups);
        let mut results = Vec::new();
        for (group, of_processes) in by_group {
            let ranks = ranks.remove(&group).unwrap_or_default();
            results.push(self.group_result(case, group, &of_processes, ranks));
        }
        Ok(results)
    }

    /// Returns the result of one communicator from those of its processes and `ranks`.
    fn group_result(
        &self,
        case: &Case,
        group: u32,
        results: &[ProcessResult],
        ranks: Vec<RankTime>,
    ) -> GroupResult {
        let times: Vec<f64> = results.iter().filter_map(|result| result.time).collect();
        let iteration_times = longest(results.iter().map(|result| &result.iteration_times[..]));
        let failed = results
            .iter()
            .filter(|result| result.wrong.is_some_and(|wrong| wrong > 0));
        GroupResult {
            group,
            case: Case {
                ranks: results[0].ranks,
                counts: results[0].counts,
                ..*case
            },
            time: (!times.is_empty()).then(|| Micros(self.average.over_threads(&times))),
            issue: results[0].issue,
            iteration_times: IterationStats::new(iteration_times, self.skipped_iterations),
            rank_times: RankTimes::new(ranks),
            wrong: results
                .iter()
                .map(|result| result.wrong)
                .sum::<Option<u64>>()
                // The data of some cases are not checked; then only what is wrong elsewhere counts.
                .filter(|wrong| *wrong > 0 || case.is_checked()),
            failed_checks: failed.count() as u64,
        }
    }

    /// Times one case.
    fn time(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Timed> {
        let first = self.first_operation(case, world, backend)?;
        if self.iters == 0 {
            return Ok(Timed {
                computed: first.computed,
                ..Timed::default()
            });
        }
        progress::expect_operations_of(first.longest());
        let limit = self.limit_of_block(first.longest());
        let mut blocks = Blocks::default();
        let began = Instant::now();
        let reached = loop {
            self.time_block(case, limit, world, backend, &mut blocks)?;
            let Some(percent) = self.precision else {
                break None;
            };
            let reached = blocks.end(percent / 100.0, began, world)?;
            if reached.is_some() {
                break reached;
            }
        };
        let began = Instant::now();
        let timed = self.timed(case, blocks, reached, world);
        self.spent.add(Part::Together, began);
        Ok(timed)
    }

    /// Returns how long a block of operations may be without progress, if one operation takes `operation`. Operations that the
    /// device gets at once may take their time in addition.
    fn limit_of_block(&self, operation: Duration) -> Duration {
        match self.operations_at_once {
            0 | 1 => self.timeout,
            operations => self.timeout + operation.saturating_mul(operations),
        }
    }

    /// Times one block of operations, and adds it to `blocks`.
    fn time_block(
        &mut self,
        case: &Case,
        limit: Duration,
        world: &dyn World,
        backend: &mut dyn Backend,
        blocks: &mut Blocks,
    ) -> anyhow::Result<()> {
        let _guard = deadline::limit(format!("{} times {case}", self.iters), limit);
        if !blocks.times.is_empty() {
            // The ranks begin each block together, as they begin the first.
            world.barrier();
        }
        let began = Instant::now();
        let timing = backend.time(case, self.iters, &|| world.barrier())?;
        let began = self.spent.add(Part::Timed, began);
        let mine = self.over_threads(&timing.elapsed, timing.operations);
        let over_all = self.average.over_processes(mine, world);
        let iterations = gathered_iterations(&timing.iteration_times, world)?;
        blocks.add(&timing, over_all, iterations);
        self.spent.add(Part::Together, began);
        Ok(())
    }

    /// Returns the time of one operation on this process, if `operations` took its threads `elapsed`.
    fn over_threads(&self, elapsed: &[Duration], operations: u64) -> f64 {
        self.average.over_threads(&per_thread(elapsed, operations))
    }

    /// Returns the timing of a case that was timed in `blocks`.
    fn timed(
        &mut self,
        case: &Case,
        blocks: Blocks,
        precision: Option<Reached>,
        world: &dyn World,
    ) -> Timed {
        let mine = self.over_threads(&blocks.elapsed, blocks.operations);
        let over_all = blocks.mean();
        // Several communicators do different things at the same time.
        if self.group.is_none() {
            self.pace.add(case, mine, over_all);
        }
        let (mut issue, mut my_issue) = (None, None);
        if self.reports_issue {
            let mine = per_operation(blocks.issued, blocks.operations);
            my_issue = Some(Micros(mine));
            issue = Some(Micros(Average::First.over_processes(mine, world)));
        }
        let rank_times = if blocks.computed {
            None
        } else {
            RankTimes::new(self.rank_times(&blocks, world))
        };
        let own_iterations = blocks.iterations.get(world.rank() as usize);
        Timed {
            time: Some(Micros(over_all)),
            issue,
            my_issue,
            mine: Some(mine),
            operations: blocks.operations,
            iteration_times: self.over_ranks(&blocks.iterations),
            rank_times,
            blocks: blocks.times.len() as u32,
            precision,
            my_iteration_times: own_iterations.cloned().unwrap_or_default(),
            computed: blocks.computed,
        }
    }

    /// Fills the buffers.
    fn fill(&self, case: &Case, backend: &mut dyn Backend) -> anyhow::Result<()> {
        let what = format!("filling the buffers of {case}");
        let _guard = deadline::limit(what, self.timeout);
        backend.fill(case, self.seed)
    }

    /// Fills the buffers and runs one untimed operation. Returns how long it took.
    fn first_operation(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Timing> {
        progress::expect_operations_of(Duration::ZERO);
        let began = Instant::now();
        self.seed += 1;
        self.fill(case, backend)?;
        let began = self.spent.add(Part::Fill, began);
        let _guard = deadline::limit(format!("the first {case}"), self.timeout);
        let first = backend.run(case, 1)?;
        let began = self.spent.add(Part::First, began);
        world.barrier();
        self.spent.add(Part::Together, began);
        Ok(first)
    }

    /// Returns the statistics of the iterations of all processes; for each the process on which it took longest counts.
    fn over_ranks(&self, iterations: &[Vec<Micros>]) -> Option<IterationStats> {
        let longest = longest(iterations.iter().map(Vec::as_slice));
        IterationStats::new(longest, self.skipped_iterations)
    }

    /// Returns the time of each rank, in order.
    fn rank_times(&self, blocks: &Blocks, world: &dyn World) -> Vec<RankTime> {
        let threads = per_thread(&blocks.elapsed, blocks.operations);
        let mut ranks = per_rank::gather(&threads, self.ranks_per_thread, world);
        let per_process = per_rank::per_process(&ranks, world.size());
        for (ranks, iterations) in ranks.chunks_mut(per_process).zip(&blocks.iterations) {
            let statistics = IterationStats::new(iterations.clone(), self.skipped_iterations);
            for rank in ranks {
                rank.iterations.clone_from(&statistics);
            }
        }
        ranks
    }

    /// Runs the checks up to the first that fails. The data of some cases are not checked in place; what changed beside
    /// their buffers is.
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

/// Returns the time of one operation on each thread in microseconds, if `operations` took the threads `elapsed`.
fn per_thread(elapsed: &[Duration], operations: u64) -> Vec<f64> {
    elapsed
        .iter()
        .map(|&elapsed| per_operation(elapsed, operations))
        .collect()
}

/// Returns the time of one operation in microseconds, if `operations` took `elapsed`.
fn per_operation(elapsed: Duration, operations: u64) -> f64 {
    Micros::from(elapsed).0 / operations as f64
}

/// Returns the times of the iterations of each process; empty if they were not timed.
fn gathered_iterations(mine: &[Micros], world: &dyn World) -> anyhow::Result<Vec<Vec<Micros>>> {
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    world::all_gather(world, &mine.to_vec())
}

/// Returns the longest time of each iteration.
fn longest<'a>(all: impl Iterator<Item = &'a [Micros]>) -> Vec<Micros> {
    let mut longest: Vec<Micros> = Vec::new();
    for times in all {
        if longest.is_empty() {
            longest = times.to_vec();
        }
        for (longest, time) in longest.iter_mut().zip(times) {
            longest.0 = longest.0.max(time.0);
        }
    }
    longest
}

/// Returns the bytes of the largest buffer that every process can hold twice; `None` if there is no limit.
///
/// # Errors
/// Returns an error if a process cannot determine it.
pub fn capacity(world: &dyn World, backend: &dyn Backend) -> anyhow::Result<Option<Bytes>> {
    let mine = world::agree(world, backend.capacity())?;
    let all = world::all_gather(world, &mine)?;
    Ok(all.into_iter().flatten().min())
}
