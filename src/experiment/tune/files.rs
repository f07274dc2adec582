//! `tune.csv` and `tune.json`: every candidate of a tuning.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::outcome::{CandidateStanding, Outcome};
use crate::{
    compare::experiment_record::ExperimentRecord, exit::Failure, output::lock::replace_alone,
    units::significant,
};

/// The version of the format of both files.
const FORMAT: u32 = 1;

/// A column of `tune.csv`.
#[derive(Clone, Copy, Debug)]
pub struct TuneColumn {
    /// Its name.
    pub name: &'static str,
    /// The description of its values.
    pub doc: &'static str,
}

const fn column(name: &'static str, doc: &'static str) -> TuneColumn {
    TuneColumn { name, doc }
}

/// The columns of `tune.csv`, which are the keys of a candidate in `tune.json`.
pub const TUNE_COLUMNS: [TuneColumn; 16] = [
    column("workload", "workload"),
    column(
        "candidate",
        "name of the candidate: the settings in which candidates differ, joined by `+`; that of \
         the second copy of the default ends in `-again`",
    ),
    column("level", "PXN level; empty if none is chosen"),
    column("resources", "resources; empty if none are chosen"),
    column(
        "bucket_mb",
        "bucket size in MiB; empty if `--bucket-mb` does not apply to the workload",
    ),
    column("blocks", "blocks in which it was measured"),
    column(
        "step_us",
        "time of the overlapped step in microseconds: the geometric mean over the blocks of the \
         median step",
    ),
    column(
        "exposed_us",
        "exposed communication in microseconds: the step less its computation alone, at least 0.5 \
         in each block",
    ),
    column(
        "computation_us",
        "time of the computation alone in microseconds",
    ),
    column(
        "ratio",
        "time of the step over that of the default, from the blocks that have both; below 1 is \
         faster",
    ),
    column(
        "ratio_low",
        "lower end of the interval of `ratio`; the intervals of all candidates hold together with \
         95 %",
    ),
    column("ratio_high", "upper end of the interval of `ratio`"),
    column(
        "verdict",
        "`default`, `control` (the second copy of the default), `faster`, `slower`, `no \
         difference shown`, `too few blocks` or `not measured`",
    ),
    column(
        "is_recommended",
        "1 for the recommended candidate, otherwise 0",
    ),
    column(
        "eliminated_after",
        "number of blocks after which it was eliminated; 0 if its settings make no difference; \
         empty if it ran until the end",
    ),
    column(
        "eliminated_why",
        "why it was eliminated; empty if it ran until the end",
    ),
];

/// A candidate: a row of `tune.csv`, an object of `tune.json`.
#[derive(Serialize)]
struct CandidateRow<'a> {
    workload: &'a str,
    candidate: &'a str,
    level: &'a str,
    resources: &'a str,
    bucket_mb: Option<f64>,
    blocks: usize,
    step_us: Option<f64>,
    exposed_us: Option<f64>,
    computation_us: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    verdict: &'static str,
    is_recommended: u8,
    eliminated_after: Option<u32>,
    eliminated_why: &'a str,
}

/// The contents of both files.
pub(super) struct TuneFiles<'a> {
    pub(super) workload: &'a str,
    pub(super) record: &'a ExperimentRecord,
    pub(super) outcome: &'a Outcome<'a>,
    pub(super) sentences: &'a [String],
}

/// Returns the path of `tune.csv` in `folder`.
pub(super) fn csv_in(folder: &Path) -> PathBuf {
    folder.join("tune.csv")
}

impl TuneFiles<'_> {
    /// Writes both files into `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if one cannot be written.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let rows: Vec<CandidateRow> = self.rows();
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &rows {
            writer.serialize(row)?;
        }
        let csv = String::from_utf8(writer.into_inner()?)?;
        let json = json!({
            "format": FORMAT,
            "workload": self.workload,
            "arguments": self.record.arguments,
            "seed": self.record.seed,
            "blocks": self.record.blocks(),
            "end": self.record.end,
            "findings": self.sentences,
            "candidates": rows,
        });
        let json = serde_json::to_string_pretty(&json)? + "\n";
        for (path, text) in [(csv_in(folder), csv), (folder.join("tune.json"), json)] {
            let written = replace_alone(&path, &text);
            written.map_err(|error| Failure::of_file("written", &path, &error))?;
        }
        Ok(())
    }

    fn rows(&self) -> Vec<CandidateRow<'_>> {
        let all = self.outcome.standings.iter().enumerate();
        all.map(|(place, standing)| {
            let is_recommended = self.outcome.recommended == Some(place);
            self.row(standing, is_recommended)
        })
        .collect()
    }

    fn row<'a>(
        &'a self,
        standing: &'a CandidateStanding,
        is_recommended: bool,
    ) -> CandidateRow<'a> {
        let CandidateStanding {
            variant,
            blocks,
            step,
            exposed,
            computation,
            ratio,
            verdict,
            eliminated,
        } = standing;
        CandidateRow {
            workload: self.workload,
            candidate: &variant.label,
            level: &variant.level,
            resources: variant.resources.as_deref().unwrap_or_default(),
            bucket_mb: variant.bucket_mb,
            blocks: *blocks,
            step_us: step.map(rounded),
            exposed_us: exposed.map(rounded),
            computation_us: computation.map(rounded),
            ratio: ratio.map(|ratio| rounded(ratio.ratio)),
            ratio_low: ratio.map(|ratio| rounded(ratio.low)),
            ratio_high: ratio.map(|ratio| rounded(ratio.high)),
            verdict: verdict.name(),
            is_recommended: is_recommended.into(),
            eliminated_after: eliminated.map(|eliminated| eliminated.blocks),
            eliminated_why: eliminated.map_or("", |eliminated| &eliminated.why),
        }
    }
}

fn rounded(value: f64) -> f64 {
    significant(value, 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::experiment_record::Variant;
    use crate::experiment::tune::outcome::CandidateVerdict;
    use crate::record;

    #[test]
    fn the_table_lists_the_columns_of_a_row() {
        let variant = Variant::default();
        let standing = CandidateStanding {
            variant: &variant,
            blocks: 0,
            step: None,
            exposed: None,
            computation: None,
            ratio: None,
            verdict: CandidateVerdict::NotMeasured,
            eliminated: None,
        };
        let record = ExperimentRecord {
            started_at: record::now(),
            arguments: Vec::new(),
            seed: 0,
            variants: Vec::new(),
            reference: String::new(),
            control: String::new(),
            steps: Vec::new(),
            eliminated: Vec::new(),
            end: None,
        };
        let outcome = Outcome::of_standings(vec![standing.clone()]);
        let files = TuneFiles {
            workload: "w",
            record: &record,
            outcome: &outcome,
            sentences: &[],
        };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer
            .serialize(files.row(&standing, false))
            .expect("a row");
        let text = String::from_utf8(writer.into_inner().expect("a row")).expect("text");
        let names = TUNE_COLUMNS.map(|column| column.name).join(",");
        assert_eq!(text.lines().next(), Some(names.as_str()));
    }
}
