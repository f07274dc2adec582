//! How ranks are started inside a job: the command line of srun or mpirun, and the environment it gets.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::SlurmJob;

/// Ranks a node where nothing says how many: two are the fewest that exchange something inside a node too.
const WITHOUT_GPUS: u32 = 2;

/// How many ranks go where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Nodes.
    pub nodes: u32,
    /// Ranks on each.
    pub tasks_per_node: u32,
    /// CPUs of each rank.
    pub cpus_per_task: u32,
}

impl StepShape {
    /// All nodes of the job: as many ranks on each as were asked for, else one a GPU; where there is no GPU as many as
    /// the job asked for, else two. The CPUs are shared out.
    pub fn new(job: &SlurmJob, asked: Option<NonZeroU32>, gpus_on_node: u32) -> StepShape {
        let cpus = job.cpus_on_node.map_or(1, NonZeroU32::get);
        let asked = asked.map(NonZeroU32::get);
        let without_gpus = || {
            job.tasks_per_node
                .map_or(WITHOUT_GPUS.min(cpus), NonZeroU32::get)
        };
        let tasks_per_node = asked
            .or((gpus_on_node > 0).then_some(gpus_on_node))
            .unwrap_or_else(without_gpus);
        StepShape {
            nodes: job.nodes.len() as u32,
            tasks_per_node,
            cpus_per_task: (cpus / tasks_per_node).max(1),
        }
    }

    /// Two ranks, on two nodes where there are two: the smallest step that shows whether ranks find each other.
    pub fn pair(job: &SlurmJob) -> StepShape {
        let nodes = (job.nodes.len() as u32).clamp(1, 2);
        StepShape {
            nodes,
            tasks_per_node: 2 / nodes,
            cpus_per_task: 1,
        }
    }

    /// One task on each node.
    pub fn one_a_node(job: &SlurmJob) -> StepShape {
        StepShape {
            nodes: job.nodes.len() as u32,
            tasks_per_node: 1,
            cpus_per_task: 1,
        }
    }

    /// All ranks.
    pub fn tasks(self) -> u32 {
        self.nodes * self.tasks_per_node
    }
}

/// What starts the ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// `srun --mpi=TYPE`.
    Srun {
        /// The type.
        mpi: String,
    },
    /// The `mpirun` of this MPI.
    Mpirun(MpiFamily),
}

/// Families of MPI: each has its own launcher, and its own idea of Slurm's process managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiFamily {
    /// Open MPI and what is made from it.
    OpenMpi,
    /// MPICH and what is made from it: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Another one, or not known.
    Other,
}

impl MpiFamily {
    /// The family that a library or a launcher names when it says its version.
    pub fn of(version: &str) -> MpiFamily {
        let names = |any: &[&str]| any.iter().any(|name| version.contains(name));
        if names(&["Open MPI", "OpenRTE", "PRRTE"]) {
            MpiFamily::OpenMpi
        } else if names(&["MPICH", "HYDRA", "Hydra", "Intel(R) MPI", "MVAPICH", "CRAY"]) {
            MpiFamily::Mpich
        } else {
            MpiFamily::Other
        }
    }

    /// Types of `srun --mpi` in the order in which they are likely to fit.
    fn likely(self) -> &'static [&'static str] {
        match self {
            MpiFamily::OpenMpi => &["pmix", "pmi2", "openmpi"],
            MpiFamily::Mpich => &["cray_shasta", "pmi2", "pmix"],
            MpiFamily::Other => &["pmix", "pmi2"],
        }
    }
}

/// The `--mpi` types to try: those that srun lists, the likely ones first; numbered ones (`pmix_v4`) only where the plain
/// one is not listed, and `none` never, since it starts each rank alone.
pub fn candidates(listed: &str, family: MpiFamily) -> Vec<String> {
    let words: Vec<&str> = listed
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("pmi") || family.likely().contains(word))
        .collect();
    let mut found: Vec<String> = Vec::new();
    for likely in family.likely() {
        let numbered = format!("{likely}_v");
        let mut fitting: Vec<&str> = words
            .iter()
            .copied()
            .filter(|word| word == likely)
            .collect();
        if fitting.is_empty() {
            fitting = words
                .iter()
                .copied()
                .filter(|word| word.starts_with(&numbered))
                .collect();
            fitting.sort_unstable_by(|a, b| b.cmp(a));
        }
        fitting.dedup();
        found.extend(fitting.into_iter().map(str::to_owned));
    }
    found
}

/// Where a step runs inside a container, by pyxis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The image.
    pub image: String,
    /// Folders that it sees at their own paths.
    pub mounts: Vec<String>,
    /// The folder it works in.
    pub workdir: String,
    /// Variables in which the job wins over the image.
    pub env: Vec<String>,
}

/// A step to be started.
#[derive(Clone, Debug)]
pub struct SlurmStep<'a> {
    /// Ranks and where.
    pub shape: StepShape,
    /// Runs beside the step that this process is in, which holds the CPUs.
    pub inside_step: bool,
    /// In a container.
    pub container: Option<&'a Container>,
    /// The program and its arguments.
    pub program: &'a [String],
}

impl SlurmStep<'_> {
    /// The command line. `variables` are the names that mpirun hands on; srun hands on all.
    pub fn command(&self, launcher: &Launcher, variables: &[String]) -> Vec<String> {
        let mut words = match launcher {
            Launcher::Srun { mpi } => self.srun(mpi),
            Launcher::Mpirun(family) => self.mpirun(*family, variables),
        };
        words.extend(self.program.iter().cloned());
        words
    }

    /// `--cpus-per-task` because from 22.05 to 23.02 srun does not take it from the job; `--distribution=block` so that
    /// neighbours in rank share a node; `--gpu-bind=none` because NCCL has to see all GPUs of a node; the rest so that one
    /// dead rank ends the step at once, whatever the site's defaults.
    fn srun(&self, mpi: &str) -> Vec<String> {
        let StepShape {
            nodes,
            tasks_per_node,
            cpus_per_task,
        } = self.shape;
        let mut words: Vec<String> = vec![
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
        if let Some(Container {
            image,
            mounts,
            workdir,
            env,
        }) = self.container
        {
            words.push(format!("--container-image={image}"));
            words.push(format!("--container-mounts={}", mounts.join(",")));
            words.push(format!("--container-workdir={workdir}"));
            words.push(format!("--container-env={}", env.join(",")));
        }
        words
    }

    fn mpirun(&self, family: MpiFamily, variables: &[String]) -> Vec<String> {
        let (tasks, per_node) = (self.shape.tasks().to_string(), self.shape.tasks_per_node);
        let mut words: Vec<String> = vec!["mpirun".into(), "-np".into(), tasks];
        match family {
            // Slots are what the job asked for in tasks, which says nothing here: the GPUs do.
            MpiFamily::OpenMpi => {
                words.extend([
                    "--map-by".into(),
                    format!("ppr:{per_node}:node:oversubscribe"),
                ]);
                words.extend(["--bind-to".into(), "none".into()]);
                words.extend(
                    variables
                        .iter()
                        .flat_map(|name| ["-x".into(), name.clone()]),
                );
            }
            MpiFamily::Mpich | MpiFamily::Other => {
                words.extend(["-ppn".into(), per_node.to_string()])
            }
        }
        words
    }
}

/// Variables that srun would take for options and that describe the job, the batch script or the step around this
/// process instead of the step to come: what they say is said on the command line.
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

/// Variables that make a process a task of the step around it.
const TASK: [&str; 6] = [
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "PMIX_NAMESPACE",
];

/// Must `name` not reach a step that is started from here?
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
    fn a_rank_a_gpu_and_the_cpus_shared_out() {
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
    fn a_pair_takes_two_nodes_where_there_are() {
        let pair = |list| StepShape::pair(&job(&[("SLURM_JOB_NODELIST", list)]));
        assert_eq!((pair("n[1-8]").nodes, pair("n[1-8]").tasks()), (2, 2));
        assert_eq!((pair("n1").nodes, pair("n1").tasks()), (1, 2));
    }

    #[test]
    fn likely_types_come_first_and_none_never() {
        let listed = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific pmix plugin versions \
                      available: pmix_v4,pmix_v5";
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
    fn families_are_told_by_what_they_say() {
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
            assert_eq!(MpiFamily::of(version), family, "{version}");
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
        let expected = "srun --mpi=pmix --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=12 \
                        --distribution=block --gpu-bind=none --kill-on-bad-exit=1 --wait=60 pxnbench all_reduce";
        assert_eq!(step.command(&srun, &[]).join(" "), expected);
        step.inside_step = true;
        assert!(step.command(&srun, &[]).contains(&"--overlap".to_owned()));
        assert_eq!(
            step.command(&Launcher::Mpirun(MpiFamily::OpenMpi), &["NCCL_ALGO".into()])
                .join(" "),
            "mpirun -np 32 --map-by ppr:8:node:oversubscribe --bind-to none -x NCCL_ALGO pxnbench all_reduce"
        );
        assert_eq!(
            step.command(&Launcher::Mpirun(MpiFamily::Mpich), &[])
                .join(" "),
            "mpirun -np 32 -ppn 8 pxnbench all_reduce"
        );
    }

    #[test]
    fn what_belongs_to_the_step_around_does_not_reach_the_step_to_come() {
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
