//! What kubectl says when it does not do what it is asked to, and what to do about it.

use super::causes::{Cause, POD_SECURITY, QUOTA, beginning};
use crate::exit::{Code, Failure};

/// A reason for which kubectl, or the cluster, refuses, and the exit code that it means.
struct Refusal {
    cause: Cause,
    code: Code,
}

/// The reasons, the most special first.
const REFUSALS: [Refusal; 12] = [
    Refusal {
        cause: Cause {
            words: &["namespaces \""],
            what: "the namespace does not exist, or you may not see it",
            remedy: "Make it with `kubectl create namespace NAME`, or name another one with \
                     --namespace",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: QUOTA,
        code: Code::Launch,
    },
    Refusal {
        cause: POD_SECURITY,
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["AlreadyExists", "already exists"],
            what: "there is already something of this name",
            remedy: "Use another NAME, or remove the old one with `pxnbench kube cleanup`",
        },
        code: Code::Usage,
    },
    Refusal {
        cause: Cause {
            words: &["no matches for kind \"MPIJob\"", "resource type \"mpijobs"],
            what: "the cluster has no MPI operator",
            remedy: "Leave out --mpi-operator, or have kubeflow/mpi-operator installed",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["(Unauthorized)", "must be logged in", "token has expired"],
            what: "the cluster does not know you",
            remedy: "Log in again; `kubectl auth whoami` shows whether it worked",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["(Forbidden)", "forbidden"],
            what: "you are not allowed to do that",
            remedy: "Use a namespace of your own with --namespace, or ask for the permissions in \
                     docs/KUBERNETES.md",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["(NotFound)", "not found"],
            what: "it is not there",
            remedy: "Check NAME and --namespace. `kubectl get jobs -A -l \
                     app.kubernetes.io/managed-by=pxnbench` lists deployments",
        },
        code: Code::Usage,
    },
    Refusal {
        cause: Cause {
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
            what: "the cluster does not answer",
            remedy: "Check KUBECONFIG and the network. `kubectl cluster-info` shows whether the \
                     cluster can be reached",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["(Conflict)", "Precondition failed"],
            what: "it has changed in the meantime",
            remedy: "Try again",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["strict decoding error", "unknown field"],
            what: "the cluster is too old for these manifests",
            remedy: "Kubernetes 1.29 or later is needed",
        },
        code: Code::Launch,
    },
    Refusal {
        cause: Cause {
            words: &["(Invalid)", "is invalid"],
            what: "the cluster finds the manifests invalid",
            remedy: "`pxnbench kube render` prints them",
        },
        code: Code::Launch,
    },
];

/// Returns the error for what kubectl said.
pub(super) fn failure(stderr: &str) -> anyhow::Error {
    let said = quote(stderr);
    let refusal = REFUSALS.iter().find(|refusal| refusal.cause.is_in(stderr));
    match refusal {
        Some(Refusal { cause, code }) => {
            Failure::on_all_ranks(*code, cause.sentence(&format!("kubectl: {said}")))
        }
        None => Failure::on_all_ranks(Code::Launch, format!("kubectl failed: {said}")),
    }
}

/// Returns whether kubectl said that something is not there.
pub(super) fn is_not_found(stderr: &str) -> bool {
    stderr.contains("(NotFound)") || stderr.contains("doesn't have a resource type")
}

/// Returns whether kubectl said that there is no such thing, or that its user may not see any.
pub(super) fn is_none_to_see(stderr: &str) -> bool {
    is_not_found(stderr) || stderr.contains("(Forbidden)")
}

/// Returns whether a line is of the log of kubectl's libraries, such as `E0102 03:04:05.678901 …`.
/// What it says is said again in the last line.
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
    if said.is_empty() {
        return "nothing".to_owned();
    }
    beginning(&said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;

    #[test]
    fn what_kubectl_says_becomes_cause_and_remedy() {
        for (said, code, part) in [
            (
                "Error from server (NotFound): error when creating \"STDIN\": namespaces \
                 \"team-b\" not found",
                Code::Launch,
                "kubectl create namespace",
            ),
            (
                "Error from server (Forbidden): error when creating \"STDIN\": configmaps \
                 \"pxn-settings\" is forbidden: exceeded quota: objects, requested: \
                 count/configmaps=1, used: count/configmaps=4, limited: count/configmaps=4",
                Code::Launch,
                "quota",
            ),
            (
                "Error from server (AlreadyExists): error when creating \"STDIN\": jobs.batch \
                 \"pxn\" already exists",
                Code::Usage,
                "another NAME",
            ),
            (
                "error: resource mapping not found for name: \"pxn\" namespace: \"\" from \
                 \"STDIN\": no matches for kind \"MPIJob\" in version \"kubeflow.org/v2beta1\"",
                Code::Launch,
                "no MPI operator",
            ),
            (
                "The connection to the server localhost:8080 was refused - did you specify the \
                 right host or port?",
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
        assert!(quote(&"ä".repeat(10_000)).chars().count() < 610);
        assert_eq!(quote("a\n\n b.\n"), "a; b");
        let log = "E0102 03:04:05.678901 18180 memcache.go:265] \"Unhandled Error\"";
        assert_eq!(quote(&format!("{log}\nrefused")), "refused");
        assert_eq!(quote(log), log, "if there is nothing else");
    }
}
