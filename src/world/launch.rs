//! What the launcher tells this process through its environment, before MPI starts.
//!
//! It lets one process print for all before MPI is up, and shows a broken launch: N processes, each
//! of which sees only itself. It also decides whether the ranks meet over MPI or over TCP.

use super::tcp::variables::{RANK, SIZE};
use crate::{
    env::Env,
    exit::{Code, Failure},
};

/// The variable that srun sets to the number of tasks in a step.
const STEP_TASKS: &str = "SLURM_STEP_NUM_TASKS";

/// The variables in which launchers pass the number of processes, and how messages name the
/// launcher. `SLURM_NTASKS` is not among them, because the batch shell has it too.
const SIZES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun"),
    ("PMI_SIZE", "the launcher"),
    (STEP_TASKS, "srun"),
];

/// The variable in which Slurm passes a process its rank.
const SLURM_RANK: &str = "SLURM_PROCID";

/// The variables in which launchers pass a process its rank. That of Slurm comes last: under mpirun
/// inside an allocation it is the rank of mpirun's helper.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    SLURM_RANK,
];

/// The processes that a launcher says it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedProcesses {
    /// Their number.
    pub count: u32,
    /// The launcher, as messages name it.
    pub launcher: &'static str,
    /// The variable that has the number.
    pub variable: &'static str,
}

/// The way in which the processes of the job find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// Through MPI, or not at all: no launcher started several.
    Mpi,
    /// Over TCP, by the variables that torchrun sets.
    Tcp,
}

/// The variable with which a launcher or a user decides how ranks meet: `tcp` or `mpi`.
pub const BOOTSTRAP: &str = "PXNBENCH_RANKS";

/// The variable in which torchrun passes the number of its agents, and the one with the number of
/// this agent.
const AGENTS: &str = "GROUP_WORLD_SIZE";
const AGENT: &str = "GROUP_RANK";

/// Returns how the processes of the job find each other: over TCP if RANK is set, unless an MPI
/// launcher is nearer to this process than the one that set it.
///
/// An MPI launcher is farther away if what it started are the agents of torchrun, one per node
/// (`srun torchrun`), or if it is srun and started one task, such as an interactive shell. It does
/// not count in a binary without MPI.
pub fn bootstrap(env: Env) -> Bootstrap {
    match env(BOOTSTRAP).as_deref() {
        Some("tcp") => return Bootstrap::Tcp,
        Some("mpi") => return Bootstrap::Mpi,
        _ => {}
    }
    if env(RANK).is_none_or(|value| value.trim().is_empty()) {
        return Bootstrap::Mpi;
    }
    let launched = mpi_processes(env);
    let is_launched_by_mpi = launched.is_some() || has_process_manager(env);
    if !is_launched_by_mpi || !cfg!(feature = "mpi") {
        return Bootstrap::Tcp;
    }
    let is_shell = launched.is_some_and(|it| it.variable == STEP_TASKS && it.count == 1);
    if started_agents(launched, env) || (is_shell && number(env, SIZE) != Some(1)) {
        return Bootstrap::Tcp;
    }
    Bootstrap::Mpi
}

/// Returns whether the processes that an MPI launcher started are the agents of torchrun.
fn started_agents(launched: Option<LaunchedProcesses>, env: Env) -> bool {
    let Some(agents) = number(env, AGENTS) else {
        return false;
    };
    match launched {
        Some(launched) => launched.count == agents,
        None => mpi_rank(env) == number(env, AGENT),
    }
}

fn number(env: Env, name: &str) -> Option<u32> {
    env(name)?.trim().parse().ok()
}

/// Returns what the nearest launcher says about the processes that it started, or `None` if no
/// launcher did.
pub fn processes(env: Env) -> Option<LaunchedProcesses> {
    if bootstrap(env) == Bootstrap::Mpi {
        return mpi_processes(env);
    }
    Some(LaunchedProcesses {
        count: number(env, SIZE)?,
        launcher: "the launcher",
        variable: SIZE,
    })
}

/// Returns what an MPI launcher says about the processes that it started.
fn mpi_processes(env: Env) -> Option<LaunchedProcesses> {
    for (variable, launcher) in SIZES {
        if let Some(count) = number(env, variable) {
            return Some(LaunchedProcesses {
                count,
                launcher,
                variable,
            });
        }
    }
    None
}

/// Returns whether this process prints for the job while the ranks have not met: it is the first
/// one, or no launcher started it.
pub fn speaks(env: Env) -> bool {
    rank(env).is_none_or(|rank| rank == 0)
}

/// Returns the rank that the launcher gave this process; `None` if it gave none.
pub fn rank(env: Env) -> Option<u32> {
    match bootstrap(env) {
        Bootstrap::Mpi => mpi_rank(env),
        Bootstrap::Tcp => number(env, RANK),
    }
}

/// The variables in which launchers pass the number of processes that they started on this node.
const LOCAL_SIZES: [&str; 3] = [
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "LOCAL_WORLD_SIZE",
];

/// Returns the number of processes that the launcher started on this node; `None` if it does not
/// say.
pub fn processes_on_node(env: Env) -> Option<u32> {
    LOCAL_SIZES.iter().find_map(|name| number(env, name))
}

/// Returns the rank that an MPI launcher gave this process.
fn mpi_rank(env: Env) -> Option<u32> {
    RANKS.iter().find_map(|name| number(env, name))
}

/// Settings with which Open MPI 4 starts a process without a daemon beside it and without a session
/// folder. They belong together: without the first one the daemon puts its files in the root
/// folder.
const SETTINGS_ALONE: [(&str, &str); 2] = [
    ("OMPI_MCA_ess_singleton_isolated", "1"),
    ("OMPI_MCA_orte_create_session_dirs", "0"),
];

/// Returns the settings that MPI needs in a process that no launcher started, as names and values;
/// none if the user set one of them. The session folders of a user share a parent, which a job that
/// ends removes while another one starts: MPI_Init then fails, and does not return.
pub fn settings_alone(env: Env) -> Vec<(&'static str, &'static str)> {
    let is_set = SETTINGS_ALONE.iter().any(|(name, _)| env(name).is_some());
    if has_process_manager(env) || is_set || processes(env).is_some() {
        return Vec::new();
    }
    SETTINGS_ALONE.to_vec()
}

/// Returns whether a process manager gave this process a rank. SLURM_PROCID does not tell, because
/// the batch shell of a Slurm job has it too.
fn has_process_manager(env: Env) -> bool {
    RANKS
        .iter()
        .any(|name| *name != SLURM_RANK && env(name).is_some())
}

/// Refuses a Slurm step of several tasks without a process manager: MPI would stop each of them
/// with a page of text, or let each run alone.
///
/// # Errors
/// Returns an error that says how to launch.
pub fn check_before_mpi(env: Env) -> anyhow::Result<()> {
    let Some(launched) = mpi_processes(env) else {
        return Ok(());
    };
    let is_step_of_several = launched.variable == STEP_TASKS && launched.count > 1;
    if !is_step_of_several || has_process_manager(env) {
        return Ok(());
    }
    Err(launch_failure(launched))
}

/// Refuses a world of one process if the launcher started several: each would run alone and print a
/// table of its own.
///
/// # Errors
/// Returns an error that says how to launch.
pub fn check(world_size: u32, env: Env) -> anyhow::Result<()> {
    match mpi_processes(env) {
        Some(launched) if launched.count > 1 && world_size <= 1 => Err(launch_failure(launched)),
        _ => Ok(()),
    }
}

fn launch_failure(launched: LaunchedProcesses) -> anyhow::Error {
    let LaunchedProcesses {
        count,
        launcher,
        variable,
    } = launched;
    let remedy = if variable == STEP_TASKS {
        "srun's --mpi type does not fit the MPI this binary is built with. See `srun --mpi=list`, \
         and try --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or launch with mpirun inside the \
         allocation"
    } else {
        "The launcher belongs to another MPI than the one this binary is built with. Use the \
         mpirun of that MPI"
    };
    let what = format!(
        "{launcher} started {count} processes ({variable}={count}) but MPI sees one. {remedy}"
    );
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
        // mpirun -np 1 inside a step of several tasks: the innermost launcher counts.
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
        let tasks = ("SLURM_STEP_NUM_TASKS", "2");
        let rank = ("SLURM_PROCID", "1");
        assert!(check_before_mpi(&env(&[tasks, rank, ("SLURM_STEP_ID", "0")])).is_err());
        for manager in [
            "PMIX_RANK",
            "PMI_RANK",
            "PALS_RANKID",
            "OMPI_COMM_WORLD_RANK",
        ] {
            assert!(
                check_before_mpi(&env(&[tasks, rank, (manager, "1")])).is_ok(),
                "{manager}"
            );
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

    const TORCHRUN: [(&str, &str); 4] = [
        ("RANK", "9"),
        ("WORLD_SIZE", "16"),
        ("GROUP_RANK", "1"),
        ("GROUP_WORLD_SIZE", "2"),
    ];

    fn torchrun_with(more: &[(&str, &str)]) -> Bootstrap {
        let all: Vec<(&str, &str)> = more.iter().chain(&TORCHRUN).copied().collect();
        bootstrap(&env(&all))
    }

    #[test]
    fn ranks_meet_over_tcp_where_no_mpi_launcher_started_them() {
        assert_eq!(bootstrap(&env(&[])), Bootstrap::Mpi);
        assert_eq!(bootstrap(&env(&[("WORLD_SIZE", "2")])), Bootstrap::Mpi);
        assert_eq!(bootstrap(&env(&[("RANK", "")])), Bootstrap::Mpi);
        assert_eq!(
            bootstrap(&env(&[("RANK", "0"), ("WORLD_SIZE", "2")])),
            Bootstrap::Tcp
        );
        // The batch shell of a Slurm job.
        let shell = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(torchrun_with(&shell), Bootstrap::Tcp);
    }

    #[test]
    #[cfg(feature = "mpi")]
    fn the_nearest_launcher_decides_how_ranks_meet() {
        // mpirun in a pod whose variables have a rank, such as that of an operator.
        let mpirun = [
            ("OMPI_COMM_WORLD_SIZE", "16"),
            ("OMPI_COMM_WORLD_RANK", "3"),
        ];
        assert_eq!(torchrun_with(&mpirun), Bootstrap::Mpi);
        let pod = [("RANK", "0"), ("WORLD_SIZE", "2"), ("PMIX_RANK", "1")];
        assert_eq!(bootstrap(&env(&pod)), Bootstrap::Mpi);
        // An agent of torchrun on each of two nodes.
        let agents = [("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")];
        assert_eq!(torchrun_with(&agents), Bootstrap::Tcp);
        assert_eq!(torchrun_with(&[("PALS_RANKID", "1")]), Bootstrap::Tcp);
        assert_eq!(torchrun_with(&[("PALS_RANKID", "9")]), Bootstrap::Mpi);
        // srun --pty bash, and two ranks by hand in it.
        let by_hand = [("RANK", "0"), ("WORLD_SIZE", "2"), (STEP_TASKS, "1")];
        assert_eq!(bootstrap(&env(&by_hand)), Bootstrap::Tcp);
        // srun with a wrapper that sets RANK.
        let wrapper = [("RANK", "0"), ("WORLD_SIZE", "2"), (STEP_TASKS, "2")];
        assert_eq!(bootstrap(&env(&wrapper)), Bootstrap::Mpi);
    }

    #[test]
    fn a_variable_decides_how_ranks_meet() {
        let mpirun = ("OMPI_COMM_WORLD_SIZE", "16");
        assert_eq!(torchrun_with(&[mpirun, (BOOTSTRAP, "tcp")]), Bootstrap::Tcp);
        assert_eq!(torchrun_with(&[(BOOTSTRAP, "mpi")]), Bootstrap::Mpi);
    }

    #[test]
    fn over_tcp_the_launcher_is_the_one_that_set_the_rank() {
        let all: Vec<_> = TORCHRUN.into_iter().collect();
        assert_eq!(processes(&env(&all)).map(|it| it.count), Some(16));
        assert!(!speaks(&env(&all)));
        assert!(speaks(&env(&[("RANK", "0"), ("SLURM_PROCID", "3")])));
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
