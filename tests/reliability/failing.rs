//! Ranks whose GPU, NCCL or start fails.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Ranks whose GPU, NCCL or start fails",
    introduction: "The rank that fails says what failed, aborts the job, and is in `run.json` as \
                   `end.failed`. One process says it once.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "the CUDA driver does not start",
        seen: "`CUDA does not start: … (code …)…`",
        exit: Exit::Code(Code::Cuda),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "a GPU has no memory left for a context",
        seen: "`… failed: …`, with `cuDevicePrimaryCtxRetain` and the name of the error",
        exit: Exit::Code(Code::Cuda),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "the driver cannot compile the kernels",
        seen: "`the driver cannot compile the …`",
        exit: Exit::Code(Code::Cuda),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "NCCL cannot make its id",
        seen: "`… failed: …`, with `ncclGetUniqueId`",
        exit: Exit::Code(Code::Nccl),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "NCCL cannot join the communicator",
        seen: "`while rank … of … joined the communicator`, and NCCL's error",
        exit: Exit::Code(Code::Nccl),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "the GPU of one rank of a process fails while the others join",
        seen: "`GPU … is lost: …`",
        exit: Exit::Code(Code::Cuda),
        ends: "at once",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_rank_that_cannot_join_is_not_waited_for_by_those_of_its_process",
        )],
    },
    FaultRow {
        fault: "NCCL cannot allocate a buffer",
        seen: "`while allocating … bytes on GPU …`",
        exit: Exit::Code(Code::Nccl),
        ends: "at the failed call",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "NCCL cannot register a buffer",
        seen: "`… failed: …`, with `ncclCommWindowRegister`",
        exit: Exit::Code(Code::Nccl),
        ends: "at the failed call",
        kept: "nothing was measured",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "a kernel cannot be launched",
        seen: "`cannot launch one of the …`",
        exit: Exit::Code(Code::Cuda),
        ends: "at the failed call",
        kept: "all finished cases",
        shown_by: &[
            Test("each_fault_ends_the_job_soon_with_its_code_and_one_sentence"),
            Test("what_was_measured_before_a_fault_is_kept"),
        ],
    },
    FaultRow {
        fault: "an NCCL call fails",
        seen: "`… failed: …`, with the call and NCCL's error",
        exit: Exit::Code(Code::Nccl),
        ends: "at the failed call",
        kept: "all finished cases",
        shown_by: &[
            Test("each_fault_ends_the_job_soon_with_its_code_and_one_sentence"),
            Test("what_was_measured_before_a_fault_is_kept"),
        ],
    },
    FaultRow {
        fault: "NCCL reports an asynchronous error",
        seen: "`NCCL reports …`",
        exit: Exit::Code(Code::Nccl),
        ends: "at the report",
        kept: "all finished cases",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "a GPU is lost during an operation (illegal address)",
        seen: "`… failed: …`, with the call and the name of the error",
        exit: Exit::Code(Code::Cuda),
        ends: "at the failed call",
        kept: "all finished cases",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "the communicator cannot be ended",
        seen: "`while ending the communicator`",
        exit: Exit::Code(Code::Nccl),
        ends: "at the end",
        kept: "all cases",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "a GPU or NCCL fails on one rank, and mpirun stops rank 0 for it",
        seen: "that rank, host and cause in `run.json`, and not the signal; `rank …` on stderr",
        exit: Exit::Code(Code::Cuda),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test(
            "the_rank_whose_gpu_or_nccl_fails_is_recorded_and_not_the_signal_to_rank_0",
        )],
    },
    FaultRow {
        fault: "a GPU or NCCL fails, and NVIDIA's driver has reported an error of the GPU (Xid, \
                ECC)",
        seen: "the sentence ends with the line: `the kernel log of this node has …`",
        exit: Exit::Unchanged,
        ends: "as without it",
        kept: "all finished cases",
        shown_by: &[Test("the_error_of_a_gpu_of_the_run_is_said")],
    },
    FaultRow {
        fault: "`launch`: NCCL fails on one rank",
        seen: "`did not finish: …`, with rank, host and cause",
        exit: Exit::Code(Code::Nccl),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test(
            "launch_returns_the_code_and_the_sentence_of_the_rank_that_failed",
        )],
    },
    FaultRow {
        fault: "a rank fails in a thread",
        seen: "process, host and rank of the thread, and what it was doing",
        exit: Exit::Code(Code::Nccl),
        ends: "at the failed call",
        kept: "all finished cases",
        shown_by: &[Test("what_a_thread_was_doing_is_in_its_sentence")],
    },
    FaultRow {
        fault: "without MPI: NCCL fails on one rank",
        seen: "one sentence of that rank; all others end with its code",
        exit: Exit::Code(Code::Nccl),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_rank_that_fails_ends_all_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "the same, and the disk of rank 0 does not answer any more",
        seen: "the same",
        exit: Exit::Code(Code::Nccl),
        ends: "5 s later",
        kept: "what was on disk before",
        shown_by: &[Test(
            "a_rank_whose_disk_hangs_at_the_end_passes_on_why_the_job_ended",
        )],
    },
    FaultRow {
        fault: "the same, and the disk for temporary files of that rank does not answer any more",
        seen: "the same",
        exit: Exit::Code(Code::Nccl),
        ends: "5 s later",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_rank_whose_disk_hangs_as_it_fails_says_why_all_the_same",
        )],
    },
    FaultRow {
        fault: "telemetry: a GPU falls off the bus",
        seen: "its rows in `telemetry.csv` have the reason",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("a_gpu_that_falls_off_the_bus_is_in_the_samples")],
    },
    FaultRow {
        fault: "`proof --self-test`: NCCL fails in a worker",
        seen: "`NCCL's log of it is …`",
        exit: Exit::Code(Code::Nccl),
        ends: "at once",
        kept: "the log",
        shown_by: &[Test(
            "nccls_log_of_a_worker_that_failed_stays_where_the_sentence_says",
        )],
    },
    FaultRow {
        fault: "`replay --tune`: a candidate that fails",
        seen: "`… ended with exit code …: …. Its output is in …`; after the second time it is run \
               no more",
        exit: Exit::Code(Code::Nccl),
        ends: "with the tuning",
        kept: "all other candidates, judged",
        shown_by: &[Test(
            "a_candidate_that_fails_twice_is_left_out_and_the_others_race_on",
        )],
    },
    FaultRow {
        fault: "`replay --tune`, `experiment`: the first step is killed",
        seen: "`the experiment ends during its first step: …`",
        exit: Exit::Code(Code::Stopped),
        ends: "at once",
        kept: "what the step printed",
        shown_by: &[Test(
            "a_signal_in_the_first_step_ends_the_tuning_with_its_reason",
        )],
    },
    FaultRow {
        fault: "`replay --tune`: `tune.csv` cannot be written",
        seen: "`… cannot be written: …`, after all candidates on stdout",
        exit: Exit::Code(Code::Usage),
        ends: "with the tuning",
        kept: "all candidates, on stdout",
        shown_by: &[Test(
            "what_is_found_is_printed_even_if_its_files_cannot_be_written",
        )],
    },
    FaultRow {
        fault: "jobs of a rehearsal fail",
        seen: "`the rehearsal of … at level … on topology … failed: …`, with what the files of \
               that job say",
        exit: Exit::Code(Code::Nccl),
        ends: "with the rehearsal, or with the third job that fails",
        kept: "the table of the other jobs, logs and counters of all",
        shown_by: &[Test(
            "jobs_that_fail_end_the_rehearsal_with_the_first_sentence_and_its_code",
        )],
    },
];
