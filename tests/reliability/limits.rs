//! Signals and limits.

use pxnbench::exit::Code;

use crate::{
    Exit, FaultGroup, FaultRow,
    common::evidence::Evidence::{GpuCheck, Test},
};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Signals and limits",
    introduction: "A signal ends a run at the next case, or a second later. A limit that leaves \
                   too little is named before anything is measured.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "Ctrl-C to mpirun",
        seen: "`# Not finished, …` with `stopped by …`",
        exit: Exit::Launcher,
        ends: "within 5 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "ctrl_c_keeps_what_was_measured_and_leaves_nothing_behind",
        )],
    },
    FaultRow {
        fault: "SIGTERM to mpirun",
        seen: "`run.json`: `stopped by …`, and no rank is blamed",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_run_that_ends_well_or_is_asked_to_stop_leaves_no_note",
        )],
    },
    FaultRow {
        fault: "a second signal while the first one has its effect",
        seen: "`stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "within 20 s",
        kept: "all finished cases",
        shown_by: &[Test("a_second_signal_ends_a_run_that_is_about_to_end")],
    },
    FaultRow {
        fault: "a signal to a job whose output nobody reads",
        seen: "`run.json`: `stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "within 20 s",
        kept: "all finished cases",
        shown_by: &[Test("a_signal_ends_a_job_whose_output_nobody_reads")],
    },
    FaultRow {
        fault: "a signal to a run on GPUs",
        seen: "`run.json`: code 9",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[
            Test("a_signal_keeps_what_is_there"),
            Test("samples_are_kept_when_a_signal_ends_the_run"),
        ],
    },
    FaultRow {
        fault: "a signal to an experiment before anything can be compared",
        seen: "`the experiment ends: …`, because `it was stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[Test(
            "an_experiment_that_is_stopped_before_anything_can_be_compared_says_so",
        )],
    },
    FaultRow {
        fault: "a signal to an experiment whose table nobody reads",
        seen: "nothing can be said",
        exit: Exit::Code(Code::Stopped),
        ends: "after 3 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "an_experiment_whose_output_nobody_reads_ends_at_a_signal",
        )],
    },
    FaultRow {
        fault: "Ctrl-C to `launch --hosts`",
        seen: "`stopped by …`; the ranks of all hosts end",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[Test(
            "ctrl_c_stops_the_ranks_of_all_hosts_and_keeps_the_results",
        )],
    },
    FaultRow {
        fault: "SIGTERM to `join`",
        seen: "`stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_signal_to_join_stops_the_ranks_and_keeps_the_results",
        )],
    },
    FaultRow {
        fault: "scancel",
        seen: "the job is CANCELLED",
        exit: Exit::Launcher,
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test("scancel_keeps_what_was_measured")],
    },
    FaultRow {
        fault: "Slurm's warning before the time limit, to the steps or to the script",
        seen: "`stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "at the next case",
        kept: "all finished cases",
        shown_by: &[Test(
            "the_warning_before_the_time_limit_ends_it_in_good_order",
        )],
    },
    FaultRow {
        fault: "a time limit that is too short",
        seen: "`did not finish: … until then, … in them`",
        exit: Exit::Code(Code::Stopped),
        ends: "at the warning",
        kept: "all finished cases",
        shown_by: &[Test("a_job_with_too_short_a_time_keeps_its_finished_cases")],
    },
    FaultRow {
        fault: "a job is requeued in the middle",
        seen: "the run goes on, and no case is measured twice",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("a_requeued_job_goes_on_and_measures_no_case_twice")],
    },
    FaultRow {
        fault: "a stack that is too small (`ulimit -s`)",
        seen: "`the stack of a process is limited to … (ulimit -s), which is too little`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_limit_that_is_too_small_is_named_with_its_remedy_before_anything_starts",
        )],
    },
    FaultRow {
        fault: "too few open files (`ulimit -n`)",
        seen: "`only … files may be open at once (ulimit -n), which is too few`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_limit_that_is_too_small_is_named_with_its_remedy_before_anything_starts",
        )],
    },
    FaultRow {
        fault: "too little address space (`ulimit -v`)",
        seen: "`the address space of a process is limited to … (ulimit -v)`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_limit_that_is_too_small_is_named_with_its_remedy_before_anything_starts",
        )],
    },
    FaultRow {
        fault: "too little CPU time (`ulimit -t`)",
        seen: "`CPU time is limited to … s (ulimit -t), which is too little`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_limit_that_is_too_small_is_named_with_its_remedy_before_anything_starts",
        )],
    },
    FaultRow {
        fault: "a soft limit that is too small, below a hard limit that is not",
        seen: "nothing: it is raised",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("a_limit_that_may_be_raised_is_raised")],
    },
    FaultRow {
        fault: "a file reaches the limit of its size (`ulimit -f`)",
        seen: "`… cannot be written: …`, and not the signal SIGXFSZ",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "whole rows",
        shown_by: &[Test(
            "a_file_that_may_not_grow_ends_the_run_with_a_sentence_and_whole_rows",
        )],
    },
    FaultRow {
        fault: "memory, open files or threads of a rank grow",
        seen: "`GROWS`, with rank and quantity, if `scripts/soak.sh` runs the sweep",
        exit: Exit::Code(Code::Internal),
        ends: "after the time",
        kept: "not a run",
        shown_by: &[
            Test("a_soak_finds_a_leak_and_says_where"),
            GpuCheck("a soak"),
        ],
    },
    FaultRow {
        fault: "CPU time runs out during the run",
        seen: "`stopped by …` with `SIGXCPU, the limit of CPU time (ulimit -t)`",
        exit: Exit::Code(Code::Stopped),
        ends: "a second before",
        kept: "all finished cases",
        shown_by: &[Test("cpu_time_that_runs_out_keeps_what_was_measured")],
    },
    FaultRow {
        fault: "no thread can be started (`ulimit -u`, pids limit)",
        seen: "`no thread can be started: …. Raise the limit of processes (ulimit -u, or pids.max \
               of the container or job)`",
        exit: Exit::Code(Code::Launch),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("no_thread_to_start_is_a_sentence_with_its_remedy")],
    },
];
