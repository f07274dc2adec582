//! The comparison as data: `comparison.csv` and `comparison.json`.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use serde::{Serialize, Serializer, ser::SerializeSeq};

use super::{
    judge::{Comparison, Verdict},
    samples::{JudgedTable, Samples},
};
use crate::{exit::Failure, output::target::write_whole};

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
    /// Times of this variant: blocks, runs or repetitions.
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
    /// What is compared, by its name on the command line.
    by: &'static str,
    /// What one time is: a block, a run or a repetition.
    replicate: &'static str,
}

/// Writes both files into `folder`.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub(super) fn write(folder: &Path, tables: &[JudgedTable]) -> anyhow::Result<()> {
    save(&folder.join(CSV), |file| write_csv(file, tables))?;
    save(&folder.join(JSON), |file| write_json(file, tables))
}

fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let written = write_whole(path, |file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| Failure::of_file("written", path, &error))
}

fn write_csv(file: &mut dyn Write, tables: &[JudgedTable]) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(file);
    for_each_row(tables, |row| {
        writer.serialize(row).map_err(io::Error::other)
    })?;
    writer.flush()
}

fn write_json(file: &mut dyn Write, tables: &[JudgedTable]) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::pretty(file);
    let mut rows = serializer.serialize_seq(None)?;
    for_each_row(tables, |row| {
        rows.serialize_element(row).map_err(io::Error::other)
    })?;
    rows.end()?;
    Ok(())
}

/// Hands each row to `write`, one after the other: there may be many.
fn for_each_row(
    tables: &[JudgedTable],
    mut write: impl FnMut(&ComparisonRow) -> io::Result<()>,
) -> io::Result<()> {
    for (table, (samples, comparisons)) in tables.iter().enumerate() {
        for (case, of_case) in comparisons.iter().enumerate() {
            for (variant, comparison) in of_case.iter().enumerate() {
                write(&row(table + 1, samples, case, variant, *comparison))?;
            }
        }
    }
    Ok(())
}

fn row<'a>(
    table: usize,
    samples: &'a Samples,
    case: usize,
    variant: usize,
    comparison: Comparison,
) -> ComparisonRow<'a> {
    let key = &samples.keys[case];
    let own = &samples.variants[variant];
    let conditions = match own.measured {
        Some(measured) => &measured.conditions,
        None => &samples.table.conditions,
    };
    let is_reference = variant == samples.roles.reference;
    let ratio = comparison.ratio.filter(|_| !is_reference);
    ComparisonRow {
        table,
        backend: conditions.backend.name(),
        nodes: conditions.nodes,
        ranks: conditions.ranks,
        collective: key.collective,
        size_bytes: key.size,
        r#type: key.dtype,
        redop: key.redop,
        root: key.root,
        in_place: key.is_in_place.into(),
        pattern: &key.pattern,
        label: own.label,
        level: samples.level(variant),
        reference: samples.reference().unwrap_or_default(),
        blocks: samples.cases[case].times[variant].len(),
        time_us: samples.mean_time(case, variant),
        ratio: ratio.map(|ratio| ratio.ratio),
        ratio_low: ratio.map(|ratio| ratio.low),
        ratio_high: ratio.map(|ratio| ratio.high),
        verdict: verdict(samples, variant, comparison.verdict),
        by: samples.table.dimension.name(),
        replicate: samples.replicate.noun(),
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
        Verdict::TooFewBlocks if samples.roles.is_paired => "too few blocks",
        Verdict::TooFewBlocks => "cannot tell",
    }
}
