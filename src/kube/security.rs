//! Security contexts: as little as the ranks need, and what the restricted profile of Kubernetes
//! forbids of it.
//!
//! See "Pod Security Standards" in the documentation of Kubernetes.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use super::request::{Request, Starter};

/// The user of the pods, whose number is that of the project's image; any other works too.
const USER: i64 = 10001;

/// The user of the images of the MPI operator, `mpiuser`.
const MPI_USER: i64 = 1000;

/// Returns whether pods run as root. RDMA needs locked memory, for which a container gets the
/// capability IPC_LOCK; but Kubernetes gives added capabilities to processes of root only (it sets
/// no ambient ones).
pub(super) fn is_root(request: &Request) -> bool {
    request.rdma.is_some()
}

/// Returns the context of the pods.
pub(super) fn of_pod(request: &Request) -> PodSecurityContext {
    let user = match request.starter {
        _ if is_root(request) => 0,
        Starter::Job => USER,
        Starter::MpiOperator => MPI_USER,
    };
    PodSecurityContext {
        run_as_non_root: Some(!is_root(request)),
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".into(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// Returns the context of a container.
pub(super) fn of_container(request: &Request) -> SecurityContext {
    let mut added = Vec::new();
    if request.rdma.is_some() {
        added.push("IPC_LOCK".to_owned());
    }
    // The sshd in images of the MPI operator has this capability as a file, and does not start
    // without it.
    let starts_sshd = request.starter == Starter::MpiOperator;
    if starts_sshd && !is_root(request) {
        added.push("NET_BIND_SERVICE".to_owned());
    }
    // As root, sshd changes its root folder and its user.
    let drops_all = !(starts_sshd && is_root(request));
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: (!added.is_empty()).then_some(added),
            drop: drops_all.then(|| vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

/// Returns what keeps a namespace that enforces a profile from admitting the pods, a sentence each.
pub(super) fn notes(request: &Request) -> Vec<String> {
    let mut notes = Vec::new();
    if request.rdma.is_some() {
        notes.push(
            "RDMA needs the capability IPC_LOCK, which works for root only. The profiles baseline \
             and restricted forbid it, so the namespace must allow privileged pods (label \
             pod-security.kubernetes.io/enforce=privileged)"
                .to_owned(),
        );
    }
    if request.host_network {
        notes.push(
            "the profiles baseline and restricted forbid the network of the node (hostNetwork), \
             so the namespace must allow privileged pods (label \
             pod-security.kubernetes.io/enforce=privileged)"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::request::tests::request;

    #[test]
    fn without_rdma_a_pod_meets_the_restricted_profile() {
        let request = request();
        let pod = of_pod(&request);
        assert_eq!(pod.run_as_non_root, Some(true));
        assert!(pod.run_as_user.is_some_and(|user| user > 0));
        let container = of_container(&request);
        assert_eq!(container.allow_privilege_escalation, Some(false));
        let capabilities = container.capabilities.expect("capabilities");
        assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(capabilities.add, None);
        assert!(notes(&request).is_empty());
    }

    #[test]
    fn with_rdma_it_may_lock_memory_and_says_so() {
        let request = Request {
            rdma: Some("rdma/hca:1".parse().expect("a resource")),
            host_network: true,
            ..request()
        };
        let capabilities = of_container(&request).capabilities.expect("capabilities");
        assert_eq!(capabilities.add, Some(vec!["IPC_LOCK".to_owned()]));
        assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(of_pod(&request).run_as_non_root, Some(false));
        assert_eq!(notes(&request).len(), 2);
    }

    #[test]
    fn sshd_of_the_mpi_operator_starts_as_a_user() {
        let request = Request {
            starter: Starter::MpiOperator,
            ..request()
        };
        let capabilities = of_container(&request).capabilities.expect("capabilities");
        assert_eq!(capabilities.add, Some(vec!["NET_BIND_SERVICE".to_owned()]));
    }
}
