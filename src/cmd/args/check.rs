//! The arguments that require something of results, of a sweep and of `check`.

use std::path::PathBuf;

use super::values::Several;
use crate::check::{Requirements, threshold::Threshold};

/// The slow-down against a baseline that is accepted if none is given, in percent.
const TOLERANCE: &str = "5";

/// What is required of results.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// Fail (exit code 7) if the highest busbw over the sizes is lower, in GB/s: 300. With a size,
    /// that size counts: 1G:300; with a collective, that one: all_reduce:1G:300. Several are
    /// separated by commas
    #[arg(long, value_name = "GBPS", value_parser = thresholds, help_heading = "Pass or fail")]
    min_busbw: Vec<Several<Threshold>>,

    /// Fail if the highest busbw over the sizes is below this percentage of the peak of the job's
    /// links
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Pass or fail")]
    min_pct_peak: Option<f64>,

    /// Fail if a case is slower than in this run (a folder, or its results.csv), beyond chance and
    /// by more than --tolerance. Both need repetitions: -N, -I or --precision
    #[arg(long, value_name = "RUN", help_heading = "Pass or fail")]
    baseline: Option<PathBuf>,

    /// How much slower than the baseline a case may be, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = tolerance,
        default_value = TOLERANCE,
        requires = "baseline",
        help_heading = "Pass or fail",
    )]
    tolerance: f64,

    /// Fail if a published value is not reached: its name, or auto for those of this GPU and number
    /// of ranks and nodes; pxnbench check --list-references lists all
    #[arg(long, value_name = "NAME", help_heading = "Pass or fail")]
    reference: Option<String>,
}

impl CheckArgs {
    /// Returns what is required.
    pub fn requirements(&self) -> Requirements {
        let mut thresholds = Vec::new();
        for several in &self.min_busbw {
            thresholds.extend_from_slice(&several.0);
        }
        Requirements {
            thresholds,
            percent_of_peak: self.min_pct_peak,
            baseline: self.baseline.clone(),
            tolerance: self.tolerance,
            reference: self.reference.clone(),
        }
    }
}

/// Reads thresholds separated by commas.
fn thresholds(text: &str) -> Result<Several<Threshold>, String> {
    let all: Result<Vec<Threshold>, String> = text.split(',').map(str::parse).collect();
    all.map(Several)
}

/// Reads a number of percent above 0.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("it is a number of percent above 0, such as 80".into()),
    }
}

/// Reads a number of percent, which may be 0.
fn tolerance(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("it is a number of percent from 0, such as 5".into()),
    }
}
