//! The ranks of all hosts by mpirun, which has its own way to them. They meet over MPI.

use std::time::Duration;

use super::plan::Plan;
use crate::{
    exit::{Code, Failure},
    launch::{
        outcome::{self, WrittenEnd},
        probe::{self, FewestGpus, Report},
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
    let nodes = reports.iter().map(|report| (&*report.node, report.gpus));
    let fewest = probe::fewest_gpus(nodes);
    let ranks = ranks_per_node(plan, fewest.as_ref());
    let remark = fewest.and_then(|fewest| fewest.remark);
    if let Some(remark) = remark.filter(|_| plan.ranks_per_node.is_none()) {
        say!("pxnbench: {remark}");
    }
    say!(
        "pxnbench: {} ({}), {} on each, by mpirun; the ranks meet over MPI",
        counted(plan.nodes(), "host"),
        compress(&plan.hosts.names()),
        counted(ranks, "rank"),
    );
    let command = words(plan, family, ranks, &program(plan));
    let ended = process::run(&command, false)?;
    outcome::verdict(&ended, &WrittenEnd::default(), signal::received())
}

/// Returns the command that would start the ranks; with the ranks of hosts without GPUs if their
/// number is not known.
///
/// # Errors
/// Returns an error if there is no mpirun.
pub(super) fn command(plan: &Plan) -> anyhow::Result<Vec<String>> {
    let ranks = ranks_per_node(plan, None);
    Ok(words(plan, family()?, ranks, &program(plan)))
}

/// Returns the program of the ranks with its arguments.
fn program(plan: &Plan) -> Vec<String> {
    let mut words = vec![plan.program.clone()];
    words.extend_from_slice(&plan.arguments);
    words
}

fn family() -> anyhow::Result<MpiFamily> {
    let version = ["mpirun".to_owned(), "--version".to_owned()];
    let tried = process::try_out(&version, false, Duration::from_secs(20))?;
    if !tried.ok {
        let why = tried.why("it does not answer");
        let what = format!(
            "mpirun cannot be used: {why}. Load an MPI, such as with module load openmpi, or use \
             --over ssh"
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
    let names = plan.variables.iter().map(|(name, _)| name.clone());
    let names: Vec<String> = names.collect();
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
    let why = match reports.len() as u32 == nodes && tried.late.is_none() {
        true => "each sees only itself".to_owned(),
        false => tried.why("they did not start"),
    };
    let what = format!(
        "mpirun cannot start one rank on each of {}: {why}. Look at mpirun --host {} hostname, or \
         use --over ssh",
        compress(&plan.hosts.names()),
        plan.hosts.names().join(",")
    );
    Err(Failure::on_all_ranks(Code::Launch, what))
}

/// Returns the processes per host: as many as requested, otherwise one per GPU of the host that has
/// the fewest, if it is known.
fn ranks_per_node(plan: &Plan, fewest: Option<&FewestGpus>) -> u32 {
    match (plan.ranks_per_node, fewest) {
        (Some(ranks), _) => ranks,
        (None, Some(fewest)) if fewest.gpus > 0 => plan.processes_with(fewest),
        (None, _) => WITHOUT_GPUS,
    }
}
