//! The doctor says *ready* where a sweep starts, and *not ready* where it does not: both run in the
//! same situation.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink};

use serde_json::Value;

use crate::{
    common::{Ended, alone, mpirun, run},
    machine::Machine,
};

/// The libraries that the loader finds.
#[derive(Clone, Copy, Debug)]
enum Libraries {
    /// None of NVIDIA's.
    None,
    /// libcuda only.
    Cuda,
    /// libcuda and libnccl.
    Both,
}

/// A situation in which a sweep is started.
struct Situation {
    what: &'static str,
    ranks: u32,
    libraries: Libraries,
    environment: &'static [(&'static str, &'static str)],
    arguments: &'static str,
    /// The sweep's exit code.
    code: i32,
    /// The check that finds why it does not start.
    check: &'static str,
}

const STARTS: Situation = Situation {
    what: "",
    ranks: 1,
    libraries: Libraries::Both,
    environment: JOB,
    arguments: "",
    code: 0,
    check: "",
};

/// A job with two GPUs.
const JOB: &[(&str, &str)] = &[("SLURM_JOB_ID", "7"), ("SLURM_GPUS_ON_NODE", "2")];

const SITUATIONS: &[Situation] = &[
    Situation {
        what: "no GPU anywhere",
        libraries: Libraries::None,
        environment: &[],
        ..STARTS
    },
    Situation {
        what: "a job without GPUs",
        libraries: Libraries::None,
        environment: &[
            ("SLURM_JOB_ID", "7"),
            ("CUDA_VISIBLE_DEVICES", "NoDevFiles"),
        ],
        ..STARTS
    },
    Situation {
        what: "a job with GPUs that work",
        ..STARTS
    },
    Situation {
        what: "two ranks with GPUs that work",
        ranks: 2,
        ..STARTS
    },
    Situation {
        what: "a job with GPUs on a node without a driver",
        libraries: Libraries::None,
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "two ranks with GPUs on a node without a driver",
        ranks: 2,
        libraries: Libraries::None,
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "GPUs that only CUDA_VISIBLE_DEVICES names",
        libraries: Libraries::None,
        environment: &[("SLURM_JOB_ID", "7"), ("CUDA_VISIBLE_DEVICES", "0,1")],
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "GPUs that the job asked for",
        libraries: Libraries::None,
        environment: &[("SLURM_JOB_ID", "7"), ("SLURM_GPUS_PER_NODE", "h100:2")],
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "no libnccl",
        libraries: Libraries::Cuda,
        code: 3,
        check: "lib.nccl",
        ..STARTS
    },
    Situation {
        what: "a driver that does not start",
        environment: &[JOB[0], JOB[1], ("STANDIN_FAULT", "cuInit:0:999")],
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "a driver that shows no GPU",
        environment: &[JOB[0], JOB[1], ("CUDA_VISIBLE_DEVICES", "7")],
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "a GPU that is in use",
        environment: &[
            JOB[0],
            JOB[1],
            ("STANDIN_FAULT", "cuDevicePrimaryCtxRetain:0:46"),
        ],
        code: 2,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "one GPU for two ranks",
        ranks: 2,
        environment: &[JOB[0], JOB[1], ("CUDA_VISIBLE_DEVICES", "0")],
        code: 5,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "a GPU that is not there",
        environment: &[JOB[0], JOB[1], ("NCCL_TESTS_DEVICE", "5")],
        code: 5,
        check: "start.gpu",
        ..STARTS
    },
    Situation {
        what: "a driver that is too old for this program",
        environment: &[JOB[0], JOB[1], ("STANDIN_CUDA", "11080")],
        code: 2,
        check: "start.cuda",
        ..STARTS
    },
    Situation {
        what: "a driver that is too old for libnccl",
        environment: &[JOB[0], JOB[1], ("STANDIN_CUDA", "12080")],
        arguments: "--nccl-lib cuda13/libnccl.so.2",
        code: 3,
        check: "start.cuda",
        ..STARTS
    },
    Situation {
        what: "a driver that suits such a libnccl",
        arguments: "--nccl-lib cuda13/libnccl.so.2",
        ..STARTS
    },
    Situation {
        what: "a bandwidth that is no number",
        libraries: Libraries::None,
        environment: &[("NCCL_TESTS_MIN_BW", "fast")],
        code: 6,
        check: "start.variables",
        ..STARTS
    },
    Situation {
        what: "communicators that cannot be made",
        libraries: Libraries::None,
        environment: &[("NCCL_TESTS_SPLIT", "MOD 0")],
        code: 6,
        check: "start.variables",
        ..STARTS
    },
    Situation {
        what: "an MPI that does not start",
        libraries: Libraries::None,
        environment: &[("OMPI_MCA_pml", "nosuch")],
        code: 1,
        check: "start.mpi",
        ..STARTS
    },
    Situation {
        what: "a step without a process manager",
        libraries: Libraries::None,
        environment: &[("SLURM_STEP_NUM_TASKS", "4")],
        code: 8,
        check: "mpi.world",
        ..STARTS
    },
];

impl Situation {
    fn run(&self, machine: &Machine, words: &str) -> Ended {
        let mut command = match self.ranks {
            1 => alone(machine.path()),
            ranks => mpirun(ranks, machine.path()),
        };
        let own = machine.path().join("cuda-only");
        command.env_remove("LD_LIBRARY_PATH");
        match self.libraries {
            Libraries::None => {}
            Libraries::Cuda => {
                fs::create_dir_all(&own).expect("a folder");
                let link = own.join("libcuda.so.1");
                if !link.exists() {
                    symlink(machine.libraries.join("libcuda.so.1"), link).expect("a link");
                }
                command = machine.on(command);
                command.env("LD_LIBRARY_PATH", &own);
            }
            Libraries::Both => command = machine.on(command),
        }
        command.args(words.split_whitespace());
        let folder = machine.libraries.to_str().expect("a path");
        let arguments = self
            .arguments
            .replace("cuda13", &format!("{folder}/cuda13"));
        command.args(arguments.split_whitespace());
        run(command.envs(self.environment.iter().copied()))
    }

    /// Returns the checks of libraries, MPI and the start that failed. What else is wrong with the
    /// machine below is its own matter.
    fn failed_checks(&self, machine: &Machine) -> BTreeSet<String> {
        let ended = self.run(machine, "doctor --json");
        let report: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|_| panic!("{}: {ended:?}", self.what));
        let checks = report["checks"].as_array().expect("checks").iter();
        let failed = checks.filter(|check| check["verdict"] == "failure");
        let ids: BTreeSet<String> = failed
            .map(|check| check["id"].as_str().expect("an id").to_owned())
            .collect();
        let is_ready = report["ready"].as_bool().expect("a verdict");
        assert_eq!(
            ended.code,
            Some(if is_ready { 0 } else { 10 }),
            "{}",
            self.what
        );
        assert_eq!(is_ready, ids.is_empty(), "{}: {ids:?}", self.what);
        let is_of_start = |id: &String| {
            let area = id.split('.').next().unwrap_or_default();
            ["start", "lib", "mpi"].contains(&area)
        };
        ids.into_iter().filter(is_of_start).collect()
    }
}

#[test]
fn ready_means_that_a_sweep_starts() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let mut wrong = Vec::new();
    for situation in SITUATIONS {
        let Situation {
            what, code, check, ..
        } = situation;
        let sweep = situation.run(&machine, "all_reduce -b 8 -e 8 -n 1 -w 0");
        if sweep.code != Some(*code) {
            wrong.push(format!(
                "{what}: the sweep ends with {:?}: {}",
                sweep.code, sweep.stderr
            ));
        }
        let failed = situation.failed_checks(&machine);
        let is_told = match check.is_empty() {
            true => failed.is_empty(),
            false => failed.contains(*check),
        };
        if !is_told {
            wrong.push(format!(
                "{what}: the doctor's checks that fail are {failed:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
