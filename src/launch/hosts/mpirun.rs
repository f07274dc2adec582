//! The ranks of all hosts by mpirun, which has its own way to them. They meet over MPI.

use std::time::Duration;

use super::plan::Plan;
use crate::{
    exit::{Code, Failure},
    launch::{
        context::exported,
        outcome,
        probe::{self, Report},
        process::{self, Trial},
    },
    slurm::{
        hosts::compress,
        step::{Launcher, MpiFamily, SlurmStep, StepShape},
    },
    units::counted,
    world::signal,
};

/// A host that has not reported by then is not ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Ranks per host without GPUs: the fewest that also exchange data within a host.
const WITHOUT_GPUS: u32 = 2;

/// Checks the hosts with one rank on each, starts the ranks, and returns the exit code.
///
/// # Errors
/// Returns an error if a host is not ready, or if a rank dies.
pub(super) fn run(plan: &Plan) -> anyhow::Result<Code> {
    let family = family()?;
    let probe = [plan.program.clone(), "probe".into()];
    let tried = process::try_out(&words(plan, family, 1, &probe), false, LIMIT)?;
    let reports = evaluate(&tried, plan)?;
    let ranks = ranks_per_node(plan, &reports);
    say!(
        "pxnbench: {} ({}), {} on each, by mpirun; the ranks meet over MPI",
        counted(plan.nodes(), "host"),
        compress(&plan.hosts.names()),
        counted(ranks, "rank"),
    );
    let mut program = vec![plan.program.clone()];
    program.extend_from_slice(&plan.arguments);
    let ended = process::run(&words(plan, family, ranks, &program), false)?;
    outcome::verdict(&ended, None, signal::received())
}

/// Returns the command that would start the ranks; with the ranks of hosts without GPUs if their number is not known.
///
/// # Errors
/// Returns an error if there is no mpirun.
pub(super) fn command(plan: &Plan) -> anyhow::Result<Vec<String>> {
    let mut program = vec![plan.program.clone()];
    program.extend_from_slice(&plan.arguments);
    Ok(words(plan, family()?, ranks_per_node(plan, &[]), &program))
}

fn family() -> anyhow::Result<MpiFamily> {
    let version = ["mpirun".to_owned(), "--version".to_owned()];
    let tried = process::try_out(&version, false, Duration::from_secs(20))?;
    if !tried.ok {
        let why = process::telling(&tried.stderr).unwrap_or("it says nothing");
        let what = format!(
            "mpirun cannot be used: {why}. Load an MPI, such as with module load openmpi, or use --over ssh"
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    }
    Ok(MpiFamily::recognize(&tried.stdout))
}

/// Returns the command line with `ranks` ranks per host.
fn words(plan: &Plan, family: MpiFamily, ranks: u32, program: &[String]) -> Vec<String> {
    let step = SlurmStep {
        shape: StepShape {
            nodes: plan.nodes(),
            tasks_per_node: ranks,
            cpus_per_task: 1,
        },
        inside_step: false,
        container: None,
        program,
    };
    let names = exported().into_iter();
    let names: Vec<String> = names.filter(|name| name != "NCCL_HOSTID").collect();
    let mut words = step.command(&Launcher::Mpirun(family), &names);
    let hosts = plan.hosts.names();
    let list = match family {
        MpiFamily::OpenMpi => {
            let hosts: Vec<String> = hosts.iter().map(|host| format!("{host}:{ranks}")).collect();
            ["--host".to_owned(), hosts.join(",")]
        }
        MpiFamily::Mpich | MpiFamily::Other => ["-hosts".to_owned(), hosts.join(",")],
    };
    words.splice(1..1, list);
    words
}

/// Returns the reports of the hosts, or why mpirun does not reach them.
fn evaluate(tried: &Trial, plan: &Plan) -> anyhow::Result<Vec<Report>> {
    let reports = probe::reports(&tried.stdout);
    let nodes = plan.nodes();
    let see_each_other = reports.iter().all(|report| report.size == nodes);
    if tried.ok && reports.len() as u32 == nodes && see_each_other {
        return Ok(reports);
    }
    let why = match (tried.late, process::telling(&tried.stderr)) {
        (Some(limit), _) => format!("they did not start within {} s", limit.as_secs()),
        (None, _) if reports.len() as u32 == nodes => "each sees only itself".to_owned(),
        (None, Some(line)) => line.trim_start_matches("pxnbench: ").to_owned(),
        (None, None) => "they did not start".into(),
    };
    let what = format!(
        "mpirun cannot start one rank on each of {}: {why}. Look at mpirun --host {} hostname, or use --over ssh",
        compress(&plan.hosts.names()),
        plan.hosts.names().join(",")
    );
    Err(Failure::on_all_ranks(Code::Launch, what))
}

fn ranks_per_node(plan: &Plan, reports: &[Report]) -> u32 {
    let fewest = reports.iter().map(|report| report.gpus).min();
    match (plan.ranks_per_node, fewest.unwrap_or(0)) {
        (Some(ranks), _) => ranks,
        (None, 0) => WITHOUT_GPUS,
        (None, gpus) => (gpus / plan.gpus_per_process).max(1),
    }
}
