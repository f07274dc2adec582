//! Arguments that several subcommands share: those of a sweep, and the values that can be typed.

pub mod check;
pub mod cluster;
mod nccl_tests;
pub mod own_options;
pub mod replay;
pub mod slips;
pub mod sweep;
pub mod tune;
pub mod values;
