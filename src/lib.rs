//! `pxnbench`: is NCCL on this cluster correct, fast, and really using PXN?
//!
//! A program of one's own needs one module of it, [`job`], and `examples/` shows how. The rest is
//! the inside of the benchmark, and may change at any time.
//!
//! The modules in reading order. Imports point down only, from a later line to an earlier one;
//! `tests/layers/` checks it, and `docs/ARCHITECTURE.md` says why.
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 0 | [`units`], [`exit`], `env`, [`visible`], [`streams`] | quantities; exit codes and the error that carries one; the environment; text on a terminal; writes that may wait |
//! | 1 | [`input`] | files that others wrote: how much of them is read, and for how long |
//! | 1 | [`levels`] | PXN levels, resources and networks as environment settings; what is in force; what does harm |
//! | 1 | [`topology`] | what is connected to what in a node, its paths, and what NCCL makes of them |
//! | 1 | [`stats`] | order of experiments, intervals, many differences at once, late ranks |
//! | 2 | [`collective`] | what a collective is: counts, formulas, data |
//! | 2 | [`nccl_log`] | what NCCL's log says: connections, who relayed through whom, verdict on PXN |
//! | 2 | [`slurm`] | the Slurm job around this process, node lists, how to start ranks in it |
//! | 3 | [`record`] | a measured case, the columns, the files' format |
//! | 3 | [`drop_in`] | the program under the names of nccl-tests' programs |
//! | 3 | [`workload`] | training steps as data |
//! | 3 | [`rehearsal`] | what NCCL does with PXN on nodes with several NICs: rules, and a run compared with them |
//! | 4 | [`world`], [`native`] | the ranks of the job; loaders of vendor libraries |
//! | 4 | [`peak`] | the most busbw that the links of a job allow |
//! | 5 | [`backend`], [`facts`] | what runs a collective; what this job runs on |
//! | 5 | [`telemetry`] | what NVML measures on GPUs, at an interval, on a thread |
//! | 6 | [`sweep`] | plan, loop, measurement, events |
//! | 6 | [`replay`] | training steps: modes, blocks, exposed communication, timeline |
//! | 7 | [`output`], [`fault`] | terminal and files; errors as sentences |
//! | 7 | [`doctor`] | checks: from facts to findings |
//! | 7 | [`check`] | pass or fail: results against what is required of them |
//! | 8 | [`job`] | the library for programs of one's own: ranks, collectives on slices, sweeps |
//! | 8 | [`run`] | a sweep: from a request to records and a verdict |
//! | 8 | [`compare`] | the steps of a comparison: which level is faster, and how sure that is |
//! | 8 | [`plan`] | costs fitted to measured runs: what other sizes, ranks and training steps would take |
//! | 8 | [`monitor`] | the GPUs of a node, live |
//! | 9 | [`launch`] | ranks on all nodes of a Slurm job, on named hosts or on this one; jobs that start them |
//! | 9 | [`kube`] | a sweep or a replay on a Kubernetes cluster: manifests, and what kubectl does with them |
//! | 9 | [`experiment`] | a sweep or a training step with several settings, block by block; a race of settings |
//! | 9 | [`report`] | results as a page, as pictures, and for Prometheus |
//! | 10 | [`virtual_nodes`] | rehearsals: NCCL on virtual nodes of this machine, level by level, compared with its rules |
//! | 11 | [`cmd`] | the command line: one small file per subcommand |
//! | 12 | `fuzzing` | every parser with what must hold of its results; in tests and the fuzzer only |
//!
//! What is absent matters: `sweep` prints nothing, `output` measures nothing, `collective` calls no
//! library, and only `main.rs` sets environment variables, before any thread or library starts.

/// Prints a line on stderr. If stderr is closed or full, the line is lost and the program goes on:
/// `eprintln!` would panic, and so would the panic's own message.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        // One write per line, because a launcher that merges the output of several processes does
        // so by write.
        let line = format!($($words)*);
        $crate::streams::to_stderr(&($crate::visible::visible_line(&line) + "\n"));
    }};
}

/// Prints a line on stderr with information that is not an error, unless `--quiet` is given
/// ([`output::notes`]).
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        if $crate::output::notes::are_shown() {
            $crate::say!($($words)*);
        }
    };
}

/// Prints a line on stdout. It is what was requested, so failing to write it is an error
/// ([`output::stdout`]).
#[macro_export]
macro_rules! print_line {
    ($($words:tt)*) => {
        $crate::output::stdout::line(&format!($($words)*))
    };
}

pub mod backend;
pub mod check;
pub mod cmd;
pub mod collective;
pub mod compare;
pub mod doctor;
pub mod drop_in;
pub mod env;
pub mod exit;
pub mod experiment;
pub mod facts;
pub mod fault;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod input;
pub mod job;
pub mod kube;
pub mod launch;
pub mod levels;
pub mod monitor;
pub mod native;
pub mod nccl_log;
pub mod output;
pub mod peak;
pub mod plan;
pub mod record;
pub mod rehearsal;
pub mod replay;
pub mod report;
pub mod run;
pub mod slurm;
pub mod stats;
pub mod streams;
pub mod sweep;
pub mod telemetry;
pub mod topology;
pub mod units;
pub mod virtual_nodes;
pub mod visible;
pub mod workload;
pub mod world;
