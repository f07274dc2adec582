//! [`StepStart`]: the command and the folder of the steps of an experiment.

use std::path::PathBuf;

use super::request::Continuation;
use crate::{
    env,
    exit::{Code, Failure},
    record,
    slurm::SlurmJob,
};

/// The command and the folder of the steps of an experiment.
#[derive(Debug)]
pub struct StepStart {
    /// The words before the arguments of a step.
    pub command: Vec<String>,
    /// The folder of the experiment.
    pub folder: PathBuf,
    /// Whether Slurm has restarted the job.
    is_restarted: bool,
}

impl StepStart {
    /// Returns the command and the folder of the steps.
    ///
    /// The command is `start`, or in a Slurm job `pxnbench launch` if there is none. The folder is
    /// `out` if it is given, otherwise `results/JOB/BELOW_JOB` in a Slurm job and
    /// `results/NAME-TIME` elsewhere.
    ///
    /// # Errors
    ///
    /// Returns an error if `start` has no words, or if there is neither `start` nor a Slurm job.
    pub fn of(
        start: Option<&str>,
        out: Option<PathBuf>,
        name: &str,
        below_job: &str,
    ) -> anyhow::Result<StepStart> {
        let job =
            SlurmJob::from(&env::var).map_err(|why| Failure::on_all_ranks(Code::Launch, why))?;
        let default_folder = || {
            let folder = match &job {
                Some(job) => PathBuf::from(job.folder()).join(below_job),
                None => format!("{name}-{}", record::now().format("%Y%m%dT%H%M%S")).into(),
            };
            PathBuf::from("results").join(folder)
        };
        Ok(StepStart {
            command: command(start, job.is_some())?,
            folder: out.unwrap_or_else(default_folder),
            is_restarted: job.is_some_and(|job| job.restarts > 0),
        })
    }

    /// Returns what becomes of an experiment in the folder. `resumes` tells whether --resume was
    /// given.
    pub fn continuation(&self, resumes: bool) -> Continuation {
        match (self.is_restarted, resumes) {
            (true, _) => Continuation::IfThere,
            (false, true) => Continuation::Required,
            (false, false) => Continuation::Refused,
        }
    }
}

/// Returns the words before the arguments of a step.
fn command(start: Option<&str>, in_job: bool) -> anyhow::Result<Vec<String>> {
    let program = std::env::current_exe()?.display().to_string();
    let usage = |what: &str| Failure::on_all_ranks(Code::Usage, what);
    match start {
        Some(command) => {
            let mut words = shlex::split(command).unwrap_or_default();
            if words.is_empty() {
                return Err(usage(
                    "--start is no command. Name one, such as \"mpirun -np 4\"",
                ));
            }
            words.push(program);
            Ok(words)
        }
        None if in_job => Ok(vec![program, "launch".into(), "--".into()]),
        None => Err(usage(
            "this is not a Slurm job, so it is not known how to start ranks. Name a command, such \
             as --start \"mpirun -np 4\"",
        )),
    }
}
