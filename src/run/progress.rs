//! [`Progress`]: what each event of a sweep does to the files, the terminal and the verdict.

use super::{
    context::RunContext,
    outcome::{self, SweepOutcome},
    over_time::{self, Repetition},
    peak::RunPeak,
    planning::CutNote,
    prediction::Predictions,
    proof::LogProof,
    requirements::RunCheck,
    session::Session,
    telemetry::RunTelemetry,
};
use crate::{
    env,
    exit::{Code, Failure},
    output::live::Live,
    record::{MemoryUse, OverTime, Record, RunMeta},
    sweep::{Event, measure::Measure, plan::Plan},
    world::{self, World},
};

/// Cases with changes outside the receive buffer that stderr names.
const MOST_NAMED_CHANGES: u32 = 10;

/// A sweep in progress.
pub(super) struct Progress<'a> {
    context: &'a RunContext<'a>,
    session: &'a Session,
    run: RunMeta,
    outcome: SweepOutcome,
    /// The state of a sweep that is repeated for a time.
    repetition: Option<Repetition>,
    /// Cases that stderr has named because something changed outside the receive buffer.
    named_changes: u32,
    /// The table and the progress, on process 0.
    live: Option<Live>,
}

impl<'a> Progress<'a> {
    /// Begins a sweep over `plan`.
    ///
    /// # Errors
    ///
    /// Returns an error if the threshold does not reach the other processes; that would be a bug.
    pub(super) fn begin(
        context: &'a RunContext,
        plan: &Plan,
        measure: &Measure,
        session: &'a Session,
    ) -> anyhow::Result<Progress<'a>> {
        let (world, is_quiet) = (context.world, context.request.quiet);
        let run = session.run();
        let cases_per_pass = plan.cases().count();
        let cases = match measure.repeat_for {
            None => cases_per_pass * measure.cycles as usize,
            Some(_) => 0,
        };
        let repetition = measure
            .repeat_for
            .map(|time| Repetition::begin(time, cases_per_pass as u64));
        if let Some(remark) = session.expect_cases(cases as u64) {
            session.keep_remark(remark, world);
        }
        let live = (world.rank() == 0).then(|| Live::new(cases, is_quiet, &env::var));
        if live.is_some() && !is_quiet {
            session.begin_table(cases as u64);
        }
        // The threshold of rank 0 decides, because rank 0 shows the table.
        let threshold = world::broadcast(world, &run.sweep.least_busbw)?;
        Ok(Progress {
            context,
            session,
            outcome: SweepOutcome::new(threshold),
            run,
            repetition,
            named_changes: 0,
            live,
        })
    }

    /// Completes, keeps and shows what an event says.
    ///
    /// # Errors
    ///
    /// Returns an error if a file or stdout cannot be written, or if what a rank saw does not reach
    /// the others.
    pub(super) fn on(
        &mut self,
        event: Event,
        details: &mut RecordDetails,
        check: &mut RunCheck,
    ) -> anyhow::Result<()> {
        let record;
        let event = match event {
            Event::Finished(measured) => {
                record = details.complete(measured, self.session, self.context.world)?;
                self.keep(&record)?;
                self.name_changes(&record);
                Event::Finished(&record)
            }
            Event::Started(_) => {
                details.telemetry.case_begins();
                event
            }
            other => other,
        };
        if let Event::Finished(record) | Event::Earlier(record) = event {
            self.outcome.add(record);
            check.add(record);
        }
        if let Some(live) = &mut self.live {
            live.on(&event, &self.run).map_err(stdout_failed)?;
        }
        if matches!(event, Event::Finished(_) | Event::Earlier(_)) {
            self.session.count_case();
        }
        Ok(())
    }

    /// Prints what changed outside the receive buffer in a case: the table shows only a number.
    fn name_changes(&mut self, record: &Record) {
        if record.wrong_outside == 0 || self.live.is_none() {
            return;
        }
        self.named_changes += 1;
        match self.named_changes {
            ..=MOST_NAMED_CHANGES => say!("pxnbench: {}: {}", record.case, record.note),
            number if number == MOST_NAMED_CHANGES + 1 => {
                say!("pxnbench: further changes outside the receive buffer are only in the notes");
            }
            _ => {}
        }
    }

    /// Writes a record to the files, unless they have enough rows of a repeated sweep.
    fn keep(&mut self, record: &Record) -> anyhow::Result<()> {
        let Some(repetition) = &mut self.repetition else {
            self.session.add(record);
            return Ok(());
        };
        let (is_kept, remark) = repetition.keeps(record);
        if let Some(remark) = remark {
            self.session.keep_remark(remark, self.context.world);
        }
        if is_kept {
            self.session.add(record);
        }
        let samples = repetition.add(record);
        self.session.add_samples(&samples);
        let complaint = repetition.complaint(record);
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        if let Some(complaint) = complaint {
            say!("pxnbench: {complaint}");
        }
        if let Some(sample) = samples.last() {
            live.show_sample(sample);
        }
        Ok(())
    }

    /// Closes the table, and returns how the sweep ended.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Progress::on`] does.
    pub(super) fn end(
        mut self,
        measure: &Measure,
        stopped: bool,
        memory: Option<MemoryUse>,
    ) -> anyhow::Result<(Code, String)> {
        let found = self.end_repetition(measure, stopped)?;
        let extent = self.session.end_table();
        if let Some(live) = &mut self.live {
            if let Some(found) = &found {
                live.over_time(found, &self.run).map_err(stdout_failed)?;
            }
            if let (Some(extent), true) = (extent, stopped) {
                live.unfinished(&self.run, extent, &outcome::stopped_by())
                    .map_err(stdout_failed)?;
            }
            live.close(&self.run, memory.as_ref())
                .map_err(stdout_failed)?;
        }
        Ok(self.outcome.verdict(stopped))
    }

    /// Ends the samples of a sweep that was repeated for a time, and returns what was found.
    fn end_repetition(
        &mut self,
        measure: &Measure,
        stopped: bool,
    ) -> anyhow::Result<Option<OverTime>> {
        let Some(repetition) = &mut self.repetition else {
            return Ok(None);
        };
        self.session.add_samples(&repetition.end());
        let found = repetition.found(&measure.memory, self.context)?;
        let mut remarks = over_time::growth_remarks(&found);
        if !stopped {
            remarks.extend(repetition.incomplete());
        }
        for remark in remarks {
            self.session.keep_remark(remark, self.context.world);
        }
        self.session
            .change_run(|run| run.over_time = Some(found.clone()));
        Ok(Some(found))
    }
}

/// What records get beside what was measured.
pub(super) struct RecordDetails<'a> {
    pub(super) proof: &'a mut LogProof,
    pub(super) peak: &'a RunPeak,
    pub(super) predictions: &'a Predictions,
    pub(super) cut: Option<&'a CutNote>,
    pub(super) telemetry: RunTelemetry,
}

impl RecordDetails<'_> {
    /// Returns `record` with its details. Every rank calls it alike.
    fn complete(
        &mut self,
        record: &Record,
        session: &Session,
        world: &dyn World,
    ) -> anyhow::Result<Record> {
        let mut record = self.proof.complete(record.clone(), world)?;
        self.peak.add_to(&mut record);
        self.predictions.add_to(&mut record);
        if let Some(cut) = self.cut {
            cut.add_to(&mut record);
        }
        self.telemetry.case_ended(&mut record, world, session)?;
        Ok(record)
    }
}

fn stdout_failed(error: std::io::Error) -> anyhow::Error {
    let what = format!(
        "the table cannot be written to stdout: {error}; the results are in the requested files"
    );
    Failure::on_this_rank(Code::Disk, what)
}
