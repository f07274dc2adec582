//! Outputs.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Outputs",
    introduction: "No result is overwritten, and no row is written by half.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "`compare`: a signal, also while it writes its files",
        seen: "`stopped by …`",
        exit: Exit::Code(Code::Stopped),
        ends: "within 1 s",
        kept: "each file whole, either as it was or of the new comparison",
        shown_by: &[Test(
            "a_comparison_that_is_stopped_leaves_the_files_as_they_were",
        )],
    },
    FaultRow {
        fault: "a file of an earlier run has the same name",
        seen: "`keeping the earlier … as …`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "both",
        shown_by: &[Test("an_earlier_result_is_kept")],
    },
    FaultRow {
        fault: "two results of one run have one path",
        seen: "`two of the results would go to this file`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("two_results_never_go_to_one_file")],
    },
    FaultRow {
        fault: "a path that can be no file",
        seen: "`… cannot be written: …`; other files stay as they are",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_path_that_cannot_be_a_file_leaves_all_others_as_they_are",
        )],
    },
    FaultRow {
        fault: "a second run with a path of one that runs",
        seen: "`… is being written by …. Wait until that ends, or name another file, or another \
               folder with --out`, with the process, its host and its start",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "all of the first run",
        shown_by: &[Test(
            "a_second_run_with_the_paths_of_one_that_runs_is_refused_and_changes_nothing",
        )],
    },
    FaultRow {
        fault: "two runs with one path start at once",
        seen: "the same for one of them; or one after the other",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "all of both that ended with 0",
        shown_by: &[Test(
            "of_two_runs_that_start_at_once_nothing_is_lost_and_nothing_mixed",
        )],
    },
    FaultRow {
        fault: "two runs of one Slurm job, without `--out`",
        seen: "nothing: each has a folder of its own",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all of both",
        shown_by: &[Test("two_runs_of_one_job_have_a_folder_each")],
    },
    FaultRow {
        fault: "`report` would replace a file of a run in progress",
        seen: "`… cannot be written: …`: `it is written by …`",
        exit: Exit::Code(Code::Usage),
        ends: "after 5 s",
        kept: "all of the run",
        shown_by: &[Test(
            "a_command_that_replaces_a_file_of_a_run_in_progress_is_refused",
        )],
    },
    FaultRow {
        fault: "an earlier run was killed and has left its locks",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all of both",
        shown_by: &[Test("a_killed_run_holds_nobody_up")],
    },
    FaultRow {
        fault: "an earlier run was killed (SIGKILL) while it wrote `run.json` or `results.json`",
        seen: "nothing: the next run with this path removes the part that is left, but none of a \
               run in progress",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all of both",
        shown_by: &[
            Test("what_a_killed_writer_leaves_is_removed_by_the_next_one_and_not_before"),
            Test("only_parts_of_the_path_are_removed"),
        ],
    },
    FaultRow {
        fault: "a file system without locks",
        seen: "`… cannot be locked: …. Another run that writes to it at the same time would not \
               be noticed`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("without_locks_a_run_says_so_and_goes_on")],
    },
    FaultRow {
        fault: "a process is killed (SIGKILL) at any moment",
        seen: "the CSV is valid, and `--resume` completes it",
        exit: Exit::Killed,
        ends: "at once",
        kept: "every case that the table had shown, once",
        shown_by: &[
            Test("a_process_that_is_killed_loses_no_case_that_the_table_had_shown"),
            Test("a_rank_that_is_killed_loses_no_case_that_the_table_had_shown"),
        ],
    },
    FaultRow {
        fault: "the disk is full to the end",
        seen: "`… cannot be written: …. Its rows are kept in memory, and written as soon as that \
               is possible`, once, and `… lacks …` at the end",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "whole rows in the CSV, all cases in the table; `--resume` measures the rest",
        shown_by: &[
            Test("rows_that_do_not_fit_are_said_once_and_resumed_and_the_table_has_them"),
            Test("a_disk_that_stays_full_keeps_whole_rows"),
        ],
    },
    FaultRow {
        fault: "the disk is full for a while",
        seen: "the same once, and `… can be written again, and has all rows`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "a_disk_that_was_full_for_a_while_has_everything_in_the_end",
        )],
    },
    FaultRow {
        fault: "the disk fails (EIO), a quota is used up (EDQUOT), NFS has lost the file \
                (ESTALE), or the file system becomes read-only",
        seen: "`… cannot be written: …`, once, and `… lacks …` at the end",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "whole rows in the CSV, all cases in the table; `--resume` measures the rest",
        shown_by: &[Test("errors_of_a_disk_are_said_once_and_leave_whole_rows")],
    },
    FaultRow {
        fault: "the same for a while, in writing, in waiting for the disk (fsync), or in opening \
                the file",
        seen: "the same once, and `… can be written again, and has all rows`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "a_disk_that_fails_for_a_while_has_all_rows_in_the_end",
        )],
    },
    FaultRow {
        fault: "the file system or the folder is read-only",
        seen: "`… cannot be written: …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "a_folder_that_is_read_only_is_refused_before_anything_is_measured",
        )],
    },
    FaultRow {
        fault: "rows wait for a disk for so long that they fill the memory for them",
        seen: "`… has not been writable for so long that the memory for its rows is full, with …. \
               Further rows are lost until it can be written again`, once, and `… lacks …` at the \
               end",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "64 MiB of rows per file",
        shown_by: &[Test(
            "rows_wait_for_a_path_that_cannot_be_written_within_a_bound",
        )],
    },
    FaultRow {
        fault: "a sweep without an end (`-N 0`) has more cases than `results.json` can have",
        seen: "`… will contain only the first … of this run, because memory for more would have \
               no limit`, once",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases in the CSV; without one, exit code 11",
        shown_by: &[Test(
            "records_are_kept_for_the_files_that_need_them_within_a_bound",
        )],
    },
    FaultRow {
        fault: "only `results.json` cannot be written",
        seen: "`… cannot be written: …`; no file says that the run ended well",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "all cases in the CSV",
        shown_by: &[Test(
            "no_file_says_that_a_run_ended_well_if_another_one_could_not_be_written",
        )],
    },
    FaultRow {
        fault: "a result goes to a device that takes nothing",
        seen: "`… cannot be written: …`",
        exit: Exit::Code(Code::Disk),
        ends: "with the sweep",
        kept: "all cases in the other files",
        shown_by: &[Test("a_stream_that_takes_nothing_is_exit_11")],
    },
    FaultRow {
        fault: "the folder of the results is moved away during the run",
        seen: "`… was removed during the run. It was written anew, with all rows`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "what_others_do_to_the_files_of_a_run_is_said_and_mended",
        )],
    },
    FaultRow {
        fault: "the CSV is cut short during the run",
        seen: "`was cut short`: `… during the run. It was written anew, …`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "what_others_do_to_the_files_of_a_run_is_said_and_mended",
        )],
    },
    FaultRow {
        fault: "the CSV is replaced during the run",
        seen: "`was replaced`: `… during the run. It was written anew, …`; what was put there is \
               kept",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test(
            "what_others_do_to_the_files_of_a_run_is_said_and_mended",
        )],
    },
    FaultRow {
        fault: "standard output is a full disk",
        seen: "`the table cannot be written to stdout: …; the results are in the requested files`",
        exit: Exit::Code(Code::Disk),
        ends: "at once",
        kept: "all finished cases, in files",
        shown_by: &[Test("odd_bytes_and_closed_pipes_are_no_bugs")],
    },
    FaultRow {
        fault: "a command that only prints has a full disk as standard output",
        seen: "`… cannot be written to stdout: …`",
        exit: Exit::Code(Code::Disk),
        ends: "at once",
        kept: "not a run",
        shown_by: &[Test("what_only_prints_fails_where_nothing_can_be_printed")],
    },
    FaultRow {
        fault: "the reader of standard output has gone",
        seen: "nothing",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("odd_bytes_and_closed_pipes_are_no_bugs")],
    },
    FaultRow {
        fault: "`replay`: a folder with files of an earlier replay",
        seen: "`keeping the earlier … as …`",
        exit: Exit::Unchanged,
        ends: "with the replay",
        kept: "both",
        shown_by: &[Test("the_files_of_an_earlier_replay_are_kept")],
    },
    FaultRow {
        fault: "`replay`: a link in place of a file or a lock",
        seen: "the link is replaced; `… cannot be locked: …`",
        exit: Exit::Unchanged,
        ends: "with the replay",
        kept: "all blocks; nothing is written through it",
        shown_by: &[Test("a_replay_writes_through_no_link_in_its_folder")],
    },
    FaultRow {
        fault: "`replay`: a second one with the folder of one that runs",
        seen: "`… is being written by …. Wait until that ends, or name another file, or another \
               folder with --out`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "all of the first one",
        shown_by: &[Test(
            "a_running_replay_locks_its_folder_restores_it_and_keeps_whole_blocks_when_stopped",
        )],
    },
    FaultRow {
        fault: "`replay --proof`: a rank fails while NCCL logs",
        seen: "what failed, as without it",
        exit: Exit::Unchanged,
        ends: "as without it",
        kept: "NCCL's log of the ranks that had the time to copy it, in `nccl/`",
        shown_by: &[Test("the_log_of_a_replay_that_fails_is_kept")],
    },
    FaultRow {
        fault: "`replay --proof`: `NCCL_DEBUG_FILE` sends NCCL's log elsewhere",
        seen: "`--proof reads NCCL's log, and NCCL_DEBUG_FILE=… sends it elsewhere. Unset it`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("without_a_log_of_nccl_nothing_is_proved")],
    },
    FaultRow {
        fault: "`replay`: the folder is removed",
        seen: "nothing: it is made anew",
        exit: Exit::Unchanged,
        ends: "with the replay",
        kept: "all blocks",
        shown_by: &[Test(
            "a_running_replay_locks_its_folder_restores_it_and_keeps_whole_blocks_when_stopped",
        )],
    },
];
