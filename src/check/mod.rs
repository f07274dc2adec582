//! Pass or fail: the results of a run against what is required of them. Prints nothing.
//!
//! | requirement | module |
//! |---|---|
//! | a busbw, at the peak or at a size | [`threshold`] |
//! | a part of the links' peak | here |
//! | no slow-down against an earlier run | [`baseline`] |
//! | a value that others published | [`mod@reference`] |
//!
//! What cannot be judged is neither met nor missed. A requirement that concerns no case at all is
//! an error, because it could not fail.

pub mod baseline;
pub mod measured;
pub mod reference;
pub mod threshold;
pub mod verdict;

use std::path::PathBuf;

use self::{
    baseline::Baseline,
    measured::{CaseResult, Measured},
    reference::Reference,
    threshold::Threshold,
    verdict::{Judged, Miss, Unjudged, Verdict},
};
use crate::{
    collective::Case,
    exit::{Code, Failure},
};

/// What is required of a run.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// `--min-busbw`.
    pub thresholds: Vec<Threshold>,
    /// `--min-pct-peak`, in percent.
    pub percent_of_peak: Option<f64>,
    /// `--baseline`: a run's folder, or its `results.csv`.
    pub baseline: Option<PathBuf>,
    /// `--tolerance`: how much slower than the baseline a case may be, in percent.
    pub tolerance: f64,
    /// `--reference`: the name of a reference value, or `auto`.
    pub reference: Option<String>,
}

impl Requirements {
    /// Returns whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.thresholds.is_empty()
            && self.percent_of_peak.is_none()
            && self.baseline.is_none()
            && self.reference.is_none()
    }

    /// Refuses thresholds that concern none of `cases`, before anything is measured.
    ///
    /// # Errors
    /// Returns an error if there is one.
    pub fn refuse_without_case<'a>(
        &self,
        cases: impl Iterator<Item = &'a Case>,
    ) -> anyhow::Result<()> {
        if self.thresholds.is_empty() {
            return Ok(());
        }
        let cases: Vec<&Case> = cases.collect();
        for threshold in &self.thresholds {
            if !cases.iter().any(|case| threshold.concerns(case)) {
                return Err(usage(threshold.without_case()));
            }
        }
        Ok(())
    }

    /// Reads what the requirements refer to. `setup` is what the run is measured on.
    ///
    /// # Errors
    /// Returns an error if a baseline cannot be read, or if there is no such reference, or none for
    /// this setup.
    pub fn prepare(&self, setup: &reference::Setup) -> anyhow::Result<PreparedCheck> {
        let mut thresholds = self.thresholds.clone();
        if let Some(name) = &self.reference {
            let references = reference::find(name, setup).map_err(usage)?;
            thresholds.extend(references.iter().map(|reference| reference.threshold()));
        }
        let baseline = match &self.baseline {
            Some(path) => Some(Baseline::read(path).map_err(usage)?),
            None => None,
        };
        Ok(PreparedCheck {
            thresholds,
            percent_of_peak: self.percent_of_peak,
            baseline,
            tolerance: self.tolerance,
        })
    }
}

fn usage(what: impl Into<String>) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

/// Requirements with what they refer to.
#[derive(Debug)]
pub struct PreparedCheck {
    thresholds: Vec<Threshold>,
    percent_of_peak: Option<f64>,
    baseline: Option<Baseline>,
    tolerance: f64,
}

impl PreparedCheck {
    /// Refuses a baseline that a run with these `cases` cannot be compared with, before anything is
    /// measured. `run` is the run, without results yet.
    ///
    /// # Errors
    /// Returns an error if it was measured on other ranks or with other flags, or has none of the
    /// cases.
    pub fn refuse_baseline<'a>(
        &self,
        run: &Measured,
        cases: impl Iterator<Item = &'a Case>,
    ) -> anyhow::Result<()> {
        let Some(baseline) = &self.baseline else {
            return Ok(());
        };
        baseline.refuse_other(run).map_err(usage)?;
        baseline.refuse_without_case(cases).map_err(usage)
    }

    /// Judges the results of a run.
    ///
    /// # Errors
    /// Returns an error if a requirement concerns no case of the run, or if the baseline measured
    /// something else.
    pub fn judge(&self, measured: &Measured) -> anyhow::Result<Verdict> {
        let mut verdict = Verdict {
            wrong_cases: measured.wrong_cases,
            remarks: measured.remarks.clone(),
            ..Verdict::default()
        };
        for threshold in &self.thresholds {
            let mut judged = Judged::new(&threshold.text());
            let concerned = measured.cases.iter();
            let concerned: Vec<&CaseResult> = concerned
                .filter(|result| threshold.concerns(&result.case))
                .collect();
            if concerned.is_empty() {
                return Err(usage(threshold.without_case()));
            }
            if threshold.size.is_some() {
                for result in concerned {
                    judge_busbw(&mut judged, threshold, &[result]);
                }
            } else {
                for series in by_series(concerned) {
                    judge_busbw(&mut judged, threshold, &series);
                }
            }
            verdict.judged.push(judged);
        }
        if let Some(percent) = self.percent_of_peak {
            verdict.judged.push(judge_percent(percent, measured));
        }
        if let Some(baseline) = &self.baseline {
            let (judged, remarks) = baseline.judge(measured, self.tolerance).map_err(usage)?;
            verdict.judged.push(judged);
            verdict.remarks.extend(remarks);
        }
        Ok(verdict)
    }
}

/// Groups results that differ in size only.
fn by_series(results: Vec<&CaseResult>) -> Vec<Vec<&CaseResult>> {
    let mut all: Vec<Vec<&CaseResult>> = Vec::new();
    for result in results {
        match all.iter_mut().find(|series| series[0].is_of_series(result)) {
            Some(series) => series.push(result),
            None => all.push(vec![result]),
        }
    }
    all
}

/// Judges the highest busbw of a series.
fn judge_busbw(judged: &mut Judged, threshold: &Threshold, series: &[&CaseResult]) {
    let best = best(series, CaseResult::busbw);
    let Some((result, found)) = best else {
        judged.unjudged.push(Unjudged {
            case: series_text(series),
            why: why_unmeasured(series),
        });
        return;
    };
    let required = threshold.gbps;
    if found >= required {
        judged.met += 1;
        return;
    }
    judged.missed.push(Miss {
        found,
        required,
        unit: "GB/s busbw".into(),
        by: format!("{:.1} % too low", 100.0 * (1.0 - found / required)),
        ..result.miss()
    });
}

/// Judges the highest part of the peak of each series.
fn judge_percent(required: f64, measured: &Measured) -> Judged {
    let mut judged = Judged::new(&format!("--min-pct-peak {required}"));
    for series in by_series(measured.cases.iter().collect()) {
        let Some((result, found)) = best(&series, CaseResult::percent_of_peak) else {
            let is_measured = series.iter().any(|result| result.busbw().is_some());
            judged.unjudged.push(Unjudged {
                case: series_text(&series),
                why: if is_measured {
                    "the peak is unknown; run.json says why".into()
                } else {
                    why_unmeasured(&series)
                },
            });
            continue;
        };
        if found >= required {
            judged.met += 1;
            continue;
        }
        judged.missed.push(Miss {
            found,
            required,
            unit: "% of the peak".into(),
            by: format!("{:.1} points too low", required - found),
            ..result.miss()
        });
    }
    judged
}

/// Returns the result with the highest value; `None` if none has one.
fn best<'a>(
    series: &[&'a CaseResult],
    value: fn(&CaseResult) -> Option<f64>,
) -> Option<(&'a CaseResult, f64)> {
    let valued = series
        .iter()
        .filter_map(|result| Some((*result, value(result)?)));
    valued.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn series_text(series: &[&CaseResult]) -> String {
    match series {
        [only] => only.text(),
        [first, ..] => first.series_text(),
        [] => String::new(),
    }
}

fn why_unmeasured(series: &[&CaseResult]) -> String {
    let mut notes = series.iter().map(|result| result.why_unmeasured.as_str());
    let note = notes.find(|note| !note.is_empty());
    note.unwrap_or("it was not timed").to_owned()
}

/// Returns the reference values as lines for a terminal.
pub fn list_references() -> Vec<String> {
    Reference::all().iter().map(Reference::line).collect()
}
