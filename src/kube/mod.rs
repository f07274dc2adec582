//! `pxnbench kube`: a sweep, or the replay of a training step, on the GPUs of a Kubernetes cluster.
//!
//! [`manifests`] turns a [`Request`] into typed objects: an Indexed Job whose pods find each other
//! over TCP, or an MPIJob for the MPI operator. [`Cluster`] makes, examines and removes them, by
//! kubectl. What is in a pod starts with [`in_pod`], which runs the program and leaves the results
//! in the log.

mod causes;
mod checked_run;
mod cluster;
mod deploy;
mod deployment;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod in_pod;
mod job;
mod kubectl;
pub mod logs;
pub mod manifests;
mod mpi_job;
pub mod names;
mod pod;
pub mod rdma;
mod refusal;
pub mod request;
mod results;
pub mod results_archive;
mod security;
pub mod settings;
pub mod size;
mod status;

pub use checked_run::CheckedRun;
pub use cluster::Cluster;
pub use request::Request;
