//! What is required of this run, and whether it meets that.

use super::{context::RunContext, session::Session};
use crate::{
    check::{PreparedCheck, Requirements, measured::Measured, reference::Setup},
    exit::{self, Code},
    record::Record,
    sweep::plan::Plan,
    world::{self, World},
};

/// The requirements on a run. Process 0 alone reads what they refer to, and judges.
pub(super) struct RunCheck {
    prepared: Option<PreparedCheck>,
    measured: Measured,
}

/// How a run was judged.
pub(super) type Judgement = (Code, String, Vec<String>);

impl RunCheck {
    /// Refuses requirements that no case of `plan` could miss.
    ///
    /// # Errors
    ///
    /// Returns an error that every rank has.
    pub(super) fn refuse(
        requirements: &Requirements,
        plan: &Plan,
        world: &dyn World,
    ) -> anyhow::Result<()> {
        world::agree(world, requirements.refuse_without_case(plan.cases())).map(drop)
    }

    /// Reads what the requirements refer to.
    ///
    /// # Errors
    ///
    /// Returns an error that every rank has, if the baseline cannot be read, or if there is no such reference.
    pub(super) fn prepare(
        context: &RunContext,
        session: &Session,
        plan: &Plan,
    ) -> anyhow::Result<RunCheck> {
        let requirements = &context.request.requirements;
        let run = session.run();
        let is_judge = context.world.rank() == 0 && !requirements.is_empty();
        let prepared = if is_judge {
            let setup = Setup {
                device: run.measured_on().device,
                ranks: run.ranks,
                nodes: run.nodes,
                collectives: plan.ask.collectives.clone(),
            };
            requirements.prepare(&setup).map(Some)
        } else {
            Ok(None)
        };
        Ok(RunCheck {
            prepared: world::agree(context.world, prepared)?,
            measured: Measured::of_run(&run),
        })
    }

    /// Keeps a result for the judgement.
    pub(super) fn add(&mut self, record: &Record) {
        if self.prepared.is_some() {
            self.measured.add(record);
        }
    }

    /// Judges the run; `None` if nothing is required. Every rank has the same judgement.
    ///
    /// # Errors
    ///
    /// Returns an error if the judgement does not reach the other processes; that would be a bug.
    pub(super) fn judge(&self, world: &dyn World) -> anyhow::Result<Option<Judgement>> {
        let own: Option<Judgement> =
            self.prepared
                .as_ref()
                .map(|prepared| match prepared.judge(&self.measured) {
                    Ok(verdict) => (verdict.code(), verdict.sentence(), verdict.lines()),
                    Err(error) => (exit::code_of(&error), format!("{error:#}"), Vec::new()),
                });
        world::broadcast(world, &own)
    }
}
