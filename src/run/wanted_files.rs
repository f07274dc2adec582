//! [`WantedFiles`]: which files a run writes, and where.

use std::path::Path;

use super::{
    context::RunContext,
    name::{self, RunName},
    request::Request,
};
use crate::{
    collective::traffic::Traffic,
    env,
    output::{error::OutputError, files::Files, stdout, target},
    record::RunMeta,
};

/// The files that process 0 of a run is to open.
pub(super) struct WantedFiles<'a> {
    request: &'a Request,
    /// Whether the JSON of `-J` can be written.
    has_json: bool,
    times_several_ranks: bool,
}

impl WantedFiles<'_> {
    /// Returns the files that are requested, and announces that of `-J`.
    ///
    /// # Errors
    ///
    /// Returns an error if stdout cannot be written.
    pub(super) fn of<'a>(
        context: &'a RunContext,
        run: &RunMeta,
    ) -> anyhow::Result<WantedFiles<'a>> {
        let request = context.request;
        let has_json = match &request.files.nccl_tests_json {
            Some(path) if request.files.is_drop_in => {
                announce_json(path).map_err(|error| stdout::failure(&error))?
            }
            _ => true,
        };
        Ok(WantedFiles {
            request,
            has_json,
            times_several_ranks: context.backend.measures() && run.ranks > 1,
        })
    }

    /// Opens the files of the run called `name`. Returns them and the name of its folder; `run`
    /// gets the name for its rows.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written, or if another run writes it.
    pub(super) fn open(
        &self,
        name: RunName,
        run: &mut RunMeta,
        traffic: &'static Traffic,
    ) -> Result<(Files, String), OutputError> {
        for id in name.candidates() {
            run.run_id.clone_from(&id);
            match self.open_at(&name::folder(&id), run, traffic) {
                // Another run of the same job.
                Err(OutputError::Held(path, _)) if name.is_free_to_change(&path) => {}
                Ok(files) => return Ok((files, id)),
                Err(error) => {
                    name.give_up();
                    return Err(error);
                }
            }
        }
        let why = "has the folders of too many runs".into();
        Err(OutputError::Other(name::folder(&name.id), why))
    }

    fn open_at(
        &self,
        default: &Path,
        run: &mut RunMeta,
        traffic: &'static Traffic,
    ) -> Result<Files, OutputError> {
        let mut paths = self.request.files.paths(default);
        if !self.has_json {
            paths.nccl_tests_json = None;
        }
        paths.has_samples = self.request.timing.repeat_for.is_some();
        paths.takes_telemetry = self.request.telemetry.is_some();
        paths.times_several_ranks = self.times_several_ranks;
        paths.looks_for_stragglers = self.request.stragglers;
        if let Some(refused) = planted_link(paths.folder.as_deref(), default) {
            return Err(refused);
        }
        if self.request.resumes(&env::var) {
            Files::go_on(paths, run, traffic)
        } else {
            Files::create(paths, run)
        }
    }
}

/// Prints where the JSON of `-J` goes, as nccl-tests does, and returns whether a file can be made
/// there. If not, the run goes on without it, also as there.
///
/// # Errors
///
/// Returns an error if stdout cannot be written.
fn announce_json(path: &Path) -> std::io::Result<bool> {
    let shown = path.display();
    let is_accessible = target::is_accessible(path);
    if is_accessible {
        stdout::write(&format!("# Writing JSON output to {shown}\n"))?;
    } else {
        say!("pxnbench: {shown} is not written: no file can be made in its folder");
        stdout::write(&format!("# skipping json output; {shown} not accessible\n"))?;
    }
    Ok(is_accessible)
}

/// Refuses a link at the run's folder, or at one above it but below `results`, if the folder has
/// the `default` name. Such names can be guessed, and this program makes no links there; `results`
/// itself may be one.
fn planted_link(folder: Option<&Path>, default: &Path) -> Option<OutputError> {
    if folder != Some(default) {
        return None;
    }
    let link = default
        .ancestors()
        .take_while(|folder| *folder != Path::new(name::RESULTS))
        .find(|folder| folder.is_symlink())?;
    let why = "is a symbolic link that pxnbench did not create";
    Some(OutputError::Other(link.to_owned(), why.into()))
}
