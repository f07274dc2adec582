//! GPUs and libraries at the start.

use pxnbench::exit::Code;

use crate::{
    Exit, FaultGroup, FaultRow,
    common::evidence::Evidence::{GpuCheck, Test},
};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "GPUs and libraries at the start",
    introduction: "What cannot run is refused before anything is measured. The doctor finds it, \
                   too.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "a rank does not see the GPU that it should have",
        seen: "`rank … on … cannot use a GPU (…): …. To measure host memory instead, use \
               --backend host`, with what rank 0 sees",
        exit: Exit::Code(Code::Cuda),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_rank_without_its_gpu_is_named_with_what_it_sees")],
    },
    FaultRow {
        fault: "two ranks would share a GPU",
        seen: "both ranks: `would share a GPU`",
        exit: Exit::Code(Code::NothingRan),
        ends: "before NCCL starts",
        kept: "nothing was measured",
        shown_by: &[
            Test("ranks_that_see_one_gpu_each_find_it_and_two_on_one_are_refused"),
            GpuCheck("two ranks on one GPU"),
        ],
    },
    FaultRow {
        fault: "no libnccl is found",
        seen: "the doctor's check `lib.nccl` says why too",
        exit: Exit::Code(Code::Nccl),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[
            Test("ready_means_that_a_sweep_starts"),
            GpuCheck("no such libnccl"),
        ],
    },
    FaultRow {
        fault: "the driver is too old for the program",
        seen: "the doctor's check `start.cuda` says so too",
        exit: Exit::Code(Code::Cuda),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("ready_means_that_a_sweep_starts")],
    },
    FaultRow {
        fault: "the memory of a GPU is used up by others",
        seen: "`there is too little free memory for any size: …. Something else is using it`",
        exit: Exit::Code(Code::NothingRan),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_gpu_without_free_memory_is_said_to_have_none")],
    },
    FaultRow {
        fault: "a rehearsal on a machine with one GPU or none",
        seen: "`a rehearsal needs … GPUs of this machine, but …`",
        exit: Exit::Code(Code::NothingRan),
        ends: "at the start",
        kept: "nothing is written",
        shown_by: &[
            Test("one_gpu_is_too_few"),
            Test("without_theory_one_sentence_says_what_is_missing"),
        ],
    },
];
