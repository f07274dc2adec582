//! `pxnbench launch --hosts`: ranks on hosts that no batch system gave, from one place. Over ssh
//! each host runs `pxnbench join`, and the ranks meet over TCP; what needs MPI is started by
//! mpirun.

mod call;
mod checks;
mod judge;
mod list;
mod mpirun;
mod plan;
mod remote;
mod sessions;
mod ssh;
mod verdict;

use self::plan::{Plan, usage};
pub use self::{
    list::{Host, HostList},
    plan::{HostsRequest, Over},
};
use super::{
    join::with_port,
    probe::{self, Report},
    shell,
};
use crate::{
    env,
    exit::{Code, Failure},
    run::backend::BackendChoice,
    slurm::hosts::compress,
    units::counted,
    world::tcp::{TOKEN, random_token},
};

/// Checks the hosts, starts the ranks, and waits for them.
///
/// # Errors
///
/// Returns an error if a host is not ready, with the cause and the remedy, or if the ranks cannot
/// be started.
pub fn run(request: &HostsRequest) -> anyhow::Result<Code> {
    super::refuse_many(&env::var)?;
    let plan = Plan::new(request)?;
    let needs_mpi = plan.backend == Some(BackendChoice::Host);
    if needs_mpi && request.over == Over::Ssh {
        let what = "ranks that are started over ssh meet over TCP, and the host backend needs \
                    MPI. Use --over mpirun";
        return Err(usage(what.into()));
    }
    let by_mpirun = needs_mpi || request.over == Over::Mpirun;
    match (by_mpirun, request.dry_run) {
        (true, true) => print_mpirun(&plan),
        (true, false) => mpirun::run(&plan),
        (false, true) => print_ssh(&plan),
        (false, false) => over_ssh(&plan, request.over),
    }
}

fn over_ssh(plan: &Plan, over: Over) -> anyhow::Result<Code> {
    let reports = checks::all(plan, &random_token()?)?;
    let has_gpus = reports.iter().any(|report| report.gpus > 0);
    if over == Over::Auto && plan.backend == Some(BackendChoice::Auto) && !has_gpus {
        say!("pxnbench: no host has a GPU, and host memory is measured over MPI: using mpirun");
        return mpirun::run(plan);
    }
    let ranks_per_node = ranks_per_node(plan, &reports)?;
    say!(
        "pxnbench: {} ({}), {} on each, over ssh; the ranks meet over TCP at {}",
        counted(plan.nodes(), "host"),
        compress(&plan.hosts.names()),
        counted(ranks_per_node, "rank"),
        with_port(&plan.master, plan.port),
    );
    let token = match env::var(TOKEN) {
        Some(token) if !token.is_empty() => token,
        _ => random_token()?,
    };
    sessions::run(plan, ranks_per_node, &token)
}

/// Returns the processes per host: as many as requested, otherwise one per GPU of the host that has
/// the fewest.
fn ranks_per_node(plan: &Plan, reports: &[Report]) -> anyhow::Result<u32> {
    if let Some(given) = plan.ranks_per_node {
        return Ok(given);
    }
    let names = plan.hosts.names().into_iter();
    let hosts = names.zip(reports.iter().map(|report| report.gpus));
    let Some(fewest) = probe::fewest_gpus(hosts) else {
        return Ok(1);
    };
    if fewest.gpus == 0 {
        let what = format!(
            "{} shows no GPU (/dev/nvidia0). Give --ranks-per-node",
            fewest.node
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    }
    if let Some(remark) = &fewest.remark {
        say!("pxnbench: {remark}");
    }
    Ok(plan.processes_with(&fewest))
}

/// Prints the commands that would start the ranks over ssh, so that a shell can run them as they
/// are.
fn print_ssh(plan: &Plan) -> anyhow::Result<Code> {
    let hosts = plan.hosts.names();
    for (node, host) in hosts.iter().enumerate() {
        let mut words = sessions::join_words(plan, node, plan.ranks_per_node);
        words.push("--".into());
        words.extend_from_slice(&plan.arguments);
        let words = sessions::over_ssh(plan, host, &words)?;
        print_line!("{} &", shell::joined(&words)?)?;
    }
    print_line!("wait")?;
    Ok(Code::Fine)
}

fn print_mpirun(plan: &Plan) -> anyhow::Result<Code> {
    print_line!("{}", shell::joined(&mpirun::command(plan)?)?)?;
    Ok(Code::Fine)
}
