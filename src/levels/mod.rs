//! PXN levels: how far NCCL may relay a message through the GPU beside the peer's rail NIC. Beside
//! them, how many channels NCCL may use ([`Axis::Resources`]) and which transport it is asked to
//! use ([`Axis::Network`]).
//!
//! `slurm/levels.toml`, compiled in by [`table`], is the only source. A [`Preset`] turns into
//! environment settings; [`conf`] knows what is in force when files set variables too, [`evidence`]
//! which presets that amounts to over all ranks, [`conflict`] which combinations crash NCCL or keep
//! it from using PXN, [`audit`] what else is wrong with the settings, and [`recipe`] what a file
//! would set. Nothing here sets or reads anything: NCCL reads each variable once per process, so
//! `main.rs` sets them before MPI and NCCL start.

pub mod audit;
pub mod conf;
pub mod conflict;
pub mod evidence;
pub mod paths;
pub mod ports;
mod preset;
pub mod reading;
pub mod recipe;
pub mod report;
pub mod selection;
pub mod table;
pub mod version;

pub use preset::{Axis, Need, Preset, Setting};
pub use table::{
    CUSTOM, all, concerns, find, in_force, level, network, resources, rows, variables,
};
