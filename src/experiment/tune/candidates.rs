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

/// The index of the default among the variants.
pub(super) const DEFAULT: usize = 0;

/// The index of the second copy of the default.
pub(super) const CONTROL: usize = 1;

/// The times of all candidates so far in us, in the order of the variants.
pub(super) struct MeasuredCandidates {
    /// The times of the overlapped step, by which candidates are judged.
    pub(super) step: RaceTimes,
    /// The times of exposed communication.
    pub(super) exposed: RaceTimes,
    /// The times of the computation alone.
    pub(super) computation: RaceTimes,
    /// The number of steps of the record that were read.
    read: usize,
}

impl MeasuredCandidates {
    /// Returns the candidates before any time is read.
    pub(super) fn new(variants: &[Variant]) -> MeasuredCandidates {
        let none = || RaceTimes::new(variants.len(), RESOLUTION);
        MeasuredCandidates {
            step: none(),
            exposed: none(),
            computation: none(),
            read: 0,
        }
    }

    /// Reads the steps that ended since the last call. Returns the candidates whose settings were
    /// not in force: their times are not added. A step whose files cannot be read is reported, and
    /// does not count either.
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

    /// Returns the candidates that are still in the race and are shown to be slower than another
    /// one.
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
            // All candidates are compared with the default, so it stays until the end.
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

/// Refuses to tune if the default, which the warm-up step ran, cannot be measured.
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
        "the default cannot be measured: a variable of the environment or of nccl.conf sets level \
         {}, resources {}. Unset it",
        warm_up.run.level, warm_up.run.resources,
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Returns the candidates whose level or resources differ from the default but cannot make a
/// difference on these ranks, and prints why.
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
