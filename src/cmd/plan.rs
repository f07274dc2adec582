//! `pxnbench plan RUN…`: predicts the times of other sizes, on other numbers of ranks, and of
//! training steps.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;

use super::args::{replay::workload_named, values};
use crate::{
    exit::{Code, Failure},
    output::whole_file,
    plan::{Conditions, Cost, CostFit, Forecast, Measurements, Plan, StepPlan, table},
    run::replay::WorkloadChoice,
    units::Bytes,
    workload::WorkloadOptions,
    world::deadline,
};

/// How long a file system may hold up the plan.
const LIMIT: Duration = Duration::from_secs(600);

/// The number of sizes that are predicted for each series if none are named.
const SIZES: usize = 6;

/// The most rows of the table of times.
const MOST_FORECASTS: usize = 100_000;

/// Plan: what other sizes, other numbers of ranks and training steps would take, from runs that
/// were measured
///
/// Fits the latency and the bandwidth of each collective to the rows of the runs, and gives an
/// interval with each prediction. To plan for other numbers of ranks, it needs runs on at least
/// two. Exit code 5 means that the runs have too little to fit, 6 that a prediction would be too
/// far from what was measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs that differ in ranks and sizes only: folders with a results.csv, or such files
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Also plan a training step: a built-in workload, or a file as pxnbench replay --print writes
    /// it
    #[arg(long, value_name = "NAME|FILE")]
    workload: Option<String>,

    /// Numbers of ranks to plan for [default: the measured ones]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = values::ranks)]
    ranks: Vec<u32>,

    /// Sizes to plan for [default: some of the measured ones; none with --workload]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = values::size)]
    sizes: Vec<Bytes>,

    /// Probability that a later measurement lies in its interval
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "0.9")]
    rate: f64,

    /// Also write the plan as JSON
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    json: Option<PathBuf>,
}

/// Parses the probability of an interval.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.5..=0.999).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0.5 to 0.999".into()),
    }
}

/// A plan as JSON.
#[derive(Serialize)]
struct PlanDocument<'a> {
    rate: f64,
    conditions: &'a Option<Conditions>,
    costs: Vec<Cost>,
    times: &'a [Forecast],
    steps: &'a [StepPlan],
    remarks: &'a [String],
}

/// Fits the costs, and prints the plan.
///
/// # Errors
///
/// Returns an error if the runs cannot be read, if nothing was measured, or if a plan would be too
/// far from what was.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    // A pipe or a file system may not answer.
    let _guard = deadline::limit("the files of the runs", LIMIT);
    let plan = Plan::fit(Measurements::read(&args.runs)?, args.rate)?;
    let times = if args.workload.is_some() && args.sizes.is_empty() {
        Vec::new()
    } else {
        forecasts(args, &plan)?
    };
    let steps = match &args.workload {
        Some(name) => steps(args, name, &plan)?,
        None => Vec::new(),
    };
    if let Some(path) = &args.json {
        let document = PlanDocument {
            rate: plan.rate,
            conditions: &plan.conditions,
            costs: plan.costs(),
            times: &times,
            steps: &steps,
            remarks: &plan.remarks,
        };
        let text = serde_json::to_string_pretty(&document)? + "\n";
        write(path, &text)?;
        if path == Path::new("/dev/stdout") {
            return Ok(Code::Fine);
        }
    }
    print_line!("{}", table::costs(&plan).trim_end())?;
    if !times.is_empty() {
        print_line!("{}", table::forecasts(&times).trim_end())?;
    }
    for step in &steps {
        print_line!("{}", table::step(step).trim_end())?;
    }
    Ok(Code::Fine)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = whole_file::replace(true, path, text);
    written.map_err(|error| {
        let what = format!("{} cannot be written: {error}", path.display());
        Failure::on_all_ranks(Code::Disk, what)
    })
}

/// Returns a forecast for each series, each number of ranks and each size.
fn forecasts(args: &Args, plan: &Plan) -> anyhow::Result<Vec<Forecast>> {
    let mut forecasts = Vec::new();
    for fit in &plan.fits {
        let ranks = match args.ranks.as_slice() {
            [] => fit.measured_ranks(),
            ranks => ranks.iter().map(|ranks| u64::from(*ranks)).collect(),
        };
        let sizes = match args.sizes.as_slice() {
            [] => some_sizes(fit),
            sizes => sizes.iter().copied().collect(),
        };
        for ranks in ranks {
            for size in &sizes {
                if forecasts.len() == MOST_FORECASTS {
                    let what = format!(
                        "the plan would have more than {MOST_FORECASTS} times. Name fewer sizes \
                         or numbers of ranks"
                    );
                    return Err(Failure::on_all_ranks(Code::Usage, what));
                }
                forecasts.push(plan.forecast_of(fit, *size, ranks)?);
            }
        }
    }
    Ok(forecasts)
}

/// Returns some of the measured sizes, evenly spaced from the first to the last.
fn some_sizes(fit: &CostFit) -> BTreeSet<Bytes> {
    let all: Vec<Bytes> = fit.measured_sizes().into_iter().collect();
    let count = all.len().min(SIZES);
    let last = count.saturating_sub(1).max(1);
    (0..count)
        .map(|at| all[at * (all.len() - 1) / last])
        .collect()
}

/// Returns the plan of the training step on each number of ranks.
fn steps(args: &Args, name: &str, plan: &Plan) -> anyhow::Result<Vec<StepPlan>> {
    let usage = |error: anyhow::Error| Failure::on_all_ranks(Code::Usage, format!("{error:#}"));
    let choice: WorkloadChoice = workload_named(name, WorkloadOptions::default())?;
    let ranks: BTreeSet<u64> = match args.ranks.as_slice() {
        [] => plan.fits.iter().flat_map(CostFit::measured_ranks).collect(),
        ranks => ranks.iter().map(|ranks| u64::from(*ranks)).collect(),
    };
    let mut steps = Vec::new();
    for ranks in ranks {
        let (workload, mut remarks) = choice.for_ranks(ranks)?;
        let step = workload.on(ranks).map_err(usage)?;
        let mut planned = StepPlan::new(plan, &workload.name, ranks, &step)?;
        remarks.extend(workload.remark(ranks).map_err(usage)?);
        planned.remarks.append(&mut remarks);
        steps.push(planned);
    }
    Ok(steps)
}
