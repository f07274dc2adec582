//! What a comparison knows of one replay, for those that run several.

use super::{
    can_differ::anything_can_differ, conditions::Conditions, dimension::Dimension,
    experiment_record::Variant, run_facts::RunFacts,
};
use crate::replay::SavedReplay;

/// Returns whether the settings of `variant` were in force in `replay`: a variable that was already
/// set may have overridden one.
pub fn was_in_force(variant: &Variant, replay: &SavedReplay) -> bool {
    conditions_of(replay).have(variant)
}

/// Returns a sentence if nothing on `dimension` can make a difference to what `replay` was measured
/// on.
pub fn cannot_differ(dimension: Dimension, replay: &SavedReplay) -> Option<String> {
    anything_can_differ(dimension, &conditions_of(replay)).err()
}

fn conditions_of(replay: &SavedReplay) -> Conditions {
    Conditions::of_replay(replay, &RunFacts::default())
}
