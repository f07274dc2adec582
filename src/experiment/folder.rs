//! [`OpenedFolder`]: the folder of a new experiment, or of one to continue.

use std::{fs, io, path::Path};

use super::request::{Continuation, Request};
use crate::{
    compare::experiment_record::{ExperimentRecord, FILE},
    exit::{Code, Failure},
    output::lock::{LockError, PathLock},
    record,
};

/// The folder of an experiment that begins or goes on, with the record that is in it.
pub(super) struct OpenedFolder {
    /// Keeps other experiments out of the folder; `None` where there are no locks.
    pub(super) lock: Option<PathLock>,
    pub(super) record: ExperimentRecord,
}

impl OpenedFolder {
    /// Makes the folder of a new experiment, or opens that of an experiment to continue.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be made or its record not be read, if another
    /// experiment runs in it, if it has an experiment that cannot be continued, or if it lacks the
    /// one that is to be.
    pub(super) fn open(request: &Request) -> anyhow::Result<OpenedFolder> {
        refuse_absent(request)?;
        fs::create_dir_all(&request.folder)
            .map_err(|error| cannot_make(&request.folder, &error))?;
        let lock = lock(&request.folder)?;
        let earlier = ExperimentRecord::read(&request.folder).map_err(usage)?;
        let mut record = match earlier {
            // An experiment without a block has nothing that would be lost.
            Some(earlier) if earlier.blocks() > 0 => continued(request, earlier)?,
            _ => begun(request),
        };
        record.end = None;
        Ok(OpenedFolder { lock, record })
    }
}

/// Returns the record of a new experiment.
fn begun(request: &Request) -> ExperimentRecord {
    ExperimentRecord {
        started_at: record::now(),
        arguments: typed(request),
        seed: request.seed.unwrap_or_else(seed_from_clock),
        variants: request.variants.all().to_vec(),
        reference: request.variants.reference().label.clone(),
        control: request.variants.control().label.clone(),
        steps: Vec::new(),
        eliminated: Vec::new(),
        end: None,
    }
}

/// Returns the arguments of the request as they are recorded.
fn typed(request: &Request) -> Vec<String> {
    let words = request.arguments.iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Returns the record of an experiment that can be continued.
fn continued(request: &Request, earlier: ExperimentRecord) -> anyhow::Result<ExperimentRecord> {
    let folder = request.folder.display();
    if request.continuation == Continuation::Refused {
        let what = format!(
            "{folder} already has an experiment ({FILE}). Name another folder with --out, or \
             continue it with --resume"
        );
        return Err(usage(what));
    }
    if earlier.variants != request.variants.all() || earlier.arguments != typed(request) {
        let what = format!(
            "the experiment in {folder} has other variants or measures something else, so it \
             cannot be continued. Name another folder with --out"
        );
        return Err(usage(what));
    }
    Ok(earlier)
}

/// Refuses to continue what is not there: the folder of a first part may have been another one.
fn refuse_absent(request: &Request) -> anyhow::Result<()> {
    let path = request.folder.join(FILE);
    if request.continuation != Continuation::Required || path.exists() {
        return Ok(());
    }
    let what = format!(
        "--resume finds no experiment: there is no {}. Name its folder with --out, or leave out \
         --resume",
        path.display()
    );
    Err(usage(what))
}

/// Locks the record of the experiment in `folder`.
///
/// # Errors
///
/// Returns an error if another experiment runs in it.
fn lock(folder: &Path) -> anyhow::Result<Option<PathLock>> {
    match PathLock::take(&folder.join(FILE)) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Unavailable(_)) => Ok(None),
        Err(LockError::Held(holder)) => Err(usage(format!(
            "the experiment in {} is being run by {holder}. Wait until that ends, or name another \
             folder with --out",
            folder.display()
        ))),
    }
}

fn seed_from_clock() -> u64 {
    record::now().timestamp().unsigned_abs()
}

/// Returns the error for a folder that cannot be made.
pub(super) fn cannot_make(folder: &Path, error: &io::Error) -> anyhow::Error {
    usage(format!(
        "{} cannot be made: {error}. Name another folder with --out",
        folder.display()
    ))
}

/// Returns an error of usage.
pub(super) fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}
