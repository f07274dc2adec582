//! What logs of failed runs show.

use super::{Failure, FailureKind};
use crate::nccl_log::Fold;

fn failure(log: &str) -> Option<Failure> {
    let mut fold = Fold::default();
    fold.bytes(log.as_bytes());
    fold.failure()
}

#[track_caller]
fn shown(log: &str) -> Failure {
    failure(log).unwrap_or_else(|| panic!("no failure: {log}"))
}

#[test]
fn a_completion_that_failed_is_named_in_every_form() {
    for warning in [
        "NET/IB : Got completion with error 12, opcode 1, len 32478, vendor err 129",
        "NET/IB : Got completion from peer 10.0.0.2<4791> with error 12, opcode 0, len 0, vendor \
         err 129 (Recv)",
        "NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 opcode=129 len=65536 \
         vendor err 129 (Send)",
        "NET/IB: Got completion from peer 10.0.0.2<4791> with status=IBV_WC_RETRY_EXC_ERR(12) \
         opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0",
        "NET/IB: Got completion from peer 10.0.0.2<4791> with status=transport retry counter \
         exceeded(12) opcode=SEND(0) vendor_err=129",
        "NET/IB: p: Got completion with error (devIndex=0, wc->status=(IBV_WC_RETRY_EXC_ERR)12, \
         wc->opcode=(IBV_WC_SEND)0, wc->wr_id=1)",
    ] {
        let found = shown(&format!(
            "h:1:2 [0] transport/net_ib.cc:1295 NCCL WARN {warning}\n"
        ));
        assert_eq!(
            (found.kind, found.completion_status),
            (FailureKind::Network, Some(12)),
            "{warning}"
        );
        assert!(found.meaning.contains("status 12 (RETRY_EXC_ERR)"));
        assert!(found.remedy.contains("NCCL_IB_TIMEOUT"));
    }
}

#[test]
fn the_failure_is_the_first_line_nearest_to_the_cause() {
    // A flushed transfer and a closed connection follow from the retries of another process.
    let log = "\
        h:1:2 [0] NCCL INFO Connected all rings\n\
        h:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer h2<1>\n\
        h:1:2 [0] NCCL INFO misc/socket.cc:746 -> 6\n\
        h:2:2 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 5, opcode 0, len 0, vendor err 249 (Recv)\n\
        h:3:2 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n\
        h:3:2 [2] NCCL INFO transport/net.cc:1298 -> 6\n\
        h:3:2 [2] NCCL INFO proxy.cc:874 -> 6 [Progress Thread]\n";
    let found = shown(log);
    assert_eq!(found.completion_status, Some(12));
    assert_eq!(
        (found.shown_by.process.as_str(), found.shown_by.line),
        ("h:3", 5)
    );
    let began = found.began_at.expect("another line");
    assert_eq!((began.process.as_str(), began.line), ("h:1", 2));
    let returned = found.first_returned.expect("a returned code");
    assert_eq!((returned.process.as_str(), returned.line), ("h:1", 3));
    assert_eq!((found.result_code, found.processes), (Some(6), 3));
}

#[test]
fn returned_codes_say_where_an_error_began() {
    for (code, name) in [
        (2, "ncclSystemError"),
        (3, "ncclInternalError"),
        (6, "ncclRemoteError"),
    ] {
        let found = shown(&format!(
            "h:1:2 [0] NCCL INFO misc/socket.cc:46 -> {code}\n\
             h:1:2 [0] NCCL INFO transport/net_socket.cc:12 -> {code}\n\
             h:1:2 [0] NCCL INFO group.cc:64 -> {code} [Async thread]\n"
        ));
        assert!(found.meaning.contains(name), "{}", found.meaning);
        let first = found.first_returned.expect("a returned code");
        assert!(first.text.contains("misc/socket.cc:46"));
    }
    // In progress; an error after which the process made its communicator; connections.
    for log in [
        "h:1:2 [0] NCCL INFO init.cc:12 -> 7\n",
        "h:1:2 [0] NCCL INFO plugin/net.cc:12 -> 3\n\
         h:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0x5 - Init COMPLETE\n",
        "h:1:2 [0] NCCL INFO Ring 00 : 3 -> 0 -> 1\n",
        "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n",
        "h:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying\n",
        "h:1:2 [0] transport/net.cc:632 NCCL WARN PXN should not use host buffers for data\n",
        "the loss is 2 -> 3\n",
    ] {
        assert_eq!(failure(log), None, "{log}");
    }
}

#[test]
fn what_pytorch_says_of_nccl_is_read() {
    for (words, code) in [
        (
            "unhandled system error (run with NCCL_DEBUG=INFO for details)",
            2,
        ),
        ("unhandled cuda error", 1),
        ("internal error - please report this issue", 3),
        ("remote process exited or there was a network error", 6),
    ] {
        let log = format!(
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: \
             ../c10d/ProcessGroupNCCL.cpp:1333, {words}, NCCL version 2.18.6\n"
        );
        let found = shown(&log);
        assert_eq!(
            (found.result_code, found.shown_by.process.as_str()),
            (Some(code), "rank 3"),
            "{words}"
        );
    }
    let found = shown(
        "RuntimeError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.18.6\n\
         ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n\
         Last error:\n\
         socketStartConnect: Connect to 10.0.0.2<52822> failed : No route to host\n",
    );
    assert_eq!(
        (found.kind, found.shown_by.line),
        (FailureKind::Connection, 4)
    );
    assert!(found.remedy.contains("NCCL_SOCKET_IFNAME"));
}

const TIMEOUTS: &str = "\
    [rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=80, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n\
    [rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:1664] [PG 0 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 80, last enqueued NCCL work: 82, last completed NCCL work: 79.\n\
    [rank1]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=79, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n\
    [rank1]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:2268] [PG 0 Rank 1] failure detected by watchdog at work sequence id: 79 PG status: last enqueued work: 79, last completed work: 78\n\
    [rank1]: terminate called after throwing an instance of 'c10::DistBackendError'\n\
    [rank1]: Fatal Python error: Aborted\n\
    Signal 6 (SIGABRT) received by PID 12\n";

#[test]
fn a_hang_is_told_from_a_crash() {
    let found = shown(TIMEOUTS);
    assert_eq!(found.kind, FailureKind::Hang);
    let hang = found.hang.expect("a hang");
    let operations: Vec<_> = hang
        .operations
        .iter()
        .map(|of| (of.sequence, of.name.as_str(), &of.ranks[..]))
        .collect();
    assert_eq!(
        operations,
        [(79, "BROADCAST", &[1][..]), (80, "ALLREDUCE", &[0][..])]
    );
    assert_eq!(hang.not_entered, [1]);

    // A fault is the cause of the timeouts that follow from it, in whichever order they come.
    for line in [
        "srun: error: node1: task 3: Segmentation fault (core dumped)\n",
        "mpirun noticed that process rank 1 with PID 7 on node n exited on signal 11 \
         (Segmentation fault).\n",
        "Signal 11 (SIGSEGV) received by PID 12\n",
        "  exitcode  : -11 (pid: 69811)\n",
        "[n:7] Signal: Bus error (7)\n",
    ] {
        let found = shown(&format!("{TIMEOUTS}{line}"));
        assert_eq!(found.kind, FailureKind::Crash, "{line}");
    }
    for (line, kind) in [
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME \
             LIMIT ***\n",
            FailureKind::Stopped,
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks \
             have been OOM Killed.\n",
            FailureKind::Memory,
        ),
        ("  exitcode  : -9 (pid: 69811)\n", FailureKind::Stopped),
        (
            "srun: error: n1: task 0: Aborted (core dumped)\n",
            FailureKind::Crash,
        ),
    ] {
        assert_eq!(shown(line).kind, kind, "{line}");
    }
    // Ends that are in order, or that follow from others.
    for line in [
        "  exitcode  : 1 (pid: 69811)\n",
        "Sending process 12 closing signal SIGTERM\n",
    ] {
        assert_eq!(failure(line), None, "{line}");
    }
}

#[test]
fn pytorchs_list_of_lagging_ranks_is_read() {
    let found = shown(&format!(
        "{TIMEOUTS}\
         [E ProcessGroupNCCL.cpp:1] To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n  \
           - [5] joined but didn't finish collective #2 (count from 1)\n  \
           - [6, 7] finished collective #1, but didn't join collective #2 (count from 1)\n\
         Snapshot of ranks' latest states:\n  \
           - [0] joined collective\n"
    ));
    assert_eq!(found.hang.expect("a hang").lagging, [5, 6, 7]);
}

#[test]
fn processes_that_did_not_enter_an_operation_are_named() {
    let operation = |pid: u32, number: &str| {
        format!(
            "h:{pid}:1 [0] NCCL INFO AllReduce: opCount {number} sendbuff 0x7f recvbuff 0x7f \
             count 8 datatype 7 op 0 root 0 comm 0x5 [nranks=2] stream 0x6\n"
        )
    };
    let log = operation(1, "19") + &operation(2, "19") + &operation(1, "1a");
    assert_eq!(failure(&log), None, "a log may end anywhere");
    let stopped = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO \
                   TIME LIMIT ***\n";
    let hang = shown(&(log + stopped)).hang.expect("a process behind");
    assert_eq!(hang.behind, ["h:2 (AllReduce number 25 of 26)"]);
}
