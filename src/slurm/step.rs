//! How ranks are started in a job: the command line of srun or mpirun, and its environment.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::SlurmJob;

/// Ranks per node if nothing says how many: the fewest that also exchange data within a node.
const WITHOUT_GPUS: u32 = 2;

/// The number of ranks and their placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Nodes.
    pub nodes: u32,
    /// Ranks per node.
    pub tasks_per_node: u32,
    /// CPUs per rank.
    pub cpus_per_task: u32,
}

impl StepShape {
    /// Returns the step on all nodes of the job. Each node gets as many ranks as were asked for,
    /// else one per GPU; without GPUs as many as the job requested, else two. The CPUs are divided
    /// among them.
    pub fn new(job: &SlurmJob, asked: Option<NonZeroU32>, gpus_on_node: u32) -> StepShape {
        let cpus = job.cpus_on_node.map_or(1, NonZeroU32::get);
        let tasks_per_node = match (asked, job.tasks_per_node) {
            (Some(asked), _) => asked.get(),
            (None, _) if gpus_on_node > 0 => gpus_on_node,
            (None, Some(requested)) => requested.get(),
            (None, None) => WITHOUT_GPUS.min(cpus),
        };
        StepShape {
            nodes: job.nodes.len() as u32,
            tasks_per_node,
            cpus_per_task: (cpus / tasks_per_node).max(1),
        }
    }

    /// Returns a step of two ranks, on two nodes if there are two: the smallest step that shows
    /// whether ranks find each other.
    pub fn pair(job: &SlurmJob) -> StepShape {
        let nodes = (job.nodes.len() as u32).clamp(1, 2);
        StepShape {
            nodes,
            tasks_per_node: 2 / nodes,
            cpus_per_task: 1,
        }
    }

    /// Returns a step of one task per node.
    pub fn one_per_node(job: &SlurmJob) -> StepShape {
        StepShape {
            nodes: job.nodes.len() as u32,
            tasks_per_node: 1,
            cpus_per_task: 1,
        }
    }

    /// Returns the number of ranks.
    pub fn tasks(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.tasks_per_node)
    }
}

/// The program that starts the ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// `srun --mpi=TYPE`.
    Srun {
        /// The type of `--mpi`.
        mpi: String,
    },
    /// The `mpirun` of this MPI.
    Mpirun(MpiFamily),
}

/// Families of MPI implementations. Each has its own launcher and supports other process managers
/// of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiFamily {
    /// Open MPI and its derivatives.
    OpenMpi,
    /// MPICH and its derivatives: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Another one, or unknown.
    Other,
}

impl MpiFamily {
    /// Recognizes the family from the version text of a library or a launcher.
    pub fn recognize(version: &str) -> MpiFamily {
        const OPEN_MPI: [&str; 3] = ["Open MPI", "OpenRTE", "PRRTE"];
        const MPICH: [&str; 6] = ["MPICH", "HYDRA", "Hydra", "Intel(R) MPI", "MVAPICH", "CRAY"];
        if OPEN_MPI.iter().any(|name| version.contains(name)) {
            MpiFamily::OpenMpi
        } else if MPICH.iter().any(|name| version.contains(name)) {
            MpiFamily::Mpich
        } else {
            MpiFamily::Other
        }
    }

    /// Returns types of `srun --mpi`, the most likely to fit first.
    fn likely(self) -> &'static [&'static str] {
        match self {
            MpiFamily::OpenMpi => &["pmix", "pmi2", "openmpi"],
            MpiFamily::Mpich => &["cray_shasta", "pmi2", "pmix"],
            MpiFamily::Other => &["pmix", "pmi2"],
        }
    }
}

/// Returns the `--mpi` types to try: those that srun lists, the most likely first. Numbered types
/// (`pmix_v4`) are tried only if the plain one is not listed, and `none` never, since it starts
/// each rank alone.
pub fn candidates(listed: &str, family: MpiFamily) -> Vec<String> {
    let words = listed.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<&str> = words.collect();
    let mut found = Vec::new();
    for likely in family.likely() {
        if words.contains(likely) {
            found.push((*likely).to_owned());
        } else {
            found.extend(numbered(likely, &words));
        }
    }
    found
}

/// Returns the numbered variants of a type, the newest first: `pmix_v5`, `pmix_v4`.
fn numbered(plain: &str, words: &[&str]) -> Vec<String> {
    if !plain.starts_with("pmi") {
        return Vec::new();
    }
    let prefix = format!("{plain}_v");
    let variants = words.iter().filter(|word| word.starts_with(&prefix));
    let mut variants: Vec<String> = variants.map(|word| (*word).to_owned()).collect();
    variants.sort_unstable();
    variants.dedup();
    variants.reverse();
    variants
}

/// The container that a step runs in, by pyxis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The image.
    pub image: String,
    /// Folders that are mounted at their own paths.
    pub mounts: Vec<String>,
    /// The working folder.
    pub workdir: String,
    /// Variables whose value in the job overrides that of the image.
    pub env: Vec<String>,
}

/// A job step to start.
#[derive(Clone, Debug)]
pub struct SlurmStep<'a> {
    /// The number of ranks and their placement.
    pub shape: StepShape,
    /// Whether this process is in a step itself, which holds the CPUs; the new step then overlaps
    /// it.
    pub inside_step: bool,
    /// The container, if any.
    pub container: Option<&'a Container>,
    /// The program and its arguments.
    pub program: &'a [String],
}

impl SlurmStep<'_> {
    /// Returns the command line. `variables` are the names that mpirun passes on; srun passes on
    /// all.
    pub fn command(&self, launcher: &Launcher, variables: &[String]) -> Vec<String> {
        let mut words = match launcher {
            Launcher::Srun { mpi } => self.srun(mpi),
            Launcher::Mpirun(family) => self.mpirun(*family, variables),
        };
        words.extend_from_slice(self.program);
        words
    }

    /// Returns the command line of srun.
    ///
    /// `--cpus-per-task` is given because srun 22.05 to 23.02 does not inherit it from the job,
    /// `--distribution=block` so that consecutive ranks share a node, `--gpu-bind=none` because
    /// NCCL must see all GPUs of a node, and the rest so that one dead rank ends the step at once,
    /// whatever the site's defaults.
    fn srun(&self, mpi: &str) -> Vec<String> {
        let StepShape {
            nodes,
            tasks_per_node,
            cpus_per_task,
        } = self.shape;
        let mut words = vec![
            "srun".into(),
            format!("--mpi={mpi}"),
            format!("--nodes={nodes}"),
            format!("--ntasks={}", self.shape.tasks()),
            format!("--ntasks-per-node={tasks_per_node}"),
            format!("--cpus-per-task={cpus_per_task}"),
            "--distribution=block".into(),
            "--gpu-bind=none".into(),
            "--kill-on-bad-exit=1".into(),
            "--wait=60".into(),
        ];
        if self.inside_step {
            words.push("--overlap".into());
        }
        if let Some(container) = self.container {
            words.extend(container.options());
        }
        words
    }

    fn mpirun(&self, family: MpiFamily, variables: &[String]) -> Vec<String> {
        let per_node = self.shape.tasks_per_node;
        let mut words = vec![
            "mpirun".into(),
            "-np".into(),
            self.shape.tasks().to_string(),
        ];
        match family {
            MpiFamily::OpenMpi => {
                // The slots are the tasks that the job requested, which does not matter here: the
                // GPUs do.
                words.push("--map-by".into());
                words.push(format!("ppr:{per_node}:node:oversubscribe"));
                words.push("--bind-to".into());
                words.push("none".into());
                for name in variables {
                    words.push("-x".into());
                    words.push(name.clone());
                }
            }
            MpiFamily::Mpich | MpiFamily::Other => {
                words.push("-ppn".into());
                words.push(per_node.to_string());
            }
        }
        words
    }
}

impl Container {
    fn options(&self) -> [String; 4] {
        [
            format!("--container-image={}", self.image),
            format!("--container-mounts={}", self.mounts.join(",")),
            format!("--container-workdir={}", self.workdir),
            format!("--container-env={}", self.env.join(",")),
        ]
    }
}

/// Variables that srun treats as options, but that describe the job, the batch script or the
/// surrounding step. The command line sets what matters of them for the new step.
const OPTIONS: [&str; 16] = [
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_TRES_BIND",
    "SLURM_CPU_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_GPU_BIND",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_MPI_TYPE",
    "SLURM_WAIT",
];

/// Variables that mark a process as a task of the surrounding step.
const TASK: [&str; 6] = [
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "PMIX_NAMESPACE",
];

/// Returns whether `name` must not reach a step that is started from here.
pub fn leaks(name: &str) -> bool {
    let prefixes = [
        "SLURM_STEP",
        "SLURM_CPU_BIND",
        "SLURM_SRUN_COMM",
        "PMI_",
        "PMIX_RANK",
        "PMIX_SERVER",
        "OMPI_COMM_",
    ];
    OPTIONS.contains(&name)
        || TASK.contains(&name)
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pairs: &[(&str, &str)]) -> SlurmJob {
        let base = [
            ("SLURM_JOB_ID", "1"),
            ("SLURM_JOB_NODELIST", "node[1-4]"),
            ("SLURM_JOB_CPUS_PER_NODE", "96(x4)"),
        ];
        let all: Vec<_> = pairs.iter().chain(&base).copied().collect();
        let env = |name: &str| {
            all.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        SlurmJob::from(&env).expect("valid").expect("a job")
    }

    fn shape(pairs: &[(&str, &str)], asked: u32, gpus: u32) -> (u32, u32, u32) {
        let StepShape {
            nodes,
            tasks_per_node,
            cpus_per_task,
        } = StepShape::new(&job(pairs), NonZeroU32::new(asked), gpus);
        (nodes, tasks_per_node, cpus_per_task)
    }

    #[test]
    fn one_rank_per_gpu_and_the_cpus_divided() {
        assert_eq!(shape(&[], 0, 8), (4, 8, 12));
        assert_eq!(
            shape(&[("SLURM_NTASKS_PER_NODE", "4")], 0, 8),
            (4, 8, 12),
            "GPUs count more than the job's tasks"
        );
        assert_eq!(
            shape(&[], 3, 8),
            (4, 3, 32),
            "what is asked for here counts most"
        );
        assert_eq!(shape(&[], 0, 0), (4, 2, 48));
        assert_eq!(shape(&[("SLURM_NTASKS_PER_NODE", "4")], 0, 0), (4, 4, 24));
        assert_eq!(
            shape(&[("SLURM_JOB_CPUS_PER_NODE", "1(x4)")], 0, 0),
            (4, 1, 1),
            "two would not fit"
        );
        assert_eq!(
            shape(&[("SLURM_JOB_CPUS_PER_NODE", "4(x4)")], 0, 8),
            (4, 8, 1)
        );
    }

    #[test]
    fn a_pair_is_on_two_nodes_if_there_are_two() {
        let pair = |list| StepShape::pair(&job(&[("SLURM_JOB_NODELIST", list)]));
        assert_eq!((pair("n[1-8]").nodes, pair("n[1-8]").tasks()), (2, 2));
        assert_eq!((pair("n1").nodes, pair("n1").tasks()), (1, 2));
    }

    #[test]
    fn likely_types_come_first_and_none_never() {
        let listed = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific \
                      pmix plugin versions available: pmix_v4,pmix_v5";
        assert_eq!(candidates(listed, MpiFamily::OpenMpi), ["pmix", "pmi2"]);
        assert_eq!(
            candidates(listed, MpiFamily::Mpich),
            ["cray_shasta", "pmi2", "pmix"]
        );
        // Older ones write to stderr, with their own name in front, and list versions alone.
        let older = "srun: MPI types are...\nsrun: pmix_v3\nsrun: pmix_v4\nsrun: none\nsrun: pmi2";
        assert_eq!(
            candidates(older, MpiFamily::OpenMpi),
            ["pmix_v4", "pmix_v3", "pmi2"]
        );
        assert_eq!(candidates("", MpiFamily::OpenMpi), [] as [&str; 0]);
    }

    #[test]
    fn families_are_recognized_by_their_version_text() {
        for (version, family) in [
            (
                "Open MPI v4.1.4, package: Debian OpenMPI",
                MpiFamily::OpenMpi,
            ),
            ("mpirun (Open MPI) 4.1.4", MpiFamily::OpenMpi),
            ("HYDRA build details:\n Version: 4.0.2", MpiFamily::Mpich),
            ("MPICH Version:\t4.0.2", MpiFamily::Mpich),
            ("Intel(R) MPI Library 2021.10", MpiFamily::Mpich),
            ("", MpiFamily::Other),
        ] {
            assert_eq!(MpiFamily::recognize(version), family, "{version}");
        }
    }

    #[test]
    fn command_lines() {
        let program = ["pxnbench".to_owned(), "all_reduce".to_owned()];
        let shape = StepShape {
            nodes: 4,
            tasks_per_node: 8,
            cpus_per_task: 12,
        };
        let mut step = SlurmStep {
            shape,
            inside_step: false,
            container: None,
            program: &program,
        };
        let srun = Launcher::Srun { mpi: "pmix".into() };
        let expected = "srun --mpi=pmix --nodes=4 --ntasks=32 --ntasks-per-node=8 \
                        --cpus-per-task=12 --distribution=block --gpu-bind=none \
                        --kill-on-bad-exit=1 --wait=60 pxnbench all_reduce";
        assert_eq!(step.command(&srun, &[]).join(" "), expected);
        step.inside_step = true;
        assert!(step.command(&srun, &[]).contains(&"--overlap".to_owned()));
        assert_eq!(
            step.command(&Launcher::Mpirun(MpiFamily::OpenMpi), &["NCCL_ALGO".into()])
                .join(" "),
            "mpirun -np 32 --map-by ppr:8:node:oversubscribe --bind-to none -x NCCL_ALGO pxnbench \
             all_reduce"
        );
        assert_eq!(
            step.command(&Launcher::Mpirun(MpiFamily::Mpich), &[])
                .join(" "),
            "mpirun -np 32 -ppn 8 pxnbench all_reduce"
        );
    }

    #[test]
    fn variables_of_the_surrounding_step_do_not_reach_the_new_step() {
        for name in [
            "SLURM_CPUS_PER_TASK",
            "SLURM_TRES_PER_TASK",
            "SLURM_STEP_ID",
            "PMIX_RANK",
            "OMPI_COMM_WORLD_RANK",
        ] {
            assert!(leaks(name), "{name}");
        }
        // The job itself, what mpirun reads, and what a site sets.
        for name in [
            "SLURM_JOB_ID",
            "SLURM_TASKS_PER_NODE",
            "SLURM_CONF",
            "PMIX_MCA_psec",
            "OMPI_MCA_btl",
            "NCCL_ALGO",
        ] {
            assert!(!leaks(name), "{name}");
        }
    }
}
