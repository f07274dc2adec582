//! Why a pod waits or has failed: what the cluster says, what it means, and what to do about it.

/// A reason, by the words with which Kubernetes gives it.
struct Cause {
    /// Words of a reason or a message, any of which stands for the cause.
    words: &'static [&'static str],
    what: &'static str,
    remedy: &'static str,
}

/// The reasons. Several may apply to a pod, as the scheduler lists what is wrong with each node.
const CAUSES: [Cause; 21] = [
    Cause {
        words: &["Insufficient nvidia.com/gpu"],
        what: "too few nodes have enough free GPUs",
        remedy: "Wait, or use fewer --gpus or --nodes. If `kubectl describe nodes` shows no nvidia.com/gpu at all, the cluster \
                 lacks NVIDIA's device plugin",
    },
    Cause {
        words: &["Insufficient cpu"],
        what: "too few nodes have enough free CPUs",
        remedy: "Lower --cpus",
    },
    Cause {
        words: &["Insufficient memory"],
        what: "too few nodes have enough free memory",
        remedy: "Lower --memory",
    },
    Cause {
        words: &[
            "Insufficient rdma/",
            "Insufficient nvidia.com/",
            "Insufficient openshift.io/",
            "Insufficient mellanox.com/",
        ],
        what: "too few nodes have the RDMA resource",
        remedy: "Give --rdma a resource that `kubectl describe nodes` lists under Allocatable. If there is none, the cluster \
                 lacks a device plugin for RDMA",
    },
    Cause {
        words: &["didn't match pod anti-affinity rules"],
        what: "every pod needs a node of its own, and there are too few nodes",
        remedy: "Use fewer --nodes",
    },
    Cause {
        words: &["untolerated taint"],
        what: "nodes keep pods away by a taint",
        remedy: "`kubectl describe nodes` lists Taints. pxnbench tolerates nvidia.com/gpu only; for others, edit what \
                 `pxnbench kube render` prints",
    },
    Cause {
        words: &["didn't have free ports"],
        what: "the port of the rendezvous is taken on the nodes",
        remedy: "Use another --port",
    },
    Cause {
        words: &[
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
            "ErrImageNeverPull",
        ],
        what: "the image cannot be pulled",
        remedy: "Check --image; a private registry needs --pull-secret",
    },
    Cause {
        words: &["exceeded quota"],
        what: "the quota of the namespace is used up",
        remedy: "Use fewer --nodes or --gpus, or lower --cpus and --memory. `kubectl describe quota` shows what is left",
    },
    Cause {
        words: &["must specify limits", "must specify requests"],
        what: "the quota of the namespace wants limits that pxnbench does not set",
        remedy: "Have a LimitRange with defaults added to the namespace, or edit what `pxnbench kube render` prints",
    },
    Cause {
        words: &["violates PodSecurity"],
        what: "the namespace does not admit such pods",
        remedy: "Leave out --rdma and --host-network, or use a namespace that is labelled \
                 pod-security.kubernetes.io/enforce=privileged",
    },
    Cause {
        words: &["OOMKilled"],
        what: "the pod used more memory than its limit, and the kernel killed it",
        remedy: "pxnbench sets no limit, so a LimitRange of the namespace does; /dev/shm counts too. Lower --shm, or use a \
                 namespace with a higher limit",
    },
    Cause {
        words: &["Evicted"],
        what: "the node was short of memory or disk, and removed the pod",
        remedy: "Raise --memory to what the run needs, so that the scheduler finds a node that has it",
    },
    Cause {
        words: &["Preempting", "Preempted", "PreemptionByScheduler"],
        what: "a pod of higher priority took its place",
        remedy: "Deploy again when the cluster is less busy",
    },
    Cause {
        words: &["DeadlineExceeded"],
        what: "the pod took longer than its deadline",
        remedy: "Use a longer --deadline, or fewer sizes",
    },
    Cause {
        words: &["CreateContainerConfigError"],
        what: "a ConfigMap or Secret of the deployment is missing",
        remedy: "Remove it with `pxnbench kube cleanup`, and deploy again",
    },
    Cause {
        words: &["executable file not found", "no such file or directory"],
        what: "the image does not have the program in its PATH",
        remedy: "Use an image with pxnbench; docs/CONTAINERS.md says how to build one",
    },
    Cause {
        words: &["runAsNonRoot", "run as non-root"],
        what: "the image wants to run as root, and the pod forbids it",
        remedy: "Use an image that works for any user",
    },
    Cause {
        words: &["FailedMount", "FailedCreatePodSandBox", "NetworkNotReady"],
        what: "the node cannot set the pod up",
        remedy: "Ask the administrators of the node; `kubectl describe pod` shows the rest",
    },
    Cause {
        words: &["UnexpectedAdmissionError"],
        what: "the node has fewer healthy devices than the scheduler believed",
        remedy: "Deploy again; if it happens on the same node, have its GPUs and its device plugin checked",
    },
    Cause {
        words: &["NodeNotReady", "NodeLost", "DeletionByTaintManager"],
        what: "the node has gone",
        remedy: "Deploy again; other nodes will be used",
    },
];

/// What keeps a pod, or a job, from what it is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The sentence, with cause, evidence and remedy.
    pub(super) text: String,
}

/// The longest part of the cluster's words that is quoted.
const LONGEST_QUOTE: usize = 400;

/// Returns what `reason` and `message` of the cluster mean; nothing if they are not known to mean anything bad.
pub(super) fn findings(reason: &str, message: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for cause in &CAUSES {
        let is_it = |words: &&str| reason.contains(words) || message.contains(words);
        let is_covered = is_gpu(cause, message);
        if is_covered || !cause.words.iter().any(is_it) {
            continue;
        }
        let Cause { what, remedy, .. } = cause;
        let said = evidence(reason, message);
        findings.push(Finding {
            text: format!("{what} ({said}). {remedy}"),
        });
    }
    findings
}

/// Returns whether a cause that looks at all resources of NVIDIA would only say again that there are too few GPUs.
fn is_gpu(cause: &Cause, message: &str) -> bool {
    cause.words.contains(&"Insufficient nvidia.com/")
        && !cause.words.iter().any(|words| {
            let rest = message.replace("Insufficient nvidia.com/gpu", "");
            rest.contains(words)
        })
}

/// Returns the words of the cluster as one line.
pub(super) fn evidence(reason: &str, message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = message.trim_end_matches('.');
    let end = message.char_indices().nth(LONGEST_QUOTE).map(|(at, _)| at);
    let message = match end {
        Some(end) => format!("{} …", &message[..end]),
        None => message.to_owned(),
    };
    match (reason.is_empty(), message.is_empty()) {
        (false, false) => format!("{reason}: {message}"),
        (false, true) => reason.to_owned(),
        (true, _) => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(reason: &str, message: &str) -> Vec<String> {
        findings(reason, message)
            .into_iter()
            .map(|finding| finding.text)
            .collect()
    }

    #[test]
    fn what_the_scheduler_says_is_taken_apart() {
        let message = "0/6 nodes are available: 2 node(s) had untolerated taint {dedicated: db}, 4 Insufficient nvidia.com/gpu. \
                       preemption: 0/6 nodes are available: 6 No preemption victims found for incoming pod.";
        let texts = texts("Unschedulable", message);
        assert_eq!(texts.len(), 2, "{texts:#?}");
        assert!(
            texts[0].starts_with("too few nodes have enough free GPUs (Unschedulable: 0/6 nodes")
        );
        assert!(texts[1].contains("taint"));
    }

    #[test]
    fn an_rdma_resource_of_nvidia_is_not_a_gpu() {
        let texts = texts(
            "Unschedulable",
            "0/2 nodes are available: 2 Insufficient nvidia.com/rdma_ib.",
        );
        assert_eq!(texts.len(), 1, "{texts:#?}");
        assert!(texts[0].contains("--rdma"));
    }

    #[test]
    fn what_is_not_known_means_nothing() {
        assert!(findings("ContainerCreating", "").is_empty());
        assert!(findings("Completed", "").is_empty());
        assert!(findings("", "").is_empty());
    }

    #[test]
    fn evidence_is_one_line() {
        assert_eq!(
            evidence("Evicted", "low on\n  memory."),
            "Evicted: low on memory"
        );
        assert_eq!(evidence("", ""), "");
        assert!(evidence("x", &"y".repeat(5000)).chars().count() < LONGEST_QUOTE + 10);
    }
}
