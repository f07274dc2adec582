//! The Slurm job around the processes.

use super::{check::Check, host::format_bytes, outcome::CheckOutcome};
use crate::{facts::ranks::RankFacts, units::counted};

pub(super) const CHECKS: &[Check] = &[
    Check::in_slurm(
        "slurm.cpus-per-task",
        "the step has the processors that the job requested",
        cpus_per_task,
    ),
    Check::in_slurm("slurm.leaked", "no variables of another job", leaked),
    Check::in_slurm(
        "slurm.gpu-bind",
        "Slurm does not hide GPUs from tasks",
        gpu_bind,
    ),
    Check::across_job(
        "slurm.kill",
        "a task that fails ends the step",
        kill_on_bad_exit,
    ),
    Check::in_slurm("slurm.memory", "the job has the node's memory", memory),
    Check::in_slurm("slurm.export", "the environment reaches the tasks", export),
];

fn cpus_per_task(process: &RankFacts) -> CheckOutcome {
    let requested = process.env_number("SLURM_CPUS_PER_TASK");
    let (Some(requested), Some(cpus)) = (requested, &process.health.cpus.value) else {
        return CheckOutcome::not_applicable("SLURM_CPUS_PER_TASK is not set");
    };
    if cpus.len() as u64 >= requested {
        return CheckOutcome::ok(format!("{} of {requested}", cpus.len()));
    }
    CheckOutcome::warning(
        format!(
            "the job requested {requested} processors per task, but this task has {}",
            cpus.len()
        ),
        "srun --cpus-per-task=$SLURM_CPUS_PER_TASK: Slurm 22.05 to 23.02 do not pass it on",
    )
}

fn leaked(process: &RankFacts) -> CheckOutcome {
    let tres_cpus = process.env("SLURM_TRES_PER_TASK").and_then(cpus_of_tres);
    let cpus = process.env("SLURM_CPUS_PER_TASK");
    if let (Some(tres_cpus), Some(cpus)) = (tres_cpus, cpus)
        && tres_cpus != cpus
    {
        return CheckOutcome::warning(
            format!("SLURM_TRES_PER_TASK says cpu={tres_cpus}, but SLURM_CPUS_PER_TASK={cpus}"),
            "submit from a clean shell (env -u SLURM_CPUS_PER_TASK -u SLURM_TRES_PER_TASK sbatch \
             …): a job around this one set these variables",
        );
    }
    // srun counts the tasks of its own step, so another number comes from the job around. Under
    // mpirun the variable is that of the step of mpirun's helpers, which does not count.
    if let Some(launched) = process.launched()
        && launched.variable == "SLURM_STEP_NUM_TASKS"
        && process.world > 1
        && process.world != launched.count
    {
        return CheckOutcome::warning(
            format!(
                "SLURM_STEP_NUM_TASKS={}, but the job has {}",
                launched.count,
                counted(process.world as usize, "rank")
            ),
            "unset the SLURM_* variables that the launcher did not set: they belong to another \
             step",
        );
    }
    CheckOutcome::ok("no contradiction")
}

/// Returns the processors in a list such as `cpu=4,gres/gpu=1`.
fn cpus_of_tres(tres: &str) -> Option<&str> {
    tres.split(',')
        .find_map(|part| part.strip_prefix("cpu=").or(part.strip_prefix("cpu:")))
}

fn gpu_bind(process: &RankFacts) -> CheckOutcome {
    let mut is_unbound = false;
    for name in ["SLURM_GPU_BIND", "SLURM_TRES_BIND"] {
        match process.env(name) {
            Some(value) if value.contains("none") => is_unbound = true,
            Some(value) => return bound_by(name, value),
            None => {}
        }
    }
    match process.env("SLURM_GPUS_PER_TASK") {
        Some(value) if !is_unbound => bound_by("SLURM_GPUS_PER_TASK", value),
        _ => CheckOutcome::ok("not bound"),
    }
}

fn bound_by(name: &str, value: &str) -> CheckOutcome {
    CheckOutcome::warning(
        format!("{name}={value}: each task is bound to its own GPUs"),
        "srun --gpu-bind=none with --gpus-per-node: NCCL must see all GPUs of a node to use \
         NVLink and PXN",
    )
}

/// Checks KillOnBadExit: the environment of a step tells it; otherwise the site's configuration
/// does, which one rank asked for.
fn kill_on_bad_exit(job: &[RankFacts]) -> CheckOutcome {
    if !job.iter().any(RankFacts::is_in_slurm_job) {
        return CheckOutcome::not_applicable("this is not a Slurm job");
    }
    let mut values = job
        .iter()
        .filter_map(|process| process.env("SLURM_KILL_BAD_EXIT"));
    match values.next() {
        Some("0") => return others_wait("SLURM_KILL_BAD_EXIT=0"),
        Some(value) => return CheckOutcome::ok(format!("SLURM_KILL_BAD_EXIT={value}")),
        None => {}
    }
    if job.iter().any(was_started_by_mpirun) {
        return CheckOutcome::not_applicable("mpirun started the ranks, and ends them itself");
    }
    let mut site_values = job
        .iter()
        .filter_map(|process| process.health.kill_on_bad_exit.value);
    match site_values.next() {
        Some(true) => CheckOutcome::ok("the site's KillOnBadExit=1"),
        Some(false) => {
            others_wait("SLURM_KILL_BAD_EXIT is not set, and the site's KillOnBadExit=0")
        }
        None => CheckOutcome::not_applicable(format!(
            "SLURM_KILL_BAD_EXIT is not set, and the site's KillOnBadExit is unknown: {}",
            job[0].health.kill_on_bad_exit.why
        )),
    }
}

fn was_started_by_mpirun(process: &RankFacts) -> bool {
    let launched = process.launched();
    launched.is_some_and(|launched| launched.launcher == "mpirun")
}

fn others_wait(cause: &str) -> CheckOutcome {
    CheckOutcome::warning(
        format!("{cause}: when a task fails the others wait until the time limit"),
        "srun --kill-on-bad-exit=1, as pxnbench launch does",
    )
}

/// The memory of the node that Slurm gave the job.
struct GivenMemory {
    /// MiB; 0 stands for all of it.
    mib: u64,
    /// The variables that say so.
    source: String,
}

fn given_memory(process: &RankFacts) -> Option<GivenMemory> {
    if let Some(mib) = process.env_number("SLURM_MEM_PER_NODE") {
        let source = "SLURM_MEM_PER_NODE".into();
        return Some(GivenMemory { mib, source });
    }
    memory_per_unit(process, "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE")
        .or_else(|| memory_per_unit(process, "SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"))
}

/// Returns the memory from a variable with the memory per unit and one with the number of units.
fn memory_per_unit(process: &RankFacts, per_unit: &str, units: &str) -> Option<GivenMemory> {
    let mib = process.env_number(per_unit)?;
    if mib == 0 {
        let source = per_unit.to_owned();
        return Some(GivenMemory { mib, source });
    }
    let count = process.env_number(units)?;
    Some(GivenMemory {
        mib: mib.saturating_mul(count),
        source: format!("{per_unit}={mib} and {units}={count}"),
    })
}

fn memory(process: &RankFacts) -> CheckOutcome {
    let given = given_memory(process);
    let (Some(given), Some(node_bytes)) = (given, process.health.memory.value) else {
        return CheckOutcome::not_applicable("Slurm does not say how much memory the job has");
    };
    if given.mib == 0 {
        return CheckOutcome::ok("all");
    }
    let bytes = given.mib.saturating_mul(1 << 20);
    let share = format!("{} of {}", format_bytes(bytes), format_bytes(node_bytes));
    if bytes >= node_bytes / 2 {
        return CheckOutcome::ok(share);
    }
    CheckOutcome::warning(
        format!("the job has {share} ({})", given.source),
        "request all with --mem=0: pinned buffers and page cache count, and beyond the limit the \
         job is killed without any message from NCCL",
    )
}

fn export(process: &RankFacts) -> CheckOutcome {
    let Some(value) = process.env("SLURM_EXPORT_ENV") else {
        return CheckOutcome::ok("not restricted");
    };
    if !["none", "nil"].contains(&value.to_ascii_lowercase().as_str()) {
        return CheckOutcome::ok(format!("SLURM_EXPORT_ENV={value}"));
    }
    CheckOutcome::warning(
        format!("SLURM_EXPORT_ENV={value}: the script's NCCL settings do not reach the tasks"),
        "export SLURM_EXPORT_ENV=ALL in the script, or srun --export=ALL",
    )
}
