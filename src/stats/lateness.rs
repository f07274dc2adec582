//! Which ranks are late: beyond chance, and by enough to matter.
//!
//! Each iteration starts after a barrier, and every rank times it by its own clock, so clocks need
//! not agree. A rank is compared with the median of the others in the same iteration, which one
//! slow rank does not change. The tests only count the iterations in which a rank was late, not by
//! how much, so that no outlier decides. They are exact binomial tests, as in W. J. Conover,
//! "Practical Nonparametric Statistics", section 3.4 (the sign test). Holm's procedure (S. Holm, "A
//! simple sequentially rejective multiple test procedure", 1979) bounds the probability that any
//! rank at all is named wrongly.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

/// The largest accepted probability that a run without a straggler names one, if its iterations are
/// independent.
const FALSE_ALARMS: f64 = 0.001;

/// The least lateness that matters, as a share of an operation's time.
const LEAST_SHARE: f64 = 0.1;

/// The least lateness that matters, in microseconds: ranks may leave a barrier that far apart.
const LEAST_US: f64 = 10.0;

/// The least share of iterations in which a straggler arrives late.
const LEAST_LATE: f64 = 0.03;

/// The least mean cost of late arrivals that matters, as a share of an operation's time.
const LEAST_COST: f64 = 0.02;

/// A rank whose importance is below this needs no more iterations to be cleared.
const CLEARED: f64 = 1.0 / 3.0;

/// The share of a rank in the late arrivals of that rank and of a typical other one, up to which
/// they may be chance. At 0.6 a rank is late one and a half times as often: ranks that share their
/// processors with other work are not all alike.
const CHANCE_ARRIVAL: f64 = 0.6;

/// The share of iterations in which a rank may end late by chance.
const CHANCE_TRANSFER: f64 = 2.0 / 3.0;

/// What a rank measured in one iteration, by its own clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankIteration {
    /// The time in the barrier before the operation.
    pub barrier: f64,
    /// The time from the end of the barrier to the end of the operation.
    pub total: f64,
    /// The part of `total` after this rank had started the operation.
    pub operation: f64,
}

/// The two ways to be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// The rank starts the operation late, and the others wait for it.
    Arrival,
    /// The rank starts in time and ends later than the others.
    Transfer,
}

/// The lateness of a rank in one way: how often, and by how much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Iterations in which it was late.
    pub late: u32,
    /// Median lateness in these iterations, in microseconds; 0 if there are none.
    pub typical_us: f64,
    /// Mean lateness over all iterations, in microseconds; one in which the rank was not late
    /// counts as 0.
    pub mean_us: f64,
    /// The probability of being late at least as often by chance.
    pub p_value: f64,
    /// How much the lateness matters; a rank is named if this is 1 or more.
    importance: f64,
}

/// The lateness of a rank in a case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankLateness {
    /// How late it starts the operation.
    pub arrival: Lateness,
    /// How late it ends the operation if it started in time.
    pub transfer: Lateness,
}

/// The lateness of all ranks in a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseLateness {
    /// Iterations.
    pub iterations: u32,
    /// Time of one operation in microseconds: the median over iterations of the median rank's time.
    pub operation_us: f64,
    /// Each rank.
    pub ranks: Vec<RankLateness>,
}

/// A rank that is late in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The case, as an index into those that were judged.
    pub case: usize,
    /// The rank.
    pub rank: usize,
    /// How it is late.
    pub late: Late,
}

impl Late {
    /// Returns its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Late::Arrival => "arrival",
            Late::Transfer => "transfer",
        }
    }
}

impl CaseLateness {
    /// Judges the iterations of a case, `by_rank[rank][iteration]`.
    pub fn new(by_rank: &[Vec<RankIteration>]) -> CaseLateness {
        let iterations = by_rank.iter().map(Vec::len).min().unwrap_or(0);
        let operation_us = operation_time(by_rank, iterations);
        let mut late = late_iterations(by_rank, iterations, operation_us);
        let counts: Vec<f64> = late.iter().map(|rank| rank.arrivals.len() as f64).collect();
        let counts_of_others = medians_of_others(&counts);
        let iterations = iterations as u32;
        let mut ranks = Vec::with_capacity(by_rank.len());
        for (rank, late_others) in late.iter_mut().zip(counts_of_others) {
            let mut arrival = summary(&mut rank.arrivals, iterations);
            let trials = u64::from(arrival.late) + late_others as u64;
            arrival.p_value = at_least(arrival.late, trials, CHANCE_ARRIVAL);
            arrival.importance = importance(&arrival, iterations, operation_us);
            let mut transfer = summary(&mut rank.transfers, iterations);
            transfer.p_value = at_least(transfer.late, iterations.into(), CHANCE_TRANSFER);
            // A rank that ends late in more than two of three iterations matters, whatever the
            // amount.
            transfer.importance = 1.0;
            ranks.push(RankLateness { arrival, transfer });
        }
        CaseLateness {
            iterations,
            operation_us,
            ranks,
        }
    }

    /// Returns whether more iterations are unlikely to change the judgement, if `cases` cases are
    /// judged together.
    pub fn is_clear(&self, cases: usize) -> bool {
        // The strictest level of Holm's procedure, so that a rank found here is also found among
        // all cases.
        let level = FALSE_ALARMS / (2 * self.ranks.len() * cases).max(1) as f64;
        self.ranks.iter().all(|rank| {
            let RankLateness { arrival, transfer } = rank;
            let arrival_is_clear = arrival.importance < CLEARED || arrival.is_found(level);
            arrival_is_clear && (transfer.p_value > 0.5 || transfer.is_found(level))
        })
    }
}

impl Lateness {
    /// Makes it late in every iteration, by enough to be named.
    #[cfg(test)]
    pub(crate) fn make_certain(&mut self) {
        (self.late, self.p_value, self.importance) = (100, 0.0, 1.0);
    }

    fn is_found(&self, level: f64) -> bool {
        self.importance >= 1.0 && self.p_value <= level
    }
}

/// The lateness of a rank in each iteration in which it was late, in microseconds.
#[derive(Clone, Default)]
struct LateIterations {
    arrivals: Vec<f64>,
    transfers: Vec<f64>,
}

/// Returns the iterations in which each rank was late.
fn late_iterations(
    by_rank: &[Vec<RankIteration>],
    iterations: usize,
    operation_us: f64,
) -> Vec<LateIterations> {
    let least = LEAST_US.max(LEAST_SHARE * operation_us);
    let mut ranks = vec![LateIterations::default(); by_rank.len()];
    for iteration in 0..iterations {
        let times: Vec<RankIteration> = by_rank.iter().map(|times| times[iteration]).collect();
        for (rank, late) in ranks.iter_mut().zip(late_in(&times, least)) {
            match late {
                Some((Late::Arrival, us)) => rank.arrivals.push(us),
                Some((Late::Transfer, us)) => rank.transfers.push(us),
                None => {}
            }
        }
    }
    ranks
}

/// Returns each case in which a rank is late, with the rank.
pub fn stragglers(cases: &[CaseLateness]) -> Vec<Finding> {
    let mut candidates = Vec::new();
    for (case, lateness) in cases.iter().enumerate() {
        for (rank, of_rank) in lateness.ranks.iter().enumerate() {
            for (late, evidence) in [
                (Late::Arrival, of_rank.arrival),
                (Late::Transfer, of_rank.transfer),
            ] {
                candidates.push((Finding { case, rank, late }, evidence));
            }
        }
    }
    let p_values: Vec<f64> = candidates.iter().map(|(_, late)| late.p_value).collect();
    let rejected = holm(&p_values, FALSE_ALARMS);
    let mut found = Vec::new();
    for ((finding, evidence), is_rejected) in candidates.into_iter().zip(rejected) {
        if is_rejected && evidence.importance >= 1.0 {
            found.push(finding);
        }
    }
    found
}

/// Returns which hypotheses Holm's procedure rejects. The probability that one is rejected wrongly
/// is at most `level`.
fn holm(p_values: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut rejected = vec![false; p_values.len()];
    for (position, &index) in order.iter().enumerate() {
        let left = (p_values.len() - position) as f64;
        if p_values[index] > level / left {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

/// Returns how much late arrivals matter: at least 1 if they are both often and costly enough.
fn importance(arrival: &Lateness, iterations: u32, operation_us: f64) -> f64 {
    if arrival.late == 0 {
        return 0.0;
    }
    let often = f64::from(arrival.late) / (LEAST_LATE * f64::from(iterations));
    let costly = arrival.mean_us / (LEAST_COST * operation_us);
    often.min(costly)
}

/// Returns the probability of at least `late` successes in `trials` independent ones.
fn at_least(late: u32, trials: u64, probability: f64) -> f64 {
    let Some(below) = late.checked_sub(1) else {
        return 1.0;
    };
    Binomial::new(probability, trials).map_or(1.0, |binomial| binomial.sf(below.into()))
}

/// Returns how each rank is late in one iteration, and by how many microseconds; `None` for one
/// that is not late by more than `least`.
fn late_in(times: &[RankIteration], least: f64) -> Vec<Option<(Late, f64)>> {
    let mut before = Vec::with_capacity(times.len());
    let mut operation = Vec::with_capacity(times.len());
    let mut total = Vec::with_capacity(times.len());
    let mut since_barrier_began = Vec::with_capacity(times.len());
    for time in times {
        before.push(time.total - time.operation);
        operation.push(time.operation);
        total.push(time.total);
        since_barrier_began.push(time.total + time.barrier);
    }
    let others_before = medians_of_others(&before);
    let others_operation = medians_of_others(&operation);
    let others_total = medians_of_others(&total);
    let others_since = medians_of_others(&since_barrier_began);
    let mut late = Vec::with_capacity(times.len());
    for rank in 0..times.len() {
        let delay = before[rank] - others_before[rank];
        // The others were in the operation for longer than this rank, because they waited for it
        // there.
        let have_others_waited = others_operation[rank] - operation[rank] > least / 2.0;
        // No rank leaves a barrier before all have entered it, so this rank left it after the
        // others had entered. If its time from leaving to the end is longer than theirs from
        // entering to the end, it ended after them, however far apart they left.
        let has_ended_later = total[rank] - others_since[rank] > least;
        late.push(if delay > least && have_others_waited {
            Some((Late::Arrival, delay))
        } else if has_ended_later {
            Some((Late::Transfer, total[rank] - others_total[rank]))
        } else {
            None
        });
    }
    late
}

/// Returns for each of `values` the median of the others; the value itself if there are no others.
fn medians_of_others(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    // Of two middle values the larger one: among three ranks, one that is early must not make the
    // others late.
    let middle = values.len().saturating_sub(1) / 2;
    let mut medians = values.to_vec();
    for (position, &rank) in order.iter().enumerate() {
        // Without a value before the middle, the middle of the rest is one place further.
        let median = if position <= middle {
            order.get(middle + 1)
        } else {
            order.get(middle)
        };
        medians[rank] = values[*median.unwrap_or(&rank)];
    }
    medians
}

/// Returns the median over the iterations of the median rank's time in the operation, in
/// microseconds.
fn operation_time(by_rank: &[Vec<RankIteration>], iterations: usize) -> f64 {
    let mut medians = Vec::with_capacity(iterations);
    for iteration in 0..iterations {
        let mut times: Vec<f64> = by_rank
            .iter()
            .map(|times| times[iteration].operation)
            .collect();
        medians.push(median(&mut times));
    }
    median(&mut medians)
}

fn summary(late: &mut [f64], iterations: u32) -> Lateness {
    Lateness {
        late: late.len() as u32,
        typical_us: median(late),
        // The sum of no numbers is -0.0 in Rust; added to 0.0 it is 0.0.
        mean_us: (0.0 + late.iter().sum::<f64>()) / f64::from(iterations.max(1)),
        ..Lateness::default()
    }
}

/// Returns the median, or the larger of the two middle values; 0 if there are no values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
#[path = "lateness_tests.rs"]
mod tests;
