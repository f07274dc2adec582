//! One case: warm, time, reduce over ranks, verify. A number is made as nccl-tests makes it, so that numbers compare.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::spent::{Part, PhaseTimes};
use crate::{
    backend::Backend,
    collective::Case,
    record::{self, GroupResult, IterationStats, NcclEvidence, Record, Status},
    units::{Bytes, Micros},
    world::{self, World, deadline},
};

/// Which of the times that the ranks' processes and threads measured is reported: nccl-tests' `-a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Average {
    /// 0: that of process 0.
    First,
    /// 1: their mean.
    #[default]
    Mean,
    /// 2: the shortest.
    Shortest,
    /// 3: the longest.
    Longest,
}

impl Average {
    /// All, at their numbers.
    pub const ALL: [Average; 4] = [
        Average::First,
        Average::Mean,
        Average::Shortest,
        Average::Longest,
    ];

    /// One value from those of the threads of this process.
    fn of_threads(self, times: &[f64]) -> f64 {
        match self {
            Average::First => times.first().copied().unwrap_or(0.0),
            Average::Mean => times.iter().sum::<f64>() / times.len().max(1) as f64,
            Average::Shortest => times.iter().copied().fold(f64::INFINITY, f64::min),
            Average::Longest => times.iter().copied().fold(0.0, f64::max),
        }
    }

    /// One value from those of all processes.
    fn of_processes(self, mine: f64, world: &dyn World) -> f64 {
        match self {
            Average::Mean => world.mean(mine),
            Average::First | Average::Shortest | Average::Longest => {
                let all = world.all_gather(&mine.to_ne_bytes());
                let all: Vec<f64> = all
                    .iter()
                    .filter_map(|bytes| bytes[..].try_into().ok().map(f64::from_ne_bytes))
                    .collect();
                self.of_threads(&all)
            }
        }
    }
}

/// How cases are measured.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Timed iterations.
    pub iters: u32,
    /// Untimed operations of each size before a group.
    pub warmup: u32,
    /// Checks after the timing; 0 for none.
    pub checks: u32,
    /// How often the sizes of a group are run through; 0 for without end.
    pub cycles: u32,
    /// Operations that a timed case may do for each of `iters`: it may take so much longer.
    pub operations: u32,
    /// Which time is reported.
    pub average: Average,
    /// The time until an operation was handed to the device is reported, not the time until its end.
    pub reports_issue: bool,
    /// The first iterations that statistics of single ones leave out.
    pub skipped_laps: u32,
    /// How long a single operation may take.
    pub timeout: Duration,
    /// This rank flips one element, once, to show that the check can fail.
    pub inject_fault: bool,
    /// Grows with each fill, so that no buffer passes with what an earlier case left in it.
    pub seed: u64,
    /// This rank's times against the mean over all ranks.
    pub pace: RelativeSpeed,
    /// The communicator of this process among several, which are measured at the same time.
    pub group: Option<u32>,
    /// Where the time went.
    pub spent: PhaseTimes,
}

impl Default for Measure {
    /// nccl-tests' own values.
    fn default() -> Measure {
        Measure {
            iters: 20,
            warmup: 1,
            checks: 1,
            cycles: 1,
            operations: 1,
            average: Average::Mean,
            reports_issue: false,
            skipped_laps: 0,
            timeout: Duration::from_secs(600),
            inject_fault: false,
            seed: 0,
            pace: RelativeSpeed::default(),
            group: None,
            spent: PhaseTimes::default(),
        }
    }
}

/// How this rank's own times compare with the mean over all ranks, over the cases in which all ranks do the same: a root
/// has more to do than the others.
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

    /// 1 for a rank that takes as long as the mean; `None` where nothing tells.
    pub fn mean(&self) -> Option<f64> {
        (self.cases > 0).then(|| self.sum / f64::from(self.cases))
    }
}

/// The timed operations may take this many times what the first one took, each.
const SLACK: u32 = 10;

/// What a case's timing came to.
struct Timed {
    /// One operation, over all ranks.
    time: Micros,
    /// One operation, handed to the device by process 0.
    issue: Option<Micros>,
    /// The same on this process.
    my_issue: Option<Micros>,
    /// One operation on this process.
    mine: f64,
    operations: u64,
    iteration_times: Option<IterationStats>,
    /// The iterations on this process.
    my_laps: Vec<Micros>,
    computed: bool,
}

/// What a process tells the others of its communicator, where there are several.
#[derive(Serialize, Deserialize)]
struct Share {
    case: Case,
    time: f64,
    issue: Option<Micros>,
    iteration_times: Vec<Micros>,
    wrong: Option<u64>,
}

impl Measure {
    /// Measures and checks one case. All ranks get the same record; where there are several communicators, each process that
    /// of its own, with what all made of it in [`Record::groups`].
    ///
    /// # Errors
    /// Where the backend fails.
    pub fn case(
        &mut self,
        case: &Case,
        cycle: u32,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Record> {
        let started_at = record::now();
        let timed = self.time(case, world, backend)?;
        let checked = self.checks > 0 && case.is_checked() && !timed.computed;
        let found = if checked {
            Some(self.verify(case, world, backend)?)
        } else {
            None
        };
        let wrong = found.map(|found| found.wrong);
        let status = match wrong {
            _ if timed.computed => Status::Computed,
            None => Status::Unchecked,
            Some(0) => Status::Ok,
            Some(_) => Status::Wrong,
        };
        let note = if timed.computed {
            "computed by the model, not measured".into()
        } else {
            String::new()
        };
        let groups = self.groups(case, &timed, found.map(|found| found.mine), world)?;
        Ok(Record {
            case: *case,
            cycle,
            started_at,
            iters: timed.operations.try_into().unwrap_or(u32::MAX),
            time: Some(timed.time),
            issue: timed.issue,
            iteration_times: timed.iteration_times,
            wrong,
            failed_checks: found.map_or(0, |found| found.failed_checks),
            status,
            note,
            seen: NcclEvidence::default(),
            pattern: case.pattern(),
            group: self.group,
            groups,
        })
    }

    /// What each communicator measured, where there are several; `wrong` elements are this process's.
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
        let mine = Share {
            case: *case,
            time: timed.mine,
            issue: timed.my_issue,
            iteration_times: timed.my_laps.clone(),
            wrong,
        };
        let mut by_group: BTreeMap<u32, Vec<Share>> = BTreeMap::new();
        for (group, one) in world::all_gather(world, &(group, mine))? {
            by_group.entry(group).or_default().push(one);
        }
        let result = |(group, all): (u32, Vec<Share>)| {
            let times: Vec<f64> = all.iter().map(|share| share.time).collect();
            let found = |share: &&Share| share.wrong.is_some_and(|wrong| wrong > 0);
            GroupResult {
                group,
                case: case
                    .traffic
                    .map_or(all[0].case, |traffic| all[0].case.with_traffic(traffic)),
                time: Micros(self.average.of_threads(&times)),
                issue: all[0].issue,
                iteration_times: IterationStats::of(
                    longest(all.iter().map(|share| &share.iteration_times[..])),
                    self.skipped_laps,
                ),
                wrong: all.iter().map(|share| share.wrong).sum(),
                failed_checks: all.iter().filter(found).count() as u64,
            }
        };
        Ok(by_group.into_iter().map(result).collect())
    }

    /// Time of one operation, and what else was clocked.
    fn time(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Timed> {
        let began = Instant::now();
        let (first, began) = {
            let _guard = deadline::watch(format!("the first {case}"), self.timeout);
            self.seed += 1;
            backend.fill(case, self.seed)?;
            let began = self.spent.add(Part::Fill, began);
            let first = backend.run(case, 1)?;
            let began = self.spent.add(Part::First, began);
            world.barrier();
            (first, self.spent.add(Part::Together, began))
        };
        let all = SLACK
            .saturating_mul(self.iters)
            .saturating_mul(self.operations.max(1));
        let limit = self.timeout.max(first.longest().saturating_mul(all));
        let _guard = deadline::watch(format!("{} times {case}", self.iters), limit);
        let timing = backend.time(case, self.iters, &|| world.barrier())?;
        let began = self.spent.add(Part::Timed, began);
        let each = |elapsed: Duration| Micros::from(elapsed).0 / timing.operations as f64;
        let threads: Vec<f64> = timing
            .elapsed
            .iter()
            .map(|elapsed| each(*elapsed))
            .collect();
        let mine = self.average.of_threads(&threads);
        let over_all = self.average.of_processes(mine, world);
        // Several communicators do different things at the same time.
        if self.group.is_none() {
            self.pace.add(case, mine, over_all);
        }
        let my_issue = self.reports_issue.then(|| Micros(each(timing.issued)));
        let issue = my_issue.map(|mine| Micros(Average::First.of_processes(mine.0, world)));
        let iteration_times = self.iteration_times(&timing.iteration_times, world)?;
        self.spent.add(Part::Together, began);
        let (time, operations, computed) = (Micros(over_all), timing.operations, timing.computed);
        Ok(Timed {
            time,
            issue,
            my_issue,
            mine,
            operations,
            iteration_times,
            my_laps: timing.iteration_times,
            computed,
        })
    }

    /// Statistics of the iterations, each as long as on the process on which it took longest.
    fn iteration_times(
        &self,
        mine: &[Micros],
        world: &dyn World,
    ) -> anyhow::Result<Option<IterationStats>> {
        if mine.is_empty() {
            return Ok(None);
        }
        let all = world::all_gather(world, &mine.to_vec())?;
        Ok(IterationStats::of(
            longest(all.iter().map(Vec::as_slice)),
            self.skipped_laps,
        ))
    }

    /// What the checks find. Stops at the first that fails.
    fn verify(
        &mut self,
        case: &Case,
        world: &dyn World,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<Found> {
        for _ in 0..self.checks {
            let _guard = deadline::watch(format!("checking {case}"), self.timeout);
            let began = Instant::now();
            self.seed += 1;
            backend.fill(case, self.seed)?;
            let began = self.spent.add(Part::Fill, began);
            // Nobody may receive from a rank that still fills.
            world.barrier();
            let began = self.spent.add(Part::Together, began);
            backend.once(case)?;
            if self.inject_fault && backend.corrupt(case)? {
                self.inject_fault = false;
            }
            let mine = backend.count_wrong(case, self.seed)?;
            let began = self.spent.add(Part::Checks, began);
            let (wrong, failed_checks) = (
                world.all_reduce_sum(mine),
                world.all_reduce_sum((mine > 0).into()),
            );
            self.spent.add(Part::Together, began);
            if wrong > 0 {
                return Ok(Found {
                    wrong,
                    failed_checks,
                    mine,
                });
            }
        }
        Ok(Found::default())
    }
}

/// Of each iteration the longest.
fn longest<'a>(all: impl Iterator<Item = &'a [Micros]>) -> Vec<Micros> {
    let longer = |a: Vec<Micros>, b: &[Micros]| match a.is_empty() {
        true => b.to_vec(),
        false => a.iter().zip(b).map(|(a, b)| Micros(a.0.max(b.0))).collect(),
    };
    all.fold(Vec::new(), longer)
}

/// What the checks of a case find.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Wrong elements over all ranks.
    wrong: u64,
    /// Processes that found any.
    failed_checks: u64,
    /// Wrong elements on this process.
    mine: u64,
}

/// Bytes of the largest buffer that every process can hold twice; `None` where nothing limits it.
///
/// # Errors
/// Where a process cannot say.
pub fn capacity(world: &dyn World, backend: &dyn Backend) -> anyhow::Result<Option<Bytes>> {
    let mine = world::agree(world, backend.capacity())?;
    let all = world::all_gather(world, &mine)?;
    Ok(all.into_iter().flatten().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process among three, which measured these times.
    struct OfThree([f64; 3]);

    impl World for OfThree {
        fn rank(&self) -> u32 {
            0
        }

        fn size(&self) -> u32 {
            3
        }

        fn barrier(&self) {}

        fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }

        fn all_gather(&self, _: &[u8]) -> Vec<Vec<u8>> {
            self.0
                .iter()
                .map(|time| time.to_ne_bytes().to_vec())
                .collect()
        }

        fn all_reduce_sum(&self, value: u64) -> u64 {
            value
        }

        fn mean(&self, _: f64) -> f64 {
            self.0.iter().sum::<f64>() / 3.0
        }

        fn library(&self) -> String {
            String::new()
        }

        fn finish(self: Box<Self>) {}
    }

    #[test]
    fn each_average_is_what_it_says() {
        for (average, expected) in Average::ALL.into_iter().zip([4.0, 3.0, 1.0, 5.0]) {
            assert_eq!(average.of_threads(&[4.0, 2.0, 1.0, 5.0]), expected);
            assert_eq!(
                average.of_processes(4.0, &OfThree([4.0, 1.0, 5.0])),
                [4.0, 10.0 / 3.0, 1.0, 5.0][average as usize]
            );
        }
    }
}
