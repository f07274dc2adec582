//! Rows that can be compared: one [`Table`] for each set of conditions.

use std::collections::HashMap;

use super::{
    key::{CaseKey, ComparisonKey, Conditions, differences},
    step::Step,
};
use crate::{levels, record::read::CsvRow};

/// A row with its case and the step that it comes from.
#[derive(Clone, Copy)]
pub(super) struct TableRow<'a> {
    pub(super) case: CaseKey<'a>,
    pub(super) row: &'a CsvRow,
    pub(super) step: &'a Step,
}

/// The rows of one table: all were measured under the same conditions.
pub(super) struct Table<'a> {
    pub(super) conditions: Conditions<'a>,
    /// In the order of the steps.
    pub(super) rows: Vec<TableRow<'a>>,
}

/// Splits the rows of all steps by their conditions, in the order in which these come.
pub(super) fn split(steps: &[Step]) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    let mut places: HashMap<Conditions, usize> = HashMap::new();
    for step in steps {
        for row in &step.rows {
            let ComparisonKey { conditions, case } = ComparisonKey::of(row, step);
            let place = *places.entry(conditions).or_insert(tables.len());
            if place == tables.len() {
                let rows = Vec::new();
                tables.push(Table { conditions, rows });
            }
            tables[place].rows.push(TableRow { case, row, step });
        }
    }
    tables
}

/// Returns why nothing can be compared, if there are several levels but each was measured under other conditions.
pub(super) fn no_two_levels(tables: &[Table]) -> Option<String> {
    let all: Vec<Conditions> = tables.iter().map(|table| table.conditions).collect();
    let mut levels = Vec::new();
    let mut measured = Vec::new();
    for table in tables {
        let present = table.levels();
        let [level] = present[..] else { return None };
        if !levels.contains(&level) {
            levels.push(level);
            measured.push(format!(
                "{level} ({})",
                differences(&table.conditions, &all)
            ));
        }
    }
    if levels.len() < 2 {
        return None;
    }
    Some(format!(
        "no two levels were measured alike: {}. Put runs into the folder that differ in nothing but their level",
        measured.join(", ")
    ))
}

impl<'a> Table<'a> {
    /// Returns the levels of the rows: those of the table of levels in its order, then others.
    pub(super) fn levels(&self) -> Vec<&'a str> {
        let mut levels: Vec<&str> = Vec::new();
        for TableRow { row, .. } in &self.rows {
            if !levels.contains(&row.level.as_str()) {
                levels.push(&row.level);
            }
        }
        let place = |level: &&str| {
            let known = levels::all().iter();
            let mut names = known.map(|known| known.name.as_str());
            names.position(|name| name == *level).unwrap_or(usize::MAX)
        };
        levels.sort_by_key(place);
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::step::tests::rows, record::BackendKind};

    /// Changes one condition of a row.
    type Change = fn(&mut CsvRow);

    /// Everything in a row that two runs can differ in, and how it reads.
    const CHANGES: [(Change, &str); 10] = [
        (|row| row.backend = BackendKind::Nccl, "backend nccl"),
        (|row| row.nodes = 2, "2 nodes"),
        (|row| row.ranks = 8, "8 ranks"),
        (|row| row.gpus_per_process = 2, "2 GPUs per process"),
        (|row| row.group = Some(1), "communicator 1"),
        (|row| row.network = "socket".into(), "network socket"),
        (|row| row.resources = "lean".into(), "resources lean"),
        (|row| row.hosts = "n[1-2]".into(), "hosts n[1-2]"),
        (|row| row.device = "H100".into(), "device H100"),
        (|row| row.nccl_version = "2.28.3".into(), "NCCL 2.28.3"),
    ];

    #[test]
    fn times_that_differ_in_more_than_the_level_stand_in_tables_of_their_own() {
        for (change, shown) in CHANGES {
            let mut all = rows("host", 4, &[("off", 0, 10.0), ("off", 0, 30.0)]);
            change(&mut all[1]);
            let steps = [Step::of_rows("0", all)];
            let tables = split(&steps);
            let all: Vec<Conditions> = tables.iter().map(|table| table.conditions).collect();
            assert_eq!(all.len(), 2, "{shown}");
            assert!(tables.iter().all(|table| table.rows.len() == 1));
            let differences = differences(&all[1], &all);
            assert!(differences.contains(shown), "{differences}");
        }
    }

    #[test]
    fn levels_that_were_measured_under_different_conditions_are_not_compared() {
        for (change, shown) in CHANGES {
            let mut all = rows("host", 4, &[("off", 0, 10.0), ("aggressive", 0, 30.0)]);
            change(&mut all[1]);
            let steps = [Step::of_rows("0", all)];
            let why = no_two_levels(&split(&steps)).expect("refused");
            assert!(
                why.starts_with("no two levels were measured alike: off ("),
                "{why}"
            );
            assert!(why.contains("aggressive (") && why.contains(shown), "{why}");
        }
        let alike = [Step::of_rows(
            "0",
            rows("host", 4, &[("off", 0, 10.0), ("aggressive", 0, 30.0)]),
        )];
        assert_eq!(no_two_levels(&split(&alike)), None);
    }
}
