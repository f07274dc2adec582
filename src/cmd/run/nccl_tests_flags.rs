//! Flags that are nccl-tests' own: GPUs and threads of a process, how a case is run and timed, what is shown.

use std::path::PathBuf;

use crate::{
    backend::options::{Blocking, ExecOptions, Registration},
    cmd::values,
    exit::{Code, Failure},
    sweep::measure::Average,
};

/// Iterations that can be timed one by one: each has an event or two on every GPU.
const MOST_LAPS: u32 = 1_000_000;

/// Flags that are nccl-tests' own, beside those of every sweep in [`super::Args`].
#[derive(Clone, Debug, clap::Args)]
#[command(rename_all = "snake_case")]
pub(super) struct NcclTestsArgs {
    /// Threads per process, each with its own GPUs; no effect unless NCCL runs on GPUs
    #[arg(short = 't', long = "nthreads", value_name = "N", value_parser = values::positive::<u32>, default_value = "1",
        help_heading = "Ranks")]
    pub(super) threads: u32,

    /// GPUs per thread; each is a rank, so that -g 8 needs no mpirun on one node; no effect unless NCCL runs on GPUs
    #[arg(short = 'g', long = "ngpus", value_name = "N", value_parser = values::positive::<u32>, default_value = "1",
        help_heading = "Ranks")]
    pub(super) gpus: u32,

    /// 1: the threads join the communicator in parallel
    #[arg(short = 'p', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Ranks")]
    pub(super) parallel_init: bool,

    /// Operations per iteration, launched as one group
    #[arg(short = 'm', long = "agg_iters", value_name = "N", value_parser = values::positive::<u32>, default_value = "1",
        help_heading = "Measurement")]
    pub(super) aggregate: u32,

    /// Passes over all sizes; 0 repeats until a signal
    #[arg(short = 'N', long = "run_cycles", value_name = "N", value_parser = values::natural, default_value = "1",
        help_heading = "Measurement")]
    pub(super) cycles: u32,

    /// When the host waits: 0 at the end; 1 after each operation, with a barrier over all ranks; 2 after each operation; 3
    /// after each iteration, with a barrier over all ranks that is not timed
    #[arg(short = 'z', long, value_name = "0..3", value_parser = values::numbered(&Blocking::ALL), default_value = "0",
        help_heading = "Measurement")]
    pub(super) blocking: Blocking,

    /// 1: everything runs in CUDA's null stream
    #[arg(short = 'y', long = "stream_null", value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Measurement")]
    null_stream: bool,

    /// Capture the iterations as a CUDA graph, and launch it N times; 0 for none
    #[arg(short = 'G', long = "cudagraph", value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    pub(super) graph: u32,

    /// 1: show the time it takes to issue an operation to the GPU; bandwidths are still those of the whole time
    #[arg(short = 'C', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Measurement")]
    pub(super) report_cputime: bool,

    /// Which time to report over processes and threads: 0 that of rank 0, 1 mean, 2 minimum, 3 maximum
    #[arg(short = 'a', long, value_name = "0..3", value_parser = values::numbered(&Average::ALL), default_value = "1",
        help_heading = "Measurement")]
    pub(super) average: Average,

    /// Register the buffers with NCCL: 1 ncclCommRegister, 2 symmetric windows (NCCL 2.27; as 1 with an older one)
    #[arg(short = 'R', long = "local_register", value_name = "0..2", value_parser = values::numbered(&Registration::ALL),
        default_value = "0", help_heading = "Measurement")]
    registration: Registration,

    /// NCCL's CTA policy: 0 default, 1 efficient, 2 zero (NCCL 2.27; 2 from 2.28 on)
    #[arg(short = 'x', long, value_name = "0..2", value_parser = values::numbered(&[0, 1, 2]), help_heading = "Measurement")]
    cta_policy: Option<i32>,

    /// Offset both buffers by this many elements, so that they are not aligned
    #[arg(short = 'u', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    pub(super) unalign: u32,

    /// 1: also time each iteration with the GPU's clock; columns i_min, i_max, i_p99, i_cv
    #[arg(short = 'I', long = "per_iter_timing", value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Measurement")]
    pub(super) per_iter: bool,

    /// First iterations to leave out of the statistics of -I
    #[arg(short = 'K', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    pub(super) per_iter_skip: u32,

    /// Kernels that communicate by NCCL's device API: not built in, only 0 is accepted
    #[arg(short = 'D', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    device_implementation: u32,

    /// Thread blocks of the kernels of -D; no effect
    #[arg(short = 'V', long, value_name = "N", value_parser = values::natural, help_heading = "Measurement")]
    device_cta_count: Option<u32>,

    /// 1: add the time of day at the end of each row
    #[arg(short = 'S', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Output")]
    pub(super) report_timestamps: bool,

    /// 1: print the use of GPU memory below the last table
    #[arg(short = 'M', long = "memory", value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Output")]
    pub(super) reports_memory: bool,

    /// Write JSON with the keys of nccl-tests' (version 3) to this file when the run ends
    #[arg(
        short = 'J',
        long = "output_file",
        value_name = "FILE",
        help_heading = "Output"
    )]
    pub(super) nccl_tests_json: Option<PathBuf>,
}

impl NcclTestsArgs {
    /// Refuses what cannot be together, or cannot be at all.
    ///
    /// # Errors
    /// A sentence. Every rank has the same arguments and so the same error.
    pub(super) fn check(&self, iters: u32) -> anyhow::Result<()> {
        let waits_inside = matches!(
            self.blocking,
            Blocking::Operation | Blocking::OperationAndRanks
        );
        let wrong = match self {
            _ if self.device_implementation > 0 => {
                "-D: kernels that use NCCL's device API are not built in: leave it out, or run nccl-tests for them"
            }
            _ if self.graph > 0 && self.blocking != Blocking::AtTheEnd => {
                "-z waits between operations, which a graph (-G) runs as one: leave one of them out"
            }
            _ if self.graph > 0 && self.per_iter => {
                "-I marks each iteration, and a graph (-G) has none: leave one of them out"
            }
            _ if self.graph > 0 && self.null_stream => {
                "CUDA cannot capture the null stream (-y 1) as a graph (-G): leave one of them out"
            }
            _ if self.per_iter && iters > MOST_LAPS => {
                "-I keeps the time of each iteration: say at most 1000000 of them with -n"
            }
            _ if self.per_iter && self.per_iter_skip >= iters => {
                "-K leaves out all of the -n iterations: use a smaller one"
            }
            _ if waits_inside && self.aggregate > 1 => {
                "-z 1 and -z 2 wait for each operation, and those of a group (-m) start together: use -z 3, or drop -m"
            }
            _ => "",
        };
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Failure::on_all_ranks(Code::Usage, wrong))
        }
    }

    /// How operations are run.
    pub(super) fn exec_options(&self) -> ExecOptions {
        ExecOptions {
            aggregate: self.aggregate,
            blocking: self.blocking,
            null_stream: self.null_stream,
            replays: self.graph,
            unalign: self.unalign.into(),
            registration: self.registration,
            cta_policy: self.cta_policy,
            iteration_times: self.per_iter,
        }
    }

    /// What of it means nothing where there is no GPU: the flags as typed.
    pub(super) fn for_gpus_only(&self) -> Vec<&'static str> {
        let exec_options = self.exec_options();
        [
            ("-t", self.threads > 1),
            ("-g", self.gpus > 1),
            ("-m", exec_options.aggregate > 1),
            ("-z", exec_options.blocking != Blocking::AtTheEnd),
            ("-y", exec_options.null_stream),
            ("-G", exec_options.replays > 0),
            ("-u", exec_options.unalign > 0),
            ("-R", exec_options.registration != Registration::None),
            ("-x", exec_options.cta_policy.is_some()),
            ("-I", exec_options.iteration_times),
            ("-M", self.reports_memory),
        ]
        .into_iter()
        .filter_map(|(flag, is_asked)| is_asked.then_some(flag))
        .collect()
    }
}
