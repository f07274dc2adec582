//! Times that can be compared: one [`Table`] for each set of conditions.

use super::{
    conditions::{Conditions, differences, ignore_differences},
    dimension::Dimension,
    step::{MeasuredTime, Step},
};
use crate::levels;

/// What is compared, and how strictly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparability {
    /// What may differ.
    pub(super) dimension: Dimension,
    /// Whether everything else may differ too.
    pub(super) is_forced: bool,
}

/// The times of one table: all were measured under the same conditions, apart from what is
/// compared.
pub(super) struct Table<'a> {
    /// What is compared.
    pub(super) dimension: Dimension,
    /// The conditions, without what is compared.
    pub(super) conditions: Conditions,
    /// What is compared: levels in the order of their table, everything else in the order in which
    /// it comes.
    pub(super) variants: Vec<TableVariant>,
    /// In the order of the steps.
    pub(super) parts: Vec<TablePart<'a>>,
}

/// One of the things that a table compares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableVariant {
    /// Its name in the table.
    pub(super) label: String,
    /// All conditions of its first step.
    pub(super) conditions: Conditions,
}

/// The times of a step that were measured under the same conditions.
pub(super) struct TablePart<'a> {
    pub(super) step: &'a Step,
    /// The conditions, as an index into those of the step.
    pub(super) conditions: u32,
    pub(super) label: String,
}

impl<'a> TablePart<'a> {
    /// Returns its times.
    pub(super) fn times(&self) -> impl Iterator<Item = &'a MeasuredTime> {
        let conditions = self.conditions;
        let all = self.step.times.iter();
        all.filter(move |time| time.conditions == conditions)
    }
}

/// Splits the times of all steps by their conditions, in the order in which these come.
pub(super) fn split(steps: &[Step], comparability: Comparability) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    let mut comparable = comparable_conditions(steps, comparability).into_iter();
    for step in steps {
        for (index, own) in step.conditions.iter().enumerate() {
            let Some(conditions) = comparable.next() else {
                continue;
            };
            let label = comparability.dimension.label(own, step);
            let known = tables
                .iter()
                .position(|table| table.conditions == conditions);
            let place = known.unwrap_or(tables.len());
            if known.is_none() {
                tables.push(Table {
                    dimension: comparability.dimension,
                    conditions,
                    variants: Vec::new(),
                    parts: Vec::new(),
                });
            }
            tables[place].add(step, index, label);
        }
    }
    for table in &mut tables {
        table.sort_variants();
    }
    tables
}

/// Returns the conditions of all steps, in their order, without what may differ.
fn comparable_conditions(steps: &[Step], comparability: Comparability) -> Vec<Conditions> {
    let mut all: Vec<Conditions> = Vec::new();
    for step in steps {
        for conditions in &step.conditions {
            let mut conditions = conditions.clone();
            comparability.dimension.ignore(&mut conditions);
            all.push(conditions);
        }
    }
    if comparability.is_forced {
        let mut all: Vec<&mut Conditions> = all.iter_mut().collect();
        ignore_differences(&mut all);
    }
    all
}

/// Returns why nothing can be compared, if there are several variants but each was measured under
/// other conditions.
pub(super) fn no_two_alike(tables: &[Table], comparability: Comparability) -> Option<String> {
    let dimension = comparability.dimension;
    let all: Vec<Conditions> = tables
        .iter()
        .map(|table| table.conditions.clone())
        .collect();
    let mut labels: Vec<&str> = Vec::new();
    let mut measured = Vec::new();
    for table in tables {
        let [variant] = table.variants.as_slice() else {
            return None;
        };
        let label = variant.label.as_str();
        if !labels.contains(&label) {
            labels.push(label);
            measured.push(format!(
                "{label} ({})",
                differences(&table.conditions, &all)
            ));
        }
    }
    if labels.len() < 2 {
        return None;
    }
    let remedy = if comparability.is_forced {
        ""
    } else {
        ", or compare them in spite of it with --force"
    };
    Some(format!(
        "no two {} were measured alike: {}. Compare runs that differ in nothing but their \
         {}{remedy}",
        dimension.several(),
        measured.join(", "),
        dimension.one(),
    ))
}

impl Table<'_> {
    /// Returns what differs between the variants apart from what is compared: because it follows
    /// from that, or because the comparison was forced. One text per variant; all are empty if
    /// nothing differs.
    pub(super) fn side_differences(&self) -> Vec<String> {
        let mut all = Vec::new();
        for variant in &self.variants {
            let mut conditions = variant.conditions.clone();
            self.dimension.ignore_itself(&mut conditions);
            all.push(conditions);
        }
        all.iter().map(|one| differences(one, &all)).collect()
    }

    fn sort_variants(&mut self) {
        if self.dimension != Dimension::Level {
            return;
        }
        let place = |variant: &TableVariant| {
            let mut names = levels::all().iter().map(|level| level.name.as_str());
            let place = names.position(|name| name == variant.label);
            place.unwrap_or(usize::MAX)
        };
        self.variants.sort_by_key(place);
    }
}

impl<'a> Table<'a> {
    fn add(&mut self, step: &'a Step, conditions: usize, label: String) {
        if !self.variants.iter().any(|variant| variant.label == label) {
            self.variants.push(TableVariant {
                label: label.clone(),
                conditions: step.conditions[conditions].clone(),
            });
        }
        self.parts.push(TablePart {
            step,
            conditions: conditions as u32,
            label,
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{compare::step::tests::steps, record::BackendKind};

    pub(in crate::compare) const LEVELS: Comparability = Comparability {
        dimension: Dimension::Level,
        is_forced: false,
    };

    /// Changes one condition.
    type Change = fn(&mut Conditions);

    /// Everything that two runs can differ in apart from their levels, and how it reads.
    const CHANGES: [(Change, &str); 17] = [
        (|all| all.backend = BackendKind::Nccl, "backend nccl"),
        (|all| all.nodes = 2, "2 nodes"),
        (|all| all.ranks = 8, "8 ranks"),
        (|all| all.gpus_per_process = 2, "2 GPUs per process"),
        (|all| all.group = Some(1), "communicator 1"),
        (|all| all.network = "socket".into(), "network socket"),
        (|all| all.resources = "lean".into(), "resources lean"),
        (|all| all.bucket = "25MiB".into(), "buckets of 25MiB"),
        (|all| all.hosts = "n[1-2]".into(), "hosts n[1-2]"),
        (|all| all.device = "H100".into(), "device H100"),
        (|all| all.nccl_version = "2.28.3".into(), "NCCL 2.28.3"),
        (|all| all.mpi_version = "MPICH 4".into(), "MPI MPICH 4"),
        (|all| all.driver = "550.1".into(), "driver 550.1"),
        (|all| all.program = "0.2.0".into(), "pxnbench 0.2.0"),
        (|all| all.iters = Some(5), "-n 5"),
        (|all| all.flags = "-m 4".into(), "-m 4"),
        (
            |all| all.settings = "NCCL_ALGO=Ring".into(),
            "NCCL_ALGO=Ring",
        ),
    ];

    #[test]
    fn times_that_differ_in_more_than_the_level_stand_in_tables_of_their_own() {
        for (change, shown) in CHANGES {
            let mut measured = steps("host", 4, &[("off", 0, 10.0), ("off", 0, 30.0)]);
            change(&mut measured.steps[1].conditions[0]);
            let tables = split(&measured.steps, LEVELS);
            let all: Vec<Conditions> = tables
                .iter()
                .map(|table| table.conditions.clone())
                .collect();
            assert_eq!(all.len(), 2, "{shown}");
            assert!(tables.iter().all(|table| table.parts.len() == 1));
            let differences = differences(&all[1], &all);
            assert!(differences.contains(shown), "{differences}");
        }
    }

    #[test]
    fn levels_that_were_measured_under_different_conditions_are_not_compared() {
        for (change, shown) in CHANGES {
            let mut measured = steps("host", 4, &[("off", 0, 10.0), ("aggressive", 0, 30.0)]);
            change(&mut measured.steps[1].conditions[0]);
            let why = no_two_alike(&split(&measured.steps, LEVELS), LEVELS).expect("refused");
            assert!(
                why.starts_with("no two levels were measured alike: off ("),
                "{why}"
            );
            assert!(why.contains("aggressive (") && why.contains(shown), "{why}");

            let forced = Comparability {
                is_forced: true,
                ..LEVELS
            };
            let tables = split(&measured.steps, forced);
            let never = ["backend nccl", "communicator 1"].contains(&shown);
            assert_eq!(tables.len(), if never { 2 } else { 1 }, "{shown}");
            if !never {
                let differences = tables[0].side_differences();
                assert!(differences[1].contains(shown), "{differences:?}");
            }
        }
        let alike = steps("host", 4, &[("off", 0, 10.0), ("aggressive", 0, 30.0)]);
        assert_eq!(no_two_alike(&split(&alike.steps, LEVELS), LEVELS), None);
    }

    #[test]
    fn numbers_of_nodes_may_have_other_hosts_and_ranks() {
        let mut measured = steps("host", 4, &[("off", 0, 10.0), ("off", 0, 30.0)]);
        let larger = &mut measured.steps[1].conditions[0];
        (larger.nodes, larger.ranks) = (8, 8);
        larger.hosts = "n[1-8]".into();
        let by_nodes = Comparability {
            dimension: Dimension::Nodes,
            is_forced: false,
        };
        let tables = split(&measured.steps, by_nodes);
        let [table] = tables.as_slice() else {
            panic!("one table")
        };
        let labels: Vec<&str> = table
            .variants
            .iter()
            .map(|one| one.label.as_str())
            .collect();
        assert_eq!(labels, ["4 nodes", "8 nodes"]);
        assert_eq!(
            table.side_differences(),
            ["4 ranks, unknown hosts", "8 ranks, hosts n[1-8]"]
        );
    }
}
