//! The verdicts on communicators as a table.

use std::fmt::Write;

use super::{
    groups::CommunicatorGroup,
    verdict::{TrafficVerdict, TrafficVerdicts},
};
use crate::units::counted;

/// Groups that the text names; JSON has all.
const GROUPS: usize = 16;

/// A column: its title, and its cell in a row.
type Column = (&'static str, fn(&CommunicatorGroup) -> String);

const COLUMNS: [Column; 8] = [
    ("communicator", name),
    ("ranks", ranks),
    ("nodes", |group| number(group.shared.nodes)),
    ("rings", |group| label(group, |of| of.rings)),
    ("trees", |group| label(group, |of| of.trees)),
    (UNSORTED, |group| label(group, |of| of.rings_or_trees)),
    ("send/recv", |group| label(group, |of| of.send_recv)),
    ("reason", |group| {
        let reason = group.shared.reason;
        reason.map_or_else(|| "-".into(), |reason| reason.info().name.into())
    }),
];

/// The title of the column that is left out if all its cells say the same.
const UNSORTED: &str = "rings or trees";

/// Returns `groups` as a table below a title; empty if there is no communicator.
pub(super) fn communicator_table(groups: &[CommunicatorGroup]) -> String {
    let is_known = |group: &CommunicatorGroup| group.shared.ranks.is_some();
    if !groups.iter().any(is_known) {
        return String::new();
    }
    let is_unsorted =
        |group: &CommunicatorGroup| group.shared.traffic.rings_or_trees != TrafficVerdict::NotInLog;
    let has_unsorted = groups.iter().any(is_unsorted);
    let shown = &groups[..groups.len().min(GROUPS)];
    let mut lines = vec![String::from(" "); shown.len() + 1];
    for (title, cell) in COLUMNS {
        if title != UNSORTED || has_unsorted {
            let mut cells = vec![title.to_owned()];
            cells.extend(shown.iter().map(cell));
            add_column(&mut lines, &cells);
        }
    }
    let mut text = String::from("communicators:\n");
    for line in &lines {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if groups.len() > GROUPS {
        let more = groups.len() - GROUPS;
        let _ = writeln!(text, "  {more} more kinds (--json has them)");
    }
    text
}

/// Adds `cells` to the ends of `lines`, as wide as the widest of them.
fn add_column(lines: &mut [String], cells: &[String]) {
    let width = cells.iter().map(String::len).max().unwrap_or_default();
    for (line, cell) in lines.iter_mut().zip(cells) {
        let _ = write!(line, " {cell:<width$} ");
    }
}

/// Returns the id of the only communicator of a group, or how many there are.
fn name(group: &CommunicatorGroup) -> String {
    match (&group.ids[..], group.communicators) {
        ([id], 1) => id.clone(),
        (_, 1) if group.shared.ranks.is_none() => "unknown".into(),
        (_, 1) => "one without id".into(),
        (_, several) => counted(several, "communicator"),
    }
}

/// Returns the number of ranks, and how many of them are in the log if some are missing.
fn ranks(group: &CommunicatorGroup) -> String {
    let in_log = group.shared.ranks_in_log;
    match group.shared.ranks {
        Some(ranks) if in_log < ranks => format!("{in_log} of {ranks}"),
        other => number(other),
    }
}

fn number(known: Option<u64>) -> String {
    known.map_or_else(|| "?".into(), |number| number.to_string())
}

fn label(group: &CommunicatorGroup, verdict: fn(&TrafficVerdicts) -> TrafficVerdict) -> String {
    verdict(&group.shared.traffic).label().into()
}
