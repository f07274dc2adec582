//! The steps of a comparison, each in a folder of its own below one folder: joined into one CSV above them, and side by
//! side as medians by level with their ratios to the control. Only times with the same [`key::Conditions`] stand in one
//! table.

pub mod key;
pub mod step;
mod steps;
mod table;

use std::path::Path;

use self::step::Step;
use crate::exit::{Code, Failure};

/// Joins the steps below `folder` into `results.csv`, and prints the tables.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, if no two levels can be compared, or if a file cannot be read or
/// written.
pub fn run(folder: &Path) -> anyhow::Result<Code> {
    let folders = steps::find(folder)?;
    let mut all = Vec::new();
    for step in &folders {
        all.push(Step::read(step)?);
    }
    let tables = table::split(&all);
    if let Some(why) = table::no_two_levels(&tables) {
        return Err(Failure::on_all_ranks(Code::Usage, why));
    }
    let joined = folder.join("results.csv");
    steps::join(&folders, &joined)?;
    print_line!("{}", table::render_all(&tables).trim_end())?;
    for step in &all {
        if let Some(sentence) = step.unfinished() {
            print_line!("# {sentence}")?;
        }
    }
    say!("pxnbench: all rows are in {}", joined.display());
    Ok(Code::Fine)
}
