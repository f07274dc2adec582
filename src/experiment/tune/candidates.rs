//! [`MeasuredCandidates`]: the times of all candidates so far.

use std::path::Path;

use crate::{
    compare::{
        Dimension,
        experiment_record::{EliminatedVariant, ExperimentRecord, Variant},
        replays::{cannot_differ, was_in_force},
    },
    exit::{Code, Failure},
    experiment::variants::Variants,
    replay::{RESOLUTION, ReplayQuantity, SavedReplay},
    stats::RaceTimes,
};

/// The place of the default among the variants.
pub(super) const DEFAULT: usize = 0;

/// The place of its second copy.
pub(super) const CONTROL: usize = 1;

/// The times of all candidates so far, in the order of the variants.
pub(super) struct MeasuredCandidates {
    /// Times of the step, by which candidates are judged.
    pub(super) step: RaceTimes,
    /// Exposed communication.
    pub(super) exposed: RaceTimes,
    /// Times of the computation alone.
    pub(super) computation: RaceTimes,
    /// Steps of the record that were read.
    read: usize,
}

impl MeasuredCandidates {
    /// Returns the times of `variants`, of which there are none yet.
    pub(super) fn new(variants: &[Variant]) -> MeasuredCandidates {
        let none = || RaceTimes::new(variants.len(), RESOLUTION);
        MeasuredCandidates {
            step: none(),
            exposed: none(),
            computation: none(),
            read: 0,
        }
    }

    /// Adds the steps that ended since. Returns the candidates whose settings were not in force: those do not count. Nor does a
    /// step whose files cannot be read, which is said.
    pub(super) fn read(
        &mut self,
        record: &ExperimentRecord,
        folder: &Path,
    ) -> Vec<EliminatedVariant> {
        let mut overridden = Vec::new();
        for step in &record.steps[self.read..] {
            let mut variants = record.variants.iter();
            let place = variants.position(|variant| variant.label == step.label);
            let (Some(place), Some(block), Code::Fine) = (place, step.block, step.code) else {
                continue;
            };
            let replay = match SavedReplay::read(&folder.join(&step.folder)) {
                Ok(replay) => replay,
                Err(error) => {
                    say!("pxnbench: the times of a step do not count: {error}");
                    continue;
                }
            };
            if was_in_force(&record.variants[place], &replay) {
                self.add(place, block, &replay);
            } else if place != DEFAULT && place != CONTROL {
                overridden.push(EliminatedVariant {
                    label: step.label.clone(),
                    why: "a variable that is already set overrides its settings".to_owned(),
                    blocks: record.blocks(),
                });
            }
        }
        self.read = record.steps.len();
        overridden
    }

    fn add(&mut self, place: usize, block: u32, replay: &SavedReplay) {
        for (times, quantity) in [
            (&mut self.step, ReplayQuantity::Step),
            (&mut self.exposed, ReplayQuantity::Exposed),
            (&mut self.computation, ReplayQuantity::Computation),
        ] {
            if let Some(time) = replay.time(quantity) {
                times.add(place, block, time);
            }
        }
    }

    /// Returns the candidates that race on and are shown to be slower than another.
    pub(super) fn slower(&self, record: &ExperimentRecord) -> Vec<EliminatedVariant> {
        let blocks = record.blocks();
        let labels: Vec<&str> = record
            .variants
            .iter()
            .map(|one| one.label.as_str())
            .collect();
        let is_eliminated = |place: usize| {
            let mut eliminated = record.eliminated.iter();
            eliminated.any(|variant| variant.label == labels[place])
        };
        let all = 0..labels.len();
        let racing: Vec<usize> = all
            .filter(|place| *place != CONTROL && !is_eliminated(*place))
            .collect();
        let mut slower = Vec::new();
        for found in self.step.slower(&racing, blocks) {
            // The default is what all are compared with, until the end.
            if found.candidate != DEFAULT {
                slower.push(EliminatedVariant {
                    label: labels[found.candidate].to_owned(),
                    why: format!("{} is faster", labels[found.than]),
                    blocks,
                });
            }
        }
        slower
    }
}

/// Returns the replay of the warm-up step.
///
/// # Errors
///
/// Returns an error if its files cannot be read.
pub(super) fn warm_up(record: &ExperimentRecord, folder: &Path) -> anyhow::Result<SavedReplay> {
    let mut steps = record.steps.iter().rev();
    let last = steps.find(|step| step.block.is_none());
    let name = last.map_or("", |step| step.folder.as_str());
    SavedReplay::read(&folder.join(name))
}

/// Refuses to tune if the default cannot be measured, which the warm-up step was.
///
/// # Errors
///
/// Returns an error if its settings were not in force.
pub(super) fn refuse_overridden_default(
    variants: &Variants,
    warm_up: &SavedReplay,
) -> anyhow::Result<()> {
    if was_in_force(variants.reference(), warm_up) {
        return Ok(());
    }
    let what = format!(
        "the default cannot be measured: a variable of the environment or of nccl.conf sets level {}, resources {}. Unset it",
        warm_up.run.level, warm_up.run.resources,
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Returns the candidates that have another level or other resources than the default, as far as these have no effect on these
/// ranks. Says why.
pub(super) fn without_effect(variants: &Variants, warm_up: &SavedReplay) -> Vec<EliminatedVariant> {
    let default = variants.reference();
    let others = &variants.all()[CONTROL + 1..];
    let mut without_effect: Vec<EliminatedVariant> = Vec::new();
    let mut leave_out = |dimension: Dimension, differs: &dyn Fn(&Variant) -> bool| {
        let Some(why) = cannot_differ(dimension, warm_up) else {
            return;
        };
        let is_known = |label: &str| without_effect.iter().any(|one| one.label == label);
        let differing = others.iter().filter(|variant| differs(variant));
        let differing: Vec<&Variant> = differing.filter(|one| !is_known(&one.label)).collect();
        if !differing.is_empty() {
            say!("pxnbench: {why}");
        }
        for variant in differing {
            without_effect.push(EliminatedVariant {
                label: variant.label.clone(),
                why: format!("its {} makes no difference here", dimension.name()),
                blocks: 0,
            });
        }
    };
    leave_out(Dimension::Level, &|one| one.level != default.level);
    leave_out(Dimension::Resources, &|one| {
        one.resources != default.resources
    });
    without_effect
}
