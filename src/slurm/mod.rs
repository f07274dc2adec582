//! The Slurm job that this process is in, and how to start ranks in it. Pure: from a lookup of variables to values and
//! command lines; nothing is started here.

pub mod hosts;
pub mod lost;
pub mod step;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// What Slurm says of the job in the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmJob {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Number of the job step that this process is in; absent in the batch script and in an interactive shell.
    pub step: Option<u32>,
    /// How often the job was requeued.
    pub restarts: u32,
    /// The nodes, in Slurm's order.
    pub nodes: Vec<String>,
    /// Tasks that were asked for, where Slurm says so.
    pub tasks: Option<u32>,
    /// Tasks a node that were asked for, where they were.
    pub tasks_per_node: Option<NonZeroU32>,
    /// GPUs of a node, where Slurm says so.
    pub gpus_on_node: Option<u32>,
    /// CPUs of a node: of the one with fewest.
    pub cpus_on_node: Option<NonZeroU32>,
}

/// Steps from here on are Slurm's own: the batch script, an interactive shell.
const FIRST_SPECIAL_STEP: u32 = 0xffff_0000;

/// States that a job does not leave, as squeue and scontrol write them (`JOB STATE CODES` of squeue's manual). All
/// others pass, and newer versions of Slurm have more of those: SIGNALING lasts while a signal is sent.
const ENDS: [&str; 12] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "TIMEOUT",
];

/// Has a job of this state ended?
pub fn is_end(state: &str) -> bool {
    ENDS.contains(&state)
}

impl SlurmJob {
    /// The job of this environment; `None` outside a job.
    ///
    /// # Errors
    /// A sentence where a variable of Slurm holds something else than it should.
    pub fn from(env: crate::env::Env) -> Result<Option<SlurmJob>, String> {
        let Some(id) = env("SLURM_JOB_ID") else {
            return Ok(None);
        };
        let number = |name: &str| env(name).and_then(|value| value.trim().parse::<u32>().ok());
        let list = env("SLURM_JOB_NODELIST").unwrap_or_default();
        let job = SlurmJob {
            id: id
                .trim()
                .parse()
                .map_err(|_| format!("SLURM_JOB_ID={id} is not a job number"))?,
            name: env("SLURM_JOB_NAME").unwrap_or_default(),
            step: number("SLURM_STEP_ID").filter(|step| *step < FIRST_SPECIAL_STEP),
            restarts: number("SLURM_RESTART_COUNT").unwrap_or(0),
            nodes: hosts::expand(&list)
                .map_err(|why| format!("SLURM_JOB_NODELIST={list}: {why}"))?,
            tasks: number("SLURM_NTASKS"),
            tasks_per_node: number("SLURM_NTASKS_PER_NODE").and_then(NonZeroU32::new),
            gpus_on_node: gpus_on_node(env),
            // The first is the job's, the second in a step the step's, which can be less.
            cpus_on_node: env("SLURM_JOB_CPUS_PER_NODE")
                .and_then(|counts| fewest(&counts))
                .or(number("SLURM_CPUS_ON_NODE"))
                .and_then(NonZeroU32::new),
        };
        Ok(Some(job))
    }

    /// The job's name and number, as results are called after it: characters that a path cannot hold become `_`.
    pub fn folder(&self) -> String {
        let clean = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name = if self.name.is_empty() {
            "pxnbench"
        } else {
            &self.name
        };
        format!(
            "{}-{}",
            name.chars().map(clean).collect::<String>(),
            self.id
        )
    }
}

/// What was asked for comes first: an exclusive job that asked for no GPU is shown all of them, and a step of a job that
/// asked for GPUs by task is shown those of its own tasks.
fn gpus_on_node(env: crate::env::Env) -> Option<u32> {
    // 4, gpu:4, h100:4, or several types with commas between.
    let counts = |text: String| {
        let count = |part: &str| part.trim().rsplit(':').next()?.parse::<u32>().ok();
        text.split(',').map(count).sum::<Option<u32>>()
    };
    let numbers = |list: String| (!list.trim().is_empty()).then(|| list.split(',').count() as u32);
    let by_task = || {
        let tasks = env("SLURM_TASKS_PER_NODE").and_then(|counts| fewest(&counts))?;
        Some(env("SLURM_GPUS_PER_TASK").and_then(counts)? * tasks)
    };
    env("SLURM_GPUS_PER_NODE")
        .and_then(counts)
        .or_else(by_task)
        .or_else(|| env("SLURM_GPUS_ON_NODE").and_then(counts))
        .or_else(|| env("SLURM_JOB_GPUS").and_then(numbers))
}

/// The smallest of counts as Slurm writes them for nodes: `8(x3),4`.
fn fewest(counts: &str) -> Option<u32> {
    counts
        .split(',')
        .map(|part| part.split('(').next().unwrap_or(part).trim().parse().ok())
        .min()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pairs: &[(&str, &str)]) -> Result<Option<SlurmJob>, String> {
        SlurmJob::from(&|name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    /// As Slurm 22.05 sets them in a batch script.
    const BATCH: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "17"),
        ("SLURM_JOB_NAME", "pxn a/b"),
        ("SLURM_JOB_NODELIST", "node[1-3],login1"),
        ("SLURM_JOB_CPUS_PER_NODE", "96(x3),64"),
        ("SLURM_CPUS_ON_NODE", "96"),
        ("SLURM_GPUS_ON_NODE", "8"),
        ("SLURM_RESTART_COUNT", "2"),
        ("SLURM_STEP_ID", "4294967291"),
    ];

    #[test]
    fn the_job_is_what_slurm_says() {
        let job = job(BATCH).expect("valid").expect("a job");
        assert_eq!((job.id, job.step, job.restarts), (17, None, 2));
        assert_eq!(job.nodes, ["node1", "node2", "node3", "login1"]);
        assert_eq!(
            (job.gpus_on_node, job.cpus_on_node.map(NonZeroU32::get)),
            (Some(8), Some(64))
        );
        assert_eq!((job.tasks, job.tasks_per_node), (None, None));
        assert_eq!(job.folder(), "pxn_a_b-17");
    }

    #[test]
    fn a_state_that_passes_is_no_end() {
        for passing in [
            "PENDING",
            "RUNNING",
            "COMPLETING",
            "SIGNALING",
            "STAGE_OUT",
            "REQUEUE_HOLD",
            "STOPPED",
            "",
        ] {
            assert!(!is_end(passing), "{passing}");
        }
        assert!(
            ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
                .into_iter()
                .all(is_end)
        );
    }

    #[test]
    fn outside_a_job_there_is_none() {
        assert_eq!(job(&[]), Ok(None));
        assert_eq!(
            job(&[("SLURM_JOB_NODELIST", "node1"), ("SLURM_CONF", "/x")]),
            Ok(None)
        );
    }

    #[test]
    fn what_slurm_would_never_say_is_refused() {
        let error = job(&[("SLURM_JOB_ID", "x")]).expect_err("no number");
        assert!(error.contains("SLURM_JOB_ID=x"), "{error}");
        let error =
            job(&[("SLURM_JOB_ID", "1"), ("SLURM_JOB_NODELIST", "node[1-")]).expect_err("no list");
        assert!(error.contains("SLURM_JOB_NODELIST=node[1-"), "{error}");
    }

    #[test]
    fn gpus_are_found_in_each_place() {
        let gpus = |pairs: &[(&str, &str)]| {
            let all: Vec<_> = [("SLURM_JOB_ID", "1"), ("SLURM_JOB_NODELIST", "n1")]
                .iter()
                .chain(pairs)
                .copied()
                .collect();
            job(&all).expect("valid").expect("a job").gpus_on_node
        };
        assert_eq!(gpus(&[]), None);
        assert_eq!(gpus(&[("SLURM_JOB_GPUS", "0,1,5")]), Some(3));
        assert_eq!(gpus(&[("SLURM_GPUS_PER_NODE", "h100:4")]), Some(4));
        assert_eq!(gpus(&[("SLURM_GPUS_PER_NODE", "a100:2,h100:4")]), Some(6));
        assert_eq!(
            gpus(&[("SLURM_GPUS_PER_NODE", "0"), ("SLURM_GPUS_ON_NODE", "8")]),
            Some(0)
        );
        assert_eq!(
            gpus(&[("SLURM_GPUS_ON_NODE", "2"), ("SLURM_JOB_GPUS", "0,1,2")]),
            Some(2)
        );
        let by_task = [
            ("SLURM_GPUS_PER_TASK", "1"),
            ("SLURM_TASKS_PER_NODE", "4(x2)"),
            ("SLURM_GPUS_ON_NODE", "1"),
        ];
        assert_eq!(gpus(&by_task), Some(4));
    }
}
