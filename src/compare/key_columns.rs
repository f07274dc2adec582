//! The columns of the table that say which case a line is.

use super::{case_key::CaseKey, samples::Samples};

/// A column that identifies the case.
pub(super) struct KeyColumn {
    pub(super) name: &'static str,
    pub(super) width: usize,
    pub(super) cell: fn(&CaseKey) -> String,
}

const KEY_COLUMNS: [KeyColumn; 9] = [
    KeyColumn {
        name: "workload",
        width: 14,
        cell: |key| key.workload.to_string(),
    },
    KeyColumn {
        name: "time of",
        width: 12,
        cell: |key| {
            let is_of_step = key.is_of_step();
            (if is_of_step { key.collective } else { "" }).to_owned()
        },
    },
    KeyColumn {
        name: "collective",
        width: 14,
        cell: |key| of_sweep(key, || key.collective.to_owned()),
    },
    KeyColumn {
        name: "size (B)",
        width: 12,
        cell: |key| of_sweep(key, || key.size.to_string()),
    },
    KeyColumn {
        name: "type",
        width: 8,
        cell: |key| key.dtype.to_owned(),
    },
    KeyColumn {
        name: "redop",
        width: 6,
        cell: |key| of_sweep(key, || key.redop.to_owned()),
    },
    KeyColumn {
        name: "root",
        width: 4,
        cell: |key| of_sweep(key, || key.root.to_string()),
    },
    KeyColumn {
        name: "pattern",
        width: 12,
        cell: |key| {
            let pattern = match &*key.pattern {
                "" => "-",
                pattern => pattern,
            };
            of_sweep(key, || pattern.to_owned())
        },
    },
    KeyColumn {
        name: "place",
        width: 5,
        cell: |key| {
            of_sweep(key, || {
                (if key.is_in_place { "in" } else { "out" }).to_owned()
            })
        },
    },
];

/// Returns the cell of a collective; that of a training step is empty.
fn of_sweep(key: &CaseKey, cell: impl FnOnce() -> String) -> String {
    if key.is_of_step() {
        String::new()
    } else {
        cell()
    }
}

impl KeyColumn {
    /// Returns the columns in which all cases have the same value, and the others.
    pub(super) fn common_and_other(
        samples: &Samples,
    ) -> (Vec<&'static KeyColumn>, Vec<&'static KeyColumn>) {
        KEY_COLUMNS
            .iter()
            .filter(|column| column.applies(samples))
            .partition(|column| column.is_common(samples))
    }

    /// Returns whether a case has a value in the column. In a table without cases all columns are
    /// shown but those of training steps.
    fn applies(&self, samples: &Samples) -> bool {
        if samples.keys.is_empty() {
            return !matches!(self.name, "workload" | "time of");
        }
        samples.keys.iter().any(|key| !(self.cell)(key).is_empty())
    }

    /// Returns whether all cases have the same value in the column. Size, collective and what is
    /// timed are always shown.
    fn is_common(&self, samples: &Samples) -> bool {
        let Some(first) = samples.keys.first() else {
            return false;
        };
        let expected = (self.cell)(first);
        let is_optional = !matches!(self.name, "collective" | "size (B)" | "time of");
        is_optional && samples.keys.iter().all(|key| (self.cell)(key) == expected)
    }
}
