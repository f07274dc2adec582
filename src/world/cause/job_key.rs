//! The name by which the processes of a node know that they belong to one job, before they have
//! met.

use crate::{
    env::Env,
    world::launch::{self, Bootstrap},
};

/// The variables of an MPI launcher that name one of its jobs, as far as one user on one node is
/// concerned.
const NAMESPACES: [&str; 2] = ["PMIX_NAMESPACE", "PMI_JOBID"];

/// Returns the name of the job; `None` if no launcher started several processes. `parent` stands
/// for the process that started this one: some launchers give their jobs no name.
pub(super) fn job_key(env: Env, parent: &str) -> Option<String> {
    let launched = launch::processes(env)?;
    if launched.count < 2 {
        return None;
    }
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    if launch::bootstrap(env) == Bootstrap::Tcp {
        let address = set("MASTER_ADDR")?;
        let port = set("MASTER_PORT").unwrap_or_default();
        return Some(format!("tcp {address} {port}"));
    }
    if let Some(name) = NAMESPACES.iter().find_map(|name| set(name)) {
        return Some(format!("mpi {name}"));
    }
    match (set("SLURM_JOB_ID"), set("SLURM_STEP_ID")) {
        (Some(job), Some(step)) if launched.launcher == "srun" => {
            Some(format!("slurm {job}.{step}"))
        }
        _ => Some(format!("parent {parent}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pairs: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| {
            let pair = pairs.iter().find(|(other, _)| *other == name);
            pair.map(|(_, value)| (*value).to_owned())
        };
        job_key(&env, "7 99")
    }

    #[test]
    fn processes_of_a_job_have_one_name() {
        assert_eq!(key(&[]), None, "nobody launched it");
        assert_eq!(key(&[("OMPI_COMM_WORLD_SIZE", "1")]), None, "it is alone");
        let under_mpirun = [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", "812")];
        assert_eq!(key(&under_mpirun), Some("mpi 812".into()));
        let in_step = [
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "3"),
        ];
        assert_eq!(key(&in_step), Some("slurm 12.3".into()));
        let over_tcp = [
            ("RANK", "1"),
            ("WORLD_SIZE", "4"),
            ("MASTER_ADDR", "n1"),
            ("MASTER_PORT", "29500"),
        ];
        assert_eq!(key(&over_tcp), Some("tcp n1 29500".into()));
        assert_eq!(key(&[("PMI_SIZE", "4")]), Some("parent 7 99".into()));
    }
}
