//! The steps of a comparison, each in a folder of its own below one folder: joined into one CSV above them, and side by
//! side as medians by level with their ratios to the control.

mod steps;
mod table;

use std::path::Path;

use crate::{exit::Code, record::read};

/// Joins the steps below `folder` into `results.csv`, and prints the table.
///
/// # Errors
///
/// Returns an error if there is nothing to compare, or if a file cannot be read or written.
pub fn run(folder: &Path) -> anyhow::Result<Code> {
    let steps = steps::find(folder)?;
    let joined = folder.join("results.csv");
    steps::join(&steps, &joined)?;
    let rows = read::read_csv(&joined).map_err(|error| steps::cannot("read", &joined, &error))?;
    print_line!("{}", table::render(&rows).trim_end())?;
    for step in &steps {
        if let Some(sentence) = steps::unfinished(step) {
            print_line!("# {sentence}")?;
        }
    }
    say!("pxnbench: all rows are in {}", joined.display());
    Ok(Code::Fine)
}
