//! The Slurm job, from the environment.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::hosts;
use crate::{env::Env, visible::excerpt};

/// A Slurm job, as the environment describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmJob {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The number of the step that this process is in; none in the batch script and in an
    /// interactive shell.
    pub step: Option<u32>,
    /// The number of times the job was requeued.
    pub restarts: u32,
    /// The nodes, in Slurm's order.
    pub nodes: Vec<String>,
    /// The tasks that were requested, if Slurm reports them.
    pub tasks: Option<u32>,
    /// The tasks per node that were requested, if they were.
    pub tasks_per_node: Option<NonZeroU32>,
    /// The GPUs per node, if Slurm reports them.
    pub gpus_on_node: Option<u32>,
    /// The CPUs of the node with the fewest.
    pub cpus_on_node: Option<NonZeroU32>,
}

/// The first number of Slurm's own steps: the batch script, an interactive shell.
const FIRST_SPECIAL_STEP: u32 = 0xffff_0000;

/// The final states of a job, as squeue and scontrol write them (`JOB STATE CODES` in squeue's
/// manual). All others are transient, and newer versions of Slurm have more of those: SIGNALING
/// lasts while a signal is sent.
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

/// Returns whether a job in this state has ended.
pub fn is_end(state: &str) -> bool {
    ENDS.contains(&state)
}

impl SlurmJob {
    /// Reads the job from the environment; `None` outside a job.
    ///
    /// # Errors
    /// Returns an error if a variable of Slurm has an unexpected value.
    pub fn from(env: Env) -> Result<Option<SlurmJob>, String> {
        let Some(id) = env("SLURM_JOB_ID") else {
            return Ok(None);
        };
        let list = env("SLURM_JOB_NODELIST").unwrap_or_default();
        let step = number(env, "SLURM_STEP_ID");
        let job = SlurmJob {
            id: id
                .trim()
                .parse()
                .map_err(|_| format!("SLURM_JOB_ID={} is not a job number", excerpt(&id)))?,
            name: env("SLURM_JOB_NAME").unwrap_or_default(),
            step: step.filter(|step| *step < FIRST_SPECIAL_STEP),
            restarts: number(env, "SLURM_RESTART_COUNT").unwrap_or(0),
            nodes: hosts::expand(&list)
                .map_err(|why| format!("SLURM_JOB_NODELIST={}: {why}", excerpt(&list)))?,
            tasks: number(env, "SLURM_NTASKS"),
            tasks_per_node: number(env, "SLURM_NTASKS_PER_NODE").and_then(NonZeroU32::new),
            gpus_on_node: gpus_on_node(env),
            cpus_on_node: cpus_on_node(env).and_then(NonZeroU32::new),
        };
        Ok(Some(job))
    }

    /// Returns the job's name and number, after which results are named: characters that a path
    /// cannot hold become `_`.
    pub fn folder(&self) -> String {
        let name = if self.name.is_empty() {
            "pxnbench"
        } else {
            &self.name
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = name.replace(|c| !is_allowed(c), "_");
        format!("{name}-{}", self.id)
    }
}

fn number(env: Env, name: &str) -> Option<u32> {
    env(name)?.trim().parse().ok()
}

/// Returns the CPUs of the node with the fewest. Within a step, `SLURM_CPUS_ON_NODE` counts those
/// of the step, which can be fewer than those of the job.
fn cpus_on_node(env: Env) -> Option<u32> {
    let of_job = env("SLURM_JOB_CPUS_PER_NODE").and_then(|counts| fewest(&counts));
    of_job.or_else(|| number(env, "SLURM_CPUS_ON_NODE"))
}

/// Returns the GPUs of a node. What was requested comes first: an exclusive job that requested no
/// GPU sees all of them, and a step of a job that requested GPUs by task sees those of its own
/// tasks.
fn gpus_on_node(env: Env) -> Option<u32> {
    if let Some(gpus) = env("SLURM_GPUS_PER_NODE").and_then(|counts| sum(&counts)) {
        return Some(gpus);
    }
    if let Some(gpus) = gpus_by_task(env) {
        return Some(gpus);
    }
    if let Some(gpus) = env("SLURM_GPUS_ON_NODE").and_then(|counts| sum(&counts)) {
        return Some(gpus);
    }
    let indices = env("SLURM_JOB_GPUS")?;
    (!indices.trim().is_empty()).then(|| indices.split(',').count() as u32)
}

fn gpus_by_task(env: Env) -> Option<u32> {
    let tasks = fewest(&env("SLURM_TASKS_PER_NODE")?)?;
    let gpus = sum(&env("SLURM_GPUS_PER_TASK")?)?;
    gpus.checked_mul(tasks)
}

/// Adds up counts such as `4`, `gpu:4`, `h100:4`, or several types separated by commas.
fn sum(counts: &str) -> Option<u32> {
    let mut sum = 0_u32;
    for part in counts.split(',') {
        let count = part.trim().rsplit(':').next()?;
        sum = sum.checked_add(count.parse().ok()?)?;
    }
    Some(sum)
}

/// Returns the smallest of Slurm's counts per node, such as `8(x3),4`; `None` if one is not a
/// number.
fn fewest(counts: &str) -> Option<u32> {
    let mut fewest = u32::MAX;
    for part in counts.split(',') {
        let count = part.split('(').next().unwrap_or(part);
        fewest = fewest.min(count.trim().parse().ok()?);
    }
    Some(fewest)
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
    fn a_transient_state_is_no_end() {
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
    fn unexpected_values_are_refused() {
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
