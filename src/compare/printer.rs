//! [`ComparisonPrinter`]: the tables of a comparison, each with what follows from it, as they are
//! printed.

use super::{
    can_differ,
    conditions::{Conditions, differences, in_common},
    judge::Comparison,
    recommendation, remarks,
    samples::{JudgedTable, Samples},
    table,
    tables::Table,
};
use crate::output::narrow::wrap_comment;

/// What the tables are printed on.
pub(super) struct ComparisonPrinter {
    /// The width of the terminal; `None` for a file or a pipe, where nothing is too wide.
    pub(super) width: Option<usize>,
}

impl ComparisonPrinter {
    /// Prints one table after the other, each with its remarks.
    pub(super) fn print(&self, judged: &[JudgedTable]) -> anyhow::Result<()> {
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
    pub(super) fn comment(&self, text: &str) -> anyhow::Result<()> {
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

/// Returns what to know of a table, and what follows from it.
pub(super) fn findings(samples: &Samples, comparisons: &[Vec<Comparison>]) -> Vec<String> {
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
