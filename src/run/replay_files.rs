//! [`ReplayFiles`]: the files of a replay, in a folder of their own.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::name;
use crate::{
    exit::{Code, Failure},
    output::{
        error::OutputError,
        kept::keep_earlier,
        lock::{LockError, PathLock},
        whole_file::replace,
    },
    replay::{
        self, ReplayResult,
        files::{REPLAY_JSON, Replayed, STEPS_CSV, TIMELINE_JSON},
    },
    world::{self, World},
};

/// Every kind of collective, alone and in the step.
const COLLECTIVES_CSV: &str = "collectives.csv";

/// The files of a replay; only process 0 writes any.
pub(super) struct ReplayFiles {
    /// The folder, which all processes know: each puts its NCCL log there.
    pub(super) folder: PathBuf,
    /// Held until the replay ends, so that no other run writes to the folder.
    lock: Option<PathLock>,
    pub(super) is_writer: bool,
}

impl ReplayFiles {
    /// Makes the folder, which is `out` if it is given, locks it, and keeps the files of an earlier
    /// replay under other names. Every process calls it alike.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written, or another run writes to it.
    pub(super) fn open(
        out: Option<&Path>,
        workload: &str,
        world: &dyn World,
    ) -> anyhow::Result<ReplayFiles> {
        let mut files = ReplayFiles {
            folder: PathBuf::new(),
            lock: None,
            is_writer: world.rank() == 0,
        };
        files.folder = match out {
            Some(folder) => folder.to_owned(),
            None => {
                // Only one process reserves a folder.
                let own = files
                    .is_writer
                    .then(|| name::new_folder(&folder_name(workload)));
                world::broadcast(world, &own.unwrap_or_default())?
            }
        };
        if !files.is_writer {
            return Ok(files);
        }
        files
            .prepare()
            .map_err(|error| Failure::on_all_ranks(Code::Usage, error.to_string()))?;
        Ok(files)
    }

    /// Returns the name of the replay, which is that of its folder.
    pub(super) fn run_id(&self) -> String {
        let path = std::path::absolute(&self.folder);
        let path = path.as_deref().unwrap_or(&self.folder);
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Makes the folder ready for the files.
    fn prepare(&mut self) -> Result<(), OutputError> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| OutputError::Io(self.folder.clone(), error))?;
        let main = self.folder.join(REPLAY_JSON);
        match PathLock::take(&main) {
            Ok(lock) => self.lock = Some(lock),
            Err(LockError::Held(holder)) => return Err(OutputError::Held(main, holder)),
            Err(LockError::Unavailable(error)) => {
                let main = main.display();
                note!(
                    "pxnbench: {main} cannot be locked: {error}. Another run that writes to it at \
                     the same time would not be noticed"
                );
            }
        }
        for name in [STEPS_CSV, COLLECTIVES_CSV, TIMELINE_JSON, REPLAY_JSON] {
            let path = self.folder.join(name);
            keep_earlier(&path).map_err(|error| OutputError::Io(path, error))?;
        }
        Ok(())
    }

    /// Writes all files as far as the replay has come. A folder that somebody removed is made
    /// again: they are whole each time.
    ///
    /// # Errors
    /// Returns an error if one cannot be written.
    pub(super) fn save(&self, replayed: &Replayed, result: &ReplayResult) -> anyhow::Result<()> {
        if !self.is_writer {
            return Ok(());
        }
        let timeline = replay::chrome_trace(replayed.step, &result.timelines);
        let json = serde_json::to_string_pretty(&replayed.json(result))? + "\n";
        let all = [
            (STEPS_CSV, replayed.steps_csv(result)?),
            (COLLECTIVES_CSV, replayed.collectives_csv(result)?),
            (TIMELINE_JSON, timeline.to_string() + "\n"),
            (REPLAY_JSON, json),
        ];
        for (name, text) in all {
            let path = self.folder.join(name);
            self.write(&path, &text).map_err(|error| {
                let what = format!("{} cannot be written: {error}", path.display());
                Failure::on_this_rank(Code::Disk, what)
            })?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        match replace(true, path, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.folder)?;
                replace(true, path, text)
            }
            written => written,
        }
    }
}

/// Returns the beginning of the name of a replay's own folder.
fn folder_name(workload: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    format!("replay-{}", workload.replace(|c| !is_allowed(c), "_"))
}
