//! [`SessionLastWords`]: what is saved of a run by the thread that ends the job, for a signal, a
//! deadline or a fault.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::super::{log, shared_run::SharedRun};
use super::{
    end::{run_end, say_all},
    files::SharedFiles,
};
use crate::{exit::Code, output::json, record, world::abort::Moment};

/// How long the end of a job that is only warned waits for a file that is being written.
const WAITS_WHEN_WARNED: Duration = Duration::from_millis(800);

/// How long the end of a job does that ends now: less than all of it may take.
const WAITS_AT_END: Duration = Duration::from_millis(2500);

/// The files of a run, for a thread that must not wait for the one that works.
pub(super) struct SessionLastWords {
    pub(super) run: SharedRun,
    /// Where the run is described, on process 0.
    pub(super) run_json: Option<PathBuf>,
    pub(super) files: SharedFiles,
}

impl SessionLastWords {
    /// Writes the end of the run to its files. Returns the exit code: not `code` if a file lacks
    /// something.
    pub(super) fn end(&self, code: Code, message: &str, moment: Moment) -> Code {
        self.describe_end_first(code, message);
        let patience = match moment {
            Moment::Warned => WAITS_WHEN_WARNED,
            Moment::End => WAITS_AT_END,
        };
        let began = Instant::now();
        // The working thread holds the lock while it writes: for an instant, many times a second,
        // or as long as a slow disk takes.
        while began.elapsed() < patience {
            if let Some(code) = self.end_if_free(code, message, moment) {
                return code;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // The run's folder is not known without the lock.
        log::collect(None);
        code
    }

    /// Writes the end of the run if no other thread writes now. Returns the exit code; `None` if
    /// one does.
    fn end_if_free(&self, code: Code, message: &str, moment: Moment) -> Option<Code> {
        let mut files = self.files.lock_if_free()?;
        let end = files.end(code, message, moment);
        if moment == Moment::End {
            files.release();
        }
        drop(files);
        say_all(&end.said);
        // At a warning there is still time to write what is missing.
        if moment == Moment::End {
            say_all(&end.missing);
        }
        Some(end.code)
    }

    /// Writes into `run.json` how the run ends, before anything that takes longer on a slow disk:
    /// the launcher may kill this process within a second.
    fn describe_end_first(&self, code: Code, message: &str) {
        let Some(path) = &self.run_json else {
            return;
        };
        let mut run = (*self.run.get()).clone();
        run.ended_at = Some(record::now());
        run.end = Some(run_end(code, message, &[]));
        // If it cannot be written, that is said when all files are.
        let _ = json::describe_at_once(path, &run);
    }
}
