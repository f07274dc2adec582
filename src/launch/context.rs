//! A launch in its job: what its parts need to know.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::request::Request;
use crate::{
    exit::{Code, Failure},
    slurm::{
        SlurmJob,
        step::{Container, SlurmStep, StepShape},
    },
};

/// A launch in its job.
pub(super) struct Launch<'a> {
    pub(super) request: &'a Request,
    pub(super) job: &'a SlurmJob,
    pub(super) container: Option<Container>,
}

impl Launch<'_> {
    pub(super) fn shape(&self, gpus_on_node: u32) -> StepShape {
        // A process with several GPUs stands for as many ranks. If they do not divide evenly, the
        // last ones stay free.
        let processes = match gpus_on_node / self.request.target.gpus_per_process() {
            0 => gpus_on_node.min(1),
            processes => processes,
        };
        StepShape::new(self.job, self.request.tasks_per_node, processes)
    }

    /// Returns the folder of the job's results, unless the request says where they go.
    pub(super) fn jobs_folder(&self) -> PathBuf {
        Path::new("results").join(self.job.folder())
    }

    /// Returns this program with other arguments, as the ranks start it.
    pub(super) fn program(&self, arguments: &[OsString]) -> anyhow::Result<Vec<String>> {
        let in_container = self
            .request
            .container
            .as_ref()
            .and_then(|asked| asked.program.clone());
        let program = match in_container {
            Some(program) => program,
            None => std::env::current_exe()?,
        };
        let mut words = vec![utf8(program.into_os_string())?];
        for argument in arguments {
            words.push(utf8(argument.clone())?);
        }
        Ok(words)
    }

    pub(super) fn step<'a>(&'a self, shape: StepShape, program: &'a [String]) -> SlurmStep<'a> {
        SlurmStep {
            shape,
            inside_step: self.job.step.is_some(),
            container: self.container.as_ref(),
            program,
        }
    }
}

/// Returns a word as text.
///
/// # Errors
/// Returns an error if it is not UTF-8.
pub(super) fn utf8(word: OsString) -> anyhow::Result<String> {
    word.into_string().map_err(|word| {
        let what = format!("'{}' is not valid UTF-8", word.to_string_lossy());
        Failure::on_all_ranks(Code::Usage, what)
    })
}

/// Returns the variables that mpirun passes on only if they are named.
pub(super) fn exported() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| {
            name.starts_with("NCCL_") || ["PATH", "LD_LIBRARY_PATH"].contains(&name.as_str())
        })
        .collect();
    names.sort_unstable();
    names
}
