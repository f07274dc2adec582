//! What starts the ranks: each way is tried on two ranks, which have to see each other.

use std::time::Duration;

use super::{
    context::{Launch, exported},
    probe,
    process::{self, Trial},
    request::LauncherChoice,
    site,
};
use crate::{
    exit::{Code, Failure},
    slurm::step::{Launcher, MpiFamily, StepShape, candidates},
    world,
};

/// The time within which two ranks must have started.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the first launcher that works.
///
/// # Errors
/// Returns an error with what each one said if none works.
pub(super) fn find(launch: &Launch) -> anyhow::Result<Launcher> {
    let mut said = Vec::new();
    for launcher in ways(launch)? {
        match prove(launch, &launcher)? {
            Ok(()) => {
                said.iter().for_each(|why| say!("pxnbench: {why}"));
                return Ok(launcher);
            }
            Err(why) => said.push(format!("{} does not work: {why}", name(&launcher))),
        }
    }
    let what = format!(
        "no launcher starts ranks that see each other: {}. Edit {}",
        said.join("; "),
        site::line(site::MPI_TYPE)
    );
    Err(Failure::on_all_ranks(Code::Launch, what))
}

/// Returns the first launcher that would be tried.
///
/// # Errors
/// Returns an error if there is none to try.
pub(super) fn first(launch: &Launch) -> anyhow::Result<Launcher> {
    let none = || Failure::on_all_ranks(Code::Launch, "srun lists no --mpi type. Try --by mpirun");
    ways(launch)?.into_iter().next().ok_or_else(none)
}

/// Returns the launchers to try, in order.
fn ways(launch: &Launch) -> anyhow::Result<Vec<Launcher>> {
    let by = launch.request.by;
    let mut ways = Vec::new();
    if by != LauncherChoice::Mpirun {
        ways.extend(types(launch)?.into_iter().map(|mpi| Launcher::Srun { mpi }));
    }
    // A user who names a type wants no other; ranks in a container are started by srun only.
    if by == LauncherChoice::Mpirun
        || by == LauncherChoice::Auto && launch.request.mpi.is_none() && launch.container.is_none()
    {
        let words = ["mpirun".to_owned(), "--version".to_owned()];
        let version = process::try_out(&words, false, Duration::from_secs(20))?;
        if version.ok || by == LauncherChoice::Mpirun {
            ways.push(Launcher::Mpirun(MpiFamily::recognize(&version.stdout)));
        }
    }
    Ok(ways)
}

/// Returns the types of srun's --mpi to try.
fn types(launch: &Launch) -> anyhow::Result<Vec<String>> {
    if let Some(mpi) = &launch.request.mpi {
        return Ok(vec![mpi.clone()]);
    }
    let mut types = candidates(&listed()?, MpiFamily::recognize(&world::mpi::loaded()));
    // The site's or the user's own default goes first; srun does not get to see the variable.
    if let Some(own) = std::env::var("SLURM_MPI_TYPE")
        .ok()
        .filter(|own| own != "none" && !own.is_empty())
    {
        types.retain(|mpi| *mpi != own);
        types.insert(0, own);
    }
    Ok(types)
}

/// Returns what `srun --mpi=list` prints; versions before 20.11 print it on stderr.
fn listed() -> anyhow::Result<String> {
    let words = ["srun".to_owned(), "--mpi=list".to_owned()];
    let Trial { stdout, stderr, .. } = process::try_out(&words, false, Duration::from_secs(20))?;
    Ok(stdout + &stderr)
}

pub(super) fn name(launcher: &Launcher) -> String {
    match launcher {
        Launcher::Srun { mpi } => format!("srun --mpi={mpi}"),
        Launcher::Mpirun(_) => "mpirun".into(),
    }
}

/// Starts two ranks. The inner error says why the launcher does not work.
fn prove(launch: &Launch, launcher: &Launcher) -> anyhow::Result<Result<(), String>> {
    let program = launch.program(&["probe".into()])?;
    let step = launch.step(StepShape::pair(launch.job), &program);
    let tried = process::try_out(
        &step.command(launcher, &exported()),
        step.inside_step,
        LIMIT,
    )?;
    Ok(evaluate(
        &tried,
        launch
            .request
            .mpi
            .is_some()
            .then(listed)
            .transpose()?
            .as_deref(),
    ))
}

/// Checks whether the two ranks of the trial see each other.
fn evaluate(tried: &Trial, listed: Option<&str>) -> Result<(), String> {
    let reports = probe::reports(&tried.stdout);
    if reports.len() == 2 && reports.iter().all(|report| report.size == 2) && tried.ok {
        return Ok(());
    }
    if reports.len() == 2 && reports.iter().all(|report| report.size == 1) {
        return Err("each of two ranks sees only itself".into());
    }
    let types = || listed.map(types_in).filter(|types| !types.is_empty());
    let why = tried.why("two ranks did not start");
    Err(types().map_or(why.clone(), |types| {
        format!("{why} (srun here has {types})")
    }))
}

/// Returns the types that `srun --mpi=list` prints, for a message.
fn types_in(listed: &str) -> String {
    let all = [MpiFamily::OpenMpi, MpiFamily::Mpich]
        .iter()
        .flat_map(|family| candidates(listed, *family));
    let mut types: Vec<String> = all.collect();
    types.sort_unstable();
    types.dedup();
    types.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(ranks: &[(u32, u32)], ok: bool, stderr: &str) -> Trial {
        let line = |(rank, size): &(u32, u32)| {
            format!(
                "pxnbench-probe: \
                 {{\"rank\":{rank},\"size\":{size},\"node\":\"n{rank}\",\"built_with\":\"\",\"\
                 loaded\":\"\",\"nccl\":{{\"Err\":\"none\"}},\"hardware\":null,\"gpus\":0}}\n"
            )
        };
        Trial {
            ok,
            stdout: ranks.iter().map(line).collect(),
            stderr: stderr.into(),
            late: None,
        }
    }

    #[test]
    fn two_ranks_have_to_see_each_other() {
        assert_eq!(evaluate(&tried(&[(0, 2), (1, 2)], true, ""), None), Ok(()));
        let alone = evaluate(&tried(&[(0, 1), (0, 1)], true, ""), None);
        assert_eq!(alone, Err("each of two ranks sees only itself".into()));
        assert!(evaluate(&tried(&[(0, 2)], false, "srun: error: x"), None).is_err());
    }

    #[test]
    fn the_reason_is_the_line_that_says_most() {
        let stderr = "srun: job 3 queued\n/x/pxnbench: error while loading shared libraries: libmpi.so.40: cannot open\n\
                      srun: error: node2: task 1: Exited with exit code 127";
        let why = evaluate(&tried(&[], false, stderr), None).expect_err("no start");
        assert!(why.contains("libmpi.so.40"), "{why}");
        let listed = "MPI plugin types are...\n\tnone\n\tpmi2";
        let why = evaluate(
            &tried(&[], false, "srun: error: no plugin mpi/pmix"),
            Some(listed),
        )
        .expect_err("no plugin");
        assert!(
            why.contains("no plugin mpi/pmix") && why.contains("srun here has pmi2"),
            "{why}"
        );
    }
}
