//! `pxnbench`: is NCCL on this cluster correct, fast, and really using PXN?
//!
//! The modules in reading order. Imports point down only, from a later line to an earlier one; `tests/layers.rs` checks
//! it, and `docs/ARCHITECTURE.md` says why.
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 0 | [`units`], [`exit`], `env` | quantities; exit codes and the error that carries one; the environment |
//! | 1 | [`levels`] | PXN levels, resources and networks as environment settings; what is in force; what does harm |
//! | 1 | [`topology`] | what is connected to what in a node, its paths, and what NCCL makes of them |
//! | 2 | [`collective`] | what a collective is: counts, formulas, data |
//! | 2 | [`nccl_log`] | what NCCL's log says: connections, who relayed through whom, verdict on PXN |
//! | 2 | [`slurm`] | the Slurm job around this process, node lists, how to start ranks in it |
//! | 3 | [`record`] | a measured case, the columns, the files' format |
//! | 4 | [`world`], [`native`] | the ranks of the job; loaders of vendor libraries |
//! | 5 | [`backend`], [`facts`] | what runs a collective; what this job runs on |
//! | 6 | [`sweep`] | plan, loop, measurement, events |
//! | 7 | [`output`], [`fault`] | terminal and files; errors as sentences |
//! | 7 | [`doctor`] | checks: from facts to findings |
//! | 8 | [`cmd`] | the subcommands, which wire it all |
//!
//! What is absent matters: `sweep` prints nothing, `output` measures nothing, `collective` calls no library, and only
//! `main.rs` sets environment variables, before any thread or library starts.

/// A line on stderr. Where stderr is closed or full the line is lost and the program goes on: `eprintln!` would panic, and
/// the panic's own message again.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        // In one piece: a launcher that puts the lines of several processes together takes what each write brings.
        let line = format!($($words)*) + "\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}

/// A line on stdout: what was asked for, so that it is an error where it cannot be written ([`output::stdout`]).
#[macro_export]
macro_rules! print_line {
    ($($words:tt)*) => {
        $crate::output::stdout::line(&format!($($words)*))
    };
}

pub mod backend;
pub mod cmd;
pub mod collective;
pub mod doctor;
pub mod env;
pub mod exit;
pub mod facts;
pub mod fault;
pub mod levels;
pub mod native;
pub mod nccl_log;
pub mod output;
pub mod record;
pub mod slurm;
pub mod sweep;
pub mod topology;
pub mod units;
pub mod world;
