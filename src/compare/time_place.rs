//! [`TimePlace`]: to which variant, and to which block of it, the times of a part of a table
//! belong.

use super::{
    experiment_record::{ExperimentRecord, Variant},
    replicate::Replicate,
    sampled_variant::SampledVariant,
    step::MeasuredTime,
    tables::{Table, TablePart},
};

/// The variant and the block that the times of a part of a table belong to.
#[derive(Clone, Copy)]
pub(super) struct TimePlace {
    pub(super) variant: usize,
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

impl TimePlace {
    /// Returns the block of a time of the part.
    pub(super) fn block_of(self, time: &MeasuredTime) -> u32 {
        self.block.of(time)
    }
}

/// Returns where each part of the table belongs according to the record; `None` if its step does
/// not count, as a warm-up, or if a variable that was already set overrode its level.
pub(super) fn recorded(
    table: &Table,
    variants: &[SampledVariant],
    record: &ExperimentRecord,
) -> Vec<Option<TimePlace>> {
    let parts = table.parts.iter();
    parts
        .map(|part| recorded_place(part, variants, record))
        .collect()
}

fn recorded_place(
    part: &TablePart,
    variants: &[SampledVariant],
    record: &ExperimentRecord,
) -> Option<TimePlace> {
    let step = record.step(&part.step.name)?;
    let conditions = &part.step.conditions[part.conditions as usize];
    let is_in_force = |recorded: &Variant| conditions.have(recorded);
    let variant = variants.iter().position(|variant| {
        step.label == variant.label && variant.recorded.is_some_and(is_in_force)
    })?;
    let block = BlockNumber::Fixed(step.block?);
    Some(TimePlace { variant, block })
}

/// Returns where each part of the table belongs: the steps of a variant are its blocks, and unless
/// a run counts as a whole, the repetitions within a step are blocks too.
pub(super) fn counted(
    table: &Table,
    variants: &[SampledVariant],
    replicate: Replicate,
) -> Vec<Option<TimePlace>> {
    let mut next = vec![0_u32; variants.len()];
    let mut places = Vec::new();
    for part in &table.parts {
        let find = |variant: &SampledVariant| variant.label == part.label;
        let Some(variant) = variants.iter().position(find) else {
            places.push(None);
            continue;
        };
        let first = next[variant];
        let (block, count) = match replicate {
            Replicate::Run => (BlockNumber::Fixed(first), 1),
            Replicate::Block | Replicate::Repetition => {
                let (lowest, highest) = repeats(part);
                let count = (highest - lowest).saturating_add(1);
                (BlockNumber::ByRepeat { first, lowest }, count)
            }
        };
        next[variant] = first.saturating_add(count);
        places.push(Some(TimePlace { variant, block }));
    }
    places
}

/// Returns the lowest and the highest number of a repetition.
fn repeats(part: &TablePart) -> (u32, u32) {
    let repeats = || part.times().map(|time| time.repeat);
    (repeats().min().unwrap_or(0), repeats().max().unwrap_or(0))
}
