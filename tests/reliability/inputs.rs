//! Input that is damaged or hostile.

use pxnbench::exit::Code;

use crate::{Exit, FaultGroup, FaultRow, common::evidence::Evidence::Test};

pub(crate) const GROUP: FaultGroup = FaultGroup {
    title: "Input that is damaged or hostile",
    introduction: "What others wrote is bounded in size and time, and nothing that it contains is \
                   obeyed.",
    rows: ROWS,
};

const ROWS: &[FaultRow] = &[
    FaultRow {
        fault: "an input (log, baseline, topology, host file, matrix, settings) is a pipe into \
                which nobody writes",
        seen: "`it is a pipe, and nothing came through it for … s. Start what writes into it \
               first`",
        exit: Exit::Code(Code::Usage),
        ends: "after 5 s",
        kept: "nothing was measured",
        shown_by: &[Test(
            "what_nothing_comes_through_and_what_has_no_end_is_refused_in_a_sentence",
        )],
    },
    FaultRow {
        fault: "experiment.json is a pipe into which nobody writes, and so are run.json and \
                doctor.json of a run",
        seen: "compare: `… cannot be read: …` with `it is a pipe, and nothing came through it for \
               … s`; report leaves out what it cannot read",
        exit: Exit::Code(Code::Usage),
        ends: "after 5 s for each",
        kept: "not a run",
        shown_by: &[Test("a_pipe_in_place_of_a_file_of_a_run_holds_nobody_up")],
    },
    FaultRow {
        fault: "an input is a device without an end, such as /dev/zero",
        seen: "`it is a device, of which no end can be expected. Name a file`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test(
            "what_nothing_comes_through_and_what_has_no_end_is_refused_in_a_sentence",
        )],
    },
    FaultRow {
        fault: "an input is larger than any of its kind",
        seen: "`it is larger than …, the most that is read of …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("a_larger_file_is_refused_before_it_is_read")],
    },
    FaultRow {
        fault: "NCCL_CONF_FILE is a pipe",
        seen: "the doctor: `it is a pipe, at which NCCL waits until something writes into it`",
        exit: Exit::Unchanged,
        ends: "at once",
        kept: "all cases",
        shown_by: &[Test(
            "a_pipe_as_the_settings_of_nccl_is_left_to_nccl_and_found_by_the_doctor",
        )],
    },
    FaultRow {
        fault: "`-n`, `-m`, `-G`, `-w` or `-c` that would take days",
        seen: "`-n, -m and -G make … timed operations of each case, more than …`, and the like",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("numbers_that_would_take_days_are_refused")],
    },
    FaultRow {
        fault: "a command line that makes no sense",
        seen: "one sentence with the value, mostly `did you mean …`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[
            Test("bad_input_gets_one_sentence"),
            Test("what_is_wrong_with_the_command_line_is_said_once"),
        ],
    },
    FaultRow {
        fault: "names with control sequences, in paths, logs, settings and results",
        seen: "they are printed escaped",
        exit: Exit::Unchanged,
        ends: "with the command",
        kept: "as without them",
        shown_by: &[Test("a_terminal_obeys_no_name_in_any_message_or_table")],
    },
    FaultRow {
        fault: "names that a browser, a spreadsheet, Prometheus or Markdown would obey",
        seen: "pages, plots, metrics and tables have them escaped",
        exit: Exit::Unchanged,
        ends: "with the command",
        kept: "as without them",
        shown_by: &[Test("no_page_picture_metric_summary_or_table_obeys_a_name")],
    },
    FaultRow {
        fault: "secrets in variables and settings",
        seen: "`not recorded` in place of the value",
        exit: Exit::Unchanged,
        ends: "with the command",
        kept: "as without them",
        shown_by: &[Test("secrets_are_neither_printed_nor_recorded")],
    },
    FaultRow {
        fault: "`check`: a CSV with a header and no rows",
        seen: "`… has no rows: nothing to judge`",
        exit: Exit::Code(Code::NothingRan),
        ends: "at once",
        kept: "not a run",
        shown_by: &[Test(
            "a_last_line_that_is_cut_short_is_left_out_of_the_judgement",
        )],
    },
    FaultRow {
        fault: "`check`: a CSV whose last line is cut short",
        seen: "the line is left out of the judgement, and that is said",
        exit: Exit::Unchanged,
        ends: "with the command",
        kept: "not a run",
        shown_by: &[Test(
            "a_last_line_that_is_cut_short_is_left_out_of_the_judgement",
        )],
    },
    FaultRow {
        fault: "`proof`: a log that is missing",
        seen: "one sentence with the file",
        exit: Exit::Code(Code::Usage),
        ends: "at once",
        kept: "not a run",
        shown_by: &[Test("what_cannot_be_read_is_one_sentence")],
    },
    FaultRow {
        fault: "`proof`: a log that is empty or not of NCCL",
        seen: "one sentence with the file",
        exit: Exit::Code(Code::NothingRan),
        ends: "at once",
        kept: "not a run",
        shown_by: &[Test("what_cannot_be_read_is_one_sentence")],
    },
    FaultRow {
        fault: "`proof`: a log that becomes thousands of times as large when it is decompressed",
        seen: "`it becomes more than … times as large when it is decompressed, as no log does`",
        exit: Exit::Code(Code::Usage),
        ends: "while it is read",
        kept: "not a run",
        shown_by: &[Test("a_file_that_becomes_far_larger_is_refused")],
    },
    FaultRow {
        fault: "anything that the fuzzers have found, in any kind of input",
        seen: "no panic; time and memory are bounded",
        exit: Exit::Unchanged,
        ends: "within 10 s of processor time",
        kept: "not a run",
        shown_by: &[Test("every_kept_input_is_read")],
    },
    FaultRow {
        fault: "a node list that stands for more nodes or longer names than there are",
        seen: "`a name has more than … characters`, and the like",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("malformed_lists_are_refused")],
    },
    FaultRow {
        fault: "`--ranks` of a number that no job has",
        seen: "`no job has more than … ranks`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("more_ranks_than_any_job_has_are_refused")],
    },
    FaultRow {
        fault: "a clock before 1970",
        seen: "nothing: times are those that can be written",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases",
        shown_by: &[Test("every_clock_gives_a_time_that_can_be_read_again")],
    },
    FaultRow {
        fault: "the wall clock is set forward or back by hours during a run",
        seen: "nothing: deadlines hold, and times go on from the start of each process",
        exit: Exit::Unchanged,
        ends: "with the sweep",
        kept: "all cases, with times in their order",
        shown_by: &[
            Test("a_wall_clock_that_is_set_changes_no_deadline_and_no_order_of_times"),
            Test("a_wall_clock_that_is_set_does_not_change_the_time_of_an_experiment"),
        ],
    },
    FaultRow {
        fault: "`proof`: a damaged archive",
        seen: "one sentence with the file",
        exit: Exit::Code(Code::Usage),
        ends: "at once",
        kept: "not a run",
        shown_by: &[Test("a_damaged_archive_is_one_sentence")],
    },
    FaultRow {
        fault: "`proof`: a line without an end",
        seen: "it is passed over in bounded memory",
        exit: Exit::Unchanged,
        ends: "with the command",
        kept: "not a run",
        shown_by: &[Test(
            "a_line_without_end_takes_no_more_memory_than_the_buffer",
        )],
    },
    FaultRow {
        fault: "`replay`: an option that the workload does not have",
        seen: "`… has no …. Leave it out`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("options_without_an_effect_are_refused")],
    },
    FaultRow {
        fault: "`replay`: a name that a spreadsheet would take for a formula",
        seen: "`… would be a formula to a spreadsheet; begin it with a letter or a digit`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("what_is_wrong_is_said_with_where_and_what_to_do")],
    },
    FaultRow {
        fault: "`replay`: 100,000 operations in long chains",
        seen: "nothing: memory and time grow with their number",
        exit: Exit::Unchanged,
        ends: "with the replay",
        kept: "all blocks",
        shown_by: &[Test("of_each_stream_only_the_last_is_waited_for")],
    },
    FaultRow {
        fault: "`replay --from-trace`: collectives of which none can be read",
        seen: "`it has no collective that can be read` with the first reason",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("what_is_no_trace_is_refused")],
    },
    FaultRow {
        fault: "`replay --from-trace`: names of groups with control characters, or without end",
        seen: "nothing: streams have what can be printed of them",
        exit: Exit::Unchanged,
        ends: "with the replay",
        kept: "all blocks",
        shown_by: &[Test("a_trace_with_odd_names_gives_a_file_that_can_be_read")],
    },
    FaultRow {
        fault: "`replay`: more steps than memory has room for",
        seen: "`… are more than the … operations that a block may have in a mode. Choose fewer \
               with -n and -w, and more --blocks`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing was measured",
        shown_by: &[Test("more_steps_than_times_are_kept_for_are_refused")],
    },
    FaultRow {
        fault: "`rehearse`: a number of nodes, GPUs or channels that no cluster has, or two \
                outputs in one file",
        seen: "`… are more than … ranks, the most that are supported`, `NCCL has … channels at \
               most`, `… and … name the same file, …. Name one for each`",
        exit: Exit::Code(Code::Usage),
        ends: "at the start",
        kept: "nothing is written",
        shown_by: &[Test("what_cannot_be_is_refused_in_one_sentence")],
    },
    FaultRow {
        fault: "`plan`: a time that no operation takes, below a nanosecond or longer than a job",
        seen: "`…, line …: … is …, which is …. Remove the row, or measure it again`, with \
               `shorter than a nanosecond` or `longer than a job takes`",
        exit: Exit::Code(Code::Usage),
        ends: "at once",
        kept: "the run stays as it is",
        shown_by: &[Test(
            "times_that_no_operation_takes_are_refused_and_many_sizes_are_planned",
        )],
    },
    FaultRow {
        fault: "`compare`: a replay that completed no block",
        seen: "`no two … have times of the same training step with and without its collectives. …`",
        exit: Exit::Code(Code::Usage),
        ends: "at once",
        kept: "the replays stay as they are",
        shown_by: &[Test("a_replay_without_a_whole_block_is_not_compared")],
    },
];
