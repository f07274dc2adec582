//! `pxnbench kube status`: why a pod waits or has failed, and how the run ended.

use serde_json::{Value, json};

use crate::{
    common::run,
    fake::{
        Fake, cluster, condition, ended, event, job, list, pod, running, unschedulable, waiting,
    },
};

/// What `status` prints.
fn status(fake: &Fake, code: i32) -> String {
    let ended = run(&mut fake.kube("status pxn")).expect_code(code);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn a_pod_that_waits_for_gpus_says_so() {
    let message = "0/5 nodes are available: 1 node(s) had untolerated taint \
                   {node-role.kubernetes.io/control-plane: }, 4 Insufficient nvidia.com/gpu. \
                   preemption: 0/5 nodes are available: 1 Preemption is not helpful for \
                   scheduling, 4 No preemption victims found for incoming pod.";
    let fake = cluster(
        &json!([]),
        &[pod(0, &running()), pod(1, &unschedulable(message))],
        &[],
    );
    let text = status(&fake, 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "pxn: the Job is not done, 2 of 2 pods there (1 running, 1 pending)"
    );
    assert_eq!(lines[1], "  pxn-0-abcde  Running  node-0");
    assert_eq!(lines[2], "  pxn-1-abcde  Pending  on no node yet");
    assert!(
        lines[3]
            .starts_with("pxn-1-abcde: too few nodes have enough free GPUs (Unschedulable: 0/5"),
        "{text}"
    );
    assert!(
        lines[3].contains("Wait, or use fewer --gpus or --nodes"),
        "{text}"
    );
    assert!(lines[4].contains("taint"), "{text}");
}

#[test]
fn each_reason_has_a_cause_and_a_remedy() {
    let both = |status: &Value| vec![pod(0, status), pod(1, status)];
    let oom = ended(137, "OOMKilled", "");
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let late = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"});
    let start = ended(
        128,
        "StartError",
        "failed to create containerd task: exec: \"pxnbench\": executable file not found in \
         $PATH: unknown",
    );
    for (pods, code, cause, remedy) in [
        (
            both(&waiting(
                "ImagePullBackOff",
                "Back-off pulling image \"registry.example/pxnbench:1\"",
            )),
            0,
            "the image cannot be pulled (ImagePullBackOff: Back-off",
            "--pull-secret",
        ),
        (
            both(&waiting(
                "CreateContainerConfigError",
                "secret \"pxn-token\" not found",
            )),
            0,
            "a ConfigMap or Secret of the deployment is missing",
            "deploy again",
        ),
        (
            both(&unschedulable(
                "0/2 nodes are available: 2 Insufficient rdma/hca_shared_devices_a.",
            )),
            0,
            "too few nodes have the RDMA resource",
            "Give --rdma a resource",
        ),
        (
            both(&unschedulable(
                "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            )),
            0,
            "every pod needs a node of its own",
            "fewer --nodes",
        ),
        (
            both(&oom),
            8,
            "the pod used more memory than its limit",
            "Lower --shm",
        ),
        (
            both(&evicted),
            8,
            "the node was short of memory or disk",
            "Raise --memory",
        ),
        (
            both(&late),
            8,
            "the pod took longer than its deadline",
            "a longer --deadline",
        ),
        (
            both(&start),
            8,
            "the image does not have the program in its PATH",
            "docs/CONTAINERS.md",
        ),
    ] {
        let conditions = if code == 0 {
            json!([])
        } else {
            condition("Failed", "Job has failed indexes")
        };
        let text = status(&cluster(&conditions, &pods, &[]), code);
        assert!(text.contains(cause), "{text}");
        assert!(text.contains(remedy), "{text}");
        assert_eq!(text.matches(cause).count(), 1, "once for all pods: {text}");
    }
}

#[test]
fn a_quota_that_keeps_pods_from_being_made_is_found_in_the_events() {
    let message = "Error creating: pods \"pxn-0-x\" is forbidden: exceeded quota: gpus, \
                   requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=16, \
                   limited: requests.nvidia.com/gpu=16";
    let events = [
        event("Job", "pxn", "FailedCreate", message),
        event("Pod", "another-0", "Failed", "ImagePullBackOff"),
    ];
    let text = status(&cluster(&json!([]), &[], &events), 0);
    assert!(
        text.starts_with("pxn: the Job is not done, no pods yet\n"),
        "{text}"
    );
    assert!(
        text.contains("pxn: the quota of the namespace is used up (FailedCreate: Error creating"),
        "{text}"
    );
    assert!(
        !text.contains("image"),
        "what is about others is not shown: {text}"
    );
}

#[test]
fn a_profile_that_keeps_pods_out_is_found_in_the_events() {
    let message = "Error creating: pods \"pxn-0-x\" is forbidden: violates PodSecurity \
                   \"restricted:latest\": unrestricted capabilities (container \"ranks\" must not \
                   include \"IPC_LOCK\" in securityContext.capabilities.add)";
    let events = [event("Job", "pxn", "FailedCreate", message)];
    let text = status(&cluster(&json!([]), &[], &events), 0);
    assert!(
        text.contains("the namespace does not admit such pods"),
        "{text}"
    );
    assert!(
        text.contains("Leave out --rdma and --host-network"),
        "{text}"
    );
}

#[test]
fn the_end_of_the_run_is_the_code() {
    let done = [
        pod(0, &ended(0, "Completed", "")),
        pod(1, &ended(0, "Completed", "")),
    ];
    let text = status(&cluster(&condition("Complete", ""), &done, &[]), 0);
    assert!(
        text.starts_with("pxn: the Job is complete, 2 of 2 pods there (2 succeeded)\n"),
        "{text}"
    );
    assert!(text.contains("exit code 0 (fine)"), "{text}");

    let log = "# table\npxnbench: wrong data in all_reduce at 8 bytes\npxnbench-results begin 1\n";
    let failed = [
        pod(0, &ended(7, "Error", log)),
        pod(1, &ended(7, "Error", "")),
    ];
    let text = status(
        &cluster(&condition("Failed", "Job has failed indexes"), &failed, &[]),
        7,
    );
    assert!(
        text.contains("pxn-0-abcde: pxnbench: wrong data in all_reduce"),
        "{text}"
    );
}

#[test]
fn a_job_that_waits_in_a_queue_says_so() {
    let fake = Fake::new();
    let mut suspended = job(&json!([]));
    suspended["spec"]["suspend"] = json!(true);
    fake.always("get job pxn *", &suspended);
    fake.always("get *", &list(&[]));
    let text = status(&fake, 0);
    assert!(
        text.contains("the Job is suspended until a queue admits it, no pods yet"),
        "{text}"
    );
    assert!(text.contains("kubectl get workloads"), "{text}");
}

#[test]
fn an_mpi_job_is_found_as_well_and_nothing_is_a_usage_error() {
    let missing = "Error from server (NotFound): jobs.batch \"pxn\" not found";
    let fake = Fake::new();
    fake.refuses("get job pxn *", missing);
    fake.always(
        "get mpijobs.kubeflow.org pxn *",
        &json!({
            "kind": "MPIJob",
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}},
            "status": {"conditions": [
                {"type": "Created", "status": "True"},
                {"type": "Running", "status": "False"},
                {"type": "Succeeded", "status": "True", "message": "MPIJob team-a/pxn successfully completed."},
            ]},
        }),
    );
    fake.always("get *", &list(&[]));
    assert!(status(&fake, 0).starts_with("pxn: the MPIJob is complete, no pods yet\n"));

    let fake = Fake::new();
    fake.refuses("get job pxn *", missing);
    fake.refuses(
        "get mpijobs*",
        "error: the server doesn't have a resource type \"mpijobs\"",
    );
    let ended = run(&mut fake.kube("status pxn")).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("jobs.batch \"pxn\" not found). Check NAME and --namespace"),
        "{}",
        ended.stderr
    );
}
