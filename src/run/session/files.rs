//! [`SessionFiles`]: what is held while a file of the run is written, and what is written when the
//! run ends.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::super::{log, shared_run::SharedRun};
use super::{
    end::{SessionEnd, code_if, run_end},
    extent::SweepExtent,
    telemetry::SessionTelemetry,
};
use crate::{
    exit::Code,
    output::{files::Files, stdout, table},
    record,
    world::abort::Moment,
};

/// The open files of a run, and how far its table is.
pub(super) struct SessionFiles {
    run: SharedRun,
    /// The files; only process 0 has any.
    pub(super) files: Option<Files>,
    folder: Option<PathBuf>,
    /// How far the table is, while it is open; only process 0 shows one.
    pub(super) table: Option<SweepExtent>,
    pub(super) telemetry: SessionTelemetry,
}

/// The open files of a run, for the threads that write them or end the job.
#[derive(Clone)]
pub(super) struct SharedFiles(Arc<Mutex<SessionFiles>>);

impl SharedFiles {
    /// Shares `files` of `run`, which are in `folder`.
    pub(super) fn new(
        run: SharedRun,
        files: Option<Files>,
        folder: Option<PathBuf>,
    ) -> SharedFiles {
        SharedFiles(Arc::new(Mutex::new(SessionFiles {
            run,
            files,
            folder,
            table: None,
            telemetry: SessionTelemetry::default(),
        })))
    }

    /// Waits until no other thread writes.
    pub(super) fn lock(&self) -> MutexGuard<'_, SessionFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files if no other thread writes now.
    pub(super) fn lock_if_free(&self) -> Option<MutexGuard<'_, SessionFiles>> {
        self.0.try_lock().ok()
    }
}

impl SessionFiles {
    /// Returns the run's folder, if it has one.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Writes what is missing, and how the run ends.
    pub(super) fn end(&mut self, code: Code, message: &str, moment: Moment) -> SessionEnd {
        log::collect(self.folder());
        let mut said = self.keep_waiting_samples(moment);
        self.run.change(|run| run.ended_at = Some(record::now()));
        let missing = self.finish_rows(&mut said);
        self.run.change(|run| run.remarks.extend(said.clone()));
        let missing = self.save(code, message, missing);
        if moment == Moment::End
            && let Some(extent) = self.table.take()
        {
            // If stdout is what failed, there is nobody to tell.
            let _ = stdout::write(&table::unfinished(extent, message));
        }
        SessionEnd {
            code: code_if(code, &missing),
            said,
            missing,
        }
    }

    /// Writes the samples of the GPUs that wait to be gathered. Returns what to say of their file.
    fn keep_waiting_samples(&mut self, moment: Moment) -> Vec<String> {
        let is_first = self.files.is_some();
        if !is_first && moment == Moment::Warned {
            return Vec::new();
        }
        // Process 0 has its file, or none.
        let folder = self.folder.as_deref().filter(|_| !is_first);
        self.telemetry.keep_waiting_samples(&self.run.get(), folder)
    }

    /// Writes the rows that could not be written so far. Returns a sentence for each file that
    /// lacks rows.
    fn finish_rows(&mut self, said: &mut Vec<String>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(files) = &mut self.files {
            said.extend(files.finish_rows());
            missing.extend(files.missing_rows());
        }
        missing.extend(self.telemetry.finish(said));
        missing
    }

    /// Writes the files that are written as a whole. None says that the run ended well if another
    /// one lacks something. Adds a sentence to `missing` if one cannot be written.
    fn save(&mut self, code: Code, message: &str, mut missing: Vec<String>) -> Vec<String> {
        self.set_end(code, message, &missing);
        let saved = match &self.files {
            Some(files) => files.save(&self.run.get()),
            None => Ok(()),
        };
        if let Err(error) = saved {
            missing.push(error.to_string());
            self.set_end(code, message, &missing);
            if let Some(files) = &self.files {
                files.save_what_can_be(&self.run.get());
            }
        }
        missing
    }

    fn set_end(&self, code: Code, message: &str, missing: &[String]) {
        self.run
            .change(|run| run.end = Some(run_end(code, message, missing)));
    }

    /// Lets other runs write to the paths of this one, after which this one must not.
    pub(super) fn release(&mut self) {
        if let Some(files) = &mut self.files {
            files.release();
        }
    }
}
