//! The environment of a rank: where it is and where it meets the others, by torchrun's names, and
//! nothing of another launcher.

use super::place::Place;

/// Variables by which a launcher tells a process that it is one of its own, and one that would move
/// the ranks to another port.
const OF_A_LAUNCHER: [&str; 13] = [
    "PXNBENCH_PORT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "MPIRUN_RANK",
];

/// The beginnings of their names, for launchers that have many: Open MPI, PMIx, PMI, MPICH, Intel
/// MPI, MVAPICH, PALS, torchrun.
const PREFIXES: [&str; 13] = [
    "OMPI_COMM_",
    "OMPI_MCA_ess_",
    "OMPI_MCA_orte_",
    "OMPI_MCA_initial_wdir",
    "PRTE_",
    "PMIX_",
    "PMI_",
    "HYDI_",
    "HYDRA_",
    "I_MPI_HYDRA_",
    "MV2_COMM_",
    "PALS_",
    "TORCHELASTIC_",
];

/// Returns whether `name` makes a process one of another launcher's, so that a rank must not
/// inherit it.
pub(super) fn is_of_a_launcher(name: &str) -> bool {
    OF_A_LAUNCHER.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the variables of the rank that has this number on its node.
pub(super) fn of_rank(place: &Place, local_rank: u32) -> [(&'static str, String); 8] {
    [
        // Whatever else the environment says.
        ("PXNBENCH_RANKS", "tcp".into()),
        ("RANK", (place.first_rank() + local_rank).to_string()),
        ("WORLD_SIZE", place.ranks().to_string()),
        ("LOCAL_RANK", local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", place.ranks_per_node.to_string()),
        ("GROUP_RANK", place.node.to_string()),
        ("MASTER_ADDR", place.host.clone()),
        ("MASTER_PORT", place.port.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_inherits_settings_but_no_place_among_other_ranks() {
        for name in [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_MCA_orte_ess_num_procs",
            "OMPI_MCA_ess_base_vpid",
            "PMIX_RANK",
            "PMI_SIZE",
            "PALS_RANKID",
            "SLURM_PROCID",
            "SLURM_STEP_NUM_TASKS",
            "TORCHELASTIC_RUN_ID",
        ] {
            assert!(is_of_a_launcher(name), "{name}");
        }
        for name in [
            "NCCL_DEBUG",
            "PXNBENCH_TOKEN",
            "LD_LIBRARY_PATH",
            "SLURM_JOB_ID",
            "SLURM_STEP_ID",
            "OMPI_MCA_btl",
            "CUDA_VISIBLE_DEVICES",
        ] {
            assert!(!is_of_a_launcher(name), "{name}");
        }
    }

    #[test]
    fn ranks_are_numbered_through_all_nodes() {
        let place = Place {
            node: 2,
            nodes: 3,
            ranks_per_node: 4,
            host: "::1".into(),
            port: 29500,
        };
        let variables = of_rank(&place, 1).map(|(name, value)| format!("{name}={value}"));
        let expected = "PXNBENCH_RANKS=tcp RANK=9 WORLD_SIZE=12 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 \
                        GROUP_RANK=2 MASTER_ADDR=::1 MASTER_PORT=29500";
        assert_eq!(variables.join(" "), expected);
    }
}
