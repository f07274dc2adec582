//! Outputs that nobody reads, and planted links.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Outputs that nobody reads, and planted links",
    introduction: "What ends a job does not wait for a reader. Nothing is written through a link that somebody else made.",
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
        fault: "a link planted at the name of a result",
        seen: "it is replaced or refused, and not written through",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[
            Test("a_link_is_replaced_and_never_written_through"),
            Test("a_link_is_refused_and_never_written_through"),
            Test("a_link_of_another_user_in_a_shared_folder_is_not_followed"),
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
];
