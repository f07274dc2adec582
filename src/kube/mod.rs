//! `pxnbench kube`: a sweep on the GPUs of a Kubernetes cluster.
//!
//! [`manifests`] turns a [`Request`] into typed objects: an Indexed Job whose pods find each other over TCP, or an MPIJob for
//! the MPI operator. What is in a pod starts with [`in_pod`], which runs the program and leaves the results in the log.

pub mod in_pod;
mod job;
pub mod manifests;
mod mpi_job;
pub mod names;
mod pod;
pub mod rdma;
pub mod request;
pub mod results_archive;
mod security;
pub mod settings;
pub mod size;

pub use request::Request;
