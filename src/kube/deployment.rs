//! A deployment that is in the cluster: its job, and its pods.

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition},
        core::v1::{ContainerState, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    kubectl::Kubectl,
    names::DeploymentName,
    pod::{COMPONENT_LABEL, INSTANCE_LABEL, LAUNCHER, MANAGER, MANAGER_LABEL},
    refusal,
};
use crate::exit::{Code, Failure};

/// The annotations and labels with which Kubernetes and the MPI operator number pods.
const POD_NUMBERS: [&str; 3] = [
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "mpi-job-replica-index",
];

/// The resource of the MPI operator's jobs.
pub(super) const MPI_JOBS: &str = "mpijobs.kubeflow.org";

/// The state of a job, whichever kind it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobState {
    /// It waits to be admitted by a queue.
    Suspended,
    /// Its pods wait or run.
    Active,
    /// All its pods ended well.
    Complete,
    /// A pod failed.
    Failed,
}

/// A job in the cluster.
#[derive(Debug)]
pub(super) struct Deployment {
    /// What it is called in messages.
    pub(super) kind: &'static str,
    /// Its state.
    pub(super) state: JobState,
    /// Why it has that state, in the words of the cluster.
    pub(super) message: String,
    /// Its pods, by number.
    pub(super) pods: Vec<DeployedPod>,
    /// How many pods that measure it is to have.
    pub(super) nodes: Option<i32>,
}

/// A pod of a deployment.
#[derive(Debug)]
pub(super) struct DeployedPod {
    /// Its name.
    pub(super) name: String,
    /// Its number; `None` for the launcher of an MPIJob.
    pub(super) number: Option<u32>,
    /// What the cluster knows of it.
    pub(super) pod: Pod,
}

impl DeployedPod {
    pub(super) fn new(pod: Pod) -> DeployedPod {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let is_launcher = label(&pod.metadata, COMPONENT_LABEL) == Some(LAUNCHER);
        let mut numbers = POD_NUMBERS.iter();
        let number = numbers.find_map(|key| annotation_or_label(&pod.metadata, key)?.parse().ok());
        DeployedPod {
            number: number.filter(|_| !is_launcher),
            name,
            pod,
        }
    }

    /// Returns whether the run's own output, and its results, are in the log of this pod.
    pub(super) fn has_the_output(&self) -> bool {
        match label(&self.pod.metadata, COMPONENT_LABEL) {
            Some(LAUNCHER) => true,
            _ => self.number == Some(0) && !self.is_of_mpi_operator(),
        }
    }

    fn is_of_mpi_operator(&self) -> bool {
        POD_NUMBERS[1..]
            .iter()
            .any(|key| annotation_or_label(&self.pod.metadata, key).is_some())
    }

    /// Returns the phase of the pod, in the cluster's word.
    pub(super) fn phase(&self) -> &str {
        let phase = self
            .pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        phase.unwrap_or("Unknown")
    }

    /// Returns the node of the pod.
    pub(super) fn node(&self) -> Option<&str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }

    /// Returns the state of its container.
    pub(super) fn state(&self) -> Option<&ContainerState> {
        let statuses = self.pod.status.as_ref()?.container_statuses.as_ref()?;
        statuses.first()?.state.as_ref()
    }

    /// Returns whether its container has ended.
    pub(super) fn has_ended(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.phase())
            || self.state().is_some_and(|state| state.terminated.is_some())
    }

    /// Returns the exit code of its container, once it has ended.
    pub(super) fn exit_code(&self) -> Option<i32> {
        Some(self.state()?.terminated.as_ref()?.exit_code)
    }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation_or_label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let annotation = metadata.annotations.as_ref().and_then(|all| all.get(key));
    annotation
        .map(String::as_str)
        .or_else(|| label(metadata, key))
}

/// Returns the option that selects the objects of a deployment.
pub(super) fn selector(name: &DeploymentName) -> String {
    format!("--selector={MANAGER_LABEL}={MANAGER},{INSTANCE_LABEL}={name}")
}

/// Reads what the cluster says about an object.
pub(super) fn typed<T: DeserializeOwned>(object: Value) -> anyhow::Result<T> {
    serde_json::from_value(object).map_err(|error| {
        let what = format!(
            "kubectl printed an object of another form ({error}). Use another version of kubectl"
        );
        Failure::on_all_ranks(Code::Launch, what)
    })
}

impl Deployment {
    /// Looks a deployment up.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none of this name, or if kubectl refuses.
    pub(super) fn find(kubectl: &Kubectl, name: &DeploymentName) -> anyhow::Result<Deployment> {
        let text = name.to_string();
        let answer = kubectl.call(&["get", "job", &text, "--output=json"], &[])?;
        let mut deployment = if answer.is_ok {
            of_job(typed(answer.object()?)?)
        } else if refusal::is_not_found(&answer.stderr) {
            let other = kubectl.call(&["get", MPI_JOBS, &text, "--output=json"], &[])?;
            if other.is_ok {
                of_mpi_job(&other.object()?)?
            } else if refusal::is_none_to_see(&other.stderr) {
                // What is said of the job is what a user without the operator understands.
                return Err(refusal::failure(&answer.stderr));
            } else {
                return Err(refusal::failure(&other.stderr));
            }
        } else {
            return Err(refusal::failure(&answer.stderr));
        };
        let pods = kubectl.list(&["get", "pods", &selector(name), "--output=json"])?;
        for pod in pods {
            deployment.pods.push(DeployedPod::new(typed(pod)?));
        }
        // The launcher first, then by number.
        deployment
            .pods
            .sort_by_key(|pod| (pod.number, pod.name.clone()));
        Ok(deployment)
    }

    /// Returns the pod with the output of the run.
    pub(super) fn pod_with_output(&self) -> Option<&DeployedPod> {
        // If there are several, which a controller that was restarted may leave, the newest one
        // counts.
        let mut pods: Vec<_> = self
            .pods
            .iter()
            .filter(|pod| pod.has_the_output())
            .collect();
        pods.sort_by_key(|pod| pod.pod.metadata.creation_timestamp.clone());
        pods.pop()
    }

    /// Returns the pod of a node.
    pub(super) fn pod_of_node(&self, node: u32) -> Option<&DeployedPod> {
        self.pods.iter().find(|pod| pod.number == Some(node))
    }
}

pub(super) fn of_job(job: Job) -> Deployment {
    let spec = job.spec.unwrap_or_default();
    let status = job.status.unwrap_or_default();
    let (state, message) = state(
        spec.suspend == Some(true),
        &status.conditions.unwrap_or_default(),
    );
    Deployment {
        kind: "Job",
        state,
        message,
        pods: Vec::new(),
        nodes: spec.completions,
    }
}

pub(super) fn of_mpi_job(job: &Value) -> anyhow::Result<Deployment> {
    let conditions = job["status"]["conditions"].clone();
    let conditions: Option<Vec<JobCondition>> = typed(conditions)?;
    let (state, message) = state(
        job["spec"]["runPolicy"]["suspend"] == true,
        &conditions.unwrap_or_default(),
    );
    let replicas = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"].as_i64();
    Ok(Deployment {
        kind: "MPIJob",
        state,
        message,
        pods: Vec::new(),
        nodes: replicas.and_then(|replicas| i32::try_from(replicas).ok()),
    })
}

/// Returns the state of a job, and what is said of its end. The conditions of an MPIJob have the
/// form of a Job's.
fn state(is_suspended: bool, conditions: &[JobCondition]) -> (JobState, String) {
    for condition in conditions.iter().rev().filter(|it| it.status == "True") {
        let ended = match condition.type_.as_str() {
            "Complete" | "Succeeded" => JobState::Complete,
            "Failed" => JobState::Failed,
            _ => continue,
        };
        return (ended, condition.message.clone().unwrap_or_default());
    }
    let state = if is_suspended {
        JobState::Suspended
    } else {
        JobState::Active
    };
    (state, String::new())
}
