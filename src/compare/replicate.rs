//! [`Replicate`]: what the several times are that a variant has in a case.

use super::{
    dimension::Dimension,
    experiment_record::ExperimentRecord,
    tables::{Table, TablePart, TableVariant},
};

/// What the steps are to each other.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// Steps of an experiment, whose record says which variant and block each is.
    Experiment(&'a ExperimentRecord),
    /// Steps in one folder, in the order in which they ran.
    Folder,
    /// Runs that were named one by one.
    Runs,
}

/// What one time is, of the several that a variant has in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replicate {
    /// A block, which all variants have in common.
    Block,
    /// A run: the mean of its repetitions.
    Run,
    /// A repetition within a run.
    Repetition,
}

impl Replicate {
    /// Returns what the times of a table are. Steps in one folder make blocks if there are several
    /// of each variant. Otherwise there is nothing that the variants have in common, and what is
    /// repeated counts by itself: runs if there are several of each variant, because what differs
    /// from run to run is part of the noise, else the repetitions.
    pub(super) fn of(table: &Table, origin: Origin) -> Replicate {
        let counts = table.variants.iter();
        let counts = counts.map(|variant| count_of_steps(table, variant));
        let fewest = counts.min().unwrap_or(0);
        let is_one_run_each = matches!(table.dimension, Dimension::Run | Dimension::Date);
        let is_in_one_folder = matches!(origin, Origin::Folder | Origin::Experiment(_));
        let is_repeated = fewest > 1 && !is_one_run_each;
        if is_in_one_folder && (table.variants.len() < 2 || is_repeated) {
            Replicate::Block
        } else if fewest > 1 {
            Replicate::Run
        } else {
            Replicate::Repetition
        }
    }

    /// Returns the noun.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Replicate::Block => "block",
            Replicate::Run => "run",
            Replicate::Repetition => "repetition",
        }
    }
}

/// Returns how many times a variant was measured: the parts of the table that it has outside of its
/// first step, and that step.
fn count_of_steps(table: &Table, variant: &TableVariant) -> usize {
    let own = table.parts.iter();
    let own: Vec<&TablePart> = own.filter(|part| part.label == variant.label).collect();
    let Some(first) = own.first() else {
        return 1;
    };
    let is_other = |part: &&&TablePart| part.step.name != first.step.name;
    1 + own.iter().filter(is_other).count()
}
