//! The name of a run, which is the name of its folder too.

use std::{fs, io::ErrorKind, path::Path};

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

/// Runs of one second that are told apart by a number.
const MOST_RUNS_PER_SECOND: u32 = 1000;

/// Returns the name that process 0 chooses, on all processes.
///
/// # Errors
///
/// Returns an error if the run is to continue an earlier one, and there is none.
pub(super) fn agreed(request: &Request, world: &dyn World) -> anyhow::Result<String> {
    let chosen = if world.rank() == 0 {
        choose(request)
    } else {
        Ok(String::new())
    };
    let chosen = world::broadcast(world, &chosen)?;
    chosen.map_err(|what| Failure::on_all_ranks(Code::Usage, what))
}

/// Chooses the name.
///
/// # Errors
///
/// Returns a sentence if the run is to continue an earlier one, and there is none.
fn choose(request: &Request) -> Result<String, String> {
    let id = run_id(&env::var, &collectives(&request.spec.collectives));
    if request.files.finds_earlier_run() {
        return earlier(id);
    }
    if makes_own_folder(request, &id) {
        return Ok(reserve(id));
    }
    Ok(id)
}

/// Returns the name of the run to continue: that of this job if it has rows, otherwise the latest one with the same
/// arguments.
fn earlier(id: String) -> Result<String, String> {
    let results = Path::new(RESULTS);
    // Outside a job, the name is that of another run if both began within one second.
    let is_of_job = matches!(SlurmJob::from(&env::var), Ok(Some(_)));
    if is_of_job && results.join(&id).join("results.csv").is_file() {
        return Ok(id);
    }
    earlier_run::find(results, &command()).ok_or_else(|| {
        "--resume finds no earlier run below results/ that was started with these arguments. Name its folder with --out, or \
         its CSV with --csv"
            .to_owned()
    })
}

/// Returns the command line, as run.json has it.
pub(super) fn command() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Returns whether the run makes a folder of this name. In a job the folder belongs to the job, and a restarted one continues
/// in it.
fn makes_own_folder(request: &Request, id: &str) -> bool {
    if env::var("SLURM_JOB_ID").is_some() || request.resumes(&env::var) {
        return false;
    }
    let default = Path::new(RESULTS).join(id);
    request.files.paths(&default).folder == Some(default)
}

fn collectives(all: &[Collective]) -> String {
    match all {
        all if all.len() == Collective::ALL.len() => "all".to_owned(),
        [one] => one.name().to_owned(),
        [first, rest @ ..] => format!("{first}+{}", rest.len()),
        [] => String::new(),
    }
}

/// Returns the name of a run: inside a Slurm job the job's name and id, with the number of the step if there is one;
/// otherwise the collectives and the time.
fn run_id(env: Env, collectives: &str) -> String {
    let Ok(Some(job)) = SlurmJob::from(env) else {
        return format!("{collectives}-{}", record::now().format("%Y%m%dT%H%M%S"));
    };
    match job.step {
        Some(step) => format!("{}/{step}", job.folder()),
        None => job.folder(),
    }
}

/// Makes the folder `id`, or `id-2`, `id-3`, … if another run has it: two runs of one second do not share a folder.
fn reserve(id: String) -> String {
    for number in 1..MOST_RUNS_PER_SECOND {
        let name = match number {
            1 => id.clone(),
            _ => format!("{id}-{number}"),
        };
        let folder = Path::new(RESULTS).join(&name);
        let made = fs::create_dir_all(RESULTS).and_then(|()| fs::create_dir(folder));
        let is_taken = made.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists);
        // A folder that cannot be made for another reason is reported when the files are opened.
        if !is_taken {
            return name;
        }
    }
    id
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
