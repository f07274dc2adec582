//! The times of a table: by case, variant and block.

use std::collections::BTreeMap;

use super::{
    can_differ::can_differ,
    experiment_record::ExperimentRecord,
    judge::{CaseTimes, JudgedCase, Roles},
    key::{CaseKey, Conditions},
    tables::{Table, TableRow},
};

/// All times of a table.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    /// What is the same in all rows.
    pub(super) conditions: Conditions<'a>,
    /// The names of the variants, in the order of [`JudgedCase::times`].
    pub(super) labels: Vec<&'a str>,
    /// The levels of the variants.
    pub(super) levels: Vec<&'a str>,
    /// Which variants are the reference and its control.
    pub(super) roles: Roles,
    /// The cases: collectives in the order in which they came, then by type, operation, root, buffers and size.
    pub(super) keys: Vec<CaseKey<'a>>,
    /// The times, in the order of [`Samples::keys`].
    pub(super) cases: Vec<JudgedCase>,
    /// The number of blocks.
    pub(super) blocks: usize,
}

/// Times in µs of a case by variant and block, before the average of a block is taken. The first part of the key is the place
/// at which the collective came first.
type TimesByCase<'a> = BTreeMap<(usize, CaseKey<'a>), Vec<BTreeMap<u32, Vec<f64>>>>;

/// Where a row belongs.
struct RowPlace<'a> {
    label: &'a str,
    block: u32,
}

impl<'a> Samples<'a> {
    /// Collects the times of a table. An experiment's record says which variant and block each step is; without one, the
    /// steps of a level are its blocks, in their order.
    pub(super) fn collect(
        table: &Table<'a>,
        experiment: Option<&'a ExperimentRecord>,
    ) -> Samples<'a> {
        let mut samples = Samples::without_times(table, experiment);
        let counted = StepBlocks::count(table);
        let mut times = TimesByCase::new();
        let mut collectives = Vec::new();
        for row in &table.rows {
            let place = match experiment {
                Some(experiment) => recorded_place(row, experiment),
                None => Some(counted.place(row)),
            };
            let time = row.row.time.filter(|time| time.0 > 0.0);
            let (Some(place), Some(time)) = (place, time) else {
                continue;
            };
            let Some(variant) = samples
                .labels
                .iter()
                .position(|label| *label == place.label)
            else {
                continue;
            };
            let key = (position(&mut collectives, row.case.collective), row.case);
            let variants = samples.labels.len();
            let of_case = times
                .entry(key)
                .or_insert_with(|| vec![BTreeMap::new(); variants]);
            of_case[variant]
                .entry(place.block)
                .or_default()
                .push(time.0);
        }
        samples.add(times);
        samples
    }

    /// Returns the geometric mean of a variant's times in a case, in µs; `None` if it has none.
    pub(super) fn mean_time(&self, case: usize, variant: usize) -> Option<f64> {
        let times = &self.cases[case].times[variant];
        let all: Vec<f64> = times.values().copied().collect();
        (!all.is_empty()).then(|| geometric_mean(&all))
    }

    fn without_times(table: &Table<'a>, experiment: Option<&'a ExperimentRecord>) -> Samples<'a> {
        let (mut labels, mut levels) = (Vec::new(), Vec::new());
        let mut roles = Roles {
            reference: 0,
            control: None,
        };
        if let Some(experiment) = experiment {
            for variant in &experiment.variants {
                labels.push(variant.label.as_str());
                levels.push(variant.level.as_str());
            }
            let find = |label: &String| labels.iter().position(|own| own == label);
            roles.reference = find(&experiment.reference).unwrap_or(0);
            roles.control = find(&experiment.control);
        } else {
            labels = table.levels();
            levels.clone_from(&labels);
        }
        Samples {
            conditions: table.conditions,
            labels,
            levels,
            roles,
            keys: Vec::new(),
            cases: Vec::new(),
            blocks: 0,
        }
    }

    fn add(&mut self, times: TimesByCase<'a>) {
        let reference = self
            .levels
            .get(self.roles.reference)
            .copied()
            .unwrap_or_default();
        for ((_, key), of_case) in times {
            let times: CaseTimes = of_case.into_iter().map(average_blocks).collect();
            let blocks = times.iter().map(BTreeMap::len).max().unwrap_or(0);
            self.blocks = self.blocks.max(blocks);
            let mut can_differ_from_reference = Vec::new();
            for level in &self.levels {
                let possible = can_differ(&self.conditions, key.collective, level, reference);
                can_differ_from_reference.push(possible);
            }
            self.keys.push(key);
            self.cases.push(JudgedCase {
                times,
                can_differ: can_differ_from_reference,
            });
        }
    }
}

/// Where a row belongs according to the record; `None` if its step does not count, as a warm-up.
fn recorded_place<'a>(row: &TableRow, experiment: &'a ExperimentRecord) -> Option<RowPlace<'a>> {
    let step = experiment.step(&row.step.name)?;
    let mut variants = experiment.variants.iter();
    let variant = variants.find(|variant| variant.label == step.label)?;
    // A variable that was already set may have overridden the level.
    if row.row.level != variant.level {
        return None;
    }
    Some(RowPlace {
        label: &step.label,
        block: step.block?,
    })
}

/// The blocks of each level's steps, which follow each other. The repetitions within a step are blocks too.
struct StepBlocks<'a> {
    first: BTreeMap<StepLevel<'a>, FirstBlock>,
}

/// The name of a step, and a level in it.
type StepLevel<'a> = (&'a str, &'a str);

/// The first block of a step, and the lowest number of a repetition in it.
#[derive(Clone, Copy, Default)]
struct FirstBlock {
    block: u32,
    lowest_repeat: u32,
}

/// The numbers of the repetitions in a step.
struct Repeats<'a> {
    of: StepLevel<'a>,
    low: u32,
    high: u32,
}

impl<'a> StepBlocks<'a> {
    fn count(table: &Table<'a>) -> StepBlocks<'a> {
        let mut steps: Vec<Repeats> = Vec::new();
        for TableRow { row, step, .. } in &table.rows {
            let of = (step.name.as_str(), row.level.as_str());
            let repeat = row.repeat;
            match steps.iter_mut().rev().find(|known| known.of == of) {
                Some(known) => {
                    known.low = repeat.min(known.low);
                    known.high = repeat.max(known.high);
                }
                None => steps.push(Repeats {
                    of,
                    low: repeat,
                    high: repeat,
                }),
            }
        }
        let mut next_of_level = BTreeMap::<&str, u32>::new();
        let mut first = BTreeMap::new();
        for Repeats { of, low, high } in steps {
            let (_, level) = of;
            let next = next_of_level.entry(level).or_default();
            first.insert(
                of,
                FirstBlock {
                    block: *next,
                    lowest_repeat: low,
                },
            );
            *next = next.saturating_add(high - low).saturating_add(1);
        }
        StepBlocks { first }
    }

    fn place(&self, row: &TableRow<'a>) -> RowPlace<'a> {
        let label = row.row.level.as_str();
        let found = self.first.get(&(row.step.name.as_str(), label));
        let first = found.copied().unwrap_or_default();
        RowPlace {
            label,
            block: first
                .block
                .saturating_add(row.row.repeat - first.lowest_repeat),
        }
    }
}

fn position(collectives: &mut Vec<&'static str>, collective: &'static str) -> usize {
    match collectives.iter().position(|known| *known == collective) {
        Some(position) => position,
        None => {
            collectives.push(collective);
            collectives.len() - 1
        }
    }
}

/// Returns the geometric mean of each block, which has several times if communicators ran side by side.
fn average_blocks(blocks: BTreeMap<u32, Vec<f64>>) -> BTreeMap<u32, f64> {
    let mut averages = BTreeMap::new();
    for (block, times) in blocks {
        averages.insert(block, geometric_mean(&times));
    }
    averages
}

fn geometric_mean(times: &[f64]) -> f64 {
    // One time stays what it is, to the last digit.
    if let [only] = times {
        return *only;
    }
    let logs: f64 = times.iter().map(|time| time.ln()).sum();
    (logs / times.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::{
            experiment_record::{StepRecord, Variant},
            step::tests::steps,
            tables::split,
        },
        exit::Code,
        record,
    };

    fn blocks(times: &[(u32, f64)]) -> BTreeMap<u32, f64> {
        times.iter().copied().collect()
    }

    #[test]
    fn without_a_record_the_steps_of_a_level_are_its_blocks() {
        // Both by number, and by order if all have the number 0.
        for repeats in [[0, 0, 1, 1], [0, 0, 0, 0]] {
            let cells = [
                ("off", repeats[0], 10.0),
                ("aggressive", repeats[1], 4.0),
                ("off", repeats[2], 30.0),
                ("aggressive", repeats[3], 6.0),
            ];
            let steps = steps("nccl", 2, &cells);
            let tables = split(&steps);
            let samples = Samples::collect(&tables[0], None);
            assert_eq!(samples.labels, ["off", "aggressive"]);
            let case = &samples.cases[0];
            assert_eq!(
                case.times[0],
                blocks(&[(0, 10.0), (1, 30.0)]),
                "{repeats:?}"
            );
            assert_eq!(case.times[1], blocks(&[(0, 4.0), (1, 6.0)]), "{repeats:?}");
            assert_eq!(case.can_differ, [false, true]);
        }
    }

    #[test]
    fn the_record_says_which_copy_a_step_is() {
        let step = |folder: &str, label: &str, block| StepRecord {
            folder: folder.to_owned(),
            label: label.to_owned(),
            block,
            seconds: 1.0,
            code: Code::Fine,
        };
        let variant = |label: &str, level: &str| Variant {
            label: label.to_owned(),
            level: level.to_owned(),
        };
        let record = ExperimentRecord {
            started_at: record::now(),
            arguments: Vec::new(),
            seed: 0,
            variants: vec![
                variant("off", "off"),
                variant("off-again", "off"),
                variant("aggressive", "aggressive"),
            ],
            reference: "off".into(),
            control: "off-again".into(),
            steps: vec![
                step("0", "off", None),
                step("1", "off-again", Some(0)),
                step("2", "aggressive", Some(0)),
                step("3", "off", Some(0)),
            ],
            end: None,
        };
        let cells = [
            ("off", 0, 1.0),
            ("off", 0, 2.0),
            ("custom", 0, 3.0),
            ("off", 0, 4.0),
            ("off", 0, 5.0),
        ];
        let steps = steps("nccl", 2, &cells);
        let tables = split(&steps);
        let samples = Samples::collect(&tables[0], Some(&record));
        let times = &samples.cases[0].times;
        assert_eq!(
            times[0],
            blocks(&[(0, 4.0)]),
            "not the warm-up, not a step that is not recorded"
        );
        assert_eq!(times[1], blocks(&[(0, 2.0)]));
        assert!(times[2].is_empty(), "the level was overridden");
    }
}
