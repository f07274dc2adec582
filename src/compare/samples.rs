//! The times of a table: by case, variant and block.

use std::collections::HashMap;

use super::{
    can_differ::{anything_can_differ, can_differ},
    case_key::{CaseKey, Cases},
    dimension,
    experiment_record::ExperimentRecord,
    judge::{BlockTime, CaseTimes, Comparison, JudgedCase, Roles},
    replicate::{Origin, Replicate},
    sampled_variant::SampledVariant,
    tables::Table,
    time_place,
};

/// All times of a table.
pub(super) struct Samples<'a> {
    /// The table.
    pub(super) table: &'a Table<'a>,
    /// The variants, in the order of [`JudgedCase::times`].
    pub(super) variants: Vec<SampledVariant<'a>>,
    /// Which variants are the reference and its control, and whether blocks are paired.
    pub(super) roles: Roles,
    /// What the times are.
    pub(super) replicate: Replicate,
    /// The cases: collectives in the order in which they came, then by type, operation, root,
    /// buffers and size.
    pub(super) keys: Vec<CaseKey>,
    /// The times, in the order of [`Samples::keys`].
    pub(super) cases: Vec<JudgedCase>,
    /// The largest number of times that a variant has in a case.
    pub(super) blocks: usize,
}

/// A table with what is concluded from it: by case, then by variant.
pub(super) type JudgedTable<'a> = (Samples<'a>, Vec<Vec<Comparison>>);

/// The times of each case by variant, before the average of a block is taken.
type TimesByCase = HashMap<u32, CaseTimes>;

impl<'a> Samples<'a> {
    /// Collects the times of a table.
    pub(super) fn collect(table: &'a Table<'a>, cases: &Cases, origin: Origin<'a>) -> Samples<'a> {
        let (mut samples, places) = match origin {
            Origin::Experiment(record)
                if table.dimension == dimension::of_variants(&record.variants) =>
            {
                let samples = Samples::of_experiment(table, record);
                let places = time_place::recorded(table, &samples.variants, record);
                (samples, places)
            }
            _ => {
                let samples = Samples::of_table(table, origin);
                let places = time_place::counted(table, &samples.variants, samples.replicate);
                (samples, places)
            }
        };
        let mut times = TimesByCase::new();
        let mut order = Vec::new();
        for (part, place) in table.parts.iter().zip(places) {
            let Some(place) = place else { continue };
            for time in part.times() {
                let of_case = times.entry(time.case).or_insert_with(|| {
                    order.push(time.case);
                    vec![Vec::new(); samples.variants.len()]
                });
                of_case[place.variant].push(BlockTime {
                    block: place.block_of(time),
                    time: time.time,
                });
            }
        }
        for (key, number) in sorted(cases, &order) {
            let of_case = times.remove(&number).unwrap_or_default();
            samples.add(key, of_case);
        }
        samples
    }

    /// Returns the geometric mean of a variant's times in a case, in µs; `None` if it has none.
    pub(super) fn mean_time(&self, case: usize, variant: usize) -> Option<f64> {
        let times = &self.cases[case].times[variant];
        (!times.is_empty()).then(|| geometric_mean(times))
    }

    /// Returns the label of the reference.
    pub(super) fn reference(&self) -> Option<&'a str> {
        let reference = self.variants.get(self.roles.reference);
        reference.map(|reference| reference.label)
    }

    /// Returns the PXN level of a variant.
    pub(super) fn level(&self, variant: usize) -> &'a str {
        let variant = self.variants[variant];
        match variant.measured {
            Some(measured) => &measured.conditions.level,
            // The variant of an experiment whose level was never in force.
            None => variant.value,
        }
    }

    /// Returns how many cases have times of one variant only.
    pub(super) fn cases_without_partner(&self) -> usize {
        let has_one = |case: &&JudgedCase| {
            let with_times = case.times.iter().filter(|times| !times.is_empty());
            with_times.count() < 2
        };
        self.cases.iter().filter(has_one).count()
    }

    fn of_experiment(table: &'a Table<'a>, record: &'a ExperimentRecord) -> Samples<'a> {
        let variants = SampledVariant::of_experiment(table, record);
        let find = |label: &String| variants.iter().position(|own| own.label == label);
        let roles = Roles {
            reference: find(&record.reference).unwrap_or(0),
            control: find(&record.control),
            is_paired: true,
        };
        Samples::without_times(table, variants, roles, Replicate::Block)
    }

    fn of_table(table: &'a Table<'a>, origin: Origin) -> Samples<'a> {
        let replicate = Replicate::of(table, origin);
        let roles = Roles {
            reference: 0,
            control: None,
            is_paired: replicate == Replicate::Block,
        };
        let variants = SampledVariant::of_table(table);
        Samples::without_times(table, variants, roles, replicate)
    }

    fn without_times(
        table: &'a Table<'a>,
        variants: Vec<SampledVariant<'a>>,
        roles: Roles,
        replicate: Replicate,
    ) -> Samples<'a> {
        Samples {
            table,
            variants,
            roles,
            replicate,
            keys: Vec::new(),
            cases: Vec::new(),
            blocks: 0,
        }
    }

    fn add(&mut self, key: CaseKey, mut times: CaseTimes) {
        let dimension = self.table.dimension;
        let is_possible = anything_can_differ(dimension, &self.table.conditions).is_ok();
        let reference = self.variants[self.roles.reference].value;
        let mut can_differ_from_reference = Vec::new();
        for variant in &self.variants {
            let is_other = can_differ(dimension, &key, variant.value, reference);
            can_differ_from_reference.push(is_possible && is_other);
        }
        for of_variant in &mut times {
            average_blocks(of_variant);
            self.blocks = self.blocks.max(of_variant.len());
        }
        self.keys.push(key);
        self.cases.push(JudgedCase {
            times,
            can_differ: can_differ_from_reference,
        });
    }
}
/// Returns the cases with these numbers in the order of the table's rows.
fn sorted(cases: &Cases, numbers: &[u32]) -> Vec<(CaseKey, u32)> {
    let mut collectives: Vec<&'static str> = Vec::new();
    let mut sorted = Vec::new();
    for number in numbers {
        let key = cases.key(*number).clone();
        let place = position(&mut collectives, key.collective);
        sorted.push((place, key, *number));
    }
    sorted.sort_unstable();
    let without_place = sorted.into_iter().map(|(_, key, number)| (key, number));
    without_place.collect()
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

/// Sorts times by block, and replaces those of one block by their geometric mean: a block has
/// several if communicators ran side by side, or if it is a run with repetitions.
fn average_blocks(times: &mut Vec<BlockTime>) {
    times.sort_by_key(|time| time.block);
    let is_in_one_block = |pair: &[BlockTime]| pair[0].block == pair[1].block;
    if !times.windows(2).any(is_in_one_block) {
        return;
    }
    let mut averages = Vec::new();
    for of_block in times.chunk_by(|a, b| a.block == b.block) {
        averages.push(BlockTime {
            block: of_block[0].block,
            time: geometric_mean(of_block),
        });
    }
    *times = averages;
}

fn geometric_mean(times: &[BlockTime]) -> f64 {
    // One time stays what it is, to the last digit.
    if let [only] = times {
        return only.time;
    }
    let logs: f64 = times.iter().map(|block| block.time.ln()).sum();
    (logs / times.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::{
            dimension::Dimension,
            experiment_record::{StepRecord, Variant},
            step::tests::steps,
            tables::{Comparability, split, tests::LEVELS},
        },
        exit::Code,
        record,
    };

    fn blocks(times: &[(u32, f64)]) -> Vec<BlockTime> {
        let times = times.iter();
        times
            .map(|&(block, time)| BlockTime { block, time })
            .collect()
    }

    fn labels<'a>(samples: &Samples<'a>) -> Vec<&'a str> {
        samples.variants.iter().map(|one| one.label).collect()
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
            let measured = steps("nccl", 2, &cells);
            let tables = split(&measured.steps, LEVELS);
            let samples = Samples::collect(&tables[0], &measured.cases, Origin::Folder);
            assert_eq!(labels(&samples), ["off", "aggressive"]);
            assert!(samples.roles.is_paired);
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
            ..Variant::default()
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
            eliminated: Vec::new(),
            end: None,
        };
        let cells = [
            ("off", 0, 1.0),
            ("off", 0, 2.0),
            ("custom", 0, 3.0),
            ("off", 0, 4.0),
            ("off", 0, 5.0),
        ];
        let measured = steps("nccl", 2, &cells);
        let tables = split(&measured.steps, LEVELS);
        let samples = Samples::collect(&tables[0], &measured.cases, Origin::Experiment(&record));
        let times = &samples.cases[0].times;
        assert_eq!(
            times[0],
            blocks(&[(0, 4.0)]),
            "not the warm-up, not a step that is not recorded"
        );
        assert_eq!(times[1], blocks(&[(0, 2.0)]));
        assert!(times[2].is_empty(), "the level was overridden");
    }

    #[test]
    fn runs_that_were_named_have_no_blocks_in_common() {
        let cells = [
            ("off", 0, 10.0),
            ("aggressive", 0, 4.0),
            ("off", 0, 30.0),
            ("aggressive", 0, 6.0),
        ];
        let measured = steps("nccl", 2, &cells);
        let tables = split(&measured.steps, LEVELS);
        let samples = Samples::collect(&tables[0], &measured.cases, Origin::Runs);
        assert_eq!(samples.replicate, Replicate::Run);
        assert!(!samples.roles.is_paired);
        assert_eq!(
            samples.cases[0].times[0],
            blocks(&[(0, 10.0), (1, 30.0)]),
            "each run is a time"
        );

        // One run of each: only its repetitions are left.
        let by_run = Comparability {
            dimension: Dimension::Run,
            is_forced: true,
        };
        let tables = split(&measured.steps, by_run);
        let samples = Samples::collect(&tables[0], &measured.cases, Origin::Runs);
        assert_eq!(samples.replicate, Replicate::Repetition);
        assert_eq!(labels(&samples), ["run 0", "run 1", "run 2", "run 3"]);
    }
}
