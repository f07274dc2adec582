//! A cluster, and what can be done with a deployment in it.

use std::{path::PathBuf, time::Duration};

use super::{
    deploy,
    kubectl::Kubectl,
    logs::{self, LogRequest},
    names::{DeploymentName, ObjectName},
    request::Request,
    results, status,
};
use crate::exit::Code;

/// A namespace of the cluster that kubectl knows.
#[derive(Debug)]
pub struct Cluster(Kubectl);

impl Cluster {
    /// Returns the cluster of kubectl's context, in which a request may take `request_timeout`;
    /// without a namespace, that of the context.
    pub fn new(namespace: Option<ObjectName>, request_timeout: Duration) -> Cluster {
        Cluster(Kubectl::new(namespace, request_timeout))
    }

    /// Makes the objects of a request.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl is missing, or if the cluster refuses one; nothing is left then.
    pub fn deploy(&self, request: &Request) -> anyhow::Result<Code> {
        deploy::deploy(&self.0, request)
    }

    /// Prints how a deployment is doing.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none of this name.
    pub fn status(&self, name: &DeploymentName) -> anyhow::Result<Code> {
        status::print(&self.0, name)
    }

    /// Prints the log of a pod.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such pod, or if it has not started.
    pub fn logs(&self, name: &DeploymentName, request: &LogRequest) -> anyhow::Result<Code> {
        logs::print(&self.0, name, request)
    }

    /// Copies the files of a run below `folder`; without one, below `results/NAME`.
    ///
    /// # Errors
    ///
    /// Returns an error if the run has not ended or has left none, or if the folder is in use.
    pub fn results(&self, name: &DeploymentName, folder: Option<PathBuf>) -> anyhow::Result<Code> {
        results::copy(&self.0, name, folder)
    }

    /// Removes what [`Cluster::deploy`] has made.
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing, or if the cluster refuses.
    pub fn cleanup(&self, name: &DeploymentName) -> anyhow::Result<Code> {
        deploy::cleanup(&self.0, name)
    }
}
