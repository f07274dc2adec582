//! The results of each communicator, if several are measured at the same time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    measure::Measure,
    per_rank,
    timed::{Timed, longest},
};
use crate::{
    collective::{Case, Counts},
    record::{GroupResult, IterationStats, RankTime, RankTimes},
    units::Micros,
    world::{self, World},
};

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
    /// Returns the results of each communicator, if there are several; `wrong` are the wrong
    /// elements of this process.
    pub(super) fn groups(
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
}
