//! What this job runs on, gathered once: each process reports on itself, and the sweep is planned
//! from all reports.

mod acs;
pub mod audit;
mod container;
mod environment;
pub mod fabric;
pub mod health;
pub mod iommu;
pub mod kernel_log;
pub mod links;
pub mod logind;
pub mod memory;
mod named;
pub mod nvidia;
pub mod oom_kills;
mod plugins;
mod process;
mod procfs;
pub mod ranks;
pub mod rdma;
pub(crate) mod slurm;
pub mod start;
pub mod topology;
mod tree;
pub mod verbs;

pub use environment::{conf_files, environment, settings, settings_with};
pub use process::{GpuLink, Process, process, process_age_s, resident_memory};
