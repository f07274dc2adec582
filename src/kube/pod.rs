//! The pods of a deployment: one per node, with its GPUs, its devices and its memory.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{
        Affinity, ConfigMapEnvSource, Container, EmptyDirVolumeSource, EnvFromSource,
        LocalObjectReference, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec,
        ResourceRequirements, Toleration, Volume, VolumeMount,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};

use super::{
    names::DeploymentName,
    request::{Request, Starter},
    security,
};
use crate::units::Bytes;

/// The folder in a pod that holds the results.
const RESULTS: &str = "/results";

/// The GPUs of a node, as NVIDIA's device plugin names them.
const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// The label with the name of a deployment.
pub(super) const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// The label with the program that made an object.
pub(super) const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGER_LABEL`].
pub(super) const MANAGER: &str = "pxnbench";

/// The label with what a pod does.
pub(super) const COMPONENT_LABEL: &str = "app.kubernetes.io/component";

/// The value of [`COMPONENT_LABEL`] of the pod that runs mpirun.
pub(super) const LAUNCHER: &str = "launcher";

/// How long a pod that is to end may take, to save what was measured.
const GRACE_SECONDS: i64 = 60;

/// What a pod of a deployment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It runs ranks on the GPUs of its node.
    Ranks,
    /// It runs mpirun, on no GPU.
    Launcher,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Ranks => "ranks",
            Role::Launcher => LAUNCHER,
        }
    }
}

/// Returns the labels of all objects of a deployment.
fn labels(request: &Request) -> BTreeMap<String, String> {
    let labels = [
        ("app.kubernetes.io/name", "pxnbench".to_owned()),
        (INSTANCE_LABEL, request.name.to_string()),
        (MANAGER_LABEL, MANAGER.to_owned()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the labels of the pods of one role.
pub(super) fn labels_of_role(request: &Request, role: Role) -> BTreeMap<String, String> {
    let mut labels = labels(request);
    labels.insert(COMPONENT_LABEL.to_owned(), role.name().to_owned());
    labels
}

/// Returns the metadata of an object of the deployment.
pub(super) fn metadata(request: &Request, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: request.namespace.as_ref().map(ToString::to_string),
        labels: Some(labels(request)),
        ..ObjectMeta::default()
    }
}

/// Returns the metadata of the job itself, which a queue may have to admit.
pub(super) fn metadata_of_job(request: &Request) -> ObjectMeta {
    let mut metadata = metadata(request, request.name.to_string());
    if let Some(queue) = &request.queue {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("kueue.x-k8s.io/queue-name".to_owned(), queue.to_string());
    }
    metadata
}

/// Returns pods with one container that runs `command`.
pub(super) fn template(request: &Request, role: Role, command: &[String]) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels_of_role(request, role)),
            ..ObjectMeta::default()
        }),
        spec: Some(spec(request, role, command)),
    }
}

fn spec(request: &Request, role: Role, command: &[String]) -> PodSpec {
    let pull_secret = request.pull_secret.iter();
    let pull_secrets = pull_secret.map(|name| LocalObjectReference {
        name: name.to_string(),
    });
    PodSpec {
        // The MPI operator decides for the pods of its own job.
        restart_policy: (request.starter == Starter::Job).then(|| "Never".to_owned()),
        // Unlike that of a job, the deadline of a pod leaves its log.
        active_deadline_seconds: Some(seconds(request.deadline).into()),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        automount_service_account_token: Some(false),
        // A service of another name would otherwise become variables, some of which look like
        // NCCL's.
        enable_service_links: Some(false),
        host_network: request.host_network.then_some(true),
        // Otherwise the pods of a node's network do not find each other by name.
        dns_policy: request
            .host_network
            .then(|| "ClusterFirstWithHostNet".to_owned()),
        security_context: Some(security::of_pod(request)),
        tolerations: (role == Role::Ranks).then(|| vec![toleration()]),
        affinity: (role == Role::Ranks && request.nodes > 1).then(|| one_per_node(request)),
        image_pull_secrets: request
            .pull_secret
            .is_some()
            .then(|| pull_secrets.collect()),
        containers: vec![container(request, role, command)],
        volumes: Some(volumes(request)),
        ..PodSpec::default()
    }
}

fn container(request: &Request, role: Role, command: &[String]) -> Container {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let arguments = arguments.iter().map(|word| literal(word));
    Container {
        name: role.name().into(),
        image: Some(request.image.clone()),
        command: Some(vec![program.clone()]),
        args: Some(arguments.collect()),
        working_dir: Some(RESULTS.into()),
        env_from: Some(vec![EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource {
                name: request.name.settings(),
                optional: None,
            }),
            ..EnvFromSource::default()
        }]),
        resources: Some(resources(request, role)),
        security_context: Some(security::of_container(request)),
        // The last lines of a run that fails become the reason that Kubernetes shows.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![mount("shm", "/dev/shm"), mount("results", RESULTS)]),
        ..Container::default()
    }
}

/// The variable with the number of a pod, which the Job sets.
pub(super) const POD_NUMBER: &str = "$(JOB_COMPLETION_INDEX)";

/// Returns `word` as Kubernetes passes it on unchanged: it replaces `$(NAME)`, and makes one of two
/// dollar signs.
fn literal(word: &str) -> String {
    if word == POD_NUMBER {
        return word.to_owned();
    }
    word.replace('$', "$$")
}

/// Returns this program in a pod: what runs `arguments`, and leaves in the log what they write
/// below the folder of the results.
pub(super) fn in_pod(request: &Request, options: &[String], arguments: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["pxnbench", "kube", "in-pod"].map(str::to_owned).into();
    words.extend(["--results".to_owned(), folder_of_results(request)]);
    words.extend_from_slice(options);
    words.push("--".to_owned());
    words.extend_from_slice(arguments);
    words
}

/// Returns the arguments of the sweep or of the replay, which writes to the folder of the results.
pub(super) fn ranks(request: &Request) -> Vec<String> {
    let mut words = request.arguments();
    words.extend(["--out".to_owned(), folder_of_results(request)]);
    words
}

fn folder_of_results(request: &Request) -> String {
    results_of(&request.name)
}

/// Returns the folder in a pod that holds the results of a deployment.
pub(super) fn results_of(name: &DeploymentName) -> String {
    format!("{RESULTS}/{name}")
}

/// Nodes with GPUs often keep other pods away.
fn toleration() -> Toleration {
    Toleration {
        key: Some(GPU_RESOURCE.into()),
        operator: Some("Exists".into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    }
}

/// Keeps two pods of the deployment from sharing a node: between them nothing would cross the
/// network.
fn one_per_node(request: &Request) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(labels_of_role(request, Role::Ranks)),
            match_expressions: None,
        }),
        topology_key: "kubernetes.io/hostname".into(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
        ..Affinity::default()
    }
}

/// Devices are limits, of which requests follow; processors and memory are requests only, so that a
/// run is neither slowed down nor killed for using what is free.
fn resources(request: &Request, role: Role) -> ResourceRequirements {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    match role {
        Role::Launcher => {
            requests.insert("cpu".to_owned(), Quantity("1".into()));
            requests.insert("memory".to_owned(), Quantity("1Gi".into()));
        }
        Role::Ranks => {
            requests.insert("cpu".to_owned(), Quantity(request.cpus.to_string()));
            requests.insert("memory".to_owned(), quantity(request.memory));
            limits.insert(GPU_RESOURCE.to_owned(), Quantity(request.gpus.to_string()));
            if let Some(rdma) = &request.rdma {
                limits.insert(rdma.resource.clone(), Quantity(rdma.count.to_string()));
            }
        }
    }
    ResourceRequirements {
        requests: Some(requests),
        limits: (!limits.is_empty()).then_some(limits),
        claims: None,
    }
}

/// Returns a time as Kubernetes takes it: in whole seconds, of which a part counts as one, and at
/// most [`i32::MAX`].
pub(super) fn seconds(time: Duration) -> i32 {
    let part = u64::from(time.subsec_nanos() > 0);
    let whole = time.as_secs().saturating_add(part);
    i32::try_from(whole).unwrap_or(i32::MAX)
}

/// Returns a size as Kubernetes writes it, in the largest unit that is exact.
fn quantity(bytes: Bytes) -> Quantity {
    for (unit, power) in [("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        let size = 1_u64 << power;
        if bytes.0 > 0 && bytes.0.is_multiple_of(size) {
            return Quantity(format!("{}{unit}", bytes.0 / size));
        }
    }
    Quantity(bytes.0.to_string())
}

fn volumes(request: &Request) -> Vec<Volume> {
    let shm = EmptyDirVolumeSource {
        medium: Some("Memory".into()),
        size_limit: Some(quantity(request.shm)),
    };
    [("shm", shm), ("results", EmptyDirVolumeSource::default())]
        .map(|(name, empty_dir)| Volume {
            name: name.into(),
            empty_dir: Some(empty_dir),
            ..Volume::default()
        })
        .into()
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        ..VolumeMount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::request::tests::request;

    #[test]
    fn words_reach_the_program_as_they_were_typed() {
        assert_eq!(literal("$(HOME)/x$"), "$$(HOME)/x$$");
        assert_eq!(literal(POD_NUMBER), POD_NUMBER);
    }

    #[test]
    fn sizes_are_written_exactly() {
        for (bytes, text) in [(8 << 30, "8Gi"), (1536 << 20, "1536Mi"), (1000, "1000")] {
            assert_eq!(quantity(Bytes(bytes)), Quantity(text.into()));
        }
    }

    #[test]
    fn times_are_whole_seconds_that_kubernetes_takes() {
        assert_eq!(seconds(Duration::from_secs(3600)), 3600);
        assert_eq!(seconds(Duration::from_millis(500)), 1);
        assert_eq!(seconds(Duration::MAX), i32::MAX);
    }

    #[test]
    fn pods_of_several_nodes_do_not_share_one() {
        let spec = |nodes| {
            let request = Request { nodes, ..request() };
            spec(&request, Role::Ranks, &["x".into()])
        };
        assert!(spec(2).affinity.is_some());
        assert!(spec(1).affinity.is_none(), "one pod has nobody to avoid");
    }

    #[test]
    fn devices_are_limits_and_the_launcher_has_none() {
        let request = Request {
            rdma: Some("rdma/hca:2".parse().expect("a resource")),
            ..request()
        };
        let limits = resources(&request, Role::Ranks).limits.expect("limits");
        assert_eq!(limits[GPU_RESOURCE], Quantity("8".into()));
        assert_eq!(limits["rdma/hca"], Quantity("2".into()));
        assert_eq!(resources(&request, Role::Launcher).limits, None);
    }
}
