//! A rehearsal as a table for people, as CSV and as JSON.

use std::fmt::Write as _;

use super::{
    rehearsed::Rehearsal,
    rehearsed_case::RehearsedCase,
    table::{NO_TIMES, aligned, groups_of_nodes, percent},
};
use crate::{
    units::{Bytes, counted},
    visible::{beginning, excerpt, visible_line},
};

/// The most letters of what a level changed.
const MOST_LETTERS: usize = 400;

/// The heads of the table.
pub const HEADS: [&str; 10] = [
    "collective",
    "level",
    "relayed sends",
    "node",
    "rail: bytes sent (relayed)",
    "across rails",
    "algorithm",
    "verified",
    "sources",
    "what the level changed",
];

/// Renders a rehearsal as a table per topology, with the numbers of each disagreement below.
pub fn text(rehearsal: &Rehearsal) -> String {
    let mut out = format!("{}\n{NO_TIMES}\n", heading(rehearsal));
    if !rehearsal.note.is_empty() {
        let _ = writeln!(out, "{}", visible_line(&rehearsal.note));
    }
    for played in &rehearsal.played {
        let _ = writeln!(out, "Imposed on the rails: {}.", visible_line(played));
    }
    let is_of_one_topology =
        |one: &RehearsedCase, other: &RehearsedCase| one.topology == other.topology;
    for cases in rehearsal.cases.chunk_by(is_of_one_topology) {
        out += &of_topology(cases);
    }
    for case in &rehearsal.cases {
        out += &below_the_table(case);
    }
    out
}

/// Renders the cases of one topology.
fn of_topology(cases: &[RehearsedCase]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    for of_collective in cases.chunk_by(|one, other| one.label() == other.label()) {
        for (at, case) in of_collective.iter().enumerate() {
            let mut rows_of_case = rows_of(case);
            if at > 0
                && let Some(first) = rows_of_case.first_mut()
            {
                first[0].clear();
            }
            rows.extend(rows_of_case);
        }
    }
    let topology = visible_line(&cases[0].topology);
    format!("\nTopology {topology}\n{}", aligned(&rows))
}

/// Renders what does not fit into the row of a case: how long messages waited, and the numbers of a
/// disagreement.
fn below_the_table(case: &RehearsedCase) -> String {
    let mut out = String::new();
    for (rail, waited) in &case.waited_us {
        let _ = writeln!(
            out,
            "\n{}, {}, {}: messages waited {:.1} ms for rail {rail}, summed over all ranks.",
            visible_line(&case.topology),
            case.label(),
            excerpt(&case.level),
            *waited as f64 / 1000.0
        );
    }
    if case.comparison.agreement() == Some(false) {
        let _ = write!(
            out,
            "\nTopology {}: {}",
            visible_line(&case.topology),
            case.comparison.table()
        );
    }
    out
}

/// Returns what was rehearsed, as sentences.
pub fn heading(rehearsal: &Rehearsal) -> String {
    let version = match rehearsal.nccl.as_str() {
        "" => String::new(),
        version => format!(" {}", excerpt(version)),
    };
    let device = match rehearsal.device.as_str() {
        "" => String::new(),
        device => format!(" on {}", excerpt(device)),
    };
    format!(
        "Rehearsal of operations of {} by NCCL{version}{device}: {} with {} and {} each, on one \
         machine. Bytes are those of one operation.",
        Bytes(rehearsal.size_bytes),
        counted(rehearsal.nodes, "virtual node"),
        counted(rehearsal.gpus_per_node, "GPU"),
        counted(rehearsal.rails_per_node, "rail"),
    )
}

fn yes_or_no(known: Option<bool>, yes: &'static str, no: &'static str) -> &'static str {
    match known {
        Some(true) => yes,
        Some(false) => no,
        None => "-",
    }
}

/// Returns the rows of a case: one for each group of nodes that send the same. What is true of the
/// whole case is in the first.
pub fn rows_of(case: &RehearsedCase) -> Vec<[String; 10]> {
    let mut rows = Vec::new();
    for (nodes, rails) in groups_of_nodes(&case.rails_of_one_operation()) {
        let mut row: [String; 10] = Default::default();
        if rows.is_empty() {
            row[0] = case.label();
            row[1] = excerpt(&case.level).into_owned();
            row[2] = format!("{} of {}", case.sends.part, case.sends.whole);
            row[5] = percent(case.crossing);
            row[6] = excerpt(case.algorithm_name()).into_owned();
            row[7] = yes_or_no(case.verified, "yes", "no").to_owned();
            row[8] = yes_or_no(case.comparison.agreement(), "agree", "differ").to_owned();
            row[9] = beginning(&case.changed, MOST_LETTERS).into_owned();
        }
        row[3] = nodes;
        row[4] = rails;
        rows.push(row);
    }
    rows
}

/// The columns of the CSV.
const COLUMNS: [&str; 18] = [
    "topology",
    "level",
    "collective",
    "algorithm",
    "nccl_algorithm",
    "size_bytes",
    "operations",
    "node",
    "rail",
    "sent_bytes",
    "relayed_bytes",
    "crossing_bytes",
    "all_bytes",
    "relayed_connections",
    "connections",
    "verified",
    "agrees",
    "changed",
];

/// Renders a rehearsal as CSV: a row per case, node and rail, with the bytes of all operations.
///
/// # Errors
/// Returns an error if the rows cannot be rendered.
pub fn csv(rehearsal: &Rehearsal) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for case in &rehearsal.cases {
        for rail in &case.rails {
            writer.write_record([
                case.topology.clone(),
                case.level.clone(),
                case.collective.name().to_owned(),
                case.algorithm.word().to_owned(),
                case.nccl_algorithm.clone(),
                rehearsal.size_bytes.to_string(),
                case.operations.to_string(),
                rail.node.to_string(),
                rail.rail.to_string(),
                rail.sent.to_string(),
                rail.relayed.to_string(),
                case.crossing.part.to_string(),
                case.crossing.whole.to_string(),
                case.sends.part.to_string(),
                case.sends.whole.to_string(),
                yes_or_no(case.verified, "yes", "no").replace('-', ""),
                yes_or_no(case.comparison.agreement(), "yes", "no").replace('-', ""),
                case.changed.clone(),
            ])?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Renders a rehearsal as JSON, which [`Rehearsal::parse`] reads again.
///
/// # Errors
/// Returns an error if it cannot be rendered.
pub fn json(rehearsal: &Rehearsal) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(rehearsal)? + "\n")
}
