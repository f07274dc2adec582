//! Failures by the words that NCCL, PyTorch and launchers have for them.

use serde::Serialize;

/// What kind of failure a log shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The network lost or refused a transfer.
    Network,
    /// A connection could not be made, or was closed.
    Connection,
    /// A CUDA call failed.
    Cuda,
    /// Memory or space is missing.
    Memory,
    /// The program or its settings use NCCL wrongly.
    Usage,
    /// NCCL returned an error, and nothing in the log says more.
    Error,
    /// Ranks waited for each other until a watchdog stopped them.
    Hang,
    /// A signal ended a process.
    Crash,
    /// Somebody outside the job ended it.
    Stopped,
}

/// The nearness of a line to the cause. The line with the highest weight is the failure, the first
/// one if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// What follows from a failure elsewhere.
    Consequence,
    /// An error that may follow from another one.
    Symptom,
    /// A cause, as far as a log can show one.
    Cause,
}

/// What a line means, and what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: FailureKind,
    pub(super) weight: Weight,
    pub(super) meaning: &'static str,
    pub(super) remedy: &'static str,
}

const fn known(
    kind: FailureKind,
    weight: Weight,
    meaning: &'static str,
    remedy: &'static str,
) -> Known {
    Known {
        kind,
        weight,
        meaning,
        remedy,
    }
}

/// Words in NCCL's warnings, and in what PyTorch repeats of them.
pub(super) const WARNINGS: [(&str, Known); 17] = {
    use FailureKind::{Connection, Cuda, Memory, Network, Usage};
    use Weight::{Cause, Consequence, Symptom};
    [
        (
            "Duplicate GPU detected",
            known(
                Usage,
                Cause,
                "Two ranks use the same GPU.",
                "Give each rank its own GPU (CUDA_VISIBLE_DEVICES, cudaSetDevice, \
                 --gpus-per-task).",
            ),
        ),
        (
            "Mismatched NCCL version",
            known(
                Usage,
                Cause,
                "The ranks load different versions of NCCL.",
                "Use one libnccl on all nodes (LD_LIBRARY_PATH, containers, NCCL_HOME).",
            ),
        ),
        (
            "no socket interface found",
            known(
                Connection,
                Cause,
                "NCCL found no network interface for its own connections.",
                "Name one that all nodes have in NCCL_SOCKET_IFNAME.",
            ),
        ),
        (
            "No route to host",
            known(
                Connection,
                Cause,
                "A node does not reach the address of another one.",
                "Name an interface that joins the nodes in NCCL_SOCKET_IFNAME, and check the \
                 firewall.",
            ),
        ),
        (
            "Connection refused",
            known(
                Connection,
                Symptom,
                "Nothing listens at the address of a peer: its process ended, or the address is \
                 another machine's.",
                "Look at the log of that peer first; otherwise check NCCL_SOCKET_IFNAME and the \
                 firewall.",
            ),
        ),
        (
            "Connection timed out",
            known(
                Connection,
                Cause,
                "A peer does not answer: packets are dropped on the way, or its node is down.",
                "Check the firewall and the fabric between the nodes, and NCCL_SOCKET_IFNAME or \
                 NCCL_IB_HCA.",
            ),
        ),
        (
            "Network is unreachable",
            known(
                Connection,
                Cause,
                "A node has no route to another one.",
                "Name an interface that joins the nodes in NCCL_SOCKET_IFNAME.",
            ),
        ),
        (
            "No space left on device",
            known(
                Memory,
                Cause,
                "Shared memory (/dev/shm) is full or too small.",
                "Make /dev/shm larger (docker run --shm-size, an emptyDir of medium Memory), and \
                 remove old files of /dev/shm/nccl-*.",
            ),
        ),
        (
            "Error while creating shared memory segment",
            known(
                Memory,
                Cause,
                "NCCL cannot make its shared memory in /dev/shm.",
                "Make /dev/shm larger (docker run --shm-size, an emptyDir of medium Memory), and \
                 remove old files of /dev/shm/nccl-*.",
            ),
        ),
        (
            "Call to ibv_reg_mr",
            known(
                Memory,
                Cause,
                "The NIC cannot register memory.",
                "Raise the limit of locked memory (ulimit -l unlimited, also for slurmd or the \
                 container), and check nvidia-peermem for GPU memory.",
            ),
        ),
        (
            "Call to ibv_modify_qp failed",
            known(
                Network,
                Cause,
                "A queue pair cannot connect: the ports do not reach each other, or the GID is \
                 wrong.",
                "Check that NCCL_IB_HCA names ports of one fabric, and NCCL_IB_GID_INDEX on RoCE.",
            ),
        ),
        (
            "Failed to bind NVLink SHARP",
            known(
                Cuda,
                Cause,
                "NVLink SHARP cannot be set up: the fabric manager or the driver is not ready.",
                "Restart nvidia-fabricmanager, or set NCCL_NVLS_ENABLE=0.",
            ),
        ),
        (
            "out of memory",
            known(
                Cuda,
                Cause,
                "A GPU has no memory left for NCCL's buffers.",
                "Leave memory free (smaller batch, fewer communicators), or make the buffers \
                 smaller (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS).",
            ),
        ),
        (
            "Cuda failure",
            known(
                Cuda,
                Cause,
                "A CUDA call failed.",
                "Look for the first CUDA error of that process, and for Xid messages in the \
                 node's kernel log.",
            ),
        ),
        (
            "Connection closed by remote peer",
            known(
                Connection,
                Consequence,
                "A peer ended while this process was connected to it.",
                "Look at the log of that peer: it failed first.",
            ),
        ),
        (
            "Connection reset by peer",
            known(
                Connection,
                Consequence,
                "A peer ended while this process was connected to it.",
                "Look at the log of that peer: it failed first.",
            ),
        ),
        (
            "Broken pipe",
            known(
                Connection,
                Consequence,
                "A peer ended while this process was connected to it.",
                "Look at the log of that peer: it failed first.",
            ),
        ),
    ]
};

/// The hang that a watchdog ended.
pub(super) const TIMEOUT: Known = known(
    FailureKind::Hang,
    Weight::Symptom,
    "A hang: an operation did not end in time, and a watchdog stopped the ranks. No rank crashed \
     before that, as far as the log shows.",
    "Find the ranks that did not enter the operation (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, \
     TORCH_NCCL_DUMP_ON_TIMEOUT=1, py-spy dump). If all entered it, look at the network and the \
     GPUs.",
);

/// Ranks that call different operations.
pub(super) const MISMATCH: Known = known(
    FailureKind::Usage,
    Weight::Cause,
    "The ranks called different operations or sizes, so they waited for each other.",
    "Make all ranks of a group call the same operations in the same order \
     (TORCH_DISTRIBUTED_DEBUG=DETAIL names the call).",
);

/// The time limit of a job.
pub(super) const TIME_LIMIT: Known = known(
    FailureKind::Stopped,
    Weight::Symptom,
    "The batch system ended the job at its time limit. Whether it was hung or only slow, the log \
     does not say.",
    "Ask for more time, or look at where the ranks are before it ends (py-spy dump, the progress \
     of the log).",
);

/// The kernel's out-of-memory killer.
pub(super) const OUT_OF_MEMORY: Known = known(
    FailureKind::Memory,
    Weight::Cause,
    "A process was killed because the node or the job ran out of memory.",
    "Ask for more memory (--mem), or use less per process.",
);

/// A signal that ends a process because of an error in it.
pub(super) const FAULT: Known = known(
    FailureKind::Crash,
    Weight::Cause,
    "A crash: a process ended by a fault of its own, not by a hang.",
    "Look at the stack trace of that process. Other ranks then report timeouts or closed \
     connections, which follow from it.",
);

/// SIGABRT: the program ended itself.
pub(super) const ABORTED: Known = known(
    FailureKind::Crash,
    Weight::Consequence,
    "A process aborted itself, usually because of an error that it reported before.",
    "Look at the lines before it.",
);

/// SIGKILL.
pub(super) const KILLED: Known = known(
    FailureKind::Stopped,
    Weight::Symptom,
    "A process was killed from outside: by the out-of-memory killer, the batch system or somebody.",
    "Look at the kernel log of the node and at the batch system's record of the job (sacct).",
);

/// What NCCL's result codes mean, from 1.
pub(super) const RESULTS: [(&str, Known); 6] = {
    use FailureKind::{Cuda, Error, Usage};
    use Weight::{Consequence, Symptom};
    [
        (
            "ncclUnhandledCudaError",
            known(
                Cuda,
                Symptom,
                "A CUDA call of NCCL failed.",
                "Look for the first CUDA error of that process, and for Xid messages in the \
                 node's kernel log.",
            ),
        ),
        (
            "ncclSystemError",
            known(
                Error,
                Symptom,
                "A call to the system or to another library failed: a socket, memory, a NIC.",
                "Look for NCCL's warning before it; run with NCCL_DEBUG=INFO if there is none.",
            ),
        ),
        (
            "ncclInternalError",
            known(
                Error,
                Symptom,
                "NCCL failed a check of its own, often after an error of the network or of a \
                 plugin.",
                "Look for NCCL's warning before it; run with NCCL_DEBUG=INFO if there is none.",
            ),
        ),
        (
            "ncclInvalidArgument",
            known(
                Usage,
                Symptom,
                "A call had an argument that NCCL does not take.",
                "Look at the call in the program; NCCL_DEBUG=WARN names the argument.",
            ),
        ),
        (
            "ncclInvalidUsage",
            known(
                Usage,
                Symptom,
                "Calls were made in a way that NCCL does not allow.",
                "Look at the call in the program; NCCL_DEBUG=WARN names the rule.",
            ),
        ),
        (
            "ncclRemoteError",
            known(
                Error,
                Consequence,
                "A peer ended, or the network between them failed.",
                "Look at the log of the other ranks: one of them failed first.",
            ),
        ),
    ]
};

/// Words of PyTorch and of frameworks for NCCL's result codes.
pub(super) const RESULT_WORDS: [(&str, u64); 12] = [
    ("unhandled cuda error", 1),
    ("unhandled system error", 2),
    ("internal error - please report", 3),
    ("invalid argument (run with", 4),
    ("invalid usage", 5),
    ("remote process exited or there was a network error", 6),
    ("ncclUnhandledCudaError", 1),
    ("ncclSystemError", 2),
    ("ncclInternalError", 3),
    ("ncclInvalidArgument", 4),
    ("ncclInvalidUsage", 5),
    ("ncclRemoteError", 6),
];

/// Returns what NCCL's result `code` means, unless it stands for success or for work in progress.
pub(super) fn result(code: u64) -> Option<&'static (&'static str, Known)> {
    RESULTS.get(usize::try_from(code.checked_sub(1)?).ok()?)
}
