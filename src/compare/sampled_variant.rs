//! [`SampledVariant`]: a column of the table.

use super::{
    experiment_record::{ExperimentRecord, Variant},
    tables::{Table, TableVariant},
};

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledVariant<'a> {
    /// Its name.
    pub(super) label: &'a str,
    /// What it is on the dimension that is compared, or its level in an experiment: the label,
    /// unless it is the control.
    pub(super) value: &'a str,
    /// What the record of the experiment has of it, if there is one.
    pub(super) recorded: Option<&'a Variant>,
    /// What its times were measured on and with; `None` if it has none.
    pub(super) measured: Option<&'a TableVariant>,
}

impl<'a> SampledVariant<'a> {
    /// Returns the variants of an experiment.
    pub(super) fn of_experiment(
        table: &'a Table<'a>,
        record: &'a ExperimentRecord,
    ) -> Vec<SampledVariant<'a>> {
        let mut variants = Vec::new();
        for variant in &record.variants {
            let mut measured = table.variants.iter();
            variants.push(SampledVariant {
                label: &variant.label,
                value: &variant.level,
                recorded: Some(variant),
                measured: measured.find(|measured| measured.conditions.have(variant)),
            });
        }
        variants
    }

    /// Returns the variants of a table that is not of an experiment.
    pub(super) fn of_table(table: &'a Table<'a>) -> Vec<SampledVariant<'a>> {
        let mut variants = Vec::new();
        for variant in &table.variants {
            variants.push(SampledVariant {
                label: &variant.label,
                value: &variant.label,
                recorded: None,
                measured: Some(variant),
            });
        }
        variants
    }
}
