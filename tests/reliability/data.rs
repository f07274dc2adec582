//! Wrong data.

use pxnbench::exit::Code;

use crate::{
    Exit, FaultGroup, FaultRow,
    common::evidence::Evidence::{GpuCheck, Test},
};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Wrong data",
    introduction: "Each wrong case is in the table and in the files; the run goes on with the \
                   next case, and says at the end how many there were.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "an element of the receive buffer is flipped, in any collective",
        seen: "`wrong data in …`, the number in the table and the CSV",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[
            Test("one_flipped_element_is_found_counted_and_fails_the_run"),
            GpuCheck("a fault put in"),
        ],
    },
    FaultRow {
        fault: "GPUs: NCCL gives wrong results",
        seen: "`wrong data in …`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "each_fault_ends_the_job_soon_with_its_code_and_one_sentence",
        )],
    },
    FaultRow {
        fault: "one of several communicators has wrong data",
        seen: "its group has the number in its row",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "the_communicator_with_wrong_data_is_named_and_cannot_be_resumed",
        )],
    },
    FaultRow {
        fault: "wrong data in one pass of a sweep for a time",
        seen: "`wrong data in …`",
        exit: Exit::Code(Code::WrongData),
        ends: "after the time",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "a_sweep_for_a_time_has_samples_and_goes_on_after_wrong_data",
        )],
    },
    FaultRow {
        fault: "MPI writes before or after the receive buffer",
        seen: "`rank …: … the … changed, the first at …`, and `with changes outside the receive \
               buffer in …: the notes say where`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "what_mpi_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place",
        )],
    },
    FaultRow {
        fault: "MPI changes the send buffer",
        seen: "`rank …: … of the send buffer changed, the first at …`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "what_mpi_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place",
        )],
    },
    FaultRow {
        fault: "NCCL writes before or after the receive buffer",
        seen: "`rank …: … the … changed, the first at …`, whatever buffers and operations are used",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[
            Test("what_nccl_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place"),
            Test("changes_are_found_however_buffers_are_allocated_and_operations_started"),
        ],
    },
    FaultRow {
        fault: "NCCL changes the send buffer",
        seen: "`rank …: … of the send buffer changed, the first at …`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test(
            "what_nccl_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place",
        )],
    },
    FaultRow {
        fault: "real GPUs: a byte beside each buffer, and an element of the send buffer, are \
                changed",
        seen: "`rank …: … the … changed, the first at …`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[GpuCheck("faults beside the buffers")],
    },
    FaultRow {
        fault: "several GPUs of one process have writes beside their buffers",
        seen: "each GPU in the note, up to three",
        exit: Exit::Code(Code::WrongData),
        ends: "with the sweep",
        kept: "all cases, marked `wrong`",
        shown_by: &[Test("every_gpu_of_a_process_is_looked_at")],
    },
    FaultRow {
        fault: "a rehearsal: theory, NCCL's log and the counters of the rails differ",
        seen: "`theory, log and counters disagree on … at level …: …`, with the three numbers",
        exit: Exit::Code(Code::WrongData),
        ends: "with the rehearsal",
        kept: "the table, logs and counters of all jobs",
        shown_by: &[
            Test("a_disagreement_has_the_three_numbers_and_keeps_the_logs"),
            Test("a_recorded_rehearsal_that_disagrees_fails"),
        ],
    },
    FaultRow {
        fault: "a rehearsal: NCCL does not use the plugin that plays the rails",
        seen: "`NCCL did not use the plugin that plays the rails: no rank left counters`",
        exit: Exit::Code(Code::WrongData),
        ends: "with the rehearsal, or with the third such job",
        kept: "logs of all jobs",
        shown_by: &[Test("counters_that_are_missing_are_said_to_be")],
    },
];
