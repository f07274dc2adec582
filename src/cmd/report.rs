//! `pxnbench report RUN…`: results as a page to look at, as pictures, as a summary, and for
//! Prometheus.

use std::path::PathBuf;

use super::args::values;
use crate::{
    exit::Code,
    report::{self, Request},
};

/// Show the results of runs: one HTML file with plots and tables, which needs no network
///
/// Without an option the page is written to report.html in the folder of the first run. The options
/// --svg, --markdown and --prometheus write what they name instead; with --out the page is written
/// as well.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of a run, a folder of such folders (an experiment, or what compare takes), a
    /// results.csv, or the folder or JSON of a rehearsal
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Write the page to this file, or - for stdout
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    out: Option<PathBuf>,
    /// Write the plots into this folder, each as an SVG file
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print a summary in Markdown, for a ticket
    #[arg(long)]
    markdown: bool,
    /// Write the results for Prometheus to this file, as node_exporter's text-file collector reads
    /// it (NAME.prom)
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    prometheus: Option<PathBuf>,
}

/// Writes the report.
///
/// # Errors
///
/// Returns an error if there is nothing to report, or if a file cannot be read or written.
pub fn run(args: Args) -> anyhow::Result<Code> {
    report::run(&Request {
        runs: args.runs,
        out: args.out,
        svg: args.svg,
        prints_markdown: args.markdown,
        prometheus: args.prometheus,
    })
}
