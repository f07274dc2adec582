//! An MPIJob of Kubeflow's MPI operator (kubeflow.org/v2beta1): a launcher with mpirun, and workers
//! that it reaches over ssh.
//!
//! The types are those of the operator's custom resource, as far as they are used here.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Serialize;

use super::{
    pod::{self, Role},
    request::Request,
    security, settings,
};

/// A job of the operator.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MpiJob {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    spec: MpiJobSpec,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MpiJobSpec {
    slots_per_worker: u32,
    run_policy: RunPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_auth_mount_path: Option<&'static str>,
    mpi_replica_specs: BTreeMap<&'static str, ReplicaSpec>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunPolicy {
    clean_pod_policy: &'static str,
    ttl_seconds_after_finished: i32,
    backoff_limit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspend: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
struct ReplicaSpec {
    replicas: u32,
    template: PodTemplateSpec,
}

/// The folder in which the operator's images expect the keys of their user; those of root are at
/// the operator's default.
const USER_KEYS: &str = "/home/mpiuser/.ssh";

/// What the operator's images configure for an sshd that is not root.
const USER_CONFIGURATION: &str = "/home/mpiuser/.sshd_config";

/// Returns the job.
pub(super) fn mpi_job(request: &Request) -> MpiJob {
    let launcher = ReplicaSpec {
        replicas: 1,
        template: pod::template(request, Role::Launcher, &launch(request)),
    };
    let workers = ReplicaSpec {
        replicas: request.nodes,
        template: pod::template(request, Role::Ranks, &serve(request)),
    };
    MpiJob {
        api_version: "kubeflow.org/v2beta1",
        kind: "MPIJob",
        metadata: pod::metadata_of_job(request),
        spec: MpiJobSpec {
            slots_per_worker: request.ranks_per_node,
            run_policy: RunPolicy {
                clean_pod_policy: "Running",
                ttl_seconds_after_finished: pod::seconds(request.ttl),
                backoff_limit: 0,
                suspend: request.queue.is_some().then_some(true),
            },
            ssh_auth_mount_path: (!security::is_root(request)).then_some(USER_KEYS),
            mpi_replica_specs: BTreeMap::from([("Launcher", launcher), ("Worker", workers)]),
        },
    }
}

/// Returns what a worker runs.
fn serve(request: &Request) -> Vec<String> {
    let mut words = vec!["/usr/sbin/sshd".to_owned(), "-De".to_owned()];
    if !security::is_root(request) {
        words.extend(["-f".to_owned(), USER_CONFIGURATION.to_owned()]);
    }
    words
}

/// Returns what the launcher runs. The results are in the pod of rank 0, whose output mpirun brings
/// to the launcher.
fn launch(request: &Request) -> Vec<String> {
    let mut words = vec![
        "mpirun".to_owned(),
        "-n".to_owned(),
        request.ranks().to_string(),
        "--bind-to".to_owned(),
        "none".to_owned(),
    ];
    if security::is_root(request) {
        words.push("--allow-run-as-root".to_owned());
    }
    // A login over ssh has none of the container's variables.
    for name in settings::variables(request).into_keys() {
        words.extend(["-x".to_owned(), name]);
    }
    words.extend(pod::in_pod(request, &[], &pod::ranks(request)));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::request::tests::request;

    #[test]
    fn mpirun_starts_every_rank_with_the_settings() {
        assert_eq!(
            launch(&request()).join(" "),
            "mpirun -n 16 --bind-to none -x NCCL_P2P_PXN_LEVEL -x NCCL_PXN_DISABLE pxnbench kube \
             in-pod --results /results/pxn -- all_reduce --backend nccl --level aggressive --out \
             /results/pxn"
        );
    }

    #[test]
    fn as_root_the_operators_defaults_hold() {
        let request = Request {
            rdma: Some("rdma/hca:1".parse().expect("a resource")),
            ..request()
        };
        assert!(launch(&request).contains(&"--allow-run-as-root".to_owned()));
        assert_eq!(serve(&request), ["/usr/sbin/sshd", "-De"]);
        assert_eq!(mpi_job(&request).spec.ssh_auth_mount_path, None);
    }
}
