//! Each fault that was tried, what the user sees of it, and the test that tries it;
//! `docs/RELIABILITY.md` is made from these tables.

#[path = "../common/mod.rs"]
mod common;
mod data;
mod failing;
mod gpus;
mod inputs;
mod killed;
mod launchers;
mod limits;
mod nccl_tests;
mod outputs;
mod resume;
mod stuck;
mod unread;

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
};

use common::{
    evidence::{Evidence, EvidenceSources, expect_page},
    sentences::{SourceTexts, quotes},
};
use pxnbench::exit::Code;

/// A fault, and what becomes of a run that meets it.
struct FaultRow {
    /// What goes wrong.
    fault: &'static str,
    /// What the user sees; the program's own words are in backticks.
    seen: &'static str,
    exit: Exit,
    /// When the job is gone.
    ends: &'static str,
    /// Which results are kept.
    kept: &'static str,
    shown_by: &'static [Evidence],
}

/// The exit code of a run that meets a fault.
#[derive(Clone, Copy)]
enum Exit {
    /// One of the program's own codes.
    Code(Code),
    /// The code that the run has without the fault.
    Unchanged,
    /// The one of the signal that killed it.
    Killed,
    /// The one that the launcher makes of it.
    Launcher,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "{}", *code as u8),
            Exit::Unchanged => f.write_str("as without it"),
            Exit::Killed => f.write_str("of the signal"),
            Exit::Launcher => f.write_str("of the launcher"),
        }
    }
}

/// Faults of one kind.
struct FaultGroup {
    title: &'static str,
    introduction: &'static str,
    rows: &'static [FaultRow],
}

const GROUPS: &[FaultGroup] = &[
    stuck::GROUP,
    killed::GROUP,
    failing::GROUP,
    gpus::GROUP,
    launchers::GROUP,
    outputs::GROUP,
    unread::GROUP,
    limits::GROUP,
    inputs::GROUP,
    resume::GROUP,
    data::GROUP,
];

/// The fewest faults that the page must show.
const FEWEST: usize = 60;

fn reliability_md() -> String {
    let mut text = String::from(
        "# What happens when something fails\n\n\
         Generated from the tables in `tests/reliability/` by `UPDATE_GOLDEN=1 cargo test --test reliability`.\n\n\
         Each row is a fault that a test produces: what the user sees, the [exit code](FORMAT.md#exit-codes), when the job is gone, \
         and which results are kept. `…` stands for what differs from run to run. *T* is the value of `--timeout`. Where a launcher \
         replaces the exit code of a job, the code here is the one in `run.json`.\n",
    );
    for group in GROUPS {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n| fault | what you see | exit code | ends | kept | shown by \
             |\n|---|---|---|---|---|---|\n",
            group.title, group.introduction
        );
        for row in group.rows {
            let shown_by: Vec<String> = row.shown_by.iter().map(Evidence::to_string).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                row.fault,
                row.seen,
                row.exit,
                row.ends,
                row.kept,
                shown_by.join(", ")
            );
        }
    }
    nccl_tests::write(&mut text);
    text
}

#[test]
fn each_fault_has_a_test_and_the_page_shows_them_all() {
    let sources = EvidenceSources::read();
    let mut faults = BTreeSet::new();
    for row in GROUPS.iter().flat_map(|group| group.rows) {
        assert!(!row.shown_by.is_empty(), "{}: shown by nothing", row.fault);
        for evidence in row.shown_by {
            let what = row.fault;
            assert!(sources.have(evidence), "{what}: there is no {evidence:?}");
        }
        assert!(faults.insert(row.fault), "twice: {}", row.fault);
    }
    assert!(faults.len() >= FEWEST, "only {} faults", faults.len());
    expect_page("RELIABILITY.md", &reliability_md());
}

#[test]
fn each_message_that_is_quoted_is_one_that_the_program_prints() {
    let own = SourceTexts::below(&["src", "scripts", "slurm", "tests/golden"]);
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    let quoted = rows.flat_map(|row| quotes(row.seen).map(move |quote| (row.fault, quote)));
    let unknown: Vec<String> = quoted
        .filter(|(_, quote)| !own.have(quote))
        .map(|(fault, quote)| format!("{fault}: {quote}"))
        .collect();
    let unknown = unknown.join("\n");
    assert!(unknown.is_empty(), "nothing prints these:\n{unknown}");
}
