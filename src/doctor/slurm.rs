//! The Slurm job around.

use super::{Check, CheckOutcome, RankFacts, all, host::rounded, in_slurm};

pub(super) const CHECKS: &[Check] = &[
    in_slurm(
        "slurm.cpus-per-task",
        "the step has the processors that the job asked for",
        cpus_per_task,
    ),
    in_slurm("slurm.leaked", "no variables of another job", leaked),
    in_slurm(
        "slurm.gpu-bind",
        "Slurm does not hide GPUs from tasks",
        gpu_bind,
    ),
    all("slurm.kill", "a task that fails ends the step", kill),
    in_slurm("slurm.memory", "the job has the node's memory", memory),
    in_slurm("slurm.export", "the environment reaches the tasks", export),
];

fn cpus_per_task(one: &RankFacts) -> CheckOutcome {
    let (Some(asked), Some(mine)) = (one.number("SLURM_CPUS_PER_TASK"), &one.health.cpus.value)
    else {
        return CheckOutcome::none("SLURM_CPUS_PER_TASK is not set");
    };
    match (mine.len() as u64) < asked {
        true => CheckOutcome::warning(
            format!(
                "the job asked for {asked} processors a task, and this one has {}",
                mine.len()
            ),
            "srun --cpus-per-task=$SLURM_CPUS_PER_TASK: Slurm 22.05 to 23.02 do not pass it on",
        ),
        false => CheckOutcome::ok(format!("{} of {asked}", mine.len())),
    }
}

fn leaked(one: &RankFacts) -> CheckOutcome {
    // srun counts the tasks of its own step; a number that cannot be comes from the job around. Under mpirun it is that of
    // the step of mpirun's helpers.
    let step = one
        .started()
        .filter(|(.., variable)| *variable == "SLURM_STEP_NUM_TASKS")
        .map(|(started, ..)| started);
    let per_task = one.env("SLURM_TRES_PER_TASK");
    let cpus = one.env("SLURM_CPUS_PER_TASK");
    let of_tres = per_task.and_then(|tres| {
        tres.split(',')
            .find_map(|one| one.strip_prefix("cpu=").or(one.strip_prefix("cpu:")))
    });
    match (of_tres, cpus, step) {
        (Some(tres), Some(cpus), _) if tres != cpus => CheckOutcome::warning(
            format!("SLURM_TRES_PER_TASK says cpu={tres} and SLURM_CPUS_PER_TASK={cpus}"),
            "variables of a job around this one: submit from a clean shell (env -u SLURM_CPUS_PER_TASK -u SLURM_TRES_PER_TASK sbatch …)",
        ),
        (_, _, Some(step)) if one.world > 1 && one.world != step => CheckOutcome::warning(
            format!(
                "SLURM_STEP_NUM_TASKS={step}, and the job has {} ranks",
                one.world
            ),
            "these are variables of another step: unset SLURM_* that the launcher did not set",
        ),
        _ => CheckOutcome::ok("nothing contradicts"),
    }
}

fn gpu_bind(one: &RankFacts) -> CheckOutcome {
    let binds = |name: &str| {
        one.env(name)
            .filter(|value| !value.contains("none"))
            .map(|value| format!("{name}={value}"))
    };
    let per_task = one
        .env("SLURM_GPUS_PER_TASK")
        .map(|value| format!("SLURM_GPUS_PER_TASK={value}"));
    let none = one
        .env("SLURM_GPU_BIND")
        .is_some_and(|value| value.contains("none"))
        || one
            .env("SLURM_TRES_BIND")
            .is_some_and(|value| value.contains("none"));
    match binds("SLURM_GPU_BIND")
        .or_else(|| binds("SLURM_TRES_BIND"))
        .or(per_task.filter(|_| !none))
    {
        Some(set) => CheckOutcome::warning(
            format!("{set}: each task is bound to its own GPUs"),
            "srun --gpu-bind=none with --gpus-per-node: NCCL must see a node's GPUs to use NVLink and PXN",
        ),
        None => CheckOutcome::ok("not bound"),
    }
}

/// The environment of a step says it, else the site's configuration, which one rank has asked for.
fn kill(job: &[RankFacts]) -> CheckOutcome {
    if job.iter().all(|one| one.env("SLURM_JOB_ID").is_none()) {
        return CheckOutcome::none("this is not a Slurm job");
    }
    let waits = |what: &str| {
        let evidence = format!("{what}: when a task fails the others wait until the time limit");
        CheckOutcome::warning(
            evidence,
            "srun --kill-on-bad-exit=1, as pxnbench launch does",
        )
    };
    match job.iter().find_map(|one| one.env("SLURM_KILL_BAD_EXIT")) {
        Some("0") => return waits("SLURM_KILL_BAD_EXIT=0"),
        Some(value) => return CheckOutcome::ok(format!("SLURM_KILL_BAD_EXIT={value}")),
        None => {}
    }
    if job
        .iter()
        .any(|one| one.started().is_some_and(|(_, who, _)| who == "mpirun"))
    {
        return CheckOutcome::none("mpirun started the ranks, and ends them itself");
    }
    match job.iter().find_map(|one| one.health.kill_on_bad_exit.value) {
        Some(true) => CheckOutcome::ok("the site's KillOnBadExit=1"),
        Some(false) => waits("SLURM_KILL_BAD_EXIT is not set, and the site's KillOnBadExit=0"),
        None => {
            let why = job
                .first()
                .map_or("", |one| &one.health.kill_on_bad_exit.why);
            CheckOutcome::none(format!(
                "SLURM_KILL_BAD_EXIT is not set, and the site's KillOnBadExit is not known: {why}"
            ))
        }
    }
}

/// MiB of the node that the job has, and how Slurm says so; 0 is all of them.
fn given(one: &RankFacts) -> Option<(u64, String)> {
    if let Some(mib) = one.number("SLURM_MEM_PER_NODE") {
        return Some((mib, "SLURM_MEM_PER_NODE".into()));
    }
    let of = |per: &str, count: &str| {
        let (mib, count_here) = (one.number(per)?, one.number(count));
        match (mib, count_here) {
            (0, _) => Some((0, per.to_owned())),
            (mib, Some(units)) => Some((
                mib.saturating_mul(units),
                format!("{per}={mib} and {count}={units}"),
            )),
            _ => None,
        }
    };
    of("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE")
        .or_else(|| of("SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"))
}

fn memory(one: &RankFacts) -> CheckOutcome {
    let (Some((given, how)), Some(all)) = (given(one), one.health.memory.value) else {
        return CheckOutcome::none("Slurm does not say how much memory the job has");
    };
    let given = given.saturating_mul(1 << 20);
    // 0 is all of it.
    match given > 0 && given < all / 2 {
        true => CheckOutcome::warning(
            format!("the job has {} of {} ({how})", rounded(given), rounded(all)),
            "--mem=0 asks for all: pinned buffers and page cache count, and the job is killed without any message of NCCL's",
        ),
        false => CheckOutcome::ok(if given == 0 {
            "all".to_owned()
        } else {
            format!("{} of {}", rounded(given), rounded(all))
        }),
    }
}

fn export(one: &RankFacts) -> CheckOutcome {
    match one.env("SLURM_EXPORT_ENV") {
        Some(value) if value.eq_ignore_ascii_case("none") || value.eq_ignore_ascii_case("nil") => {
            CheckOutcome::warning(
                format!(
                    "SLURM_EXPORT_ENV={value}: NCCL's settings of the script do not reach the tasks"
                ),
                "export SLURM_EXPORT_ENV=ALL in the script, or srun --export=ALL",
            )
        }
        Some(value) => CheckOutcome::ok(format!("SLURM_EXPORT_ENV={value}")),
        None => CheckOutcome::ok("not restricted"),
    }
}
