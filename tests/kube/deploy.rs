//! `pxnbench kube deploy` and `cleanup`: what is made, and that exactly this is removed.

use serde_json::{Value, json};

use crate::{
    common::run,
    fake::{Fake, job, list, made},
};

const DEPLOY: &str = "deploy pxn -n team-a --image registry.example/pxnbench:1";

/// A cluster that makes everything.
fn willing() -> Fake {
    let fake = Fake::new();
    for (kind, api_version, name, uid) in [
        ("ConfigMap", "v1", "pxn-settings", "uid-settings"),
        ("Secret", "v1", "pxn-token", "uid-token"),
        ("Service", "v1", "pxn", "uid-service"),
        ("Job", "batch/v1", "pxn", "uid-job"),
    ] {
        fake.once("create *", &made(kind, api_version, name, uid));
    }
    fake
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[test]
fn deploy_makes_the_objects_and_ties_them_to_the_job() {
    let fake = willing();
    fake.always("patch *", &json!({}));
    let ended = run(&mut fake.kube(DEPLOY)).expect_code(0);
    assert_eq!(
        ended.stdout,
        "configmap/pxn-settings made in namespace team-a\nsecret/pxn-token made in namespace \
         team-a\nservice/pxn made in namespace team-a\njob/pxn made in namespace team-a\n"
    );
    assert!(
        ended.stderr.contains("pxnbench kube results pxn -n team-a"),
        "{}",
        ended.stderr
    );
    let created = fake.calls_of("create");
    let kinds: Vec<String> = created
        .iter()
        .map(|call| text(call.input.as_ref().expect("an object"), "/kind").to_owned())
        .collect();
    assert_eq!(kinds, ["ConfigMap", "Secret", "Service", "Job"]);
    for call in &created {
        let object = call.input.as_ref().expect("an object");
        assert_eq!(text(object, "/metadata/labels/pxnbench~1made-by"), "deploy");
        assert!(
            call.arguments.ends_with("--namespace team-a"),
            "{}",
            call.arguments
        );
        assert!(call.arguments.contains("--request-timeout=30000ms"));
    }
    let patched = fake.calls_of("patch");
    assert_eq!(patched.len(), 3, "all but the job");
    for call in patched {
        assert!(
            call.arguments
                .contains(r#""kind":"Job","name":"pxn","uid":"uid-job""#),
            "{call:?}"
        );
    }
    assert!(fake.calls_of("delete").is_empty());
}

#[test]
fn the_token_is_random_and_on_no_command_line() {
    let token = || {
        let fake = willing();
        fake.always("patch *", &json!({}));
        let ended = run(&mut fake.kube(DEPLOY)).expect_code(0);
        let created = fake.calls_of("create");
        let secret = created[1].input.as_ref().expect("the secret");
        let token = text(secret, "/stringData/PXNBENCH_TOKEN").to_owned();
        assert_eq!(token.len(), 64);
        for call in fake.calls() {
            assert!(!call.arguments.contains(&token));
        }
        assert!(!ended.stdout.contains(&token) && !ended.stderr.contains(&token));
        token
    };
    assert_ne!(token(), token());
}

#[test]
fn what_was_made_before_a_refusal_is_removed() {
    let fake = Fake::new();
    fake.once(
        "create *",
        &made("ConfigMap", "v1", "pxn-settings", "uid-settings"),
    );
    fake.refuses(
        "create *",
        "Error from server (Forbidden): error when creating \"STDIN\": secrets \"pxn-token\" is \
         forbidden: exceeded quota: few, requested: count/secrets=1, used: count/secrets=9, \
         limited: count/secrets=9",
    );
    fake.always("delete *", &json!({}));
    let ended = run(&mut fake.kube(DEPLOY)).expect_code(8);
    let sentence = ended.sentences().join("\n");
    assert!(
        sentence.contains("the quota of the namespace is used up"),
        "{sentence}"
    );
    assert!(sentence.contains("limited: count/secrets=9"), "{sentence}");
    let deleted = fake.calls_of("delete");
    assert_eq!(deleted.len(), 1);
    assert!(
        deleted[0].arguments.starts_with(
            "delete --raw=/api/v1/namespaces/team-a/configmaps/pxn-settings --filename=-"
        ),
        "{deleted:?}"
    );
    let options = deleted[0].input.as_ref().expect("options");
    assert_eq!(text(options, "/preconditions/uid"), "uid-settings");
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_refusal_has_cause_and_remedy() {
    for (stderr, code, says) in [
        (
            "Error from server (NotFound): error when creating \"STDIN\": namespaces \"team-a\" \
             not found",
            8,
            "Make it with `kubectl create namespace NAME`",
        ),
        (
            "Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \
             \"pxn-settings\" already exists",
            6,
            "Use another NAME",
        ),
        (
            "Error from server (Forbidden): error when creating \"STDIN\": configmaps is \
             forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in \
             the namespace \"team-a\"",
            8,
            "you are not allowed to do that",
        ),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right \
             host or port?",
            8,
            "the cluster does not answer",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            8,
            "Log in again",
        ),
    ] {
        let fake = Fake::new();
        fake.refuses("*", stderr);
        let ended = run(&mut fake.kube(DEPLOY)).expect_code(code);
        let sentence = ended.sentences().join("\n");
        assert!(sentence.contains(says), "{sentence}");
        assert!(fake.calls_of("delete").is_empty(), "nothing was made");
    }
}

#[test]
fn a_cluster_without_the_mpi_operator_is_told_apart() {
    let fake = Fake::new();
    fake.once(
        "create *",
        &made("ConfigMap", "v1", "pxn-settings", "uid-settings"),
    );
    fake.refuses(
        "create *",
        "error: resource mapping not found for name: \"pxn\" namespace: \"\" from \"STDIN\": no \
         matches for kind \"MPIJob\" in version \"kubeflow.org/v2beta1\"\nensure CRDs are \
         installed first",
    );
    fake.always("delete *", &json!({}));
    let ended = run(&mut fake.kube(&format!("{DEPLOY} --mpi-operator"))).expect_code(8);
    assert!(
        ended.stderr.contains("the cluster has no MPI operator"),
        "{}",
        ended.stderr
    );
    assert_eq!(fake.calls_of("delete").len(), 1);
}

#[test]
fn warnings_of_the_cluster_and_what_stays_loose_are_said() {
    let fake = Fake::new();
    for (kind, name) in [
        ("ConfigMap", "pxn-settings"),
        ("Secret", "pxn-token"),
        ("Service", "pxn"),
    ] {
        fake.once("create *", &made(kind, "v1", name, "u"));
    }
    fake.warns(
        "create *",
        &made("Job", "batch/v1", "pxn", "uid-job"),
        "Warning: would violate PodSecurity \"restricted:latest\": host namespaces \
         (hostNetwork=true)",
    );
    fake.refuses(
        "patch *",
        "Error from server (Forbidden): services \"pxn\" is forbidden: User \"ann\" cannot patch",
    );
    let ended = run(&mut fake.kube(&format!("{DEPLOY} --host-network"))).expect_code(0);
    assert!(
        ended.stderr.contains("would violate PodSecurity"),
        "{}",
        ended.stderr
    );
    assert!(
        ended
            .stderr
            .contains("note: the profiles baseline and restricted forbid the network of the node")
    );
    assert!(
        ended
            .stderr
            .contains("service/pxn will not be removed together with the job")
    );
}

#[test]
fn cleanup_removes_what_deploy_made_and_nothing_else() {
    let fake = Fake::new();
    let mut applied = made("ConfigMap", "v1", "pxn-settings", "uid-applied");
    applied["metadata"]["labels"]["pxnbench/made-by"] = Value::Null;
    let others = made("Secret", "v1", "pxn-registry", "uid-registry");
    let found = [
        applied,
        others,
        made("Secret", "v1", "pxn-token", "uid-token"),
        made("Service", "v1", "pxn", "uid-service"),
        made("Job", "batch/v1", "pxn", "uid-job"),
    ];
    fake.once(
        "get jobs.batch,services,configmaps,secrets *",
        &list(&found),
    );
    fake.refuses(
        "get mpijobs*",
        "error: the server doesn't have a resource type \"mpijobs\"",
    );
    fake.always("delete *", &json!({}));
    let ended = run(&mut fake.kube("cleanup pxn")).expect_code(0);
    assert_eq!(
        ended.stdout,
        "job/pxn removed from namespace team-a\nsecret/pxn-token removed from namespace \
         team-a\nservice/pxn removed from namespace team-a\n"
    );
    for stays in ["configmap/pxn-settings stays", "secret/pxn-registry stays"] {
        assert!(ended.stderr.contains(stays), "{}", ended.stderr);
    }
    let deleted = fake.calls_of("delete");
    let uids: Vec<&str> = deleted
        .iter()
        .map(|call| text(call.input.as_ref().expect("options"), "/preconditions/uid"))
        .collect();
    assert_eq!(uids, ["uid-job", "uid-token", "uid-service"]);
}

#[test]
fn cleanup_says_if_there_is_nothing_or_if_it_has_changed() {
    let fake = Fake::new();
    fake.always("get *", &list(&[]));
    let ended = run(&mut fake.kube("cleanup pxn")).expect_code(6);
    assert!(
        ended.stderr.contains("there is nothing to remove"),
        "{}",
        ended.stderr
    );
    assert!(fake.calls_of("delete").is_empty());

    let fake = Fake::new();
    fake.once("get jobs.batch*", &list(&[job(&json!([]))]));
    fake.always("get *", &list(&[]));
    fake.refuses(
        "delete *",
        "Error from server (Conflict): the UID in the precondition (job-uid) does not match the \
         UID in record (other)",
    );
    let ended = run(&mut fake.kube("cleanup pxn")).expect_code(8);
    assert!(
        ended.stderr.contains("it has changed in the meantime"),
        "{}",
        ended.stderr
    );
}

#[test]
fn cleanup_is_not_done_if_it_cannot_tell_whether_there_is_an_mpi_job() {
    let fake = Fake::new();
    fake.once("get jobs.batch*", &list(&[job(&json!([]))]));
    fake.refuses("get mpijobs*", "Unable to connect to the server: EOF");
    let ended = run(&mut fake.kube("cleanup pxn")).expect_code(8);
    assert!(
        ended.stderr.contains("the cluster does not answer"),
        "{}",
        ended.stderr
    );
    assert!(fake.calls_of("delete").is_empty());
}

#[test]
fn a_missing_or_hanging_kubectl_is_one_sentence_in_time() {
    let fake = Fake::new();
    let mut command = fake.kube("status pxn");
    command.env("KUBECTL", "/no/such/kubectl");
    let ended = run(&mut command).expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("Install kubectl, or set KUBECTL to its path")
    );

    fake.hangs("get *");
    let ended = run(&mut fake.kube("status pxn --request-timeout 500ms")).expect_code(4);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("kubectl get has not ended within 1 s"),
        "{}",
        ended.stderr
    );
}
