//! What is required of this run, and whether it meets that.

use std::{fs, path::Path};

use super::{context::RunContext, request::Request};
use crate::{
    check::{
        PreparedCheck,
        measured::{Measured, csv_of},
        reference::Setup,
    },
    exit::{self, Code, Failure},
    record::{Record, RunMeta},
    sweep::plan::Plan,
    world::{self, World},
};

/// The requirements on a run. Process 0 alone reads what they refer to, and judges.
pub(super) struct RunCheck {
    prepared: Option<PreparedCheck>,
    measured: Measured,
}

/// The judgement on a run.
pub(super) type Judgement = (Code, String, Vec<String>);

impl RunCheck {
    /// Refuses requirements that no case of `plan` could miss, and a baseline that this run would
    /// replace or cannot be compared with. Reads what the requirements refer to. `run` is this run,
    /// without results.
    ///
    /// # Errors
    ///
    /// Returns an error that every rank has.
    pub(super) fn prepare(
        context: &RunContext,
        run: &RunMeta,
        plan: &Plan,
    ) -> anyhow::Result<RunCheck> {
        let (request, world) = (context.request, context.world);
        let requirements = &request.requirements;
        let refused = requirements
            .refuse_without_case(plan.cases())
            .and_then(|()| refuse_own_baseline(request));
        world::agree(world, refused)?;
        let measured = Measured::of_run(run);
        let is_judge = world.rank() == 0 && !requirements.is_empty();
        let prepared = if is_judge {
            let setup = Setup {
                device: run.measured_on().device,
                ranks: run.ranks,
                nodes: run.nodes,
                collectives: plan.ask.collectives.clone(),
            };
            requirements.prepare(&setup).and_then(|prepared| {
                prepared.refuse_baseline(&measured, plan.cases())?;
                Ok(Some(prepared))
            })
        } else {
            Ok(None)
        };
        Ok(RunCheck {
            prepared: world::agree(world, prepared)?,
            measured,
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

/// Refuses a baseline at the place where this run writes its results.
fn refuse_own_baseline(request: &Request) -> anyhow::Result<()> {
    let Some(baseline) = &request.requirements.baseline else {
        return Ok(());
    };
    // A default folder is new, and so never the baseline's.
    let Some(own) = request.files.paths(Path::new("")).results_csv() else {
        return Ok(());
    };
    match (fs::canonicalize(csv_of(baseline)), fs::canonicalize(&own)) {
        (Ok(before), Ok(now)) if before == now => {
            let what = format!(
                "--baseline {} is where this run writes its results. Use another folder with --out",
                baseline.display()
            );
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
        _ => Ok(()),
    }
}
