//! libnccl: where it is found, its version, and its functions as thin calls whose errors are
//! sentences.
//!
//! NCCL reads its environment once per process, at the first call except `ncclGetVersion`.
//! [`Nccl::load`] therefore leaves the environment open, and [`Nccl::unique_id`] does not. Only
//! blocking communicators are used: a call that returns unfinished is an error.

#![expect(
    unsafe_code,
    reason = "the functions of libnccl are called as nccl.h declares them"
)]

mod communicator;
mod config;
mod library;
mod load;
mod operations;
mod simulation;
mod version;

pub use communicator::{CommState, RawHandle, UniqueId};
pub use config::CommConfig;
pub use library::{Nccl, RawComm, RawStream};
pub use version::NcclVersion;
