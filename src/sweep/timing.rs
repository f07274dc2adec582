//! How a case is timed: a first operation, and blocks of operations.

use std::time::{Duration, Instant};

use super::{
    average::Average,
    blocks::{Blocks, Reached},
    measure::Measure,
    per_rank,
    spent::Part,
    timed::{Timed, longest, per_operation, per_thread},
};
use crate::{
    backend::{Backend, Timing},
    collective::Case,
    record::{IterationStats, RankTime, RankTimes},
    units::Micros,
    world::{self, World, deadline, progress, rest},
};

impl Measure {
    /// Times one case.
    pub(super) fn time(
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

    /// Returns how long a block of operations may be without progress, if one operation takes
    /// `operation`. Operations that the device gets at once may take their time in addition.
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
            rest::if_due();
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

    /// Returns the time of one operation on this process, if `operations` took its threads
    /// `elapsed`.
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

    /// Returns the statistics of the iterations of all processes; for each the process on which it
    /// took longest counts.
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
}

/// Returns the times of the iterations of each process; empty if they were not timed.
fn gathered_iterations(mine: &[Micros], world: &dyn World) -> anyhow::Result<Vec<Vec<Micros>>> {
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    world::all_gather(world, &mine.to_vec())
}
