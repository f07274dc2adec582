//! [`Sampler`]: the throughput of a sweep that is repeated for a time, second by second, and what
//! it amounts to.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::{
    collective::Case,
    output::samples::Sample,
    record::{
        OverTime, Record, Status,
        over_time::{DriftPercent, SlowInterval},
    },
    stats::Drift,
    units::Micros,
};

/// Samples of a run at most. A longer run has longer intervals.
const MOST_SAMPLES: u64 = 1_000_000;

/// The part of the time at either end that is compared.
const TENTH: f64 = 0.1;

/// The confidence of the drift's interval.
const CONFIDENCE: f64 = 0.95;

/// What a case did in the current interval.
#[derive(Clone, Copy, Default)]
struct Sum {
    operations: u64,
    /// Microseconds that the operations took.
    time: f64,
    wrong_cases: u64,
}

/// The logarithm of the time of an operation of one case in one interval.
#[derive(Clone, Copy)]
struct LogTime {
    interval: u64,
    case: usize,
    log: f64,
}

/// The samples of a run so far.
pub(super) struct Sampler {
    /// Length of an interval in seconds.
    seconds: u64,
    interval: u64,
    /// The cases in the order in which they ran first.
    cases: Vec<Case>,
    numbers: HashMap<Case, usize>,
    /// The current interval, by number of the case.
    sums: BTreeMap<usize, Sum>,
    history: Vec<LogTime>,
    /// Cases of a pass, including those that are waived, in the first pass only.
    cases_per_pass: u64,
    waived: u64,
    ran_in_pass: u64,
    found: OverTime,
}

impl Sampler {
    /// Returns a sampler for a run of `cases` cases that is repeated for `time`.
    pub(super) fn new(time: Duration, cases: u64) -> Sampler {
        let all = time.as_secs().saturating_mul(cases);
        let seconds = all.div_ceil(MOST_SAMPLES).max(1);
        Sampler {
            seconds,
            interval: 0,
            cases: Vec::new(),
            numbers: HashMap::new(),
            sums: BTreeMap::new(),
            history: Vec::new(),
            cases_per_pass: cases,
            waived: 0,
            ran_in_pass: 0,
            found: OverTime {
                asked_s: time.as_secs_f64(),
                interval_s: seconds,
                ..OverTime::default()
            },
        }
    }

    /// Adds a case that ended `elapsed` after the first one began. Returns the samples of the
    /// interval before it, if this case is the first of another.
    pub(super) fn add(&mut self, record: &Record, elapsed: Duration) -> Vec<Sample> {
        let interval = elapsed.as_secs() / self.seconds;
        let ended = if interval > self.interval {
            self.end_interval()
        } else {
            Vec::new()
        };
        self.interval = interval;
        self.found.elapsed_s = elapsed.as_secs_f64();
        if record.status == Status::Waived {
            self.waived += 1;
            return ended;
        }
        if record.cycle != self.found.passes {
            self.found.passes = record.cycle;
            self.ran_in_pass = 0;
        }
        self.ran_in_pass += 1;
        let is_wrong = u64::from(record.status == Status::Wrong);
        self.found.cases += 1;
        self.found.wrong_cases += is_wrong;
        let number = self.number(record.case);
        let sum = self.sums.entry(number).or_default();
        sum.wrong_cases += is_wrong;
        if let Some(time) = record.time {
            let operations = u64::from(record.iters);
            sum.operations += operations;
            sum.time += time.0 * operations as f64;
        }
        ended
    }

    fn number(&mut self, case: Case) -> usize {
        let next = self.cases.len();
        let number = *self.numbers.entry(case).or_insert(next);
        if number == next {
            self.cases.push(case);
        }
        number
    }

    /// Ends the current interval, and returns its samples.
    pub(super) fn end_interval(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (number, sum) in std::mem::take(&mut self.sums) {
            let time = (sum.operations > 0).then(|| sum.time / sum.operations as f64);
            if let Some(time) = time {
                self.history.push(LogTime {
                    interval: self.interval,
                    case: number,
                    log: time.ln(),
                });
            }
            // A case with wrong data is told whether it was timed or not.
            if time.is_none() && sum.wrong_cases == 0 {
                continue;
            }
            samples.push(Sample {
                interval: self.interval,
                seconds: self.seconds,
                case: self.cases[number],
                operations: sum.operations,
                time: time.map(Micros),
                wrong_cases: sum.wrong_cases,
            });
        }
        samples
    }

    /// Returns what the samples amount to.
    pub(super) fn found(&self) -> OverTime {
        let mut found = self.found.clone();
        let is_complete = self.ran_in_pass + self.waived == self.cases_per_pass;
        found.passes += u32::from(is_complete && self.ran_in_pass > 0);
        found.drift = self.drift();
        found.slowest = self.slowest();
        found
    }

    /// Returns the change from the first tenth of the time to the last.
    ///
    /// Each case is compared with itself: only cases of both tenths count, relative to the middle
    /// between their means. What is left of an interval is one value, the mean over its cases.
    fn drift(&self) -> Option<DriftPercent> {
        let end = self.interval as f64 + 1.0;
        let is_first = |time: &&LogTime| (time.interval as f64) < TENTH * end;
        let is_last = |time: &&LogTime| time.interval as f64 >= (1.0 - TENTH) * end;
        let first: Vec<LogTime> = self.history.iter().filter(is_first).copied().collect();
        let last: Vec<LogTime> = self.history.iter().filter(is_last).copied().collect();
        let (means_of_first, means_of_last) = (means_by_case(&first), means_by_case(&last));
        let mut middles = HashMap::new();
        for (case, mean) in means_of_first {
            if let Some(other) = means_of_last.get(&case) {
                middles.insert(case, (mean + other) / 2.0);
            }
        }
        let drift = Drift::new(
            &by_interval(&first, &middles),
            &by_interval(&last, &middles),
            CONFIDENCE,
        )?;
        Some(DriftPercent {
            percent: percent(drift.change),
            low: percent(drift.low),
            high: percent(drift.high),
        })
    }

    /// Returns the interval whose operations take longest, each case relative to its mean.
    fn slowest(&self) -> Option<SlowInterval> {
        let means = means_by_case(&self.history);
        let mut intervals: Vec<u64> = self.history.iter().map(|time| time.interval).collect();
        intervals.dedup();
        let values = by_interval(&self.history, &means);
        if values.len() < 2 {
            return None;
        }
        let slowest = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]))?;
        Some(SlowInterval {
            from_s: intervals[slowest] * self.seconds,
            percent: percent(values[slowest]),
        })
    }
}

/// Returns the percentage by which a ratio exceeds 1, given its logarithm.
fn percent(log_ratio: f64) -> f64 {
    100.0 * log_ratio.exp_m1()
}

fn means_by_case(times: &[LogTime]) -> HashMap<usize, f64> {
    let mut sums: HashMap<usize, (f64, u32)> = HashMap::new();
    for time in times {
        let (sum, count) = sums.entry(time.case).or_default();
        *sum += time.log;
        *count += 1;
    }
    let mut means = HashMap::new();
    for (case, (sum, count)) in sums {
        means.insert(case, sum / f64::from(count));
    }
    means
}

/// Returns, for each interval, the mean over its cases of how far they are from their `reference`.
/// Cases without one are left out.
fn by_interval(times: &[LogTime], reference: &HashMap<usize, f64>) -> Vec<f64> {
    let mut sums: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for time in times {
        if let Some(reference) = reference.get(&time.case) {
            let (sum, count) = sums.entry(time.interval).or_default();
            *sum += time.log - reference;
            *count += 1;
        }
    }
    sums.into_values()
        .map(|(sum, count)| sum / f64::from(count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        units::Bytes,
    };

    /// A record of a case of `size` bytes in pass `cycle`.
    fn record(size: u64, cycle: u32, time: f64) -> Record {
        let case = CaseShape {
            collective: Collective::AllGather,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 4,
        }
        .nearest(Bytes(size));
        Record {
            cycle,
            iters: 20,
            time: Some(Micros(time)),
            ..Record::new(case, Status::Ok)
        }
    }

    /// Repeats two sizes for `seconds`, four times a second; `factor` gives what a second does to
    /// their times.
    fn repeat(seconds: u64, factor: fn(u64) -> f64) -> (Sampler, Vec<Sample>) {
        let mut sampler = Sampler::new(Duration::from_secs(seconds), 2);
        let mut samples = Vec::new();
        for quarter in 0..4 * seconds {
            let elapsed = Duration::from_millis(250 * quarter);
            for (size, time) in [(1 << 10, 10.0), (1 << 20, 500.0)] {
                // A noise that is the same on every machine.
                let noise = 1.0 + 0.001 * (quarter as f64 * 1.7).sin();
                let time = time * noise * factor(quarter / 4);
                let record = record(size, quarter as u32, time);
                samples.extend(sampler.add(&record, elapsed));
            }
        }
        samples.extend(sampler.end_interval());
        (sampler, samples)
    }

    #[test]
    fn each_second_has_a_sample_of_each_case() {
        let (sampler, samples) = repeat(60, |_| 1.0);
        assert_eq!(samples.len(), 120);
        for (at, sample) in samples.iter().enumerate() {
            assert_eq!((sample.interval, sample.operations), (at as u64 / 2, 80));
        }
        let found = sampler.found();
        assert_eq!(
            (found.passes, found.cases, found.wrong_cases),
            (240, 480, 0)
        );
        let drift = found.drift.expect("a drift");
        assert!(drift.low <= 0.0 && 0.0 <= drift.high, "{drift:?}");
        assert!(drift.percent.abs() < 0.1, "{drift:?}");
    }

    #[test]
    fn a_sweep_that_becomes_slower_drifts() {
        // 0.1 % a second: from the first tenth to the last are 54 s.
        let (sampler, _) = repeat(60, |second| 1.0 + 0.001 * second as f64);
        let drift = sampler.found().drift.expect("a drift");
        assert!((5.0..5.6).contains(&drift.percent), "{drift:?}");
        assert!(drift.low > 0.0, "{drift:?}");
    }

    #[test]
    fn the_slowest_second_is_found_whatever_its_cases() {
        let (sampler, _) = repeat(60, |second| if second == 37 { 1.2 } else { 1.0 });
        let slowest = sampler.found().slowest.expect("a slowest second");
        assert_eq!(slowest.from_s, 37);
        assert!((19.0..20.0).contains(&slowest.percent), "{slowest:?}");
    }

    #[test]
    fn wrong_cases_are_counted_and_waived_ones_are_not() {
        let mut sampler = Sampler::new(Duration::from_secs(10), 2);
        let wrong = Record {
            status: Status::Wrong,
            ..record(64, 0, 1.0)
        };
        let waived = Record {
            status: Status::Waived,
            time: None,
            ..record(128, 0, 1.0)
        };
        for record in [&wrong, &wrong, &waived] {
            assert!(sampler.add(record, Duration::ZERO).is_empty());
        }
        let samples = sampler.end_interval();
        assert_eq!((samples.len(), samples[0].wrong_cases), (1, 2));
        let found = sampler.found();
        assert_eq!((found.cases, found.wrong_cases, found.passes), (2, 2, 0));
        assert_eq!((found.drift, found.slowest), (None, None));
    }

    #[test]
    fn wrong_cases_without_timed_operations_are_told() {
        let mut sampler = Sampler::new(Duration::from_secs(10), 2);
        let untimed = |size, status| Record {
            time: None,
            status,
            ..record(size, 0, 1.0)
        };
        for record in [untimed(64, Status::Wrong), untimed(128, Status::Ok)] {
            sampler.add(&record, Duration::ZERO);
        }
        let samples = sampler.end_interval();
        let [sample] = &samples[..] else {
            panic!("{samples:?}")
        };
        assert_eq!((sample.operations, sample.wrong_cases), (0, 1));
        assert_eq!((sample.time, sample.busbw()), (None, None));
        assert_eq!(sampler.found().slowest, None);
    }

    #[test]
    fn a_long_run_has_longer_intervals() {
        let day = Duration::from_secs(86_400);
        assert_eq!(Sampler::new(day, 60).seconds, 6);
        assert_eq!(Sampler::new(day, 2).seconds, 1);
    }
}
