//! The replay of a training step: how long the step takes in each [`StepMode`], and how long each
//! collective takes alone and in the step.
//!
//! Each block runs the step in every mode, in an order that is balanced over the blocks, so that
//! what slows the machine down for a while affects all modes alike. Nothing here prints or writes
//! files.

mod exposure;
pub mod files;
mod kind;
mod parts;
mod proof;
mod quartiles;
mod result;
mod saved;
pub mod table;
mod timeline;

use std::{collections::HashSet, time::Duration};

use serde::{Deserialize, Serialize};

pub use exposure::{Exposure, RESOLUTION};
pub use kind::CollectiveKind;
pub use parts::{CommunicationPart, CommunicationParts};
pub use proof::{KindProof, ReplayProof, StepConnections};
pub use quartiles::{Quartiles, median};
pub use result::{OperationTimes, ReplayResult, StepSample};
pub use saved::{BlockTimes, ReplayQuantity, SavedReplay, TimesOfSteps, read_steps};
pub use timeline::{RankTimeline, chrome_trace};

use crate::{
    backend::step::{StepBackend, StepMode, StepTimes},
    collective::Case,
    stats::BlockOrder,
    units::Micros,
    workload::{Step, StepWork},
    world::{self, World, deadline, signal},
};

/// The most ranks whose times the timeline shows.
const MOST_TIMELINES: u32 = 64;

/// How a step is measured.
#[derive(Clone, Debug)]
pub struct ReplayMeasure {
    /// The number of blocks, in each of which every mode runs.
    pub blocks: u32,
    /// Timed steps of each mode in a block.
    pub steps: u32,
    /// Steps of each mode in a block before the timed ones.
    pub warmup: u32,
    /// The seed of the order of the modes, and of the data that are checked.
    pub seed: u64,
    /// Whether the result of each collective is checked before the first block.
    pub verify: bool,
    /// How long a step may make no progress.
    pub timeout: Duration,
}

/// A listener to the stages of a replay. Every rank makes the same calls.
pub trait ReplayObserver {
    /// Hears that a collective of the communicator with this index was checked, while nothing else
    /// ran.
    fn checked(&mut self, communicator: usize);

    /// Takes the result so far after a block. The result is the same on every rank.
    ///
    /// # Errors
    /// Returns an error if the result cannot be kept, which ends the replay.
    fn measured(&mut self, result: &ReplayResult) -> anyhow::Result<()>;
}

/// Checks the result of every kind of collective of `step`, then measures all blocks, or those
/// until a signal comes. Every rank makes the same call.
///
/// # Errors
/// Returns an error if the backend or `observer` fails. Other ranks may have no error, so the
/// caller must end the job.
pub fn run(
    step: &Step,
    measure: &ReplayMeasure,
    world: &dyn World,
    backend: &mut dyn StepBackend,
    observer: &mut dyn ReplayObserver,
) -> anyhow::Result<ReplayResult> {
    let mut replay = Replay {
        step,
        measure,
        world,
        backend,
        result: ReplayResult::default(),
    };
    if measure.verify {
        replay.verify(observer)?;
    }
    let mut order = BlockOrder::new(StepMode::ALL.len(), measure.seed);
    for block in 0..measure.blocks {
        replay.block(block, &order.next_block())?;
        observer.measured(&replay.result)?;
        if any_rank_is_stopped(world) {
            replay.result.is_stopped = true;
            break;
        }
    }
    Ok(replay.result)
}

fn any_rank_is_stopped(world: &dyn World) -> bool {
    world.all_reduce_sum(signal::received().is_some().into()) > 0
}

/// A replay while it is measured.
struct Replay<'a> {
    step: &'a Step,
    measure: &'a ReplayMeasure,
    world: &'a dyn World,
    backend: &'a mut dyn StepBackend,
    result: ReplayResult,
}

/// The times of one rank in one mode of one block, as the ranks exchange them.
#[derive(Serialize, Deserialize)]
struct ModeTimes {
    /// The time of each step.
    totals: Vec<Micros>,
    /// The median time of each operation, `None` for one that did not run; empty in modes whose
    /// operations are not reported.
    operations: Vec<Option<Micros>>,
    /// The operations of the last step, on ranks that the timeline shows.
    timeline: Option<RankTimeline>,
}

impl Replay<'_> {
    /// Runs each distinct collective once, and counts the wrong elements on all ranks.
    fn verify(&mut self, observer: &mut dyn ReplayObserver) -> anyhow::Result<()> {
        let mut seen: HashSet<(usize, Case)> = HashSet::new();
        for operation in &self.step.operations {
            let StepWork::Collective { communicator, case } = operation.work else {
                continue;
            };
            if !seen.insert((communicator, case)) {
                continue;
            }
            let what = format!("checking {}, {case}", operation.name);
            let _guard = deadline::limit(what, self.measure.timeout);
            let seed = self.measure.seed.wrapping_add(seen.len() as u64);
            let wrong = self.backend.verify(communicator, &case, seed)?;
            let wrong = self.world.all_reduce_sum(wrong);
            observer.checked(communicator);
            self.result.checked += 1;
            self.result.wrong += wrong;
            if wrong > 0 {
                self.result.wrong_operations.push(operation.name.clone());
            }
        }
        Ok(())
    }

    /// Runs every mode once, in the order of `modes`, which are indices into [`StepMode::ALL`].
    fn block(&mut self, block: u32, modes: &[usize]) -> anyhow::Result<()> {
        for &index in modes {
            let mode = StepMode::ALL[index];
            let what = format!("steps of block {}, {}", block + 1, mode.name());
            let _guard = deadline::limit(what, self.measure.timeout);
            let world = self.world;
            let barrier = || world.barrier();
            if self.measure.warmup > 0 {
                self.backend.run(mode, self.measure.warmup, &barrier)?;
            }
            let times = self.backend.run(mode, self.measure.steps, &barrier)?;
            let own = self.summarize(mode, &times);
            let all = world::all_gather(world, &own)?;
            self.keep(block, mode, all);
        }
        Ok(())
    }

    /// Returns the times of this rank's steps in `mode`.
    fn summarize(&self, mode: StepMode, times: &[StepTimes]) -> ModeTimes {
        let totals = times.iter().map(|step| step.total).collect();
        let mut operations = Vec::new();
        if matches!(mode, StepMode::Serial | StepMode::Overlapped) {
            for index in 0..self.step.operations.len() {
                operations.push(median_duration(times, index));
            }
        }
        let mut timeline = None;
        if mode == StepMode::Overlapped && self.world.rank() < MOST_TIMELINES {
            timeline = times.last().map(RankTimeline::from);
        }
        ModeTimes {
            totals,
            operations,
            timeline,
        }
    }

    /// Adds the times of all ranks. The time of a step is that of the slowest rank, the time of an
    /// operation the mean over the ranks.
    fn keep(&mut self, block: u32, mode: StepMode, all: Vec<ModeTimes>) {
        let steps = all.iter().map(|rank| rank.totals.len()).min().unwrap_or(0);
        for step in 0..steps {
            let times = all.iter().map(|rank| rank.totals[step].0);
            self.result.samples.push(StepSample {
                mode,
                block,
                step: step as u32,
                time: Micros(times.fold(0.0, f64::max)),
            });
        }
        let by_operation = match mode {
            StepMode::Serial => &mut self.result.alone,
            StepMode::Overlapped => &mut self.result.in_step,
            StepMode::Computation | StepMode::Communication => return,
        };
        by_operation.resize_with(self.step.operations.len(), OperationTimes::default);
        for (index, times) in by_operation.iter_mut().enumerate() {
            times.add_block(all.iter().filter_map(|rank| rank.operations[index]));
        }
        if mode == StepMode::Overlapped {
            self.result.timelines = all.into_iter().filter_map(|rank| rank.timeline).collect();
        }
    }
}

/// Returns the median time of operation `index` over these steps; `None` if it did not run in all
/// of them.
fn median_duration(times: &[StepTimes], index: usize) -> Option<Micros> {
    let mut durations = Vec::with_capacity(times.len());
    for step in times {
        let span = step.operations.get(index).copied().flatten()?;
        durations.push(span.end.0 - span.begin.0);
    }
    median(durations).map(Micros)
}
