//! What the launcher told this process through its environment, before MPI starts.
//!
//! Used to let one process speak for all before MPI is up, and to see a launch that went wrong: N processes that each
//! believe to be alone.

use crate::env::Env;
use crate::exit::{Code, Failure};

/// The variables in which launchers tell the number of processes, and their name for a message. `SLURM_NTASKS` is not
/// among them: the batch shell has it too.
const SIZES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun"),
    ("PMI_SIZE", "the launcher"),
    ("SLURM_STEP_NUM_TASKS", "srun"),
];

/// The variables in which launchers tell a process its rank. Slurm's comes last: under mpirun inside an allocation it is
/// that of mpirun's helper.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "SLURM_PROCID",
];

/// The number of processes the launcher says it started, and who says so.
pub fn size(env: Env) -> Option<(u32, &'static str, &'static str)> {
    SIZES
        .iter()
        .find_map(|(name, who)| Some((env(name)?.trim().parse().ok()?, *who, *name)))
}

/// Does this process speak for the job while MPI is not up? The first one does, and one that no launcher started.
pub fn speaks(env: Env) -> bool {
    RANKS
        .iter()
        .find_map(|name| env(name)?.trim().parse::<u32>().ok())
        .is_none_or(|rank| rank == 0)
}

/// Returns the settings with which Open MPI 4 starts a process that no launcher started without a daemon beside it and
/// without a session folder, as names and values; none if the user set one of them. Such folders of one user share a
/// parent, which a job that ends removes while another one starts: MPI_Init then fails, and does not return.
pub fn settings_alone(env: Env) -> Vec<(&'static str, &'static str)> {
    // The batch shell of a Slurm job has SLURM_PROCID too.
    let has_rank = RANKS
        .iter()
        .any(|name| *name != "SLURM_PROCID" && env(name).is_some());
    let is_set = SETTINGS_ALONE.iter().any(|(name, _)| env(name).is_some());
    if has_rank || is_set || size(env).is_some() {
        return Vec::new();
    }
    SETTINGS_ALONE.to_vec()
}

/// Both or none: without the first one the daemon puts its files in the root folder.
const SETTINGS_ALONE: [(&str, &str); 2] = [
    ("OMPI_MCA_ess_singleton_isolated", "1"),
    ("OMPI_MCA_orte_create_session_dirs", "0"),
];

/// Refuses a Slurm step of several tasks to which nobody gave a process manager: MPI would stop each of them with a page
/// of text, or let each run alone.
///
/// # Errors
/// A sentence that says how to launch.
pub fn check_before_mpi(env: Env) -> anyhow::Result<()> {
    match size(env) {
        Some((started, who, variable @ "SLURM_STEP_NUM_TASKS"))
            if started > 1
                && !RANKS
                    .iter()
                    .any(|name| *name != "SLURM_PROCID" && env(name).is_some()) =>
        {
            Err(misfit(started, who, variable))
        }
        _ => Ok(()),
    }
}

/// Refuses a world of one process where the launcher started several: they would run side by side, each alone, and
/// print one table each.
///
/// # Errors
/// A sentence that says how to launch.
pub fn check(world_size: u32, env: Env) -> anyhow::Result<()> {
    let Some((started, who, variable)) = size(env) else {
        return Ok(());
    };
    if world_size > 1 || started <= 1 {
        return Ok(());
    }
    Err(misfit(started, who, variable))
}

fn misfit(started: u32, who: &str, variable: &str) -> anyhow::Error {
    let how = match variable {
        "SLURM_STEP_NUM_TASKS" => {
            "srun's --mpi type does not fit the MPI this binary is built with: see `srun --mpi=list`, and try \
             --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or launch with mpirun inside the allocation"
        }
        _ => {
            "the launcher belongs to another MPI than the one this binary is built with: use the mpirun of that MPI"
        }
    };
    let what =
        format!("{who} started {started} processes ({variable}={started}) but MPI sees one: {how}");
    Failure::on_all_ranks(Code::Launch, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        }
    }

    #[test]
    fn a_world_of_one_where_several_started_is_refused() {
        assert!(check(1, &env(&[("OMPI_COMM_WORLD_SIZE", "4")])).is_err());
        assert!(check(1, &env(&[("SLURM_STEP_NUM_TASKS", "2")])).is_err());
        assert!(check(4, &env(&[("OMPI_COMM_WORLD_SIZE", "4")])).is_ok());
        assert!(check(1, &env(&[("OMPI_COMM_WORLD_SIZE", "1")])).is_ok());
        assert!(
            check(1, &env(&[("SLURM_NTASKS", "8")])).is_ok(),
            "the batch shell has SLURM_NTASKS too"
        );
        // mpirun -np 1 inside a step of several tasks: the innermost launcher is asked first.
        assert!(
            check(
                1,
                &env(&[("OMPI_COMM_WORLD_SIZE", "1"), ("SLURM_STEP_NUM_TASKS", "4")])
            )
            .is_ok()
        );
    }

    #[test]
    fn a_step_without_a_process_manager_is_refused_before_mpi_starts() {
        let step = |more: (&'static str, &'static str)| {
            move |name: &str| {
                let all = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1"), more];
                all.iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            }
        };
        assert!(check_before_mpi(&step(("SLURM_STEP_ID", "0"))).is_err());
        for manager in [
            "PMIX_RANK",
            "PMI_RANK",
            "PALS_RANKID",
            "OMPI_COMM_WORLD_RANK",
        ] {
            assert!(check_before_mpi(&step((manager, "1"))).is_ok(), "{manager}");
        }
        assert!(check_before_mpi(&env(&[("SLURM_STEP_NUM_TASKS", "1")])).is_ok());
    }

    #[test]
    fn only_a_process_without_launcher_gets_settings() {
        assert_eq!(settings_alone(&env(&[])), SETTINGS_ALONE);
        let batch_shell = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(settings_alone(&env(&batch_shell)), SETTINGS_ALONE);
        for launched in [
            "OMPI_COMM_WORLD_SIZE",
            "SLURM_STEP_NUM_TASKS",
            "PMIX_RANK",
            "PMI_RANK",
            "OMPI_MCA_orte_create_session_dirs",
        ] {
            assert_eq!(settings_alone(&env(&[(launched, "1")])), [], "{launched}");
        }
    }

    #[test]
    fn one_process_speaks() {
        assert!(speaks(&env(&[])));
        assert!(speaks(&env(&[
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("SLURM_PROCID", "3")
        ])));
        assert!(!speaks(&env(&[("PMIX_RANK", "2")])));
        assert!(!speaks(&env(&[("SLURM_PROCID", "1")])));
    }
}
