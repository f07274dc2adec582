//! The steps of a comparison, each in a folder of its own below one folder: which level is faster in which case, and how sure
//! that is. Only times with the same [`key::Conditions`] stand in one table.

mod can_differ;
pub mod experiment_record;
mod judge;
pub mod key;
mod recommendation;
mod rows;
mod samples;
pub mod step;
mod steps;
mod table;
mod tables;

use std::path::{Path, PathBuf};

use self::{
    experiment_record::ExperimentRecord,
    judge::Comparison,
    key::{Conditions, differences, in_common},
    samples::Samples,
    step::Step,
};
use crate::exit::{Code, Failure};

/// A table with what is concluded from it.
type JudgedTable<'a> = (Samples<'a>, Vec<Vec<Comparison>>);

/// Compares the steps below `folder`. Prints the tables and what follows from them, and writes `comparison.csv`,
/// `comparison.json`, and all rows as `results.csv`.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, if no two levels can be compared, or if a file cannot be read or
/// written.
pub fn run(folder: &Path) -> anyhow::Result<Code> {
    let usage = |what| Failure::on_all_ranks(Code::Usage, what);
    let experiment = ExperimentRecord::read(folder).map_err(usage)?;
    let folders = find_steps(folder, experiment.as_ref())?;
    let steps = read(&folders)?;
    let tables = tables::split(&steps);
    if let Some(why) = tables::no_two_levels(&tables) {
        return Err(Failure::on_all_ranks(Code::Usage, why));
    }
    let judged = judge_all(&tables, experiment.as_ref());
    steps::join(&folders, &folder.join("results.csv"))?;
    rows::write(folder, &judged)?;
    print(&judged)?;
    if let Some(end) = experiment.and_then(|experiment| experiment.end) {
        print_line!("# The experiment ended because {end}.")?;
    }
    for step in &steps {
        if let Some(sentence) = step.unfinished() {
            print_line!("# {sentence}")?;
        }
    }
    say!(
        "pxnbench: the comparison is in {}, and all rows are in results.csv beside it",
        folder.join(rows::CSV).display()
    );
    Ok(Code::Fine)
}

/// Returns whether the intervals of all variants are within `precision` of their ratios. False if that cannot be told yet.
pub fn is_as_precise_as(folder: &Path, precision: f64) -> bool {
    let Ok(Some(experiment)) = ExperimentRecord::read(folder) else {
        return false;
    };
    let folders = find_steps(folder, Some(&experiment));
    let Ok(steps) = folders.and_then(|folders| read(&folders)) else {
        return false;
    };
    let tables = tables::split(&steps);
    let judged = judge_all(&tables, Some(&experiment));
    let mut comparisons = judged
        .iter()
        .flat_map(|(_, comparisons)| comparisons.iter().flatten());
    let is_narrow = |comparison: &Comparison| match comparison.ratio {
        Some(ratio) => ratio.half_width() <= precision,
        None => false,
    };
    !judged.is_empty() && comparisons.all(is_narrow)
}

/// Returns the folders of the steps whose times count.
fn find_steps(
    folder: &Path,
    experiment: Option<&ExperimentRecord>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = steps::find(folder)?;
    if let Some(experiment) = experiment {
        folders.retain(|folder| experiment.counts(folder));
    }
    if folders.is_empty() {
        let what = format!(
            "no step of the experiment in {} has results yet",
            folder.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(folders)
}

fn read(folders: &[PathBuf]) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for folder in folders {
        steps.push(Step::read(folder)?);
    }
    Ok(steps)
}

fn judge_all<'a>(
    tables: &[tables::Table<'a>],
    experiment: Option<&'a ExperimentRecord>,
) -> Vec<JudgedTable<'a>> {
    let mut judged = Vec::new();
    for table in tables {
        let samples = Samples::collect(table, experiment);
        let comparisons = judge::judge(&samples.cases, samples.roles);
        judged.push((samples, comparisons));
    }
    judged
}

/// Prints one table after the other, each with its remarks.
fn print(judged: &[JudgedTable]) -> anyhow::Result<()> {
    let all: Vec<Conditions> = judged
        .iter()
        .map(|(samples, _)| samples.conditions)
        .collect();
    let common = in_common(&all);
    if !common.is_empty() {
        print_line!("# Measured with {common}")?;
    }
    if judged.is_empty() {
        print_line!("# The steps have no rows")?;
    }
    for (number, (samples, comparisons)) in judged.iter().enumerate() {
        if judged.len() > 1 {
            let what = differences(&samples.conditions, &all);
            print_line!("#\n# Table {} of {}: {what}", number + 1, judged.len())?;
        }
        print_line!("{}", table::render(samples, comparisons).trim_end())?;
        for remark in table::remarks(samples) {
            print_line!("# {remark}")?;
        }
        if samples.labels.len() > 1 && can_differ::anything_can_differ(&samples.conditions).is_ok()
        {
            for sentence in recommendation::sentences(samples, comparisons) {
                print_line!("# {sentence}")?;
            }
        }
    }
    Ok(())
}
