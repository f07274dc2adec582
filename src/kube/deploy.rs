//! Making the objects of a deployment, and removing exactly those.

use serde_json::{Value, json};

use super::{
    deployment::{MPI_JOBS, selector},
    kubectl::Kubectl,
    manifests::{self, Manifest},
    names::DeploymentName,
    refusal,
    request::Request,
    settings::Token,
};
use crate::exit::{Code, Failure};

/// The label of what `deploy` has made, as opposed to what was printed and applied.
const MADE_LABEL: &str = "pxnbench/made-by";

/// Its value.
const MADE_BY: &str = "deploy";

/// An object in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    kind: String,
    api_version: String,
    namespace: String,
    name: String,
    uid: String,
}

impl Made {
    /// Reads an object that the cluster has returned.
    fn new(object: &Value) -> anyhow::Result<Made> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let made = Made {
            kind: text(&object["kind"]),
            api_version: text(&object["apiVersion"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
        };
        if made.uid.is_empty() || made.name.is_empty() || made.kind.is_empty() {
            let what = "kubectl printed an object without a kind, a name or a uid. Use another \
                        version of kubectl";
            return Err(Failure::on_all_ranks(Code::Launch, what));
        }
        Ok(made)
    }

    /// Returns what users call it.
    fn shown(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }

    /// Returns the path of the object in the API. The resource of a kind is its plural.
    fn path(&self) -> String {
        let api = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!(
            "/{api}/{}/namespaces/{}/{}s/{}",
            self.api_version,
            self.namespace,
            self.kind.to_lowercase(),
            self.name
        )
    }
}

/// Makes the objects of a request. If one cannot be made, those before it are removed again.
///
/// # Errors
///
/// Returns an error if the cluster refuses one.
pub(super) fn deploy(kubectl: &Kubectl, request: &Request) -> anyhow::Result<Code> {
    for note in manifests::notes(request) {
        note!("pxnbench: note: {note}");
    }
    let mut made = Vec::new();
    for manifest in manifests::manifests(request, &Token::random()?)? {
        match make(kubectl, &manifest) {
            Ok(object) => made.push(object),
            Err(error) => {
                give_up(kubectl, &made);
                return Err(error);
            }
        }
    }
    let (job, others) = made.split_last().expect("the job is an object");
    for object in others {
        tie(kubectl, object, job);
    }
    for object in &made {
        print_line!("{} made in namespace {}", object.shown(), object.namespace)?;
    }
    let name = &request.name;
    let option = kubectl.namespace_option();
    say!("pxnbench: {}. What to do next:", request.summary());
    for (action, what) in [
        ("status", "its pods, and why one waits"),
        ("logs --follow", "what the run prints"),
        ("results", "its files, once it has ended"),
        ("cleanup", "removes it"),
    ] {
        say!("pxnbench:   pxnbench kube {action} {name}{option}    {what}");
    }
    Ok(Code::Fine)
}

/// Makes an object, which must not be there yet.
fn make(kubectl: &Kubectl, manifest: &Manifest) -> anyhow::Result<Made> {
    let mut content = manifest.content.clone();
    content["metadata"]["labels"][MADE_LABEL] = json!(MADE_BY);
    let words = ["create", "--filename=-", "--output=json"];
    let answer = kubectl.call(&words, content.to_string().as_bytes())?;
    if !answer.is_ok {
        return Err(refusal::failure(&answer.stderr));
    }
    if !answer.stderr.is_empty() {
        // Such as a warning that no pod will be admitted.
        let said = refusal::quote(&answer.stderr);
        say!(
            "pxnbench: kubectl on {} {}: {said}",
            manifest.kind,
            manifest.name
        );
    }
    Made::new(&answer.object()?)
}

/// Makes `object` a part of `job`: who removes the job, as the cluster does some time after its
/// end, removes both.
fn tie(kubectl: &Kubectl, object: &Made, job: &Made) {
    let owner = json!([{
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
    }]);
    let patch = json!({"metadata": {"ownerReferences": owner}}).to_string();
    let shown = object.shown();
    let patch = format!("--patch={patch}");
    let answer = kubectl.call(&["patch", &shown, "--type=merge", &patch], &[]);
    let why = match answer {
        Ok(answer) if answer.is_ok => return,
        Ok(answer) => refusal::quote(&answer.stderr),
        Err(error) => error.to_string(),
    };
    say!(
        "pxnbench: {shown} will not be removed together with the job ({why}). `pxnbench kube \
         cleanup` removes both"
    );
}

/// Removes what was made before something failed.
fn give_up(kubectl: &Kubectl, made: &[Made]) {
    for object in made.iter().rev() {
        if let Err(error) = remove(kubectl, object) {
            say!(
                "pxnbench: {} was made and is still there: {error}",
                object.shown()
            );
        }
    }
}

/// Removes an object, if it is still there and the same.
fn remove(kubectl: &Kubectl, object: &Made) -> anyhow::Result<()> {
    // kubectl has no option for this condition. Without it, what somebody else has made under the
    // name since would be removed.
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": object.uid},
    });
    let raw = format!("--raw={}", object.path());
    let answer = kubectl.call(
        &["delete", &raw, "--filename=-"],
        options.to_string().as_bytes(),
    )?;
    if answer.is_ok || refusal::is_not_found(&answer.stderr) {
        return Ok(());
    }
    Err(refusal::failure(&answer.stderr))
}

/// Removes what `deploy` has made under this name, and nothing else.
///
/// # Errors
///
/// Returns an error if there is nothing, or if the cluster refuses.
pub(super) fn cleanup(kubectl: &Kubectl, name: &DeploymentName) -> anyhow::Result<Code> {
    let mut found = kubectl.list(&[
        "get",
        "jobs.batch,services,configmaps,secrets",
        &selector(name),
        "--output=json",
    ])?;
    found.extend(mpi_jobs(kubectl, name)?);
    let mut ours = Vec::new();
    for object in &found {
        let made = Made::new(object)?;
        if is_made_by_deploy(object, name) {
            ours.push(made);
        } else {
            say!(
                "pxnbench: {} stays, because `pxnbench kube deploy` has not made it. `kubectl \
                 delete` removes it",
                made.shown()
            );
        }
    }
    if ours.is_empty() {
        let what = format!(
            "there is nothing to remove: `pxnbench kube deploy` has made nothing of the name \
             {name} in this namespace. Check NAME and --namespace"
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    // The job first: its pods use the rest.
    ours.sort_by_key(|object| !object.kind.ends_with("Job"));
    for object in &ours {
        remove(kubectl, object)?;
        print_line!(
            "{} removed from namespace {}",
            object.shown(),
            object.namespace
        )?;
    }
    Ok(Code::Fine)
}

/// Returns the MPIJobs of this name; none if the cluster has no MPI operator, or if its user may
/// not see any, and so has made none.
fn mpi_jobs(kubectl: &Kubectl, name: &DeploymentName) -> anyhow::Result<Vec<Value>> {
    let words = ["get", MPI_JOBS, &selector(name), "--output=json"];
    let answer = kubectl.call(&words, &[])?;
    if answer.is_ok {
        return answer.items();
    }
    if refusal::is_none_to_see(&answer.stderr) {
        return Ok(Vec::new());
    }
    Err(refusal::failure(&answer.stderr))
}

/// Returns whether an object has the label of `deploy`, and one of the names that it gives.
fn is_made_by_deploy(object: &Value, name: &DeploymentName) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let expected = match kind {
        "ConfigMap" => name.settings(),
        "Secret" => name.token(),
        "Job" | "MPIJob" | "Service" => name.to_string(),
        _ => return false,
    };
    let metadata = &object["metadata"];
    metadata["name"] == expected.as_str() && metadata["labels"][MADE_LABEL] == MADE_BY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, api_version: &str, name: &str, made_by: &str) -> Value {
        json!({
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {
                "name": name,
                "namespace": "team-a",
                "uid": "7",
                "labels": {MADE_LABEL: made_by},
            },
        })
    }

    #[test]
    fn objects_have_a_path_in_the_api() {
        for (kind, api_version, path) in [
            (
                "Job",
                "batch/v1",
                "/apis/batch/v1/namespaces/team-a/jobs/pxn",
            ),
            ("Secret", "v1", "/api/v1/namespaces/team-a/secrets/pxn"),
            (
                "ConfigMap",
                "v1",
                "/api/v1/namespaces/team-a/configmaps/pxn",
            ),
            (
                "MPIJob",
                "kubeflow.org/v2beta1",
                "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs/pxn",
            ),
        ] {
            let made = Made::new(&object(kind, api_version, "pxn", MADE_BY)).expect("an object");
            assert_eq!(made.path(), path);
        }
    }

    #[test]
    fn only_what_deploy_has_made_is_removed() {
        let name = "pxn".parse().expect("a name");
        let is_ours = |kind, name_of, made_by| {
            is_made_by_deploy(&object(kind, "v1", name_of, made_by), &name)
        };
        assert!(is_ours("Job", "pxn", MADE_BY));
        assert!(is_ours("Secret", "pxn-token", MADE_BY));
        assert!(!is_ours("Secret", "pxn-other", MADE_BY), "another name");
        assert!(
            !is_ours("Secret", "pxn-token", "somebody"),
            "applied by hand"
        );
        assert!(!is_ours("Pod", "pxn", MADE_BY), "another kind");
    }

    #[test]
    fn an_object_without_a_uid_is_refused() {
        assert!(Made::new(&json!({"kind": "Job"})).is_err());
    }
}
