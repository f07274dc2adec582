//! Ranks that are killed.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Ranks that are killed",
    introduction: "The first one is named with its host and process, and not those that ended \
                   because of it.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "under mpirun: a rank other than 0 is killed (SIGKILL)",
        seen: "`rank … on … (pid …) …; …` on stderr, in the table as `# Not finished, …`, and in \
               `run.json`: `was killed`",
        exit: Exit::Code(Code::Launch),
        ends: "within 10 s",
        kept: "all finished cases",
        shown_by: &[
            Test("a_rank_that_is_killed_is_named_with_its_host_and_process"),
            Test("a_rank_that_dies_ends_the_job"),
        ],
    },
    FaultRow {
        fault: "under mpirun: rank 0 is killed",
        seen: "another rank says which one was killed, and leaves a note in the folder of the run",
        exit: Exit::Launcher,
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test("the_death_of_rank_0_is_noted_by_another_rank")],
    },
    FaultRow {
        fault: "in a Slurm job: a rank is killed",
        seen: "`rank … on … was ended by a signal (…), which ended the run…; finished cases are \
               kept`",
        exit: Exit::Code(Code::Launch),
        ends: "within 20 s",
        kept: "all finished cases",
        shown_by: &[Test("a_rank_that_is_killed_ends_the_job_and_is_named")],
    },
    FaultRow {
        fault: "in a Slurm job: rank 0 is killed",
        seen: "rank 0 with its host; `run.json` is completed by `launch`",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[
            Test("rank_0_may_be_the_one_that_is_killed"),
            Test("launch_completes_the_record_of_a_run_whose_rank_0_was_killed"),
        ],
    },
    FaultRow {
        fault: "without MPI: rank 0 or another one is killed",
        seen: "each other process ends; one says which rank `was killed`",
        exit: Exit::Code(Code::Launch),
        ends: "within 30 s",
        kept: "all finished cases",
        shown_by: &[Test("a_killed_rank_is_named_and_ends_all_others")],
    },
    FaultRow {
        fault: "`join`: a rank is killed",
        seen: "`rank … on … was ended by a signal (…), which ended the run…; finished cases are \
               kept`",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test("a_rank_that_is_killed_is_named_and_the_others_end")],
    },
    FaultRow {
        fault: "`launch --hosts`: a rank is killed",
        seen: "`rank … on … was ended by a signal (…), which ended the run…; finished cases are \
               kept`",
        exit: Exit::Code(Code::Launch),
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test(
            "hosts_measure_together_over_ssh_and_a_rank_that_is_killed_ends_all",
        )],
    },
    FaultRow {
        fault: "the kernel kills a rank for want of memory",
        seen: "the sentence on the killed rank says so, from the counters of its control group or \
               the kernel log",
        exit: Exit::Code(Code::Launch),
        ends: "as for any killed rank",
        kept: "all finished cases",
        shown_by: &[Test("memory_that_ran_out_is_the_reason")],
    },
    FaultRow {
        fault: "`launch` is killed",
        seen: "its ranks end too",
        exit: Exit::Killed,
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[
            Test("ranks_do_not_outlive_the_launch"),
            Test("no_rank_outlives_a_launch_that_is_killed"),
        ],
    },
    FaultRow {
        fault: "`experiment` or `replay --tune` is killed",
        seen: "its step ends too, unless the command of `--start` is a script that passes no \
               SIGTERM on",
        exit: Exit::Killed,
        ends: "at once",
        kept: "all steps that ended",
        shown_by: &[Test("a_step_does_not_outlive_an_experiment_that_is_killed")],
    },
    FaultRow {
        fault: "`join` is killed",
        seen: "its ranks end too",
        exit: Exit::Killed,
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[Test("no_rank_outlives_a_join_that_is_killed")],
    },
    FaultRow {
        fault: "a rehearsal is stopped (SIGINT, SIGTERM)",
        seen: "`stopped by …; the rehearsal is not complete`",
        exit: Exit::Code(Code::Stopped),
        ends: "within 15 s",
        kept: "the table of the jobs that had ended, logs and counters of all",
        shown_by: &[Test("a_signal_ends_all_jobs")],
    },
];
