//! Ranks that are stuck or do not come.

use pxnbench::exit::Code;

use crate::{
    Exit, FaultGroup, FaultRow,
    common::evidence::Evidence::{GpuCheck, Test},
};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Ranks that are stuck or do not come",
    introduction: "What does not make progress ends at a deadline. What only is slow goes on.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "any one of 4 ranks on host memory is stopped (SIGSTOP)",
        seen: "`… has been silent …, and the others wait for it: it was at “…”. The process is \
               stopped, or the node is frozen or cut off: see that process and the kernel log of \
               …`, with rank and host; if it is rank 0, rank 1 says it",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 2 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "each_rank_that_is_stopped_is_named_by_another_and_the_job_ends",
        )],
    },
    FaultRow {
        fault: "a rank with a GPU is stopped (SIGSTOP)",
        seen: "the same, with its GPU, on stderr and in `run.json`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 2 s",
        kept: "all finished cases",
        shown_by: &[Test("a_rank_that_is_stopped_is_named_with_its_gpu")],
    },
    FaultRow {
        fault: "any rank is stopped (SIGSTOP), with `--stacks`",
        seen: "the same, and `… What the threads on … did is in …: …`, with a file for each rank \
               of the node: its threads and their states",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 7 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "what_the_threads_of_all_ranks_do_is_written_down_with_stacks",
        )],
    },
    FaultRow {
        fault: "an operation on GPUs hangs, and NCCL's RAS knows which rank does not answer it",
        seen: "`… NCCL's RAS reports …`, and its whole answer in `nccl-ras.txt`; nothing of it if \
               nobody listens there",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 4 s",
        kept: "all finished cases",
        shown_by: &[
            Test("what_ras_reports_is_in_the_sentence_and_its_answer_in_the_folder"),
            Test("a_ras_that_does_not_listen_or_is_switched_off_is_not_mentioned"),
        ],
    },
    FaultRow {
        fault: "a rail of a rehearsal sends no more",
        seen: "`… The counters of the rails say that …`, with rail and rank, how many messages it \
               holds back and for how long",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 4 s",
        kept: "logs and counters of all jobs",
        shown_by: &[
            Test("a_job_that_is_stuck_names_the_rail_that_holds_messages_back"),
            GpuCheck("a rail that stalls"),
        ],
    },
    FaultRow {
        fault: "an operation on GPUs hangs, and NCCL's RAS does not answer",
        seen: "`… NCCL's RAS at … did not answer within … s`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 4 s",
        kept: "all finished cases",
        shown_by: &[Test("a_ras_that_does_not_answer_is_not_waited_for")],
    },
    FaultRow {
        fault: "a rank is stopped while the others compute for so long that the watch gives it up",
        seen: "`… ranks that can be monitored have made no progress …: …. They may be waiting for \
               …, which cannot be monitored…`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_rank_that_the_watch_has_lost_is_named_once_the_others_wait",
        )],
    },
    FaultRow {
        fault: "the doctor: a rank is stopped (SIGSTOP)",
        seen: "`… has been silent …, and the others wait for it: …`",
        exit: Exit::Code(Code::TimedOut),
        ends: "after 20 s",
        kept: "not a run",
        shown_by: &[Test("a_rank_that_is_stopped_in_the_doctor_is_named")],
    },
    FaultRow {
        fault: "`proof --self-test`: a rank is stopped (SIGSTOP)",
        seen: "`… has been silent …, and the others wait for it: …`",
        exit: Exit::Code(Code::TimedOut),
        ends: "after 20 s",
        kept: "not a run",
        shown_by: &[Test("a_rank_that_is_stopped_in_the_self_test_is_named")],
    },
    FaultRow {
        fault: "`join`: a rank is stopped (SIGSTOP)",
        seen: "the same, and `… did not end by itself and was ended`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 5 s",
        kept: "all finished cases",
        shown_by: &[
            Test("a_rank_that_is_stopped_is_named_and_not_waited_for"),
            Test("a_rank_that_is_stopped_is_not_waited_for"),
        ],
    },
    FaultRow {
        fault: "one of 10,000 processes is stopped (simulated)",
        seen: "the same; a process has at most 33 connections",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 2 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "of_ten_thousand_processes_one_that_stops_is_named_in_time_at_a_constant_cost",
        )],
    },
    FaultRow {
        fault: "one of 10,000 processes is behind the others (simulated)",
        seen: "`… is behind…: it is at “…”, and the others have waited …, at “…”`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 2 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "of_ten_thousand_processes_one_that_is_behind_is_named",
        )],
    },
    FaultRow {
        fault: "a program that uses the library: a rank does something else while the others wait \
                for it",
        seen: "`… is behind…: it is at “…”, and the others have waited …, at “…”`, with rank, \
               host and process",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 2 s",
        kept: "not a run",
        shown_by: &[Test(
            "a_rank_that_does_not_come_ends_the_job_in_one_sentence",
        )],
    },
    FaultRow {
        fault: "all processes are suspended together, and go on",
        seen: "nothing: the pause does not count",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("a_long_pause_does_not_count")],
    },
    FaultRow {
        fault: "all addresses of a host but one do not answer",
        seen: "nothing: the next one is tried after a tenth of a second",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[
            Test("addresses_at_which_nobody_answers_do_not_keep_a_child_from_its_parent"),
            Test("addresses_that_do_not_answer_hold_nobody_up"),
        ],
    },
    FaultRow {
        fault: "a process of the watch is so slow that its first connection to another one is \
                given up",
        seen: "nothing: it connects again",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("a_child_that_gave_up_waiting_comes_again")],
    },
    FaultRow {
        fault: "noise on the connections of the watch",
        seen: "nothing, in bounded memory",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("noise_is_no_beat_and_takes_no_memory")],
    },
    FaultRow {
        fault: "an operation on a GPU does not end",
        seen: "`all … ranks, such as …, are at the same point and have made no progress …: …`, \
               with the number of operations done and what NCCL reports; or `… made no progress \
               for … s`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "all finished cases",
        shown_by: &[
            Test("an_operation_that_hangs_on_one_rank_is_said_once_with_its_place"),
            Test("each_fault_ends_the_job_soon_with_its_code_and_one_sentence"),
        ],
    },
    FaultRow {
        fault: "an operation takes longer than *T*, and goes on",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[
            Test("a_sweep_that_takes_longer_than_the_limit_goes_on_while_it_makes_progress"),
            Test("a_block_that_takes_longer_than_the_limit_goes_on_while_marks_pass"),
        ],
    },
    FaultRow {
        fault: "a rank never reaches MPI: its launcher started something else, or it hangs before",
        seen: "`… did not end within … s`: `it waits for …`, the missing rank, `which … not \
               reached MPI_Init (not started, stopped or ended before, or another program)`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test("a_rank_that_never_reaches_mpi_is_named")],
    },
    FaultRow {
        fault: "the same, before the deadline (in the doctor, or with a large *T*)",
        seen: "`MPI_Init has not ended after … s: it waits for …. The job ends if MPI_Init takes \
               … s in all`, after 15 s if the rank is of this node; once",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*; the doctor after 120 s",
        kept: "nothing was measured",
        shown_by: &[Test("a_rank_that_mpi_waits_for_is_named_soon")],
    },
    FaultRow {
        fault: "without MPI: a rank is never started",
        seen: "`… of … ranks did not connect to …`, with its rank and node",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test("a_rank_that_never_comes_is_named")],
    },
    FaultRow {
        fault: "`join`: a node is never started",
        seen: "`… of … ranks did not connect to …`, with the ranks of that node",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test("a_node_that_does_not_come_is_named")],
    },
    FaultRow {
        fault: "without MPI: rank 0 does not run, or something else listens at its port",
        seen: "`rank 0 cannot be reached at …`, and why",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T*",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_busy_port_a_lost_name_and_broken_variables_are_said",
        )],
    },
    FaultRow {
        fault: "`launch --hosts`: ssh to a host hangs",
        seen: "`it did not answer within … s. Look whether ssh … true returns at once`",
        exit: Exit::Code(Code::Launch),
        ends: "after 30 s",
        kept: "nothing was measured",
        shown_by: &[Test("a_host_that_does_not_answer_is_given_up_on")],
    },
    FaultRow {
        fault: "`experiment`, `replay --tune`: a step goes on when the time is over",
        seen: "`… ended with exit code …`, with `it had not ended … s after the time was over, \
               and …`; then `the experiment ends: …`, with `a step was still running after the \
               time was over`, and how it is continued",
        exit: Exit::Code(Code::TimedOut),
        ends: "30 s after `--time` or `--budget`, or after as long as the longest step took if \
               that is more; 20 s later if the step ignores SIGTERM",
        kept: "all steps before it, compared",
        shown_by: &[
            Test("a_step_that_goes_on_when_the_time_is_over_is_ended_and_the_others_are_compared"),
            Test("a_first_step_that_goes_on_when_the_time_is_over_is_ended"),
        ],
    },
    FaultRow {
        fault: "`experiment`, `replay --tune`: a signal, and the step ignores it",
        seen: "`… ended with exit code …`, with `it had not ended … s after it was asked to, and \
               …`",
        exit: Exit::Code(Code::Stopped),
        ends: "after 20 s",
        kept: "all steps before it, compared",
        shown_by: &[Test("a_step_that_does_not_listen_does_not_hold_a_tuning")],
    },
    FaultRow {
        fault: "`launch`: a signal, and srun or mpirun ignores it",
        seen: "`… had not ended … s after it was asked to, and was killed`",
        exit: Exit::Code(Code::Stopped),
        ends: "after 15 s",
        kept: "all finished cases",
        shown_by: &[Test("a_launcher_that_does_not_end_is_killed")],
    },
    FaultRow {
        fault: "`launch`: a process outlives the launcher and holds its stderr",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "2 s after the launcher",
        kept: "all cases",
        shown_by: &[Test("what_outlives_a_launcher_is_not_waited_for")],
    },
    FaultRow {
        fault: "Kubernetes: a pod is asked to end, and its run is stopped or does not listen",
        seen: "`the ranks of this pod had not ended … s after they were asked to, and were killed`",
        exit: Exit::Code(Code::Stopped),
        ends: "after 15 s, before the pod is killed",
        kept: "all finished cases, in the log of the pod",
        shown_by: &[Test("a_run_that_does_not_end_with_its_pod_is_killed")],
    },
    FaultRow {
        fault: "kubectl hangs",
        seen: "`kubectl … has not ended within … s`",
        exit: Exit::Code(Code::TimedOut),
        ends: "after `--request-timeout`",
        kept: "not a run",
        shown_by: &[Test("a_missing_or_hanging_kubectl_is_one_sentence_in_time")],
    },
    FaultRow {
        fault: "doctor: scontrol hangs",
        seen: "one check is not applicable: `it did not answer within … s`",
        exit: Exit::Unchanged,
        ends: "within 30 s",
        kept: "not a run",
        shown_by: &[Test("a_scontrol_that_hangs_holds_nothing_up")],
    },
    FaultRow {
        fault: "a rank starts each operation late",
        seen: "with `--stragglers`: `straggler: …`, with rank, host and device: `arrives late`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "a_rank_that_starts_late_is_named_on_stderr_in_run_json_and_in_stragglers_csv",
        )],
    },
    FaultRow {
        fault: "a rank ends each operation late",
        seen: "with `--stragglers`: `straggler: …`, with rank and host: `ends late`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "a_rank_that_ends_late_is_told_from_one_that_starts_late",
        )],
    },
];
