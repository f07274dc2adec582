//! The times of a table: by case, variant and block.

use std::collections::HashMap;

use super::{
    can_differ::{anything_can_differ, can_differ},
    case_key::{CaseKey, Cases},
    dimension::{self, Dimension},
    experiment_record::{ExperimentRecord, Variant},
    judge::{BlockTime, CaseTimes, Comparison, JudgedCase, Roles},
    step::MeasuredTime,
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
    /// Returns the noun.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Replicate::Block => "block",
            Replicate::Run => "run",
            Replicate::Repetition => "repetition",
        }
    }
}

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
    /// The cases: collectives in the order in which they came, then by type, operation, root, buffers and size.
    pub(super) keys: Vec<CaseKey>,
    /// The times, in the order of [`Samples::keys`].
    pub(super) cases: Vec<JudgedCase>,
    /// The largest number of times that a variant has in a case.
    pub(super) blocks: usize,
}

/// A table with what is concluded from it: by case, then by variant.
pub(super) type JudgedTable<'a> = (Samples<'a>, Vec<Vec<Comparison>>);

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledVariant<'a> {
    /// Its name.
    pub(super) label: &'a str,
    /// What it is on the dimension that is compared, or its level in an experiment: the label, unless it is the control.
    pub(super) value: &'a str,
    /// What the record of the experiment has of it, if there is one.
    recorded: Option<&'a Variant>,
    /// What its times were measured on and with; `None` if it has none.
    pub(super) measured: Option<&'a TableVariant>,
}

/// The times of each case by variant, before the average of a block is taken.
type TimesByCase = HashMap<u32, CaseTimes>;

/// The variant and the block that the times of a part of a table belong to.
#[derive(Clone, Copy)]
struct Place {
    variant: usize,
    block: BlockNumber,
}

/// The block of a time.
#[derive(Clone, Copy)]
enum BlockNumber {
    /// All times are of this block.
    Fixed(u32),
    /// The block is the number of the repetition, counted from `lowest`, behind `first`.
    ByRepeat { first: u32, lowest: u32 },
}

impl BlockNumber {
    fn of(self, time: &MeasuredTime) -> u32 {
        match self {
            BlockNumber::Fixed(block) => block,
            BlockNumber::ByRepeat { first, lowest } => {
                first.saturating_add(time.repeat.saturating_sub(lowest))
            }
        }
    }
}

impl<'a> Samples<'a> {
    /// Collects the times of a table.
    pub(super) fn collect(table: &'a Table<'a>, cases: &Cases, origin: Origin<'a>) -> Samples<'a> {
        let experiment = match origin {
            Origin::Experiment(record)
                if table.dimension == dimension::of_variants(&record.variants) =>
            {
                Some(record)
            }
            _ => None,
        };
        let mut samples = match experiment {
            Some(record) => Samples::of_experiment(table, record),
            None => Samples::of_table(table, origin),
        };
        let places = match experiment {
            Some(record) => samples.recorded_places(record),
            None => samples.counted_places(),
        };
        let mut times = TimesByCase::new();
        let mut order = Vec::new();
        for (part, place) in table.parts.iter().zip(places) {
            let Some(place) = place else { continue };
            for time in times_of(part) {
                let of_case = times.entry(time.case).or_insert_with(|| {
                    order.push(time.case);
                    vec![Vec::new(); samples.variants.len()]
                });
                of_case[place.variant].push(BlockTime {
                    block: place.block.of(time),
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
        let find = |label: &String| variants.iter().position(|own| own.label == label);
        let roles = Roles {
            reference: find(&record.reference).unwrap_or(0),
            control: find(&record.control),
            is_paired: true,
        };
        Samples::without_times(table, variants, roles, Replicate::Block)
    }

    fn of_table(table: &'a Table<'a>, origin: Origin) -> Samples<'a> {
        let mut variants = Vec::new();
        for variant in &table.variants {
            variants.push(SampledVariant {
                label: &variant.label,
                value: &variant.label,
                recorded: None,
                measured: Some(variant),
            });
        }
        let replicate = replicate(table, origin);
        let roles = Roles {
            reference: 0,
            control: None,
            is_paired: replicate == Replicate::Block,
        };
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

    /// Returns where each part of the table belongs according to the record; `None` if its step does not count, as a
    /// warm-up, or if a variable that was already set overrode its level.
    fn recorded_places(&self, record: &ExperimentRecord) -> Vec<Option<Place>> {
        let mut places = Vec::new();
        for part in &self.table.parts {
            let step = record.step(&part.step.name);
            let block = step.and_then(|step| step.block);
            let conditions = &part.step.conditions[part.conditions as usize];
            let is_of_step = |variant: &SampledVariant| {
                let is_in_force = |recorded: &Variant| conditions.have(recorded);
                step.is_some_and(|step| step.label == variant.label)
                    && variant.recorded.is_some_and(is_in_force)
            };
            let variant = self.variants.iter().position(is_of_step);
            places.push(variant.zip(block).map(|(variant, block)| Place {
                variant,
                block: BlockNumber::Fixed(block),
            }));
        }
        places
    }

    /// Returns where each part of the table belongs: the steps of a variant are its blocks, and unless a run counts as a
    /// whole, the repetitions within a step are blocks too.
    fn counted_places(&self) -> Vec<Option<Place>> {
        let mut next = vec![0_u32; self.variants.len()];
        let mut places = Vec::new();
        for part in &self.table.parts {
            let find = |variant: &SampledVariant| variant.label == part.label;
            let Some(variant) = self.variants.iter().position(find) else {
                places.push(None);
                continue;
            };
            let first = next[variant];
            let (lowest, highest) = match self.replicate {
                Replicate::Run => (0, 0),
                Replicate::Block | Replicate::Repetition => repeats(part),
            };
            let block = match self.replicate {
                Replicate::Run => BlockNumber::Fixed(first),
                _ => BlockNumber::ByRepeat { first, lowest },
            };
            next[variant] = first.saturating_add(highest - lowest).saturating_add(1);
            places.push(Some(Place { variant, block }));
        }
        places
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

/// Returns what the times of a table are. Steps in one folder make blocks if there are several of each variant. Otherwise
/// there is nothing that the variants have in common, and what is repeated counts by itself: runs if there are several of
/// each variant, because what differs from run to run is part of the noise, else the repetitions.
fn replicate(table: &Table, origin: Origin) -> Replicate {
    let count = |variant: &TableVariant| {
        let mut parts = table.parts.iter();
        let first = parts.find(|part| part.label == variant.label);
        let first = first.map_or("", |part| part.step.name.as_str());
        let is_other = |part: &TablePart| part.label == variant.label && part.step.name != first;
        1 + table.parts.iter().filter(|part| is_other(part)).count()
    };
    let fewest = table.variants.iter().map(count).min().unwrap_or(0);
    let is_one_run_each = matches!(table.dimension, Dimension::Run | Dimension::Date);
    match origin {
        Origin::Folder | Origin::Experiment(_) if table.variants.len() < 2 => Replicate::Block,
        Origin::Folder | Origin::Experiment(_) if fewest > 1 && !is_one_run_each => {
            Replicate::Block
        }
        _ if fewest > 1 => Replicate::Run,
        _ => Replicate::Repetition,
    }
}

fn times_of<'a>(part: &TablePart<'a>) -> impl Iterator<Item = &'a MeasuredTime> {
    let conditions = part.conditions;
    let all = part.step.times.iter();
    all.filter(move |time| time.conditions == conditions)
}

/// Returns the lowest and the highest number of a repetition.
fn repeats(part: &TablePart) -> (u32, u32) {
    let repeats = || times_of(part).map(|time| time.repeat);
    (repeats().min().unwrap_or(0), repeats().max().unwrap_or(0))
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

/// Sorts times by block, and replaces those of one block by their geometric mean: a block has several if communicators ran
/// side by side, or if it is a run with repetitions.
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
            experiment_record::StepRecord,
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
