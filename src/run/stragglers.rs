//! The search for stragglers: which cases it observes, and what its result means for ranks and
//! nodes.

use super::{context::RunContext, session::Session};
use crate::{
    backend::Backend,
    collective::{BufferMode, Case, Collective},
    exit::{Code, Failure},
    record::{LateNode, LatenessRow, ProcessMeta, Straggler, StragglerReport},
    stats::{
        lateness::{CaseLateness, Finding, Late, Lateness},
        stragglers,
    },
    sweep::{
        plan::Plan,
        stragglers::{StragglerSearch, cannot_tell},
    },
};

/// Sizes of a collective that are observed.
const MOST_SIZES: usize = 8;

/// Rows of `stragglers.csv`; with more ranks, fewer sizes are observed.
const MOST_ROWS: usize = 100_000;

/// Looks for stragglers in cases of `plan`, notes them in the session, and returns what to say of
/// them. Every process makes the same call.
///
/// # Errors
///
/// Returns an error if the backend fails. Other ranks may have no error, so the caller must end the
/// job.
pub(super) fn search(
    context: &RunContext,
    plan: &Plan,
    backend: &mut dyn Backend,
    session: &Session,
) -> anyhow::Result<Vec<String>> {
    let mut report = StragglerReport::default();
    let mut cases = Vec::new();
    match impossible(context) {
        Some(why) => report.cannot_tell.push(why.into()),
        None => cases = cases_to_observe(context, plan, backend, &mut report.cannot_tell),
    }
    let search = StragglerSearch {
        timeout: context.request.timeout,
        delay: context.request.inject_delay.clone(),
        seed: 1,
    };
    let observed = search.run(&cases, context.world, backend)?;
    judge(
        &mut report,
        &cases[..observed.len()],
        &observed,
        &session.run().processes,
    );
    let sentences = report.sentences();
    session.change_run(|run| run.stragglers = Some(report));
    Ok(sentences)
}

/// Refuses a delay of a process that does not run.
///
/// # Errors
///
/// Returns an error that every process has.
pub(super) fn refuse_unknown_rank(context: &RunContext) -> anyhow::Result<()> {
    let processes = context.world.size();
    match &context.request.inject_delay {
        Some(delay) if delay.rank >= processes => {
            let rank = delay.rank;
            let last = processes - 1;
            let what = format!("there is no process {rank} to delay. Name one from 0 to {last}");
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
        _ => Ok(()),
    }
}

/// Returns why no case can be observed here.
fn impossible(context: &RunContext) -> Option<&'static str> {
    if !context.backend.measures() {
        return Some("times are computed, so no rank is late");
    }
    if context.group().is_some() {
        return Some("several communicators run at the same time");
    }
    (context.world.size() < 2)
        .then_some("there is only one process, and the ranks of a process start together")
}

/// Returns cases of `plan`, the same on every process: of each collective some sizes of the first
/// series, out of place. Notes the collectives whose times tell nothing.
fn cases_to_observe(
    context: &RunContext,
    plan: &Plan,
    backend: &dyn Backend,
    cannot: &mut Vec<String>,
) -> Vec<Case> {
    let mut seen: Vec<Collective> = Vec::new();
    let mut by_collective = Vec::new();
    for series in &plan.series {
        if seen.contains(&series.collective) {
            continue;
        }
        seen.push(series.collective);
        let mut cases: Vec<Case> = series.cases.clone();
        cases.retain(|case| {
            let is_first = case.buffer_mode == BufferMode::OutOfPlace && case.size().0 > 0;
            is_first && backend.supports(case).is_ok()
        });
        match cases.first().map(cannot_tell) {
            None => {}
            Some(Some(why)) => cannot.push(format!("{}: {why}", series.collective)),
            Some(None) => by_collective.push(cases),
        }
    }
    let processes = context.world.size() as usize;
    let rows_per_size = (processes * by_collective.len()).max(1);
    let sizes = (MOST_ROWS / rows_per_size).clamp(1, MOST_SIZES);
    by_collective
        .iter()
        .flat_map(|cases| spread_over(cases, sizes))
        .collect()
}

/// Returns `count` of `cases`, evenly spread, among them the last.
fn spread_over(cases: &[Case], count: usize) -> Vec<Case> {
    let last = cases.len().saturating_sub(1);
    if cases.len() <= count {
        return cases.to_vec();
    }
    if count < 2 {
        return vec![cases[last]];
    }
    let positions = (0..count).map(|index| index * last / (count - 1));
    positions.map(|position| cases[position]).collect()
}

/// Adds to `report` what `observed` tells; `processes` are the ranks of the run.
fn judge(
    report: &mut StragglerReport,
    cases: &[Case],
    observed: &[CaseLateness],
    processes: &[ProcessMeta],
) {
    let members = observed.first().map_or(1, |first| first.ranks.len());
    let ranks_per_process = (processes.len() / members.max(1)).max(1);
    let units: Vec<&ProcessMeta> = processes.iter().step_by(ranks_per_process).collect();
    let found = stragglers(observed);
    report.cases = observed.len() as u32;
    report.operations = observed.iter().map(|case| u64::from(case.iterations)).sum();
    for late in [Late::Arrival, Late::Transfer] {
        for (process, unit) in units.iter().enumerate() {
            let of_rank: Vec<Finding> = found
                .iter()
                .filter(|found| found.rank == process && found.late == late)
                .copied()
                .collect();
            report
                .stragglers
                .extend(
                    straggler(&of_rank, cases, observed, unit).map(|straggler| Straggler {
                        ranks: ranks_per_process as u32,
                        ..straggler
                    }),
                );
        }
    }
    report.nodes = late_nodes(&report.stragglers, &units);
    for (index, (case, lateness)) in cases.iter().zip(observed).enumerate() {
        for (process, unit) in units.iter().enumerate() {
            let of_row = found
                .iter()
                .filter(|found| found.case == index && found.rank == process);
            let late = of_row.map(|found| found.late).collect();
            report.rows.push(row(case, lateness, process, unit, late));
        }
    }
}

/// Returns the straggler that the findings on one rank make, all of one kind; `None` if there is no
/// finding.
fn straggler(
    findings: &[Finding],
    cases: &[Case],
    observed: &[CaseLateness],
    unit: &ProcessMeta,
) -> Option<Straggler> {
    let share = |found: &Finding| {
        evidence(observed, found).typical_us
            / observed[found.case].operation_us.max(f64::MIN_POSITIVE)
    };
    let worst = findings
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let case = &cases[worst.case];
    let lateness = evidence(observed, worst);
    let sizes = findings
        .iter()
        .map(|found| &cases[found.case])
        .filter(|other| other.collective == case.collective)
        .map(|other| other.size());
    let iterations = observed[worst.case].iterations;
    Some(Straggler {
        rank: unit.rank,
        ranks: 1,
        host: unit.host.clone(),
        node: unit.node,
        device: device(unit),
        late: worst.late,
        cases: findings.len() as u32,
        collective: case.collective,
        size: case.size(),
        smallest: sizes.clone().min()?,
        largest: sizes.max()?,
        late_us: lateness.typical_us,
        late_pct: share(worst) * 100.0,
        iterations_pct: percent_of(lateness.late, iterations),
        p_value: lateness.p_value,
    })
}

fn evidence(observed: &[CaseLateness], found: &Finding) -> Lateness {
    let rank = observed[found.case].ranks[found.rank];
    match found.late {
        Late::Arrival => rank.arrival,
        Late::Transfer => rank.transfer,
    }
}

fn row(
    case: &Case,
    lateness: &CaseLateness,
    process: usize,
    unit: &ProcessMeta,
    late: Vec<Late>,
) -> LatenessRow {
    let rank = &lateness.ranks[process];
    LatenessRow {
        case: *case,
        rank: unit.rank,
        host: unit.host.clone(),
        node: unit.node,
        device: device(unit),
        iterations: lateness.iterations,
        operation_us: lateness.operation_us,
        arrival_us: rank.arrival.mean_us,
        arrival_pct: percent_of(rank.arrival.late, lateness.iterations),
        transfer_us: rank.transfer.mean_us,
        transfer_pct: percent_of(rank.transfer.late, lateness.iterations),
        late,
    }
}

fn percent_of(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

/// Returns what a rank drives: `GPU 3 0000:18:00`, or `host memory`.
fn device(unit: &ProcessMeta) -> String {
    if unit.device.uuid.is_empty() {
        return unit.device.bus.clone();
    }
    format!("GPU {} {}", unit.device.index, unit.device.bus)
}

/// Returns the nodes of which more than half of the processes are late in one way, if there are
/// several nodes.
fn late_nodes(stragglers: &[Straggler], units: &[&ProcessMeta]) -> Vec<LateNode> {
    let mut nodes: Vec<LateNode> = Vec::new();
    let is_single = units.iter().all(|unit| unit.node == units[0].node);
    for straggler in stragglers {
        let is_known = |node: &LateNode| node.node == straggler.node && node.late == straggler.late;
        if is_single || nodes.iter().any(is_known) {
            continue;
        }
        let on_node = units.iter().filter(|unit| unit.node == straggler.node);
        let late = stragglers
            .iter()
            .filter(|other| other.node == straggler.node && other.late == straggler.late);
        let (processes, processes_late) = (on_node.count() as u32, late.count() as u32);
        if processes > 1 && 2 * processes_late > processes {
            nodes.push(LateNode {
                node: straggler.node,
                host: straggler.host.clone(),
                late: straggler.late,
                processes_late,
                processes,
            });
        }
    }
    nodes
}

#[cfg(test)]
#[path = "stragglers_tests.rs"]
mod tests;
