//! The comparison as data: `comparison.csv` and `comparison.json`.

use std::{fmt::Display, io::Write, path::Path};

use serde::Serialize;

use super::{
    judge::{Comparison, Verdict},
    samples::Samples,
};
use crate::{
    exit::{Code, Failure},
    output::target::write_whole,
};

/// The name of the CSV.
pub(super) const CSV: &str = "comparison.csv";
const JSON: &str = "comparison.json";

/// One variant in one case.
#[derive(Debug, Serialize)]
struct ComparisonRow<'a> {
    /// The number of the table, from 1.
    table: usize,
    backend: &'static str,
    nodes: u32,
    ranks: u64,
    collective: &'static str,
    size_bytes: u64,
    r#type: &'static str,
    redop: &'static str,
    root: i64,
    in_place: u8,
    pattern: &'a str,
    /// The name of the variant.
    label: &'a str,
    level: &'a str,
    /// The name of the variant that it is compared with.
    reference: &'a str,
    /// Blocks with a time of this variant.
    blocks: usize,
    /// The geometric mean of its times.
    time_us: Option<f64>,
    /// The ratio of times to the reference, below 1 if the variant is faster.
    ratio: Option<f64>,
    /// The lower end of the ratio's 95 % interval.
    ratio_low: Option<f64>,
    /// The upper end.
    ratio_high: Option<f64>,
    verdict: &'static str,
}

/// Writes both files into `folder`.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub(super) fn write(
    folder: &Path,
    tables: &[(Samples, Vec<Vec<Comparison>>)],
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for (number, (samples, comparisons)) in tables.iter().enumerate() {
        add_table(&mut rows, number + 1, samples, comparisons);
    }
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in &rows {
        writer.serialize(row)?;
    }
    save(&folder.join(CSV), &writer.into_inner()?)?;
    save(&folder.join(JSON), &serde_json::to_vec_pretty(&rows)?)
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_whole(path, |file| file.write_all(bytes)).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, why: &dyn Display) -> anyhow::Error {
    let what = format!("{} cannot be written: {why}", path.display());
    Failure::on_all_ranks(Code::Usage, what)
}

fn add_table<'a>(
    rows: &mut Vec<ComparisonRow<'a>>,
    table: usize,
    samples: &Samples<'a>,
    comparisons: &[Vec<Comparison>],
) {
    for (index, key) in samples.keys.iter().enumerate() {
        for (variant, comparison) in comparisons[index].iter().enumerate() {
            let is_reference = variant == samples.roles.reference;
            let ratio = comparison.ratio.filter(|_| !is_reference);
            rows.push(ComparisonRow {
                table,
                backend: samples.conditions.backend.name(),
                nodes: samples.conditions.nodes,
                ranks: samples.conditions.ranks,
                collective: key.collective,
                size_bytes: key.size,
                r#type: key.dtype,
                redop: key.redop,
                root: key.root,
                in_place: key.is_in_place.into(),
                pattern: key.pattern,
                label: samples.labels[variant],
                level: samples.levels[variant],
                reference: samples.labels[samples.roles.reference],
                blocks: samples.cases[index].times[variant].len(),
                time_us: samples.mean_time(index, variant),
                ratio: ratio.map(|ratio| ratio.ratio),
                ratio_low: ratio.map(|ratio| ratio.low),
                ratio_high: ratio.map(|ratio| ratio.high),
                verdict: verdict(samples, variant, comparison.verdict),
            });
        }
    }
}

fn verdict(samples: &Samples, variant: usize, verdict: Verdict) -> &'static str {
    if variant == samples.roles.reference {
        return "reference";
    }
    if Some(variant) == samples.roles.control {
        return "control";
    }
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotShown => "no difference shown",
        Verdict::CannotDiffer => "cannot differ",
        Verdict::TooFewBlocks => "too few blocks",
    }
}
