//! `pxnbench monitor`: shows what NVML measures on the GPUs of this node.

use std::time::Duration;

use super::args::values;
use crate::{
    exit::Code,
    monitor::{self, Form, Request},
};

/// Show clocks, power, temperature and traffic of the GPUs of this node, live
///
/// On a terminal the table is refreshed; elsewhere each sample is a table of its own. Ctrl-C ends
/// it. Values that a GPU or its driver does not report are empty (- in the table).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show one sample, an interval after the start, because rates are differences; the same as
    /// --count 1
    #[arg(long, conflicts_with_all = ["count", "time"])]
    once: bool,
    /// Print CSV, a line per GPU and sample
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON, an object per GPU and sample, each on a line
    #[arg(long)]
    json: bool,
    /// Time from one sample to the next, such as 500ms or 2s; at least 50ms
    #[arg(long, value_name = "TIME", value_parser = values::interval, default_value = "1s")]
    interval: Duration,
    /// End after so many samples
    #[arg(long, value_name = "N", value_parser = values::positive::<u64>)]
    count: Option<u64>,
    /// End after this time, such as 60s
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    time: Option<Duration>,
    /// Show these GPUs only: numbers, UUIDs or PCI addresses, separated by commas
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    gpu: Vec<String>,
}

/// Shows the GPUs.
///
/// # Errors
/// Returns an error if there is no GPU, or not the one that was requested, or if stdout cannot be
/// written.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let form = match (args.csv, args.json) {
        (true, _) => Form::Csv,
        (_, true) => Form::Json,
        _ => Form::Table,
    };
    monitor::run(&Request {
        form,
        interval: args.interval,
        count: if args.once { Some(1) } else { args.count },
        time: args.time,
        gpus: args.gpu.clone(),
    })
}
