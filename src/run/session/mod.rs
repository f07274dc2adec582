//! [`Session`]: the meta data and the files of a run, from its first case to its end, in good order
//! or not.
//!
//! `files` holds what is open and writes the end; `last_words` does so from a thread that ends the
//! job.

mod earlier;
mod end;
mod extent;
mod files;
mod last_words;
mod telemetry;

use std::path::PathBuf;

use self::{
    earlier::KeptRecords,
    end::{SessionEnd, say_all},
    extent::SweepExtent,
    files::SharedFiles,
    last_words::SessionLastWords,
};
use super::{context::RunContext, name, shared_run::SharedRun, wanted_files::WantedFiles};
use crate::{
    collective::traffic::Traffic,
    exit::{self, Code, Failure},
    output::{error::OutputError, files::Files, samples::Sample, telemetry::TelemetryRow},
    record::{Record, RunMeta},
    sweep::{EarlierRecords, measure::Measure, plan::Plan},
    units::counted,
    world::{
        self, World,
        abort::{self, Moment},
        cause,
    },
};

pub(super) use self::telemetry::NodeSampler;

/// The run's meta data and its open files, shared with the threads that may end the job.
pub(super) struct Session {
    run: SharedRun,
    files: SharedFiles,
}

impl Session {
    /// Opens the files on process 0, and arranges what is saved if the job is ended by a signal, a
    /// deadline or a fault. `run` gets its name here; `traffic` is the pattern of an alltoallv.
    ///
    /// # Errors
    ///
    /// Returns an error on every process if process 0 cannot write.
    pub(super) fn open(
        context: &RunContext,
        mut run: RunMeta,
        traffic: &'static Traffic,
    ) -> anyhow::Result<Session> {
        let world = context.world;
        let opened = open_files(context, &mut run, traffic)?;
        let (files, id) = opened.map_or((None, String::new()), |(files, id)| (Some(files), id));
        let folder_of = |id: &str| context.request.files.paths(&name::folder(id)).folder;
        if world.rank() == 0
            && let Some(folder) = folder_of(&id)
        {
            // Before the other ranks know the folder, where each may leave a note of its failure.
            cause::remove_earlier(&folder);
        }
        // A name of its own, if another run has the one that was agreed on; in the files, that of
        // the run that is continued.
        let (id, run_id) = world::broadcast(world, &(id, run.run_id.clone()))?;
        run.run_id = run_id;
        let run_json = files.as_ref().and_then(Files::run_json);
        let run = SharedRun::new(run);
        let session = Session {
            files: SharedFiles::new(run.clone(), files, folder_of(&id)),
            run,
        };
        if let Some(remark) = session.lock_remark() {
            session.keep_remark(remark, world);
        }
        session.set_last_words(run_json);
        Ok(session)
    }

    fn lock_remark(&self) -> Option<String> {
        self.files.lock().files.as_mut()?.lock_remark()
    }

    /// Arranges what is saved if another thread ends the job. `run_json` is where the run is
    /// described, on process 0.
    fn set_last_words(&self, run_json: Option<PathBuf>) {
        let last = SessionLastWords {
            run: self.run.clone(),
            run_json,
            files: self.files.clone(),
        };
        abort::set_last_words(
            "finished cases",
            Box::new(move |code, message, moment| last.end(code, message, moment)),
        );
    }

    /// Returns the records of an earlier run that this one need not measure again, the same on
    /// every process.
    ///
    /// # Errors
    ///
    /// Returns an error if a record does not reach the other processes; that would be a bug.
    pub(super) fn earlier(
        &self,
        plan: &Plan,
        measure: &Measure,
        world: &dyn World,
    ) -> anyhow::Result<EarlierRecords> {
        let (own, is_continued) = match &self.files.lock().files {
            Some(files) => (files.records().to_vec(), files.is_continued()),
            None => (Vec::new(), false),
        };
        let now = self.run().measured_on();
        let all = world::broadcast(world, &own)?;
        let kept = KeptRecords::of(all, plan, measure, &now);
        if let Some(before) = &kept.other_hosts {
            // A job that Slurm restarts may get other hosts of the same kind, and its results are
            // kept.
            let remark = format!(
                "earlier rows were measured on {before}, and the others on {}. The column hosts \
                 tells them apart",
                now.hosts
            );
            self.keep_remark(remark, world);
        }
        if is_continued {
            let (done, all) = kept.extent(plan);
            note!(
                "pxnbench: {done} of {} are kept, {} remain to be measured",
                counted(all, "case"),
                all - done
            );
        }
        Ok(kept.records)
    }

    /// Returns the run's meta data as they are now.
    pub(super) fn run(&self) -> RunMeta {
        (*self.run.get()).clone()
    }

    /// Changes the run's meta data.
    pub(super) fn change_run(&self, change: impl FnOnce(&mut RunMeta)) {
        self.run.change(change);
    }

    /// Notes what there is to say of the run's settings.
    pub(super) fn add_remarks(&self, remarks: Vec<String>) {
        self.change_run(|run| run.remarks.extend(remarks));
    }

    /// Prints a remark on rank 0, and keeps it in the record of the run.
    pub(super) fn keep_remark(&self, remark: String, world: &dyn World) {
        if world.rank() == 0 {
            note!("pxnbench: {remark}");
        }
        self.add_remarks(vec![remark]);
    }

    /// Says what there is to say of files, and keeps it in the record of the run.
    fn say_of_files(&self, said: Vec<String>) {
        // Without the lock: standard error may be a pipe that nobody reads.
        say_all(&said);
        self.add_remarks(said);
    }

    /// Notes that `cases` cases follow; 0 if there is no end. Returns what to say of files that do
    /// not keep all of them.
    pub(super) fn expect_cases(&self, cases: u64) -> Option<String> {
        let state = &mut *self.files.lock();
        state.files.as_mut()?.expect(self.run.get().ranks, cases)
    }

    /// Adds a record; it is on disk when this returns, unless it waits for a disk that is full or
    /// gone.
    pub(super) fn add(&self, record: &Record) {
        let mut said = Vec::new();
        for kept in record.kept().iter() {
            let state = &mut *self.files.lock();
            if let Some(files) = &mut state.files {
                said.extend(files.add(&self.run.get(), kept));
            }
        }
        self.say_of_files(said);
    }

    /// Adds samples of a sweep that is repeated for a time.
    pub(super) fn add_samples(&self, samples: &[Sample]) {
        let mut said = Vec::new();
        if let Some(files) = &mut self.files.lock().files {
            said = files.add_samples(&self.run.get(), samples);
        }
        self.say_of_files(said);
    }

    /// Opens `telemetry.csv` on process 0. Returns a remark there if the run has no folder for it.
    ///
    /// # Errors
    ///
    /// Returns an error on every process if process 0 cannot write.
    pub(super) fn open_telemetry(&self, world: &dyn World) -> anyhow::Result<Option<String>> {
        let folder = self.folder();
        let is_first = world.rank() == 0;
        let opened = match &folder {
            Some(folder) if is_first => self.files.lock().telemetry.open(folder),
            _ => Ok(()),
        };
        let opened = opened.map_err(|error| cannot_write(Code::Usage, &error));
        world::agree(world, opened).map_err(without_rank)?;
        let has_no_place = is_first && folder.is_none();
        Ok(has_no_place.then(|| {
            "telemetry.csv is not written, because this run has no folder. Use --out".to_owned()
        }))
    }

    /// Adds rows to `telemetry.csv`.
    pub(super) fn add_telemetry(&self, rows: &[TelemetryRow]) {
        let said = self.files.lock().telemetry.add(&self.run.get(), rows);
        self.say_of_files(said);
    }

    /// Notes where samples wait that would be lost if the job ended now.
    pub(super) fn set_sampler(&self, sampler: Option<NodeSampler>) {
        self.files.lock().telemetry.sampler = sampler;
    }

    /// Notes that a table of `cases` cases begins; 0 if it has no end.
    pub(super) fn begin_table(&self, cases: u64) {
        self.files.lock().table = Some(SweepExtent::begin(cases));
    }

    /// Notes that the table shows one more case.
    pub(super) fn count_case(&self) {
        if let Some(table) = &mut self.files.lock().table {
            table.count();
        }
    }

    /// Notes that the table is complete, and returns how many cases it shows.
    pub(super) fn end_table(&self) -> Option<SweepExtent> {
        self.files.lock().table.take()
    }

    /// Writes the end of the run to its files. Returns how it ended: not with `code` if a file
    /// lacks something.
    pub(super) fn end(&self, code: Code, message: &str) -> SessionEnd {
        let end = self.files.lock().end(code, message, Moment::End);
        say_all(&end.said);
        end
    }

    /// Returns the run's folder, if it has one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.files.lock().folder().map(PathBuf::from)
    }

    /// Returns the path where a reader should look first.
    pub(super) fn main_path(&self) -> Option<PathBuf> {
        let state = self.files.lock();
        let path = state.files.as_ref()?.main_path()?;
        Some(path.to_owned())
    }
}

/// Opens the files on process 0. Returns them and the name of their folder there, and on the other
/// processes nothing.
///
/// # Errors
///
/// Returns an error on every process if process 0 cannot write.
fn open_files(
    context: &RunContext,
    run: &mut RunMeta,
    traffic: &'static Traffic,
) -> anyhow::Result<Option<(Files, String)>> {
    let world = context.world;
    let name = name::agreed(context.request, world)?;
    let opened = if world.rank() == 0 {
        let wanted = WantedFiles::of(context, run)?;
        wanted.open(name, run, traffic).map(Some)
    } else {
        Ok(None)
    };
    let opened = opened.map_err(|error| cannot_write(Code::Usage, &error));
    world::agree(world, opened).map_err(without_rank)
}

fn cannot_write(code: Code, why: &OutputError) -> anyhow::Error {
    Failure::on_this_rank(code, why.to_string())
}

/// Removes the rank from a sentence: only process 0 writes, so its rank says nothing.
fn without_rank(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    let sentence = text.strip_prefix("rank 0: ").unwrap_or(&text);
    Failure::on_all_ranks(exit::code_of(&error), sentence)
}
