//! A kubectl that answers as it was told to, and remembers what it was asked.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{common::alone, folder};

/// The program: the first rule whose pattern fits the arguments answers, and is used up unless it
/// is to stay.
const SCRIPT: &str = r#"#!/bin/sh
here=${0%/bin/kubectl}
call=$(printf '%s/calls/%03d' "$here" "$(ls "$here/calls" | grep -c args)")
printf '%s\n' "$*" > "$call.args"
case "$*" in *--filename=-*) cat > "$call.in" ;; esac
for rule in "$here"/rules/*; do
    [ -e "$rule/pattern" ] || continue
    pattern=$(cat "$rule/pattern")
    case "$*" in
        $pattern)
            cat "$rule/stderr" >&2
            cat "$rule/stdout"
            code=$(cat "$rule/code")
            [ -e "$rule/stays" ] || rm -r "$rule"
            [ "$code" = hang ] && exec sleep 600
            while [ "$code" = talk ]; do echo "another line"; sleep 0.01; done
            exit "$code"
            ;;
    esac
done
echo "error: no answer for: $*" >&2
exit 1
"#;

/// A cluster, as far as kubectl shows it.
pub(crate) struct Fake {
    folder: TempDir,
    rules: AtomicU32,
}

/// A call of kubectl.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) arguments: String,
    pub(crate) input: Option<Value>,
}

impl Fake {
    pub(crate) fn new() -> Fake {
        let folder = folder();
        for name in ["bin", "calls", "rules", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let program = folder.path().join("bin/kubectl");
        fs::write(&program, SCRIPT).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        Fake {
            folder,
            rules: AtomicU32::new(0),
        }
    }

    fn rule(&self, pattern: &str, stdout: &str, stderr: &str, code: &str) -> PathBuf {
        let number = self.rules.fetch_add(1, Ordering::Relaxed);
        let rule = self.folder.path().join(format!("rules/{number:03}"));
        fs::create_dir(&rule).expect("a folder");
        let files = [
            ("pattern", pattern),
            ("stdout", stdout),
            ("stderr", stderr),
            ("code", code),
        ];
        for (name, text) in files {
            fs::write(rule.join(name), text).expect("written");
        }
        rule
    }

    /// Answers one call that fits `pattern`, a pattern of the shell.
    pub(crate) fn once(&self, pattern: &str, answer: &Value) {
        self.rule(pattern, &answer.to_string(), "", "0");
    }

    /// As [`Fake::once`], with a warning.
    pub(crate) fn warns(&self, pattern: &str, answer: &Value, warning: &str) {
        self.rule(pattern, &answer.to_string(), warning, "0");
    }

    /// Answers every call that fits `pattern`.
    pub(crate) fn always(&self, pattern: &str, answer: &Value) {
        let rule = self.rule(pattern, &answer.to_string(), "", "0");
        fs::write(rule.join("stays"), "").expect("written");
    }

    /// Prints `text` for one call that fits `pattern`.
    pub(crate) fn prints(&self, pattern: &str, text: &str) {
        self.rule(pattern, text, "", "0");
    }

    /// Refuses every call that fits `pattern`.
    pub(crate) fn refuses(&self, pattern: &str, stderr: &str) {
        let rule = self.rule(pattern, "", stderr, "1");
        fs::write(rule.join("stays"), "").expect("written");
    }

    /// Does not answer a call that fits `pattern`.
    pub(crate) fn hangs(&self, pattern: &str) {
        self.rule(pattern, "", "", "hang");
    }

    /// Prints line after line for one call that fits `pattern`.
    pub(crate) fn talks(&self, pattern: &str) {
        self.rule(pattern, "", "", "talk");
    }

    /// `pxnbench kube` with `arguments`, which finds this kubectl in PATH.
    pub(crate) fn kube(&self, arguments: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        let mut command = alone(&self.home());
        command
            .env("PATH", format!("{}:{path}", bin.display()))
            .env_remove("KUBECTL")
            .arg("kube")
            .args(arguments.split_whitespace());
        command
    }

    /// The folder that `pxnbench` runs in.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// What kubectl was asked, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let entries = fs::read_dir(self.folder.path().join("calls")).expect("a folder");
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "args"));
        paths.sort();
        let mut calls = Vec::new();
        for path in paths {
            let arguments = fs::read_to_string(&path).expect("text").trim().to_owned();
            let input = fs::read(path.with_extension("in")).ok();
            calls.push(Call {
                arguments,
                input: input.map(|bytes| serde_json::from_slice(&bytes).expect("an object")),
            });
        }
        calls
    }

    /// The calls that begin with this word.
    pub(crate) fn calls_of(&self, verb: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.arguments.starts_with(verb));
        calls
    }
}

/// An object as the cluster returns it.
pub(crate) fn made(kind: &str, api_version: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {
                "app.kubernetes.io/instance": "pxn",
                "app.kubernetes.io/managed-by": "pxnbench",
                "app.kubernetes.io/name": "pxnbench",
                "pxnbench/made-by": "deploy",
            },
        },
    })
}

/// A list as kubectl prints it.
pub(crate) fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// The job of two nodes.
pub(crate) fn job(conditions: &Value) -> Value {
    let mut job = made("Job", "batch/v1", "pxn", "job-uid");
    job["spec"] = json!({
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "suspend": false,
        "template": {"spec": {"containers": [{"name": "ranks"}], "restartPolicy": "Never"}},
    });
    job["status"] = json!({"conditions": conditions, "startTime": "2026-01-02T03:04:06Z"});
    job
}

/// A pod of the job.
pub(crate) fn pod(number: u32, status: &Value) -> Value {
    let mut pod = made(
        "Pod",
        "v1",
        &format!("pxn-{number}-abcde"),
        &format!("pod-{number}"),
    );
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = json!("ranks");
    pod["metadata"]["annotations"] =
        json!({"batch.kubernetes.io/job-completion-index": number.to_string()});
    pod["spec"] = json!({"containers": [{"name": "ranks", "image": "x"}]});
    if status["phase"] != "Pending" {
        pod["spec"]["nodeName"] = json!(format!("node-{number}"));
    }
    pod["status"] = status.clone();
    pod
}

/// The status of a pod whose container runs.
pub(crate) fn running() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "ranks", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-02T03:04:07Z"}},
        }],
    })
}

/// The status of a pod whose container has ended.
pub(crate) fn ended(code: i32, reason: &str, message: &str) -> Value {
    json!({
        "phase": if code == 0 { "Succeeded" } else { "Failed" },
        "containerStatuses": [{
            "name": "ranks", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}},
        }],
    })
}

/// The status of a pod whose container waits.
pub(crate) fn waiting(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Pending",
        "containerStatuses": [{
            "name": "ranks", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}},
        }],
    })
}

/// The status of a pod that no node takes.
pub(crate) fn unschedulable(message: &str) -> Value {
    json!({
        "phase": "Pending",
        "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        }],
    })
}

/// A warning of the cluster.
pub(crate) fn event(kind: &str, name: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "metadata": {"name": "e", "namespace": "team-a"},
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "eventTime": null,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "job-controller"},
    })
}

/// A cluster with the job of two nodes, these pods, and these warnings.
pub(crate) fn cluster(conditions: &Value, pods: &[Value], events: &[Value]) -> Fake {
    let fake = Fake::new();
    fake.always("get job pxn *", &job(conditions));
    fake.always("get pods *", &list(pods));
    fake.always("get events *", &list(events));
    fake
}

/// The condition of a job that has ended.
pub(crate) fn condition(kind: &str, message: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": "x", "message": message}])
}
