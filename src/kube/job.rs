//! An Indexed Job, whose pods know their number, and a headless Service, by which they find the
//! first of them.

use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::{
        ContainerPort, EnvVar, EnvVarSource, PodTemplateSpec, SecretKeySelector, Service,
        ServicePort, ServiceSpec,
    },
};

use super::{
    pod::{self, Role},
    request::Request,
};
use crate::world::tcp::TOKEN;

/// Returns the job.
pub(super) fn job(request: &Request) -> Job {
    let nodes = request.nodes as i32;
    Job {
        metadata: pod::metadata_of_job(request),
        spec: Some(JobSpec {
            completion_mode: Some("Indexed".into()),
            completions: Some(nodes),
            parallelism: Some(nodes),
            // A pod that fails is not started again, and the others end by themselves: a limit for
            // the whole job would have them removed, and their logs with them.
            backoff_limit_per_index: Some(0),
            ttl_seconds_after_finished: Some(pod::seconds(request.ttl)),
            suspend: request.queue.is_some().then_some(true),
            template: template(request),
            ..JobSpec::default()
        }),
        status: None,
    }
}

fn template(request: &Request) -> PodTemplateSpec {
    let mut template = pod::template(request, Role::Ranks, &command(request));
    let spec = template.spec.get_or_insert_default();
    spec.subdomain = Some(request.name.to_string());
    for container in &mut spec.containers {
        container.env = Some(vec![token(request)]);
        // On the network of a node the port is taken there, so that the scheduler looks for a node
        // where it is free.
        container.ports = Some(vec![ContainerPort {
            name: Some("rendezvous".into()),
            container_port: request.port.into(),
            ..ContainerPort::default()
        }]);
    }
    template
}

/// Returns what a pod runs: the ranks of its node.
fn command(request: &Request) -> Vec<String> {
    let host = request.name.first_host();
    let mut options = Vec::new();
    if !request.keep.is_zero() {
        let seconds = pod::seconds(request.keep).to_string();
        options.extend(["--keep".to_owned(), seconds]);
    }
    let mut join = vec![
        "join".to_owned(),
        pod::POD_NUMBER.to_owned(),
        format!("{host}:{}", request.port),
        "--nodes".to_owned(),
        request.nodes.to_string(),
        "--ranks-per-node".to_owned(),
        request.ranks_per_node.to_string(),
        "--".to_owned(),
    ];
    join.extend(pod::ranks(request));
    pod::in_pod(request, &options, &join)
}

fn token(request: &Request) -> EnvVar {
    let key = SecretKeySelector {
        name: request.name.token(),
        key: TOKEN.into(),
        optional: None,
    };
    EnvVar {
        name: TOKEN.into(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(key),
            ..EnvVarSource::default()
        }),
    }
}

/// Returns the service. It has no address of its own: its name is that of the pods, also before
/// they are ready.
pub(super) fn service(request: &Request) -> Service {
    Service {
        metadata: pod::metadata(request, request.name.to_string()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(pod::labels_of_role(request, Role::Ranks)),
            ports: Some(vec![ServicePort {
                name: Some("rendezvous".into()),
                port: request.port.into(),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kube::request::tests::request;

    #[test]
    fn a_pod_joins_the_first_one_with_its_own_number() {
        assert_eq!(
            command(&request()).join(" "),
            "pxnbench kube in-pod --results /results/pxn -- join $(JOB_COMPLETION_INDEX) \
             pxn-0.pxn:29500 --nodes 2 --ranks-per-node 8 -- all_reduce --backend nccl --level \
             aggressive --out /results/pxn"
        );
        let kept = Request {
            keep: Duration::from_secs(60),
            ..request()
        };
        assert!(command(&kept).join(" ").contains("--keep 60 -- join"));
    }

    #[test]
    fn every_node_has_a_pod_and_a_queue_starts_them() {
        let spec = job(&request()).spec.expect("a spec");
        assert_eq!(spec.completions, Some(2));
        assert_eq!(spec.parallelism, Some(2));
        assert_eq!(spec.suspend, None);
        let queued = Request {
            queue: Some("gpus".parse().expect("a name")),
            ..request()
        };
        let job = job(&queued);
        assert_eq!(job.spec.expect("a spec").suspend, Some(true));
        let labels = job.metadata.labels.expect("labels");
        assert_eq!(labels["kueue.x-k8s.io/queue-name"], "gpus");
    }
}
