//! InfiniBand's work completions that failed, as NCCL's warnings name them.

use super::known::{FailureKind, Known, Weight};

/// Name, meaning and remedy of each status of a work completion, from 1.
const STATUSES: [(&str, &str, &str); 21] = [
    (
        "LOC_LEN_ERR",
        "A message did not fit the buffer of this end.",
        SAME_LIBRARY,
    ),
    (
        "LOC_QP_OP_ERR",
        "The NIC found this end's queue pair inconsistent.",
        FIRMWARE,
    ),
    (
        "LOC_EEC_OP_ERR",
        "The NIC found this end's context inconsistent.",
        FIRMWARE,
    ),
    (
        "LOC_PROT_ERR",
        "The NIC of this end may not use the memory that it was given.",
        REGISTRATION,
    ),
    (
        "WR_FLUSH_ERR",
        "The transfer was dropped because the connection had failed before.",
        FIRST,
    ),
    (
        "MW_BIND_ERR",
        "A memory window could not be bound.",
        FIRMWARE,
    ),
    (
        "BAD_RESP_ERR",
        "The other end answered with something unexpected.",
        FIRMWARE,
    ),
    (
        "LOC_ACCESS_ERR",
        "The other end wrote to memory of this end that it may not write to.",
        REGISTRATION,
    ),
    (
        "REM_INV_REQ_ERR",
        "The other end refused the request as invalid.",
        SAME_LIBRARY,
    ),
    (
        "REM_ACCESS_ERR",
        "The other end's memory may not be used this way: its registration is gone or too small.",
        REGISTRATION,
    ),
    (
        "REM_OP_ERR",
        "The other end could not complete the request.",
        OTHER_END,
    ),
    (
        "RETRY_EXC_ERR",
        "The other end did not acknowledge packets, however often they were sent: its process or \
         node is down, or the fabric loses packets or has no path.",
        RETRIES,
    ),
    (
        "RNR_RETRY_EXC_ERR",
        "The other end had no receive buffer ready for too long: its process is slow, stopped or \
         gone.",
        OTHER_END,
    ),
    (
        "LOC_RDD_VIOL_ERR",
        "The queue pair and the context do not belong together.",
        FIRMWARE,
    ),
    (
        "REM_INV_RD_REQ_ERR",
        "The other end refused a reliable datagram.",
        FIRMWARE,
    ),
    (
        "REM_ABORT_ERR",
        "The other end aborted the operation.",
        OTHER_END,
    ),
    (
        "INV_EECN_ERR",
        "The number of a context is invalid.",
        FIRMWARE,
    ),
    (
        "INV_EEC_STATE_ERR",
        "A context is in the wrong state.",
        FIRMWARE,
    ),
    ("FATAL_ERR", "The NIC failed.", FIRMWARE),
    (
        "RESP_TIMEOUT_ERR",
        "The other end did not answer in time.",
        RETRIES,
    ),
    (
        "GENERAL_ERR",
        "The transport failed without saying why.",
        FIRMWARE,
    ),
];

const RETRIES: &str = "Look whether the other end failed first (its log, its node, its port: \
                       ibstat, perfquery, link flaps in the kernel log). On RoCE check \
                       NCCL_IB_GID_INDEX, PFC and ECN. NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT only \
                       wait longer.";
const OTHER_END: &str = "Look at the log and the node of the other end.";
const FIRST: &str = "Look for the first completion with another status, and at the other end.";
const REGISTRATION: &str = "Check nvidia-peermem or dma-buf, ACS and the IOMMU, and whether \
                            memory was freed while NCCL used it; NCCL_NET_GDR_LEVEL=LOC shows \
                            whether GPUDirect RDMA is the cause.";
const SAME_LIBRARY: &str = "Use one version of NCCL and of the network plugin on all ranks, and \
                            the same sizes on both ends.";
const FIRMWARE: &str = "Look at the driver and the firmware of the NIC, and at its kernel log.";

/// A completion that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) status: u64,
    pub(super) name: &'static str,
    pub(super) known: Known,
}

/// Reads a warning such as `NET/IB : Got completion from peer … with status=12 opcode=0 …`; before
/// 2.20 `with error 12, opcode 0`, and of late `status=NAME(12)`.
pub(super) fn read_completion(warning: &str) -> Option<Completion> {
    let (_, rest) = warning.split_once("Got completion")?;
    let (_, status) = rest
        .split_once("status=")
        .or_else(|| rest.split_once("with error "))?;
    let status = last_number(status.split("opcode").next()?)?;
    let at = usize::try_from(status.checked_sub(1)?).ok()?;
    let (name, meaning, remedy) = *STATUSES.get(at)?;
    let weight = if name == "WR_FLUSH_ERR" {
        Weight::Consequence
    } else {
        Weight::Cause
    };
    Some(Completion {
        status,
        name,
        known: Known {
            kind: FailureKind::Network,
            weight,
            meaning,
            remedy,
        },
    })
}

/// Returns the number that `text` ends with, whatever follows it.
fn last_number(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text[text.len() - digits..].parse().ok()
}
