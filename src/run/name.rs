//! The name of a run, which is the name of its folder too.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{earlier_run, request::Request};
use crate::{
    collective::Collective,
    env::{self, Env},
    exit::{Code, Failure},
    record,
    slurm::SlurmJob,
    world::{self, World},
};

/// The folder for all runs of which no other is given.
pub(super) const RESULTS: &str = "results";

/// Runs of one second, or of one job, that are told apart by a number.
const MOST_RUNS: u32 = 1000;

/// The name of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunName {
    /// The name.
    pub(super) id: String,
    /// Whether another one is taken if another run has the folder of this name.
    may_change: bool,
    /// Whether the folder was made for this run.
    is_reserved: bool,
}

impl RunName {
    /// Returns the names to try, in order.
    pub(super) fn candidates(&self) -> impl Iterator<Item = String> {
        let most = if self.may_change { MOST_RUNS } else { 1 };
        (1..=most).map(|number| numbered(&self.id, number))
    }

    /// Removes the folder that was made for the run, which does not take place.
    pub(super) fn give_up(&self) {
        if self.is_reserved {
            // Only an empty folder can be removed in this way.
            let _ = fs::remove_dir(folder(&self.id));
        }
    }

    /// Returns whether another name is tried if another run writes to `path`.
    pub(super) fn is_free_to_change(&self, path: &Path) -> bool {
        let results = fs::canonicalize(RESULTS);
        self.may_change && results.is_ok_and(|results| path.starts_with(results))
    }
}

/// Returns the folder of the run called `id`, if no other is given.
pub(super) fn folder(id: &str) -> PathBuf {
    Path::new(RESULTS).join(id)
}

/// Returns the folder of a run of `what` if no other is given; outside a job it is made.
pub(super) fn new_folder(what: &str) -> PathBuf {
    let id = run_id(&env::var, what);
    if env::var("SLURM_JOB_ID").is_some() {
        return folder(&id).join(what);
    }
    folder(&reserve(id))
}

/// Returns the name that process 0 chooses, on all processes.
///
/// # Errors
///
/// Returns an error if the run is to continue an earlier one, and there is none.
pub(super) fn agreed(request: &Request, world: &dyn World) -> anyhow::Result<RunName> {
    let chosen = if world.rank() == 0 {
        choose(request).map(Some)
    } else {
        Ok(None)
    };
    let chosen: Result<Option<RunName>, String> = world::broadcast(world, &chosen)?;
    match chosen {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err(Failure::on_all_ranks(
            Code::Internal,
            "process 0 chose no name",
        )),
        Err(what) => Err(Failure::on_all_ranks(Code::Usage, what)),
    }
}

/// Chooses the name.
///
/// # Errors
///
/// Returns a sentence if the run is to continue an earlier one, and there is none.
fn choose(request: &Request) -> Result<RunName, String> {
    let id = run_id(&env::var, &collectives(&request.spec.collectives));
    let fixed = |id| RunName {
        id,
        may_change: false,
        is_reserved: false,
    };
    if request.files.finds_earlier_run() {
        return earlier(id).map(fixed);
    }
    let has_default_folder = request.files.paths(&folder(&id)).folder == Some(folder(&id));
    if !has_default_folder {
        return Ok(fixed(id));
    }
    // In a job the folder belongs to the job, and a restarted one continues in it.
    if env::var("SLURM_JOB_ID").is_some() || request.resumes(&env::var) {
        return Ok(RunName {
            may_change: true,
            ..fixed(id)
        });
    }
    Ok(RunName {
        is_reserved: true,
        ..fixed(reserve(id))
    })
}

/// Returns the name of the run to continue: that of this job if it has rows, otherwise the latest
/// one with the same arguments.
fn earlier(id: String) -> Result<String, String> {
    let results = Path::new(RESULTS);
    // Outside a job, the name is that of another run if both began within one second.
    let is_of_job = matches!(SlurmJob::from(&env::var), Ok(Some(_)));
    if is_of_job && results.join(&id).join("results.csv").is_file() {
        return Ok(id);
    }
    earlier_run::find(results, &command()).ok_or_else(|| {
        "--resume finds no earlier run below results/ that was started with these arguments. Name \
         its folder with --out, or its CSV with --csv"
            .to_owned()
    })
}

/// Returns the command line, as run.json has it.
pub(super) fn command() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn collectives(all: &[Collective]) -> String {
    match all {
        all if all.len() == Collective::ALL.len() => "all".to_owned(),
        [one] => one.name().to_owned(),
        [first, rest @ ..] => format!("{first}+{}", rest.len()),
        [] => String::new(),
    }
}

/// Returns the name of a run: inside a Slurm job the job's name and id, with the number of the step
/// if there is one; otherwise the collectives and the time.
fn run_id(env: Env, collectives: &str) -> String {
    let Ok(Some(job)) = SlurmJob::from(env) else {
        return format!("{collectives}-{}", record::now().format("%Y%m%dT%H%M%S"));
    };
    match job.step {
        Some(step) => format!("{}/{step}", job.folder()),
        None => job.folder(),
    }
}

/// Makes the folder `id`, or `id-2`, `id-3`, … if another run has it: two runs of one second do not
/// share a folder.
fn reserve(id: String) -> String {
    for number in 1..=MOST_RUNS {
        let name = numbered(&id, number);
        let made = fs::create_dir_all(RESULTS).and_then(|()| fs::create_dir(folder(&name)));
        let is_taken = made.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists);
        // A folder that cannot be made for another reason is reported when the files are opened.
        if !is_taken {
            return name;
        }
    }
    id
}

/// Returns the `number`th name after `id`, which is the first.
fn numbered(id: &str, number: u32) -> String {
    match number {
        1 => id.to_owned(),
        _ => format!("{id}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_a_job_is_named_after_it() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            }
        };
        let job = env(&[
            ("SLURM_JOB_NAME", "pxn a/b"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "2"),
        ]);
        assert_eq!(run_id(&job, "all_reduce"), "pxn_a_b-17/2");
        // The batch shell's own step has no small number.
        let batch = env(&[
            ("SLURM_JOB_NAME", "x"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "4294967291"),
        ]);
        assert_eq!(run_id(&batch, "all_reduce"), "x-17");
        assert!(run_id(&|_| None, "all_reduce").starts_with("all_reduce-2"));
    }
}
