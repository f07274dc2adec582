//! Why a pod waits or has failed: what the cluster says, what it means, and what to do about it.

use std::borrow::Cow;

/// A reason, by the words with which Kubernetes or kubectl gives it.
pub(super) struct Cause {
    /// Words, any of which stands for the cause.
    pub(super) words: &'static [&'static str],
    /// The cause in words of this program.
    pub(super) what: &'static str,
    /// What to do about it.
    pub(super) remedy: &'static str,
}

impl Cause {
    /// Returns whether `text` has words of this cause.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.words.iter().any(|words| text.contains(words))
    }

    /// Returns cause, evidence and remedy.
    pub(super) fn sentence(&self, evidence: &str) -> String {
        let Cause { what, remedy, .. } = self;
        format!("{what} ({evidence}). {remedy}")
    }
}

/// Words for too few GPUs.
const GPUS: &str = "Insufficient nvidia.com/gpu";

/// Words for too few of any resource of NVIDIA's device plugins.
const ANY_OF_NVIDIA: &str = "Insufficient nvidia.com/";

/// A quota that is used up.
pub(super) const QUOTA: Cause = Cause {
    words: &["exceeded quota"],
    what: "the quota of the namespace is used up",
    remedy: "Use fewer --nodes or --gpus, or lower --cpus and --memory. `kubectl describe quota` \
             shows what is left",
};

/// A namespace whose profile forbids the pods.
pub(super) const POD_SECURITY: Cause = Cause {
    words: &["violates PodSecurity"],
    what: "the namespace does not admit such pods",
    remedy: "Leave out --rdma and --host-network, or use a namespace that is labelled \
             pod-security.kubernetes.io/enforce=privileged",
};

/// The reasons. Several may apply to a pod, as the scheduler lists what is wrong with each node.
const CAUSES: [Cause; 21] = [
    Cause {
        words: &[GPUS],
        what: "too few nodes have enough free GPUs",
        remedy: "Wait, or use fewer --gpus or --nodes. If `kubectl describe nodes` shows no \
                 nvidia.com/gpu at all, the cluster lacks NVIDIA's device plugin",
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
            ANY_OF_NVIDIA,
            "Insufficient openshift.io/",
            "Insufficient mellanox.com/",
        ],
        what: "too few nodes have the RDMA resource",
        remedy: "Give --rdma a resource that `kubectl describe nodes` lists under Allocatable. If \
                 there is none, the cluster lacks a device plugin for RDMA",
    },
    Cause {
        words: &["didn't match pod anti-affinity rules"],
        what: "every pod needs a node of its own, and there are too few nodes",
        remedy: "Use fewer --nodes",
    },
    Cause {
        words: &["untolerated taint"],
        what: "nodes keep pods away by a taint",
        remedy: "`kubectl describe nodes` lists Taints. pxnbench tolerates nvidia.com/gpu only; \
                 for others, edit what `pxnbench kube render` prints",
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
    QUOTA,
    Cause {
        words: &["must specify limits", "must specify requests"],
        what: "the quota of the namespace wants limits that pxnbench does not set",
        remedy: "Have a LimitRange with defaults added to the namespace, or edit what `pxnbench \
                 kube render` prints",
    },
    POD_SECURITY,
    Cause {
        words: &["OOMKilled"],
        what: "the pod used more memory than its limit, and the kernel killed it",
        remedy: "pxnbench sets no limit, so a LimitRange of the namespace does; /dev/shm counts \
                 too. Lower --shm, or use a namespace with a higher limit",
    },
    Cause {
        words: &["Evicted"],
        what: "the node was short of memory or disk, and removed the pod",
        remedy: "Raise --memory to what the run needs, so that the scheduler finds a node that \
                 has it",
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
        remedy: "Deploy again; if it happens on the same node, have its GPUs and its device \
                 plugin checked",
    },
    Cause {
        words: &["NodeNotReady", "NodeLost", "DeletionByTaintManager"],
        what: "the node has gone",
        remedy: "Deploy again; other nodes will be used",
    },
];

/// The longest part of what somebody said that is quoted.
const LONGEST_QUOTE: usize = 600;

/// Returns what `reason` and `message` of the cluster mean, a sentence each; nothing if they are
/// not known to mean anything bad.
pub(super) fn findings(reason: &str, message: &str) -> Vec<String> {
    let said = evidence(reason, message);
    let found = CAUSES
        .iter()
        .filter(|cause| cause.is_in(reason) || cause.is_in(&concerning(cause, message)));
    found.map(|cause| cause.sentence(&said)).collect()
}

/// Returns `message` without the words that are another cause's: too few GPUs are no missing RDMA
/// resource.
fn concerning<'a>(cause: &Cause, message: &'a str) -> Cow<'a, str> {
    if cause.words.contains(&ANY_OF_NVIDIA) {
        Cow::Owned(message.replace(GPUS, ""))
    } else {
        Cow::Borrowed(message)
    }
}

/// Returns the words of the cluster as one line.
fn evidence(reason: &str, message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = beginning(&message);
    match (reason.is_empty(), message.is_empty()) {
        (false, false) => format!("{reason}: {message}"),
        (false, true) => reason.to_owned(),
        (true, _) => message,
    }
}

/// Returns what is quoted of a line, without its full stop.
pub(super) fn beginning(line: &str) -> String {
    let line = line.trim_end_matches('.');
    match line.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_says_is_taken_apart() {
        let message = "0/6 nodes are available: 2 node(s) had untolerated taint {dedicated: db}, \
                       4 Insufficient nvidia.com/gpu. preemption: 0/6 nodes are available: 6 No \
                       preemption victims found for incoming pod.";
        let texts = findings("Unschedulable", message);
        assert_eq!(texts.len(), 2, "{texts:#?}");
        assert!(
            texts[0].starts_with("too few nodes have enough free GPUs (Unschedulable: 0/6 nodes")
        );
        assert!(texts[1].contains("taint"));
    }

    #[test]
    fn an_rdma_resource_of_nvidia_is_not_a_gpu() {
        let texts = findings(
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
