//! [`Baseline`]: an earlier run that a run must not be slower than.

use std::path::{Path, PathBuf};

use super::{
    measured::{CaseResult, Measured},
    verdict::{Judged, Miss, Unjudged},
};
use crate::{
    collective::Case,
    record::{SweepMeta, run_meta::SWEEP_FLAGS},
    stats::{UnpairedRatio, discoveries},
    units::counted,
};

/// How many of the slow-downs that are called significant may be false.
const FALSE_DISCOVERIES: f64 = 0.05;

/// Keys of a sweep that say how often an operation is timed, or for how long: runs that differ in
/// them are compared.
const HOW_OFTEN: [&str; 4] = ["per_iter", "per_iter_skip", "precision", "time_s"];

/// An earlier run.
#[derive(Debug)]
pub struct Baseline {
    path: PathBuf,
    measured: Measured,
}

/// A case of both runs.
struct Compared<'a> {
    now: &'a CaseResult,
    /// Geometric means of the times in µs, whose ratio is judged.
    times: (f64, f64),
    ratio: UnpairedRatio,
    /// Whether the spread is that between repetitions, not that within one.
    is_over_repetitions: bool,
}

impl Baseline {
    /// Reads the run at `path`: its folder, or its `results.csv`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn read(path: &Path) -> Result<Baseline, String> {
        let measured = Measured::read(path).map_err(|why| format!("--baseline: {why:#}"))?;
        Ok(Baseline {
            path: path.to_owned(),
            measured,
        })
    }

    /// Refuses a run whose times mean something else than those of the baseline, whatever they are.
    ///
    /// # Errors
    /// Returns an error if a flag differs that changes what a time means, or the number of ranks or
    /// nodes.
    pub fn refuse_other(&self, now: &Measured) -> Result<(), String> {
        let name = self.name();
        if let Some(flags) = flags_that_differ(self.measured.sweep.as_ref(), now.sweep.as_ref()) {
            return Err(format!(
                "{name} was measured with other values of {flags}, so the times cannot be \
                 compared. Use the same flags"
            ));
        }
        if (now.ranks, now.nodes) != (self.measured.ranks, self.measured.nodes) {
            return Err(format!(
                "{name} has {} on {}, and this run {} on {}. Compare runs of the same size",
                counted(self.measured.ranks, "rank"),
                counted(self.measured.nodes, "node"),
                counted(now.ranks, "rank"),
                counted(now.nodes, "node")
            ));
        }
        Ok(())
    }

    /// Refuses cases of which the baseline has none.
    ///
    /// # Errors
    /// Returns an error if there is no common case.
    pub fn refuse_without_case<'a>(
        &self,
        mut cases: impl Iterator<Item = &'a Case>,
    ) -> Result<(), String> {
        if cases.any(|case| self.measured.has(case)) {
            Ok(())
        } else {
            Err(self.without_case())
        }
    }

    fn name(&self) -> String {
        format!("--baseline {}", self.path.display())
    }

    fn without_case(&self) -> String {
        format!(
            "{} has no case of this run, so this requirement could never fail. Name a run with \
             the same cases",
            self.name()
        )
    }

    /// Judges each case that both runs have. A case is slower if its times, repeated in both runs,
    /// differ by more than their spread explains: Welch's test on logarithms, and the procedure of
    /// Benjamini and Hochberg over all cases. It misses the requirement if it is also slower by
    /// more than `tolerance` percent.
    ///
    /// # Errors
    /// Returns an error if the runs have no case in common, or if a flag differs that changes what
    /// a time means.
    pub fn judge(&self, now: &Measured, tolerance: f64) -> Result<(Judged, Vec<String>), String> {
        self.refuse_other(now)?;
        let mut judged = Judged::new(&format!("{} --tolerance {tolerance}", self.name()));
        let mut compared = Vec::new();
        let mut common = 0;
        for result in &now.cases {
            let Some(before) = self.measured.same_case(result) else {
                judged
                    .unjudged
                    .push(unjudged(result, "the baseline does not have it"));
                continue;
            };
            common += 1;
            match compare(result, before) {
                Ok(one) => compared.push(one),
                Err(why) => judged.unjudged.push(unjudged(result, why)),
            }
        }
        if common == 0 {
            return Err(self.without_case());
        }
        let p_values: Vec<f64> = compared.iter().map(|one| one.ratio.p_slower).collect();
        let significant = discoveries(&p_values, FALSE_DISCOVERIES);
        for (one, is_significant) in compared.iter().zip(significant) {
            let slower = 100.0 * (one.ratio.ratio - 1.0);
            if is_significant && slower > tolerance {
                judged.missed.push(one.miss(slower, tolerance));
            } else {
                judged.met += 1;
            }
        }
        Ok((judged, self.remarks(now, &compared)))
    }

    fn remarks(&self, now: &Measured, compared: &[Compared]) -> Vec<String> {
        let mut remarks = self.measured.remarks.clone();
        let mut differ = Vec::new();
        for ((name, before), (_, own)) in self.measured.circumstances.iter().zip(&now.circumstances)
        {
            if before != own && !before.is_empty() && !own.is_empty() {
                differ.push(format!("{name} {before}, now {own}"));
            }
        }
        let cases = &self.measured.cases;
        let missing = cases.iter().filter(|case| now.same_case(case).is_none());
        let missing: Vec<String> = missing.map(CaseResult::text).collect();
        if let Some(first) = missing.first() {
            remarks.push(format!(
                "this run did not measure {} of the baseline, such as {first}: they are not judged",
                counted(missing.len() as u64, "case")
            ));
        }
        if self.measured.sweep.is_none() || now.sweep.is_none() {
            remarks.push(
                "the flags of one of the runs are unknown, because there is no run.json beside \
                 its results: they may differ"
                    .into(),
            );
        }
        if !differ.is_empty() {
            remarks.push(format!(
                "the baseline was measured with {}",
                differ.join("; ")
            ));
        }
        if compared.iter().any(|one| !one.is_over_repetitions) {
            remarks.push(
                "some cases are compared by the spread of their iterations or blocks, which does \
                 not show how much runs differ. -N repeats the sweep; both runs need it"
                    .into(),
            );
        }
        remarks
    }
}

impl Compared<'_> {
    fn miss(&self, slower: f64, tolerance: f64) -> Miss {
        let (found, before) = self.times;
        Miss {
            found,
            required: before * (1.0 + tolerance / 100.0),
            unit: "us at most".into(),
            by: format!(
                "{slower:.1} % slower than {before:.2} us (p = {:.1e})",
                self.ratio.p_slower
            ),
            ..self.now.miss()
        }
    }
}

fn unjudged(result: &CaseResult, why: &str) -> Unjudged {
    Unjudged {
        case: result.text(),
        why: why.into(),
    }
}

/// Compares a case with the baseline's.
fn compare<'a>(now: &'a CaseResult, before: &CaseResult) -> Result<Compared<'a>, &'static str> {
    if now.time().is_none() || before.time().is_none() {
        return Err("it has no time in one of the runs");
    }
    let why = "measured once: without repetitions (-N), iterations (-I) or blocks (--precision) \
               in both runs, chance cannot be told from a slow-down";
    let is_over_repetitions = now.is_repeated() && before.is_repeated();
    let (times, others) = if is_over_repetitions {
        (now.over_repetitions(), before.over_repetitions())
    } else {
        (now.within_run(), before.within_run())
    };
    let (times, others) = (times.ok_or(why)?, others.ok_or(why)?);
    Ok(Compared {
        now,
        times: (times.geometric_mean(), others.geometric_mean()),
        ratio: UnpairedRatio::new(&times, &others),
        is_over_repetitions,
    })
}

/// Returns the flags that change what a time means and differ; `None` if none does, or if that is
/// unknown.
fn flags_that_differ(a: Option<&SweepMeta>, b: Option<&SweepMeta>) -> Option<String> {
    let [a, b] = [a?, b?].map(|sweep| serde_json::to_value(sweep).unwrap_or_default());
    let names: Vec<&str> = SWEEP_FLAGS
        .iter()
        .filter(|(key, _)| !HOW_OFTEN.contains(key) && a[key] != b[key])
        .map(|(_, flag)| *flag)
        .collect();
    (!names.is_empty()).then(|| names.join(" "))
}

#[cfg(test)]
mod tests {
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        record::{Record, Status},
        units::{Bytes, Micros},
    };

    const CASES: u32 = 20;
    const REPETITIONS: u32 = 5;
    const NOISE: f64 = 0.01;

    /// Returns a run of 20 sizes, five times each, whose times are `factor` times the usual ones,
    /// with 1 % of noise.
    fn measured(generator: &mut ChaCha8Rng, factor: f64) -> Measured {
        let mut measured = Measured::default();
        (measured.ranks, measured.nodes) = (8, 2);
        for _ in 0..REPETITIONS {
            for power in 0..CASES {
                let shape = CaseShape {
                    collective: Collective::AllGather,
                    dtype: DType::Float,
                    redop: None,
                    root: None,
                    buffer_mode: BufferMode::OutOfPlace,
                    ranks: 8,
                };
                let uniform = (f64::from(generator.next_u32()) + 0.5) / 2f64.powi(32);
                let noise = (NOISE * Normal::standard().inverse_cdf(uniform)).exp();
                let time = 10.0 * f64::from(1 + power) * factor * noise;
                measured.add(&Record {
                    time: Some(Micros(time)),
                    ..Record::new(shape.nearest(Bytes(256 << power)), Status::Ok)
                });
            }
        }
        measured
    }

    fn missed(before: Measured, now: &Measured, tolerance: f64) -> usize {
        let baseline = Baseline {
            path: "before".into(),
            measured: before,
        };
        let (judged, _) = baseline.judge(now, tolerance).expect("comparable");
        assert_eq!(judged.met as usize + judged.missed.len(), CASES as usize);
        judged.missed.len()
    }

    #[test]
    fn identical_runs_fail_in_no_more_rows_than_stated() {
        let mut generator = ChaCha8Rng::seed_from_u64(12);
        let pairs = 200;
        let (mut rows, mut runs) = (0, 0);
        for _ in 0..pairs {
            let (before, now) = (measured(&mut generator, 1.0), measured(&mut generator, 1.0));
            // Without a tolerance, which would hide chance.
            let missed = missed(before, &now, 0.0);
            rows += missed;
            runs += usize::from(missed > 0);
        }
        let share = |part: usize, whole: usize| part as f64 / whole as f64;
        assert!(
            share(rows, pairs * CASES as usize) <= FALSE_DISCOVERIES,
            "{rows} rows"
        );
        // Among runs that do not differ, the procedure bounds the share of runs with any false row
        // too; the rest is chance.
        assert!(
            share(runs, pairs) <= FALSE_DISCOVERIES + 0.03,
            "{runs} runs"
        );
    }

    #[test]
    fn a_real_slow_down_is_found() {
        let mut generator = ChaCha8Rng::seed_from_u64(13);
        for _ in 0..50 {
            let (before, now) = (measured(&mut generator, 1.0), measured(&mut generator, 1.1));
            assert_eq!(missed(before, &now, 5.0), CASES as usize, "10 % slower");
        }
    }

    #[test]
    fn a_baseline_of_other_ranks_or_cases_is_refused_before_anything_is_measured() {
        let mut generator = ChaCha8Rng::seed_from_u64(14);
        let now = measured(&mut generator, 1.0);
        let mut baseline = Baseline {
            path: "before".into(),
            measured: now.clone(),
        };
        baseline.measured.ranks = 16;
        let why = baseline.refuse_other(&now).expect_err("16 ranks");
        assert!(
            why.contains("has 16 ranks on 2 nodes, and this run 8 ranks"),
            "{why}"
        );
        let cases = now.cases.iter().map(|result| &result.case);
        assert_eq!(baseline.refuse_without_case(cases), Ok(()));
        let why = baseline
            .refuse_without_case([].into_iter())
            .expect_err("no case");
        assert!(why.contains("has no case of this run"), "{why}");
    }
}
