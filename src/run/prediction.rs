//! The times that NCCL's own model predicts.

use std::collections::HashMap;

use super::context::RunContext;
use crate::{
    backend::{Backend, Waived},
    collective::{BufferMode, Case},
    record::Record,
    sweep::plan::Plan,
    units::Micros,
    world::{self, deadline},
};

/// The predicted time of each case.
#[derive(Default)]
pub(super) struct Predictions(HashMap<Case, Option<Micros>>);

impl Predictions {
    /// Asks NCCL for the time of each case of `plan`, before any is timed. Returns why there is
    /// none, if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if NCCL fails.
    pub(super) fn ask(
        context: &RunContext,
        plan: &Plan,
        backend: &mut dyn Backend,
    ) -> anyhow::Result<(Predictions, Option<String>)> {
        let mut predictions = Predictions::default();
        if !context.request.predict {
            return Ok((predictions, None));
        }
        if let Err(Waived(why)) = backend.predicts() {
            return Ok((predictions, Some(format!("--predict: {why}"))));
        }
        for case in plan.cases() {
            let case = any_placement(case);
            let has_model = !case.collective.spec().pairwise && backend.supports(&case).is_ok();
            if predictions.0.contains_key(&case) || !has_model {
                continue;
            }
            let what = format!("predicting the time of {case}");
            let _guard = deadline::limit(what, context.request.timeout);
            let id = shared_id(context, backend)?;
            let time = world::agree(context.world, backend.predict(&case, &id))?;
            predictions.0.insert(case, time);
        }
        Ok((predictions, None))
    }

    /// Adds the prediction to a record.
    pub(super) fn add_to(&self, record: &mut Record) {
        let case = any_placement(&record.case);
        record.predicted = self.0.get(&case).copied().flatten();
    }
}

/// Returns the case with the placement that stands for both: NCCL's model does not know them.
fn any_placement(case: &Case) -> Case {
    Case {
        buffer_mode: BufferMode::OutOfPlace,
        ..*case
    }
}

/// Returns the id of a new communicator of the same ranks.
fn shared_id(context: &RunContext, backend: &dyn Backend) -> anyhow::Result<Vec<u8>> {
    let (world, leader) = (context.world, context.leader());
    let own = if world.rank() == leader {
        backend.prediction_id()
    } else {
        Ok(Vec::new())
    };
    let mut ids = world.all_gather(&world::agree(world, own)?);
    Ok(ids.swap_remove(leader as usize))
}
