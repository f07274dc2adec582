//! Outputs that nobody reads, slow disks, and planted links.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Outputs that nobody reads, slow disks, and planted links",
    introduction: "What ends a job waits neither for a reader nor for a disk. Nothing is written \
                   through a link that somebody else made.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "standard error is a pipe that nobody reads any more",
        seen: "`run.json`: `… is not read`: `a write has not ended for … s`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 10 s",
        kept: "all finished cases, in both files",
        shown_by: &[Test(
            "a_job_whose_standard_error_is_no_longer_read_ends_at_its_deadline_with_all_results",
        )],
    },
    FaultRow {
        fault: "standard error is a pipe that nobody ever read",
        seen: "nothing can be said",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 10 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_job_whose_standard_error_nobody_ever_read_ends_at_its_deadline",
        )],
    },
    FaultRow {
        fault: "the table goes to a pipe that nobody reads",
        seen: "`… is not read`: `a write has not ended for … s`",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 10 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_job_whose_table_nobody_reads_ends_at_its_deadline_and_says_so",
        )],
    },
    FaultRow {
        fault: "the disk takes long for one write, but less than *T*",
        seen: "`… is on a slow disk: writing took … s, and a write of more than … s ends the \
               run`, once, if it took more than half of *T*",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "a_write_that_takes_most_of_the_limit_is_said_once_and_the_run_goes_on",
        )],
    },
    FaultRow {
        fault: "the file system of the results does not answer",
        seen: "`… cannot be written: its file system has not answered for … s`, with rank and \
               file; also in `run.json` if that can be written",
        exit: Exit::Code(Code::TimedOut),
        ends: "*T* + 10 s",
        kept: "all finished cases",
        shown_by: &[Test(
            "a_file_system_that_does_not_answer_is_named_at_the_deadline",
        )],
    },
    FaultRow {
        fault: "a signal, and the disk takes longer than the second that mpirun waits",
        seen: "`run.json` has the end: `stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "when mpirun kills the ranks",
        kept: "all finished cases in the CSV; other files may be as at the start",
        shown_by: &[Test(
            "run_json_has_its_end_although_the_disk_takes_longer_than_mpirun_waits",
        )],
    },
    FaultRow {
        fault: "a signal, and the disk does not answer any more",
        seen: "`stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "within 15 s",
        kept: "what was on disk before",
        shown_by: &[Test(
            "a_disk_that_hangs_after_a_signal_does_not_keep_the_job",
        )],
    },
    FaultRow {
        fault: "the CSV is a FIFO that nobody opens",
        seen: "`… cannot be written: …`: `nobody reads this pipe`",
        exit: Exit::Code(Code::Usage),
        ends: "after 10 s, or at *T* with 4",
        kept: "nothing was measured",
        shown_by: &[Test("a_pipe_that_nobody_reads_is_said_to_be_one")],
    },
    FaultRow {
        fault: "NCCL's log: links planted at every guessable name",
        seen: "nothing; the targets are not touched",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "nccls_log_is_not_written_through_links_that_somebody_planted",
        )],
    },
    FaultRow {
        fault: "links planted beside the results, at names of parts such as `results.json.part`",
        seen: "nothing; neither links nor targets are touched",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[
            Test("results_are_not_written_through_links_that_somebody_planted_beside_them"),
            Test("a_comparison_is_not_written_through_a_link_that_somebody_planted_beside_it"),
        ],
    },
    FaultRow {
        fault: "one result has the name of a part of another (`--json y --csv y.part`)",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases, in both",
        shown_by: &[Test("one_result_does_not_pass_through_the_file_of_another")],
    },
    FaultRow {
        fault: "the folder of a Slurm job is a link",
        seen: "`… is a symbolic link that pxnbench did not create`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("the_folder_of_a_job_is_no_link")],
    },
    FaultRow {
        fault: "a link at `run.json`, or where a part of a result is written",
        seen: "it is replaced or refused, and not written through",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[
            Test("a_link_at_run_json_is_replaced"),
            Test("a_link_is_replaced_and_never_written_through"),
            Test("a_link_is_refused_and_never_written_through"),
        ],
    },
    FaultRow {
        fault: "a link of another user at the name of a result, in a folder for all",
        seen: "`… is a link of another user`; the target is not touched",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_link_of_another_user_in_a_folder_for_all_is_refused",
        )],
    },
    FaultRow {
        fault: "a run with `--proof` is killed (SIGKILL)",
        seen: "NCCL's log stays in TMPDIR, and the next run removes it",
        exit: Exit::Killed,
        ends: "at once",
        kept: "all finished cases",
        shown_by: &[
            Test("what_a_killed_run_leaves_the_next_one_removes"),
            Test("only_folders_of_dead_processes_of_this_user_are_removed"),
        ],
    },
    FaultRow {
        fault: "TMPDIR is no folder",
        seen: "`… cannot hold NCCL's log: …. Set TMPDIR to a folder that can be written to`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("where_nccls_log_has_no_place_nothing_is_measured")],
    },
    FaultRow {
        fault: "TMPDIR has no room left for NCCL's log (`--proof`)",
        seen: "`… cannot hold NCCL's log: …. Set TMPDIR to a folder that can be written to`; if \
               it fills up later, `PXN use unknown: …. Set TMPDIR to a folder with more room`, \
               because `the disk of NCCL's log of rank … is full, so lines of it may be missing`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "all cases, if it fills up later",
        shown_by: &[Test("a_log_whose_disk_is_full_proves_nothing")],
    },
];
