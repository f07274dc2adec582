//! [`StepStart`]: how the steps of an experiment are started, and where they write.

use std::path::PathBuf;

use crate::{
    env,
    exit::{Code, Failure},
    record,
    slurm::SlurmJob,
};

/// How the steps of an experiment are started, and where they write.
#[derive(Debug)]
pub struct StepStart {
    /// The words before the arguments of a step.
    pub command: Vec<String>,
    /// The folder of the experiment.
    pub folder: PathBuf,
    /// Whether Slurm has started the job again.
    pub is_restarted: bool,
}

impl StepStart {
    /// Returns the start by the command `start`, in a Slurm job by `pxnbench launch` if there is none. The folder is `out`, or in
    /// `results` that of the job and `below_job`, or one that begins with `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if `start` is no command, or if none is given and this is no job.
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
            "this is not a Slurm job, so it is not known how to start ranks. Name a command, such as --start \"mpirun -np 4\"",
        )),
    }
}
