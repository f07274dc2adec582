//! The comparison of runs by one thing that differs between them, above all their PXN levels: which
//! is faster in which case, and how sure that is. Only times with the same `Conditions` stand in
//! one table.

mod can_differ;
mod case_key;
mod conditions;
mod dimension;
pub mod experiment_record;
mod files;
pub mod folders;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod inputs;
mod judge;
mod key_columns;
mod printer;
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
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    case_key::Cases,
    inputs::Inputs,
    judge::Comparison,
    printer::ComparisonPrinter,
    replicate::Origin,
    samples::{JudgedTable, Samples},
    step::Step,
    tables::{Comparability, Table},
};
use crate::{
    env,
    exit::{Code, Failure},
    output::terminal,
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

/// Compares runs. Prints the tables and what follows from them, and writes `comparison.csv`,
/// `comparison.json`, and all rows as `results.csv`.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, if no two runs can be compared, or if a file
/// cannot be read or written.
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
        files::write(folder, &inputs, &judged)?;
    }
    let printer = ComparisonPrinter {
        width: terminal::stdout_width(&env::var),
    };
    printer.print(&judged)?;
    if let Some(end) = inputs
        .experiment
        .as_ref()
        .and_then(|record| record.end.as_ref())
    {
        printer.comment(&format!("The experiment ended because {end}."))?;
    }
    for step in &steps {
        for sentence in step.unfinished().iter().chain(&step.torn_line) {
            printer.comment(sentence)?;
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
        for sentence in printer::findings(samples, comparisons) {
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

/// Returns whether the intervals of all variants are within `precision` of their ratios. False if
/// that cannot be told yet.
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

/// Returns what is compared: as requested, otherwise what differs. Steps in one folder are compared
/// by their levels if these differ, whatever else does.
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
            "no two {several} have times of the same training step with and without its \
             collectives. Compare replays of the same workload that completed a block"
        ),
        false => format!(
            "no two {several} have a case in common: collectives, sizes, types or roots differ. \
             Compare runs of the same sweep"
        ),
    })
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
