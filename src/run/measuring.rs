//! [`MeasuringRun`]: a run whose files are open, from the start of its backend to its verdict.

use super::{
    context::RunContext,
    open,
    peak::RunPeak,
    phases::PhaseTimer,
    planning::{self, CutNote},
    prediction::Predictions,
    progress::{Progress, RecordDetails},
    proof::LogProof,
    requirements::RunCheck,
    session::Session,
    slow_node, stragglers,
    telemetry::RunTelemetry,
    transport,
};
use crate::{
    backend::Backend,
    exit::Code,
    facts,
    record::MemoryUse,
    sweep::{self, measure::Measure, plan::Plan},
    world::{self, World, deadline, watch},
};

/// A run that measures.
pub(super) struct MeasuringRun<'a> {
    pub(super) context: &'a RunContext<'a>,
    pub(super) session: &'a Session,
    pub(super) timer: PhaseTimer,
}

impl MeasuringRun<'_> {
    /// Opens the backend, fits the sizes to the memory, and runs the sweep. Returns how that ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend fails, or if the results cannot be shown.
    pub(super) fn measure(
        &mut self,
        plan: Plan,
        peak: &RunPeak,
        check: &mut RunCheck,
        proof: &mut LogProof,
    ) -> anyhow::Result<(Code, String)> {
        let (context, world) = (self.context, self.context.world);
        let mut backend = self.open_backend(&plan)?;
        let asked = plan.ask.clone();
        let (plan, sizes) = planning::fit(plan, context.ranks(), &*backend, world)?;
        let cut = CutNote::new(&plan, sizes, &asked);
        self.keep_remarks(cut.as_ref().map(|cut| cut.text.clone()));
        let unknown_algorithms = proof.learn(context, &plan, sizes)?;
        self.timer.mark("algorithms");
        allocate(&mut *backend, &plan, context)?;
        self.timer.mark("memory");
        let predictions = self.predict(&plan, &mut *backend)?;
        let telemetry = self.start_telemetry()?;
        let startup_s = facts::process_age_s();
        self.session.change_run(|run| {
            run.startup_s = startup_s;
            run.sweep.reduced_to = sizes.map(|(_, end)| end);
        });
        let mut details = RecordDetails {
            proof,
            peak,
            predictions: &predictions,
            cut: cut.as_ref(),
            telemetry,
        };
        let (verdict, measured) = self.sweep(&plan, &mut *backend, &mut details, check)?;
        self.timer.mark_parts("sweep", &measured.spent);
        self.end_telemetry(&mut details.telemetry)?;
        let late = self.late_ranks(&plan, &mut *backend, &measured)?;
        let _guard = deadline::limit("shutting down the backend", context.request.timeout);
        backend.finish()?;
        self.keep_remarks(watch::remark());
        self.keep_remarks(late);
        self.keep_remarks(transport::remark(context)?);
        self.keep_remarks(unknown_algorithms);
        self.keep_proof(proof)?;
        self.timer.mark("end of backend");
        self.with_requirements(verdict, check)
    }

    /// Prints remarks on rank 0, and keeps them in the record of the run.
    fn keep_remarks(&self, remarks: impl IntoIterator<Item = String>) {
        for remark in remarks {
            self.session.keep_remark(remark, self.context.world);
        }
    }

    fn open_backend(&mut self, plan: &Plan) -> anyhow::Result<Box<dyn Backend>> {
        let timeout = self.context.request.timeout;
        let _guard = deadline::limit("starting the backend on every rank", timeout);
        let backend = open::backend(self.context, plan, self.session)?;
        self.timer.mark("backend");
        Ok(backend)
    }

    /// Asks NCCL for the time of each case, if that is requested.
    fn predict(&mut self, plan: &Plan, backend: &mut dyn Backend) -> anyhow::Result<Predictions> {
        let (predictions, waived) = Predictions::ask(self.context, plan, backend)?;
        self.keep_remarks(waived);
        if self.context.request.predict {
            self.timer.mark("predictions");
        }
        Ok(predictions)
    }

    /// Starts the telemetry of the GPUs, if it is requested.
    fn start_telemetry(&mut self) -> anyhow::Result<RunTelemetry> {
        let (telemetry, remarks) = RunTelemetry::start(self.context, self.session)?;
        self.keep_remarks(remarks);
        if self.context.request.telemetry.is_some() {
            self.timer.mark("telemetry");
        }
        Ok(telemetry)
    }

    /// Ends the telemetry, and says on process 0 what is not known; `run.json` has that beside the
    /// summary.
    fn end_telemetry(&self, telemetry: &mut RunTelemetry) -> anyhow::Result<()> {
        for gap in telemetry.end(self.context.world, self.session)? {
            note!("pxnbench: {gap}");
        }
        Ok(())
    }

    /// Runs the sweep, shows it and keeps its results. Returns how it ended, and what measuring it
    /// took.
    fn sweep(
        &self,
        plan: &Plan,
        backend: &mut dyn Backend,
        details: &mut RecordDetails,
        check: &mut RunCheck,
    ) -> anyhow::Result<((Code, String), Measure)> {
        let (context, session, world) = (self.context, self.session, self.context.world);
        let request = context.request;
        let mut measure = request.measure(context.backend, world.rank(), context.group());
        let earlier = session.earlier(plan, &measure, world)?;
        let mut progress = Progress::begin(context, plan, &measure, session)?;
        let stopped = sweep::run(plan, earlier, &mut measure, world, backend, &mut |event| {
            progress.on(event, details, check)
        })?;
        let memory = if request.table.memory {
            memory_use(backend, world)?
        } else {
            None
        };
        session.change_run(|run| run.memory = memory);
        let verdict = progress.end(&measure, stopped, memory)?;
        Ok((verdict, measure))
    }

    /// Returns the remarks on late ranks: those of a search, if it is requested, or on a node that
    /// was slower than the others.
    fn late_ranks(
        &mut self,
        plan: &Plan,
        backend: &mut dyn Backend,
        measured: &Measure,
    ) -> anyhow::Result<Vec<String>> {
        let context = self.context;
        if context.request.stragglers {
            let late = stragglers::search(context, plan, backend, self.session)?;
            self.timer.mark("stragglers");
            return Ok(late);
        }
        let pace = measured.pace.mean();
        let slow = slow_node::remark(pace, &context.placements, &context.hosts(), context.world)?;
        Ok(slow.into_iter().collect())
    }

    /// Keeps what NCCL's log shows of PXN.
    fn keep_proof(&self, proof: &mut LogProof) -> anyhow::Result<()> {
        let folder = self.session.folder();
        let proved = proof.verdict(folder.as_deref(), self.context.world)?;
        let verdict = proved.as_ref().map(|proved| proved.verdict.clone());
        self.session.change_run(|run| run.proof = proved);
        self.keep_remarks(verdict);
        Ok(())
    }

    /// Judges the requirements on the results, and says what they miss. They decide on the exit
    /// code if nothing worse does.
    fn with_requirements(
        &self,
        verdict: (Code, String),
        check: &RunCheck,
    ) -> anyhow::Result<(Code, String)> {
        let Some((code, sentence, lines)) = check.judge(self.context.world)? else {
            return Ok(verdict);
        };
        if self.context.world.rank() == 0 {
            for line in &lines {
                say!("pxnbench: {line}");
            }
        }
        self.session.add_remarks(lines);
        Ok(match verdict {
            (Code::Fine, _) => (code, sentence),
            worse => worse,
        })
    }
}

fn allocate(backend: &mut dyn Backend, plan: &Plan, context: &RunContext) -> anyhow::Result<()> {
    let largest = plan.largest(&|case| backend.supports(case).is_ok());
    let what = format!("allocating two buffers of {largest}");
    let _guard = deadline::limit(what, context.request.timeout);
    world::agree(context.world, backend.allocate(largest))?;
    world::agree(context.world, backend.register())
}

/// Returns, for each purpose, the memory used on the GPU that uses most for it, over all processes.
fn memory_use(backend: &dyn Backend, world: &dyn World) -> anyhow::Result<Option<MemoryUse>> {
    let own = world::agree(world, backend.memory_use())?;
    let mut most: Option<MemoryUse> = None;
    for used in world::all_gather(world, &own)?.into_iter().flatten() {
        let before = most.unwrap_or_default();
        most = Some(MemoryUse {
            initialization: before.initialization.max(used.initialization),
            buffers: before.buffers.max(used.buffers),
            collectives: before.collectives.max(used.collectives),
        });
    }
    Ok(most)
}
