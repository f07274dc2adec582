//! Results of an earlier run.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Results of an earlier run",
    introduction: "`--resume` keeps what was measured alike, and measures the rest.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "`--resume`: the last row was cut by a kill",
        seen: "the row is removed, and its case measured again",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all earlier cases",
        shown_by: &[Test(
            "a_run_goes_on_where_an_earlier_one_stopped_without_measuring_a_case_twice",
        )],
    },
    FaultRow {
        fault: "`--resume`: the rows are of another level, setting or flag",
        seen: "`… was measured with …, but this run has …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "the files stay as they are",
        shown_by: &[Test(
            "a_run_goes_on_only_with_rows_that_were_measured_alike",
        )],
    },
    FaultRow {
        fault: "`--resume`: no earlier run",
        seen: "`--resume finds no earlier run below …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "without_a_place_the_latest_run_with_the_same_arguments_goes_on",
        )],
    },
    FaultRow {
        fault: "`--resume`: lines that cannot be read, also with 0 or 10^12 ranks",
        seen: "`…: leaving out …. The file as it was is …`, with the lines: `…, which cannot be \
               read, and measuring again what is missing`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all readable cases",
        shown_by: &[Test(
            "lines_that_cannot_be_read_are_taken_out_and_their_cases_measured_again",
        )],
    },
    FaultRow {
        fault: "`--resume`: rows are there twice",
        seen: "`…: leaving out …. The file as it was is …`, with the lines: `…, which the file \
               has twice`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases, once",
        shown_by: &[Test("rows_that_the_file_has_twice_are_taken_out")],
    },
    FaultRow {
        fault: "`--resume`, `report`, `compare`: a spreadsheet saved the file with semicolons, \
                quotation marks, a byte order mark or as UTF-16",
        seen: "`was saved by another program without commas between the columns`, and the like",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "the file stays as it is",
        shown_by: &[Test(
            "a_file_that_a_spreadsheet_saved_is_told_from_one_of_somebody_else",
        )],
    },
    FaultRow {
        fault: "`--resume`: a damaged `ranks.csv`",
        seen: "`…: leaving out …, which cannot be read. The file as it was is …`",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all readable rows",
        shown_by: &[Test(
            "a_damaged_ranks_csv_is_continued_with_what_is_readable",
        )],
    },
    FaultRow {
        fault: "`--resume`: the file is of somebody else",
        seen: "`is not a CSV of this program`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "the file stays as it is",
        shown_by: &[Test(
            "a_file_of_somebody_else_is_refused_and_stays_as_it_is",
        )],
    },
    FaultRow {
        fault: "`--resume`: the rows are of another version",
        seen: "`… was measured with …, but this run has …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "the files stay as they are",
        shown_by: &[Test(
            "a_run_keeps_its_start_and_is_not_continued_by_another_version",
        )],
    },
    FaultRow {
        fault: "`replay --tune` in a job that starts again, and no further block fits",
        seen: "all candidates, judged by the blocks of both",
        exit: Exit::Code(Code::Fine),
        ends: "after the first step",
        kept: "all blocks",
        shown_by: &[Test(
            "a_job_that_starts_again_judges_the_blocks_that_it_has",
        )],
    },
    FaultRow {
        fault: "`replay --tune`, `experiment`: a signal",
        seen: "`the experiment ends: …`, with `it was stopped by …` and `To measure the rest, \
               repeat the command with --resume --out …`; with `--resume` it goes on at the next \
               block",
        exit: Exit::Code(Code::Stopped),
        ends: "when the step has ended",
        kept: "all steps before it, judged",
        shown_by: &[Test("a_tuning_that_a_signal_ended_goes_on_with_resume")],
    },
    FaultRow {
        fault: "`replay --tune`, `experiment`: `--resume` in a folder without an experiment",
        seen: "`--resume finds no experiment: there is no …. Name its folder with --out, or leave \
               out --resume`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("what_is_not_there_is_not_continued")],
    },
    FaultRow {
        fault: "`experiment.json` with a block or a time that no experiment has",
        seen: "`… cannot be read: …`, with `step '…' has block …` or `step '…' took … s`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "the files stay as they are",
        shown_by: &[Test(
            "a_record_that_no_experiment_writes_is_refused_at_once",
        )],
    },
];
