//! [`WorkloadArgs`]: which training step is replayed: a built-in one, a file or a trace.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::values;
use crate::{
    exit::{Code, Failure},
    experiment::BucketSizes,
    run::replay::WorkloadChoice,
    workload::{BUILT_IN, Workload, WorkloadOptions},
};

/// A workload, and the options of built-in ones.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkloadArgs {
    #[arg(value_name = "WORKLOAD", required_unless_present = "from_trace", help = workload_help())]
    workload: Option<String>,

    /// Replay the step in a trace from PyTorch's profiler, or from its ExecutionTraceObserver
    /// (which has no times)
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    from_trace: Option<PathBuf>,

    /// Size in MiB at which a bucket of gradients is reduced: bucket_cap_mb of PyTorch's DDP; with
    /// --tune a list [default: 25]
    #[arg(
        long,
        value_name = "MIB",
        value_parser = BucketSizes::parse,
        help_heading = "Built-in workloads",
    )]
    bucket_mb: Option<BucketSizes>,

    /// The same for the first bucket [default: as for the others; PyTorch's is 1 unless
    /// bucket_cap_mb is given]
    #[arg(long, value_name = "MIB", help_heading = "Built-in workloads")]
    first_bucket_mb: Option<f64>,

    /// Copy no gradients back from their buckets: gradient_as_bucket_view of PyTorch's DDP
    #[arg(long, help_heading = "Built-in workloads")]
    gradient_as_bucket_view: bool,

    /// Layers that are gathered ahead of the layer that computes (FSDP)
    #[arg(
        long,
        value_name = "N",
        default_value_t = defaults().prefetch,
        help_heading = "Built-in workloads",
    )]
    prefetch: u32,

    /// Micro-batches of a step
    #[arg(
        long,
        value_name = "N",
        default_value_t = defaults().micro_batches,
        help_heading = "Built-in workloads",
    )]
    micro_batches: u32,

    /// Share of the tokens, from 0 to 1, that is not spread evenly over experts
    #[arg(
        long,
        value_name = "PART",
        default_value_t = defaults().skew,
        help_heading = "Built-in workloads",
    )]
    skew: f64,

    /// Tensor parallelism without sequence parallelism: all_reduce instead of all_gather and
    /// reduce_scatter
    #[arg(long, help_heading = "Built-in workloads")]
    no_sequence_parallel: bool,

    /// Ranks in a tensor group [default: 8, or a smaller number that divides the ranks]
    #[arg(long, value_name = "N", help_heading = "Built-in workloads")]
    tensor: Option<u64>,

    /// Ranks in a pipeline [default: 4, or a smaller number that divides the ranks]
    #[arg(long, value_name = "N", help_heading = "Built-in workloads")]
    pipeline: Option<u64>,

    /// Ranks among which experts are divided [default: 8 if that divides a larger number of ranks,
    /// otherwise all]
    #[arg(long, value_name = "N", help_heading = "Built-in workloads")]
    expert: Option<u64>,

    /// Layers of the model [default: the published number]
    #[arg(long, value_name = "N", help_heading = "Built-in workloads")]
    layers: Option<u32>,

    /// Multiply all sizes by this factor, for example to try a workload on a small machine
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = defaults().size_scale,
        help_heading = "Built-in workloads",
    )]
    size_scale: f64,

    /// Multiply all times of computation by this factor
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = defaults().time_scale,
        help_heading = "Built-in workloads",
    )]
    time_scale: f64,

    /// With --print: the number of ranks for which the workload is printed
    #[arg(
        long,
        value_name = "N",
        value_parser = values::ranks,
        default_value = "8",
        requires = "print",
    )]
    ranks: u32,
}

impl WorkloadArgs {
    /// Returns the chosen workload. A file is read.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if the value of an option is not possible.
    pub fn choice(&self) -> anyhow::Result<WorkloadChoice> {
        let mut options = self.options();
        if let Some(BucketSizes(sizes)) = &self.bucket_mb {
            let [size] = sizes.as_slice() else {
                let what = "only --tune and pxnbench experiment compare several sizes of buckets. \
                            Name one";
                return Err(Failure::on_all_ranks(Code::Usage, what));
            };
            options.bucket_mb = *size;
        }
        self.choice_with(options)
    }

    /// Returns the chosen workload with buckets of the default size.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if the value of an option is not possible.
    pub fn default_choice(&self) -> anyhow::Result<WorkloadChoice> {
        self.choice_with(self.options())
    }

    fn choice_with(&self, options: WorkloadOptions) -> anyhow::Result<WorkloadChoice> {
        if let Some(trace) = &self.from_trace {
            refuse_options("a trace", &options)?;
            return Ok(WorkloadChoice::Trace(trace.clone()));
        }
        let name = self.workload.as_deref().unwrap_or_default();
        workload_named(name, options)
    }

    /// Returns the value of `--bucket-mb`.
    pub fn bucket_sizes(&self) -> Option<&BucketSizes> {
        self.bucket_mb.as_ref()
    }

    /// Returns the words of a command line that choose this workload, without `--bucket-mb`.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        words.extend(self.workload.iter().map(OsString::from));
        if let Some(trace) = &self.from_trace {
            words.extend(["--from-trace".into(), trace.into()]);
        }
        for (name, value) in self.options().chosen_values() {
            words.push(name.into());
            if !value.is_empty() {
                words.push(value.into());
            }
        }
        words
    }

    /// Returns the number of ranks for which the workload is printed.
    pub fn printed_ranks(&self) -> u64 {
        self.ranks.into()
    }

    /// Returns the options, with the default bucket size.
    fn options(&self) -> WorkloadOptions {
        WorkloadOptions {
            bucket_mb: defaults().bucket_mb,
            first_bucket_mb: self.first_bucket_mb,
            gradient_as_bucket_view: self.gradient_as_bucket_view,
            prefetch: self.prefetch,
            micro_batches: self.micro_batches,
            skew: self.skew,
            sequence_parallel: !self.no_sequence_parallel,
            tensor: self.tensor,
            pipeline: self.pipeline,
            expert: self.expert,
            layers: self.layers,
            size_scale: self.size_scale,
            time_scale: self.time_scale,
        }
    }
}

/// Returns the built-in workload of this name, or if there is none the workload in the file of this
/// name.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if the value of an option is not possible.
pub fn workload_named(name: &str, options: WorkloadOptions) -> anyhow::Result<WorkloadChoice> {
    let built_in = BUILT_IN.iter().find(|known| known.name == name);
    if let Some(built_in) = built_in {
        if let Some(option) = built_in.unknown_option(&options) {
            let what = format!("{name} has no {option}. Leave it out");
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let choice = WorkloadChoice::BuiltIn(built_in.name, options);
        choice.for_ranks(1)?;
        return Ok(choice);
    }
    let path = Path::new(name);
    let is_name = !name.contains(['/', '.']) && !path.exists();
    if is_name {
        let names = BUILT_IN.map(|known| known.name).join(", ");
        let what = format!(
            "there is no workload '{}', and no such file. There are {names}",
            crate::visible::excerpt(name)
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    refuse_options("a file", &options)?;
    let read = Workload::read(path);
    let read = read.map_err(|error| Failure::on_all_ranks(Code::Usage, format!("{error:#}")));
    Ok(WorkloadChoice::File(read?))
}

/// Refuses options of built-in workloads together with `what`, which they do not change.
fn refuse_options(what: &str, options: &WorkloadOptions) -> anyhow::Result<()> {
    match options.chosen().first() {
        None => Ok(()),
        Some(option) => {
            let what = format!(
                "{option} is for built-in workloads, and {what} stays as it is. Leave it out"
            );
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

fn defaults() -> WorkloadOptions {
    WorkloadOptions::default()
}

fn workload_help() -> String {
    let names = BUILT_IN.map(|known| known.name).join(" ");
    format!("A built-in workload ({names}) or a file: see docs/WORKLOADS.md")
}
