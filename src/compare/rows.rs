//! The comparison as data: `comparison.csv` and `comparison.json`.

use std::{
    borrow::Cow,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeSeq};

use super::{
    judge::{Comparison, Verdict},
    samples::{JudgedTable, Samples},
};
use crate::{
    exit::Failure,
    input::{self, InputKind},
    output::lock::write_whole_alone,
    record::spreadsheet::guarded,
};

/// The name of the CSV.
pub(super) const CSV: &str = "comparison.csv";
/// The name of the JSON, in the folder of an experiment.
pub const JSON: &str = "comparison.json";

/// One variant in one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ComparisonRow<'a> {
    /// The number of the table, from 1.
    pub table: usize,
    /// The backend.
    pub backend: Cow<'a, str>,
    /// Nodes.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u64,
    /// The collective.
    pub collective: Cow<'a, str>,
    /// The size.
    pub size_bytes: u64,
    /// The element type.
    pub r#type: Cow<'a, str>,
    /// The reduction.
    pub redop: Cow<'a, str>,
    /// The root; -1 if there is none.
    pub root: i64,
    /// 1 if send and receive use one buffer, otherwise 0.
    pub in_place: u8,
    /// The traffic of an alltoallv.
    pub pattern: Cow<'a, str>,
    /// The name of the variant.
    pub label: Cow<'a, str>,
    /// Its PXN level.
    pub level: Cow<'a, str>,
    /// The name of the variant that it is compared with.
    pub reference: Cow<'a, str>,
    /// Times of this variant: blocks, runs or repetitions.
    pub blocks: usize,
    /// The geometric mean of its times.
    pub time_us: Option<f64>,
    /// The ratio of times to the reference, below 1 if the variant is faster.
    pub ratio: Option<f64>,
    /// The lower end of the ratio's 95 % interval.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
    /// What is concluded.
    pub verdict: Cow<'a, str>,
    /// What is compared, by its name on the command line.
    pub by: Cow<'a, str>,
    /// What one time is: a block, a run or a repetition.
    pub replicate: Cow<'a, str>,
    /// The workload of a training step, of which `collective` is what is timed; empty for a sweep.
    pub workload: Cow<'a, str>,
}

/// Reads the `comparison.json` at `path`.
///
/// # Errors
///
/// Returns an error if it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<Vec<ComparisonRow<'static>>> {
    let cannot = |why: &dyn std::fmt::Display| Failure::of_file("read", path, why);
    let bytes = input::read(path, InputKind::JsonRows).map_err(|error| cannot(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| cannot(&input::why_no_json(&error)))
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
    let written = write_whole_alone(path, |file| {
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
        writer
            .serialize(row.for_a_spreadsheet())
            .map_err(io::Error::other)
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
    rows(tables).try_for_each(|row| write(&row))
}

fn rows<'a>(tables: &'a [JudgedTable]) -> impl Iterator<Item = ComparisonRow<'a>> {
    let tables = tables.iter().enumerate();
    tables.flat_map(|(table, (samples, comparisons))| {
        let cases = comparisons.iter().enumerate();
        cases.flat_map(move |(case, of_case)| {
            let variants = of_case.iter().enumerate();
            variants.map(move |(variant, comparison)| {
                row(table + 1, samples, case, variant, *comparison)
            })
        })
    })
}

/// Returns all rows, without what they refer to.
pub(super) fn owned(tables: &[JudgedTable]) -> Vec<ComparisonRow<'static>> {
    rows(tables).map(ComparisonRow::into_owned).collect()
}

impl ComparisonRow<'_> {
    /// Returns the row with texts that a spreadsheet leaves alone: levels, labels and patterns are
    /// of files that were read.
    fn for_a_spreadsheet(&self) -> ComparisonRow<'_> {
        ComparisonRow {
            backend: guarded(&self.backend),
            collective: guarded(&self.collective),
            r#type: guarded(&self.r#type),
            redop: guarded(&self.redop),
            pattern: guarded(&self.pattern),
            label: guarded(&self.label),
            level: guarded(&self.level),
            reference: guarded(&self.reference),
            verdict: guarded(&self.verdict),
            by: guarded(&self.by),
            replicate: guarded(&self.replicate),
            workload: guarded(&self.workload),
            ..*self
        }
    }

    fn into_owned(self) -> ComparisonRow<'static> {
        let own = |text: Cow<str>| Cow::Owned(text.into_owned());
        ComparisonRow {
            table: self.table,
            backend: own(self.backend),
            nodes: self.nodes,
            ranks: self.ranks,
            collective: own(self.collective),
            size_bytes: self.size_bytes,
            r#type: own(self.r#type),
            redop: own(self.redop),
            root: self.root,
            in_place: self.in_place,
            pattern: own(self.pattern),
            label: own(self.label),
            level: own(self.level),
            reference: own(self.reference),
            blocks: self.blocks,
            time_us: self.time_us,
            ratio: self.ratio,
            ratio_low: self.ratio_low,
            ratio_high: self.ratio_high,
            verdict: own(self.verdict),
            by: own(self.by),
            replicate: own(self.replicate),
            workload: own(self.workload),
        }
    }
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
        backend: conditions.backend.name().into(),
        nodes: conditions.nodes,
        ranks: conditions.ranks,
        collective: key.collective.into(),
        size_bytes: key.size,
        r#type: key.dtype.into(),
        redop: key.redop.into(),
        root: key.root,
        in_place: key.is_in_place.into(),
        pattern: Cow::Borrowed(&key.pattern),
        label: own.label.into(),
        level: samples.level(variant).into(),
        reference: samples.reference().unwrap_or_default().into(),
        blocks: samples.cases[case].times[variant].len(),
        time_us: samples.mean_time(case, variant),
        ratio: ratio.map(|ratio| ratio.ratio),
        ratio_low: ratio.map(|ratio| ratio.low),
        ratio_high: ratio.map(|ratio| ratio.high),
        verdict: verdict(samples, variant, comparison.verdict).into(),
        by: samples.table.dimension.name().into(),
        replicate: samples.replicate.noun().into(),
        workload: Cow::Borrowed(&key.workload),
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
