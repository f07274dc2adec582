//! Flags that are nccl-tests' own: GPUs and threads of a process, how a case is run and timed, what
//! is shown.

use std::path::PathBuf;

use super::values;
use crate::{
    backend::options::{Blocking, ExecOptions, Registration},
    exit::{Code, Failure},
    run::request::{ProcessLayout, TableOptions},
    sweep::measure::Average,
};

/// Flags that are nccl-tests' own, beside those of every sweep in [`super::sweep::SweepArgs`].
#[derive(Clone, Debug, clap::Args)]
#[command(rename_all = "snake_case")]
pub(super) struct NcclTestsArgs {
    /// Threads per process, each with its own GPUs; no effect unless NCCL runs on GPUs
    #[arg(
        short = 't',
        long = "nthreads",
        value_name = "N",
        value_parser = values::positive::<u32>,
        default_value = "1",
        help_heading = "Ranks",
    )]
    pub(super) threads: u32,

    /// GPUs per thread; each is a rank, so -g 8 on one node needs no mpirun; no effect unless NCCL
    /// runs on GPUs
    #[arg(
        short = 'g',
        long = "ngpus",
        value_name = "N",
        value_parser = values::positive::<u32>,
        default_value = "1",
        help_heading = "Ranks",
    )]
    pub(super) gpus: u32,

    /// 1: join the communicator from all threads in parallel
    #[arg(short = 'p', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Ranks")]
    pub(super) parallel_init: bool,

    /// Operations per iteration, launched as one group
    #[arg(
        short = 'm',
        long = "agg_iters",
        value_name = "N",
        value_parser = values::positive::<u32>,
        default_value = "1",
        help_heading = "Measurement",
    )]
    pub(super) aggregate: u32,

    /// Passes over all sizes; 0 repeats until a signal
    #[arg(
        short = 'N',
        long = "run_cycles",
        value_name = "N",
        value_parser = values::natural,
        default_value = "1",
        help_heading = "Measurement",
    )]
    pub(super) cycles: u32,

    /// When the host waits: 0 at the end; 1 after each operation, with a barrier over all ranks; 2
    /// after each operation; 3 after each iteration, with a barrier over all ranks that is not
    /// timed
    #[arg(
        short = 'z',
        long,
        value_name = "0..3",
        value_parser = values::numbered(&Blocking::ALL),
        default_value = "0",
        help_heading = "Measurement",
    )]
    pub(super) blocking: Blocking,

    /// 1: run everything in CUDA's null stream
    #[arg(
        short = 'y',
        long = "stream_null",
        value_name = "0|1",
        value_parser = values::switch,
        default_value = "0",
        action = clap::ArgAction::Set,
        help_heading = "Measurement",
    )]
    null_stream: bool,

    /// Capture the iterations as a CUDA graph, and launch it N times; 0 for none
    #[arg(
        short = 'G',
        long = "cudagraph",
        value_name = "N",
        value_parser = values::natural,
        default_value = "0",
        help_heading = "Measurement",
    )]
    pub(super) graph: u32,

    /// 1: show the time it takes to issue an operation to the GPU; bandwidths are still computed
    /// from the whole time
    #[arg(short = 'C', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Measurement")]
    pub(super) report_cputime: bool,

    /// How to combine times over processes and threads: 0 rank 0 only, 1 mean, 2 minimum, 3 maximum
    #[arg(
        short = 'a',
        long,
        value_name = "0..3",
        value_parser = values::numbered(&Average::ALL),
        default_value = "1",
        help_heading = "Measurement",
    )]
    pub(super) average: Average,

    /// Register the buffers with NCCL: 1 ncclCommRegister, 2 symmetric windows (needs NCCL 2.27;
    /// otherwise falls back to 1)
    #[arg(
        short = 'R',
        long = "local_register",
        value_name = "0..2",
        value_parser = values::numbered(&Registration::ALL),
        default_value = "0",
        help_heading = "Measurement",
    )]
    registration: Registration,

    /// NCCL's CTA policy: 0 default, 1 efficient, 2 zero (needs NCCL 2.27; value 2 needs 2.28)
    #[arg(
        short = 'x',
        long,
        value_name = "0..2",
        value_parser = values::numbered(&[0, 1, 2]),
        help_heading = "Measurement",
    )]
    cta_policy: Option<i32>,

    /// Offset both buffers by this many elements, so that they are not aligned
    #[arg(short = 'u', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    pub(super) unalign: u32,

    /// 1: also time each iteration with the GPU's clock; columns i_min, i_max, i_p99, i_cv
    #[arg(
        short = 'I',
        long = "per_iter_timing",
        value_name = "0|1",
        value_parser = values::switch,
        default_value = "0",
        action = clap::ArgAction::Set,
        help_heading = "Measurement",
    )]
    pub(super) per_iter: bool,

    /// First iterations to leave out of the statistics of -I
    #[arg(short = 'K', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    pub(super) per_iter_skip: u32,

    /// Kernels that use NCCL's device API: not built in; only 0 is accepted
    #[arg(short = 'D', long, value_name = "N", value_parser = values::natural, default_value = "0",
        help_heading = "Measurement")]
    device_implementation: u32,

    /// Thread blocks of the kernels of -D; no effect
    #[arg(
        short = 'V',
        long,
        value_name = "N",
        value_parser = values::natural,
        help_heading = "Measurement",
    )]
    device_cta_count: Option<u32>,

    /// 1: add the time of day at the end of each row
    #[arg(short = 'S', long, value_name = "0|1", value_parser = values::switch, default_value = "0",
        action = clap::ArgAction::Set, help_heading = "Output")]
    pub(super) report_timestamps: bool,

    /// 1: add algorithm, protocol and channels at the end of each row; a short run beforehand finds
    /// them in NCCL's log
    #[arg(
        short = 'U',
        long = "tuning",
        value_name = "0|1",
        value_parser = values::switch,
        default_value = "0",
        action = clap::ArgAction::Set,
        help_heading = "Output",
    )]
    tuning: bool,

    /// 1: print the use of GPU memory below the last table
    #[arg(
        short = 'M',
        long = "memory",
        value_name = "0|1",
        value_parser = values::switch,
        default_value = "0",
        action = clap::ArgAction::Set,
        help_heading = "Output",
    )]
    pub(super) reports_memory: bool,

    /// Write JSON with the keys that nccl-tests uses (version 3) to this file when the run ends
    #[arg(
        short = 'J',
        long = "output_file",
        value_name = "FILE",
        value_parser = values::output_file(),
        help_heading = "Output"
    )]
    pub(super) nccl_tests_json: Option<PathBuf>,
}

impl NcclTestsArgs {
    /// Refuses the one flag that is accepted for its name only.
    ///
    /// # Errors
    ///
    /// Returns an error if kernels of the device API are requested.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.device_implementation == 0 {
            return Ok(());
        }
        let what = "-D: kernels that use NCCL's device API are not built in. Leave it out, or run \
                    nccl-tests for them";
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    /// Returns the ranks of each process.
    pub(super) fn process(&self) -> ProcessLayout {
        ProcessLayout {
            threads: self.threads,
            gpus_per_thread: self.gpus,
            parallel_init: self.parallel_init,
        }
    }

    /// Returns how operations are run.
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

    /// Returns what the table shows beside the usual columns.
    pub(super) fn table_options(&self) -> TableOptions {
        TableOptions {
            timestamps: self.report_timestamps,
            memory: self.reports_memory,
            tuning: self.tuning,
        }
    }
}
