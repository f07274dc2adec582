//! What kubectl says when it does not do what it is asked to, and what to do about it.

use crate::exit::{Code, Failure};

/// A reason for which kubectl, or the cluster, refuses.
struct Refusal {
    /// Words of kubectl, any of which stands for the reason.
    words: &'static [&'static str],
    cause: &'static str,
    remedy: &'static str,
    code: Code,
}

/// The reasons, the most special first.
const REFUSALS: [Refusal; 12] = [
    Refusal {
        words: &["namespaces \""],
        cause: "the namespace does not exist, or you may not see it",
        remedy: "Make it with `kubectl create namespace NAME`, or name another one with --namespace",
        code: Code::Launch,
    },
    Refusal {
        words: &["exceeded quota"],
        cause: "the quota of the namespace is used up",
        remedy: "Use fewer --nodes or --gpus, or lower --cpus and --memory. `kubectl describe quota` shows what is left",
        code: Code::Launch,
    },
    Refusal {
        words: &["violates PodSecurity"],
        cause: "the namespace does not admit such pods",
        remedy: "Leave out --rdma and --host-network, or use a namespace that is labelled \
                 pod-security.kubernetes.io/enforce=privileged",
        code: Code::Launch,
    },
    Refusal {
        words: &["AlreadyExists", "already exists"],
        cause: "there is already something of this name",
        remedy: "Use another NAME, or remove the old one with `pxnbench kube cleanup`",
        code: Code::Usage,
    },
    Refusal {
        words: &["no matches for kind \"MPIJob\"", "resource type \"mpijobs"],
        cause: "the cluster has no MPI operator",
        remedy: "Leave out --mpi-operator, or have kubeflow/mpi-operator installed",
        code: Code::Launch,
    },
    Refusal {
        words: &["(Unauthorized)", "must be logged in", "token has expired"],
        cause: "the cluster does not know you",
        remedy: "Log in again; `kubectl auth whoami` shows whether it worked",
        code: Code::Launch,
    },
    Refusal {
        words: &["(Forbidden)", "forbidden"],
        cause: "you are not allowed to do that",
        remedy: "Use a namespace of your own with --namespace, or ask for the permissions in docs/KUBERNETES.md",
        code: Code::Launch,
    },
    Refusal {
        words: &["(NotFound)", "not found"],
        cause: "it is not there",
        remedy: "Check NAME and --namespace. `kubectl get jobs -A -l app.kubernetes.io/managed-by=pxnbench` lists deployments",
        code: Code::Usage,
    },
    Refusal {
        words: &[
            "connection refused",
            "was refused",
            "Unable to connect",
            "no such host",
            "i/o timeout",
            "deadline exceeded",
            "current-context is not set",
            "no configuration has been provided",
        ],
        cause: "the cluster does not answer",
        remedy: "Check KUBECONFIG and the network. `kubectl cluster-info` shows whether the cluster can be reached",
        code: Code::Launch,
    },
    Refusal {
        words: &["(Conflict)", "Precondition failed"],
        cause: "it has changed in the meantime",
        remedy: "Try again",
        code: Code::Launch,
    },
    Refusal {
        words: &["strict decoding error", "unknown field"],
        cause: "the cluster is too old for these manifests",
        remedy: "Kubernetes 1.29 or later is needed",
        code: Code::Launch,
    },
    Refusal {
        words: &["(Invalid)", "is invalid"],
        cause: "the cluster finds the manifests invalid",
        remedy: "`pxnbench kube render` prints them",
        code: Code::Launch,
    },
];

/// The longest part of kubectl's words that is quoted.
const LONGEST_QUOTE: usize = 600;

/// Returns the error for what kubectl said.
pub(super) fn failure(stderr: &str) -> anyhow::Error {
    let said = quote(stderr);
    let refusal = REFUSALS
        .iter()
        .find(|refusal| refusal.words.iter().any(|words| stderr.contains(words)));
    match refusal {
        Some(refusal) => {
            let Refusal { cause, remedy, .. } = refusal;
            Failure::on_all_ranks(refusal.code, format!("{cause} (kubectl: {said}). {remedy}"))
        }
        None => Failure::on_all_ranks(Code::Launch, format!("kubectl failed: {said}")),
    }
}

/// Returns whether kubectl said that something is not there.
pub(super) fn is_not_found(stderr: &str) -> bool {
    stderr.contains("(NotFound)") || stderr.contains("doesn't have a resource type")
}

/// Returns whether a line is of the log of kubectl's libraries, such as `E0102 03:04:05.678901 …`. What it says is said again in
/// the last line.
fn is_of_log(line: &str) -> bool {
    let mut letters = line.chars();
    let is_severity = letters.next().is_some_and(|letter| "IWEF".contains(letter));
    is_severity && letters.take(4).all(|letter| letter.is_ascii_digit())
}

/// Returns what kubectl said as one line.
pub(super) fn quote(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let mut own = lines.clone();
    own.retain(|line| !is_of_log(line));
    let said = if own.is_empty() { lines } else { own };
    let said = said.join("; ");
    let said = said.trim_end_matches('.');
    let end = said.char_indices().nth(LONGEST_QUOTE).map(|(at, _)| at);
    match end {
        Some(end) => format!("{} …", &said[..end]),
        None if said.is_empty() => "nothing".to_owned(),
        None => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;

    #[test]
    fn what_kubectl_says_becomes_cause_and_remedy() {
        for (said, code, part) in [
            (
                "Error from server (NotFound): error when creating \"STDIN\": namespaces \"team-b\" not found",
                Code::Launch,
                "kubectl create namespace",
            ),
            (
                "Error from server (Forbidden): error when creating \"STDIN\": configmaps \"pxn-settings\" is forbidden: exceeded \
                 quota: objects, requested: count/configmaps=1, used: count/configmaps=4, limited: count/configmaps=4",
                Code::Launch,
                "quota",
            ),
            (
                "Error from server (AlreadyExists): error when creating \"STDIN\": jobs.batch \"pxn\" already exists",
                Code::Usage,
                "another NAME",
            ),
            (
                "error: resource mapping not found for name: \"pxn\" namespace: \"\" from \"STDIN\": no matches for kind \
                 \"MPIJob\" in version \"kubeflow.org/v2beta1\"",
                Code::Launch,
                "no MPI operator",
            ),
            (
                "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
                Code::Launch,
                "KUBECONFIG",
            ),
            (
                "something new",
                Code::Launch,
                "kubectl failed: something new",
            ),
            ("", Code::Launch, "nothing"),
        ] {
            let error = failure(said);
            assert_eq!(exit::code_of(&error), code, "{said}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_long_answer_is_cut() {
        let said = quote(&"ä".repeat(10_000));
        assert!(said.chars().count() < LONGEST_QUOTE + 5);
        assert_eq!(quote("a\n\n b.\n"), "a; b");
        let log = "E0102 03:04:05.678901 18180 memcache.go:265] \"Unhandled Error\"";
        assert_eq!(quote(&format!("{log}\nrefused")), "refused");
        assert_eq!(quote(log), log, "if there is nothing else");
    }
}
