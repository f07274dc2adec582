//! [`Baseline`]: an earlier run that a run must not be slower than.

use std::path::{Path, PathBuf};

use super::{
    measured::{CaseResult, Measured},
    verdict::{Judged, Miss, Unjudged},
};
use crate::{
    record::SweepMeta,
    stats::{UnpairedRatio, discoveries},
    units::counted,
};

/// How many of the slow-downs that are called significant may be false.
const FALSE_DISCOVERIES: f64 = 0.05;

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
        let measured = Measured::read(path).map_err(|why| format!("--baseline: {why}"))?;
        Ok(Baseline {
            path: path.to_owned(),
            measured,
        })
    }

    /// Judges each case that both runs have. A case is slower if its times, repeated in both runs, differ by more than their
    /// spread explains: Welch's test on logarithms, and the procedure of Benjamini and Hochberg over all cases. It misses the
    /// requirement if it is also slower by more than `tolerance` percent.
    ///
    /// # Errors
    /// Returns an error if the runs have no case in common, or if a flag differs that changes what a time means.
    pub fn judge(&self, now: &Measured, tolerance: f64) -> Result<(Judged, Vec<String>), String> {
        let name = format!("--baseline {}", self.path.display());
        if let Some(flags) = flags_that_differ(self.measured.sweep.as_ref(), now.sweep.as_ref()) {
            return Err(format!(
                "{name} was measured with another {flags}, so that its times mean something else. Use the same flags"
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
        let mut judged = Judged::new(&format!("{name} --tolerance {tolerance}"));
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
            return Err(format!(
                "{name} has no case of this run, so it could not fail. Name a run with the same cases"
            ));
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
        let mut remarks = Vec::new();
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
                "this run lacks {} of the baseline, such as {first}: nothing is said of them",
                counted(missing.len() as u64, "case")
            ));
        }
        if self.measured.sweep.is_none() || now.sweep.is_none() {
            remarks.push(
                "the flags of one of the runs are unknown, because there is no run.json beside its results: they may differ".into(),
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
                "some cases are compared by the spread of their iterations or blocks, which does not show how much runs differ. \
                 -N repeats the sweep; both runs need it"
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
    let why = "measured once: without repetitions (-N), iterations (-I) or blocks (--precision) in both runs, chance cannot be \
               told from a slow-down";
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

/// Returns the flags that change what a time means and differ; `None` if none does, or if that is unknown.
fn flags_that_differ(a: Option<&SweepMeta>, b: Option<&SweepMeta>) -> Option<String> {
    let (a, b) = (a?, b?);
    let flags = [
        ("-t", a.threads != b.threads),
        ("-g", a.gpus != b.gpus),
        ("-m", a.aggregate != b.aggregate),
        ("-G", a.graph != b.graph),
        ("-u", a.unalign != b.unalign),
        ("-z", a.blocking != b.blocking),
        ("-a", a.average != b.average),
        ("-y", a.null_stream != b.null_stream),
        ("-R", a.registration != b.registration),
        ("-x", a.cta_policy != b.cta_policy),
    ];
    let differing = flags.into_iter().filter(|(_, differs)| *differs);
    let names: Vec<&str> = differing.map(|(flag, _)| flag).collect();
    (!names.is_empty()).then(|| names.join(" "))
}
