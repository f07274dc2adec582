//! The comparison of runs by one thing that differs between them, above all their PXN levels: which is faster in which
//! case, and how sure that is. Only times with the same `Conditions` stand in one table.

mod can_differ;
mod case_key;
mod conditions;
mod dimension;
pub mod experiment_record;
pub mod folders;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod inputs;
mod judge;
mod key_columns;
mod recommendation;
mod remarks;
pub mod replays;
mod replicate;
pub mod rows;
mod run_facts;
mod sampled_variant;
mod samples;
mod step;
mod steps;
mod table;
mod tables;
mod time_place;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    case_key::Cases,
    conditions::{Conditions, differences, in_common},
    inputs::Inputs,
    judge::Comparison,
    replicate::Origin,
    samples::{JudgedTable, Samples},
    step::Step,
    tables::{Comparability, Table},
};
use crate::{
    env,
    exit::{Code, Failure},
    output::{narrow::wrap_comment, terminal},
    world::deadline,
};

pub use dimension::Dimension;
pub use rows::ComparisonRow;

/// How long the files may hold up a comparison.
const LIMIT: Duration = Duration::from_secs(600);

/// What to compare.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// One folder of steps, or several runs.
    pub runs: Vec<PathBuf>,
    /// What differs between them; `None` for the one thing that does.
    pub by: Option<Dimension>,
    /// Whether everything else may differ too.
    pub is_forced: bool,
    /// The folder for the files; by default that of the steps, if there is only one.
    pub out: Option<PathBuf>,
}

impl Request {
    /// Returns the request to compare the steps of an experiment.
    pub fn of_folder(folder: &Path) -> Request {
        Request {
            runs: vec![folder.to_owned()],
            ..Request::default()
        }
    }
}

/// Compares runs. Prints the tables and what follows from them, and writes `comparison.csv`, `comparison.json`, and all rows
/// as `results.csv`.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, if no two runs can be compared, or if a file cannot be read or
/// written.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let _guard = deadline::limit("the files of the runs", LIMIT);
    let inputs = Inputs::find(&request.runs)?;
    let mut cases = Cases::default();
    let steps = inputs.read(&mut cases)?;
    let comparability = comparability(request, &inputs, &steps)?;
    let tables = tables::split(&steps, comparability);
    let judged = judge_comparable(&tables, &cases, &inputs, comparability)?;
    let out = request.out.as_ref().or(inputs.folder.as_ref());
    if let Some(folder) = out {
        write(folder, &inputs, &judged)?;
    }
    let page = Page {
        width: terminal::stdout_width(&env::var),
    };
    page.print(&judged)?;
    if let Some(end) = inputs
        .experiment
        .as_ref()
        .and_then(|record| record.end.as_ref())
    {
        page.comment(&format!("The experiment ended because {end}."))?;
    }
    for step in &steps {
        for sentence in step.unfinished().iter().chain(&step.torn_line) {
            page.comment(sentence)?;
        }
    }
    if let Some(folder) = out {
        let rows = if inputs.csvs_of_sweeps().is_empty() {
            ""
        } else {
            ", and all rows are in results.csv beside it"
        };
        say!(
            "pxnbench: the comparison is in {}{rows}",
            folder.join(rows::CSV).display()
        );
    }
    Ok(if judged.is_empty() {
        Code::NothingRan
    } else {
        Code::Fine
    })
}

/// What a comparison amounts to, for those who show it elsewhere.
pub struct Summary {
    /// What is compared.
    pub by: Dimension,
    /// Each variant in each case.
    pub rows: Vec<ComparisonRow<'static>>,
    /// What to know of the rows, and what follows from them.
    pub sentences: Vec<String>,
}

/// Compares runs, and returns what follows. Prints and writes nothing.
///
/// # Errors
///
/// Returns an error as [`run`] does.
pub fn summarize(request: &Request) -> anyhow::Result<Summary> {
    let inputs = Inputs::find(&request.runs)?;
    let mut cases = Cases::default();
    let steps = inputs.read(&mut cases)?;
    let comparability = comparability(request, &inputs, &steps)?;
    let tables = tables::split(&steps, comparability);
    let judged = judge_comparable(&tables, &cases, &inputs, comparability)?;
    let mut sentences = Vec::new();
    for (samples, comparisons) in &judged {
        for sentence in findings(samples, comparisons) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences.extend(steps.iter().filter_map(Step::unfinished));
    Ok(Summary {
        by: comparability.dimension,
        rows: rows::owned(&judged),
        sentences,
    })
}

fn comparability(
    request: &Request,
    inputs: &Inputs,
    steps: &[Step],
) -> anyhow::Result<Comparability> {
    Ok(Comparability {
        dimension: dimension(request, inputs, steps).map_err(usage)?,
        is_forced: request.is_forced,
    })
}

/// Judges all tables.
///
/// # Errors
///
/// Returns an error if no two variants were measured alike, or if they have no case in common.
fn judge_comparable<'a>(
    tables: &'a [Table<'a>],
    cases: &Cases,
    inputs: &'a Inputs,
    comparability: Comparability,
) -> anyhow::Result<Vec<JudgedTable<'a>>> {
    if let Some(why) = tables::no_two_alike(tables, comparability) {
        return Err(usage(why));
    }
    let judged = judge_all(tables, cases, inputs.origin());
    match no_common_case(&judged, comparability.dimension, inputs) {
        Some(why) => Err(usage(why)),
        None => Ok(judged),
    }
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

/// Returns what to know of a table, and what follows from it.
fn findings(samples: &Samples, comparisons: &[Vec<Comparison>]) -> Vec<String> {
    let mut sentences = remarks::remarks(samples);
    let Table {
        dimension,
        conditions,
        ..
    } = samples.table;
    let is_possible = can_differ::anything_can_differ(*dimension, conditions).is_ok();
    if samples.variants.len() > 1 && is_possible {
        sentences.extend(recommendation::sentences(samples, comparisons));
    }
    sentences
}

/// Returns whether the intervals of all variants are within `precision` of their ratios. False if that cannot be told yet.
pub fn is_as_precise_as(folder: &Path, precision: f64) -> bool {
    let mut cases = Cases::default();
    let Ok(inputs) = Inputs::of_folder(folder) else {
        return false;
    };
    let Ok(steps) = inputs.read(&mut cases) else {
        return false;
    };
    let Some(record) = &inputs.experiment else {
        return false;
    };
    let comparability = Comparability {
        dimension: dimension::of_variants(&record.variants),
        is_forced: false,
    };
    let tables = tables::split(&steps, comparability);
    let judged = judge_all(&tables, &cases, inputs.origin());
    let mut comparisons = judged
        .iter()
        .flat_map(|(_, comparisons)| comparisons.iter().flatten());
    let is_narrow = |comparison: &Comparison| match comparison.ratio {
        Some(ratio) => ratio.half_width() <= precision,
        None => false,
    };
    !judged.is_empty() && comparisons.all(is_narrow)
}

/// Returns what is compared: as requested, otherwise what differs. Steps in one folder are compared by their levels if these
/// differ, whatever else does.
fn dimension(request: &Request, inputs: &Inputs, steps: &[Step]) -> Result<Dimension, String> {
    if let Some(by) = request.by {
        return Ok(by);
    }
    let is_folder = inputs.folder.is_some();
    if let Some(record) = &inputs.experiment {
        return Ok(dimension::of_variants(&record.variants));
    }
    let has_levels = dimension::labels(Dimension::Level, steps).len() > 1;
    if is_folder && has_levels {
        return Ok(Dimension::Level);
    }
    match dimension::the_one_that_differs(steps) {
        Ok(Dimension::Run) | Err(_) if is_folder => Ok(Dimension::Level),
        found => found,
    }
}

/// Returns why nothing can be compared, if no case was measured in two variants of any table.
fn no_common_case(judged: &[JudgedTable], dimension: Dimension, inputs: &Inputs) -> Option<String> {
    let mut has_variants = false;
    for (samples, _) in judged {
        has_variants |= samples.variants.len() > 1;
        if samples.cases_without_partner() < samples.cases.len() {
            return None;
        }
    }
    let has_times = judged.iter().any(|(samples, _)| !samples.cases.is_empty());
    let several = dimension.several();
    (has_variants && has_times).then(|| match inputs.csvs_of_sweeps().is_empty() {
        true => format!(
            "no two {several} have times of the same training step with and without its collectives. Compare replays of the \
             same workload that completed a block"
        ),
        false => format!(
            "no two {several} have a case in common: collectives, sizes, types or roots differ. Compare runs of the same sweep"
        ),
    })
}

fn write(folder: &Path, inputs: &Inputs, judged: &[JudgedTable]) -> anyhow::Result<()> {
    refuse_measured_results(folder)?;
    fs::create_dir_all(folder).map_err(|error| Failure::of_file("made", folder, &error))?;
    // In this order: results.csv beside comparison.csv is always a copy.
    rows::write(folder, judged)?;
    let sweeps = inputs.csvs_of_sweeps();
    if sweeps.is_empty() {
        return Ok(());
    }
    steps::join(&sweeps, &folder.join("results.csv"))
}

/// Refuses a folder whose `results.csv` a sweep wrote: the rows of a comparison would replace what was measured.
fn refuse_measured_results(folder: &Path) -> anyhow::Result<()> {
    let is_a_run = folder.join("run.json").exists();
    let is_a_comparison = folder.join(rows::CSV).exists() && !is_a_run;
    if !folder.join("results.csv").exists() || is_a_comparison {
        return Ok(());
    }
    let what = format!(
        "{} has measured results, which the comparison would replace. Name another folder with --out",
        folder.display()
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

fn judge_all<'a>(
    tables: &'a [Table<'a>],
    cases: &Cases,
    origin: Origin<'a>,
) -> Vec<JudgedTable<'a>> {
    let mut judged = Vec::new();
    for table in tables {
        let samples = Samples::collect(table, cases, origin);
        let comparisons = judge::judge(&samples.cases, samples.roles);
        judged.push((samples, comparisons));
    }
    judged
}

/// What the tables are printed on.
struct Page {
    /// The width of the terminal; `None` for a file or a pipe, where nothing is too wide.
    width: Option<usize>,
}

impl Page {
    /// Prints one table after the other, each with its remarks.
    fn print(&self, judged: &[JudgedTable]) -> anyhow::Result<()> {
        let all: Vec<Conditions> = judged
            .iter()
            .map(|(samples, _)| samples.table.conditions.clone())
            .collect();
        let common = in_common(&all);
        if !common.is_empty() {
            self.comment(&format!("Measured with {common}"))?;
        }
        if judged.is_empty() {
            self.comment("The steps have no rows")?;
        }
        for (number, (samples, comparisons)) in judged.iter().enumerate() {
            if judged.len() > 1 {
                let what = differences(&samples.table.conditions, &all);
                print_line!("#")?;
                self.comment(&format!("Table {} of {}: {what}", number + 1, judged.len()))?;
            }
            self.print_table(samples, comparisons)?;
        }
        Ok(())
    }

    fn print_table(
        &self,
        samples: &Samples,
        comparisons: &[Vec<Comparison>],
    ) -> anyhow::Result<()> {
        let mut text = String::new();
        for line in table::render(samples, comparisons, self.width).lines() {
            text += &match line.strip_prefix("# ") {
                // The names of the columns stand above them and are not wrapped.
                Some(comment) if !comment.starts_with(' ') => self.wrapped(comment),
                _ => format!("{line}\n"),
            };
        }
        print_line!("{}", text.trim_end())?;
        for sentence in findings(samples, comparisons) {
            self.comment(&sentence)?;
        }
        Ok(())
    }

    /// Prints a comment, in several lines if it is too long for the terminal.
    fn comment(&self, text: &str) -> anyhow::Result<()> {
        print_line!("{}", self.wrapped(text).trim_end())
    }

    fn wrapped(&self, text: &str) -> String {
        let line = format!("# {text}");
        match self.width {
            Some(width) => wrap_comment(&line, width),
            None => line + "\n",
        }
    }
}
