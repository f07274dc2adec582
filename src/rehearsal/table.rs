//! Theories as a table for people, as CSV and as JSON.

use std::{fmt::Write as _, iter, ops::RangeInclusive};

use serde::Serialize;

use super::{
    cluster::Cluster,
    theory::{Answer, RailBytes, Relays, Share, Theory},
};
use crate::units::{Bytes, counted};

/// What is true of every rehearsal.
pub const NO_TIMES: &str =
    "A rehearsal shows what NCCL decides and which way the bytes go. Times mean nothing in it.";

/// The versions of NCCL whose rules these are.
pub const VERSIONS: &str = "NCCL 2.21.5 to 2.28.9";

/// The reasons below a table, each once.
#[derive(Default)]
struct Footnotes(Vec<String>);

impl Footnotes {
    /// Returns the mark of a reason.
    fn mark(&mut self, why: &str) -> String {
        let known = self.0.iter().position(|note| note == why);
        let at = known.unwrap_or_else(|| {
            self.0.push(why.to_owned());
            self.0.len() - 1
        });
        format!("[{}]", at + 1)
    }
}

/// Renders theories as a table.
pub fn text(cluster: &Cluster, size: Bytes, theories: &[Theory]) -> String {
    let mut notes = Footnotes::default();
    let mut rows: Vec<[String; 6]> = vec![
        [
            "level",
            "collective",
            "relayed sends",
            "node",
            "rail: bytes sent (relayed)",
            "across rails",
        ]
        .map(str::to_owned),
    ];
    for theory in theories {
        rows.extend(rows_of(theory, &mut notes));
    }
    let mut out = format!("{}\n{NO_TIMES}\n\n", heading(cluster, size));
    out += &aligned(&rows);
    if !notes.0.is_empty() {
        out.push('\n');
    }
    for (at, note) in notes.0.iter().enumerate() {
        let _ = writeln!(out, "[{}] {note}", at + 1);
    }
    out
}

/// Renders rows as lines with aligned columns.
pub(super) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Not as a width of the format, which has a limit.
            line.push_str(cell);
            line.extend(iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Returns a line that says what the theories are of.
fn heading(cluster: &Cluster, size: Bytes) -> String {
    let channels = match cluster.channels {
        Some(channels) => format!(", {}", counted(channels, "channel")),
        None => String::new(),
    };
    format!(
        "Theory of one operation of {size} by the rules of {VERSIONS}: {} with {} and {} each, \
         topology {}{channels}.",
        counted(cluster.nodes, "node"),
        counted(cluster.gpus() as u64, "GPU"),
        counted(cluster.rails() as u64, "rail"),
        cluster.topology_name()
    )
}

/// Returns the rows of a theory: one for each group of nodes that send the same.
fn rows_of(theory: &Theory, notes: &mut Footnotes) -> Vec<[String; 6]> {
    let across = match &theory.crossing {
        Answer::Known(share) => percent(*share),
        Answer::CannotTell(why) => format!("cannot tell {}", notes.mark(why)),
    };
    let head = [
        theory.level.clone(),
        theory.label(),
        relayed(&theory.relays, notes),
    ];
    let groups = match &theory.rails {
        Answer::Known(rails) => groups_of_nodes(rails),
        Answer::CannotTell(why) => {
            let cannot_tell = format!("cannot tell {}", notes.mark(why));
            vec![(String::new(), cannot_tell)]
        }
    };
    let mut rows = Vec::new();
    for (nodes, rails) in groups {
        let [level, collective, relayed] = if rows.is_empty() {
            head.clone()
        } else {
            Default::default()
        };
        let across = if rows.is_empty() {
            across.clone()
        } else {
            String::new()
        };
        rows.push([level, collective, relayed, nodes, rails, across]);
    }
    rows
}

fn relayed(relays: &Relays, notes: &mut Footnotes) -> String {
    match relays {
        Relays::Connections(Share { part, whole }) => format!("{part} of {whole}"),
        Relays::Pairs { pairs, why } => {
            let Share { part, whole } = pairs;
            format!("{part} of {whole} pairs {}", notes.mark(why))
        }
        Relays::Nothing { why } => format!("none {}", notes.mark(why)),
        Relays::CannotTell(why) => format!("cannot tell {}", notes.mark(why)),
    }
}

/// Returns a share in percent; `-` of nothing.
pub(super) fn percent(share: Share) -> String {
    if share.whole == 0 {
        return "-".into();
    }
    let percent = 100.0 * share.part as f64 / share.whole as f64;
    format!("{}%", (percent * 10.0).round() / 10.0)
}

/// Groups neighbours that are equal: the numbers of each group and what they have in common.
fn groups<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<(RangeInclusive<usize>, T)> {
    let mut groups: Vec<(RangeInclusive<usize>, T)> = Vec::new();
    for (at, one) in all.into_iter().enumerate() {
        match groups.last_mut() {
            Some((numbers, same)) if *same == one => *numbers = *numbers.start()..=at,
            _ => groups.push((at..=at, one)),
        }
    }
    groups
}

fn numbers(range: &RangeInclusive<usize>) -> String {
    let (first, last) = (range.start(), range.end());
    if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    }
}

/// Returns groups of nodes with what they send on their rails.
pub(super) fn groups_of_nodes(rails: &[RailBytes]) -> Vec<(String, String)> {
    let nodes = rails.chunk_by(|a, b| a.node == b.node);
    let bytes = nodes.map(|rails| -> Vec<(u64, u64)> {
        rails.iter().map(|rail| (rail.sent, rail.relayed)).collect()
    });
    let mut all = Vec::new();
    for (nodes, bytes) in groups(bytes) {
        let rails: Vec<String> = groups(bytes)
            .iter()
            .map(|(rails, (sent, relayed))| format!("{}: {sent} ({relayed})", numbers(rails)))
            .collect();
        all.push((numbers(&nodes), rails.join(", ")));
    }
    all
}

/// The columns of the CSV.
const COLUMNS: [&str; 15] = [
    "level",
    "collective",
    "algorithm",
    "size_bytes",
    "node",
    "rail",
    "sent_bytes",
    "relayed_bytes",
    "crossing_bytes",
    "all_bytes",
    "relayed_connections",
    "connections",
    "relayed_pairs",
    "pairs",
    "note",
];

/// Renders theories as CSV: a row per node and rail. An unknown number is an empty cell, and the
/// note says why.
///
/// # Errors
/// Returns an error if the rows cannot be rendered.
pub fn csv(theories: &[Theory]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for theory in theories {
        let rails = match &theory.rails {
            Answer::Known(rails) => rails.iter().map(Some).collect(),
            Answer::CannotTell(_) => vec![None],
        };
        for rail in rails {
            writer.write_record(csv_row(theory, rail))?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn csv_row(theory: &Theory, rail: Option<&RailBytes>) -> [String; 15] {
    let cell = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let crossing = theory.crossing.known();
    let (connections, pairs) = match &theory.relays {
        Relays::Connections(share) => (Some(*share), None),
        Relays::Pairs { pairs, .. } => (None, Some(*pairs)),
        Relays::Nothing { .. } | Relays::CannotTell(_) => (None, None),
    };
    // What is certain although the rest is not.
    let is_nothing = matches!(theory.relays, Relays::Nothing { .. }).then_some(0);
    [
        theory.level.clone(),
        theory.collective.name().to_owned(),
        theory.algorithm.word().to_owned(),
        theory.size_bytes.to_string(),
        cell(rail.map(|rail| rail.node)),
        cell(rail.map(|rail| rail.rail as u64)),
        cell(rail.map(|rail| rail.sent)),
        cell(rail.map(|rail| rail.relayed)),
        cell(crossing.map(|share| share.part)),
        cell(crossing.map(|share| share.whole)),
        cell(connections.map(|share| share.part).or(is_nothing)),
        cell(connections.map(|share| share.whole)),
        cell(pairs.map(|share| share.part).or(is_nothing)),
        cell(pairs.map(|share| share.whole)),
        notes(theory).join("; "),
    ]
}

/// Returns the reasons of a theory, each once.
fn notes(theory: &Theory) -> Vec<&str> {
    let mut notes = Vec::new();
    match &theory.relays {
        Relays::Pairs { why, .. } | Relays::Nothing { why } | Relays::CannotTell(why) => {
            notes.push(why.as_str());
        }
        Relays::Connections(_) => {}
    }
    if let Answer::CannotTell(why) = &theory.rails
        && !notes.contains(&why.as_str())
    {
        notes.push(why);
    }
    notes
}

/// Theories as JSON.
#[derive(Serialize)]
struct TheoryDocument<'a> {
    about: &'static str,
    versions: &'static str,
    topology: &'a str,
    nodes: u64,
    gpus_per_node: usize,
    rails_per_node: usize,
    channels: Option<u64>,
    theories: &'a [Theory],
}

/// Renders theories as JSON.
///
/// # Errors
/// Returns an error if they cannot be rendered.
pub fn json(cluster: &Cluster, theories: &[Theory]) -> anyhow::Result<String> {
    let document = TheoryDocument {
        about: NO_TIMES,
        versions: VERSIONS,
        topology: cluster.topology_name(),
        nodes: cluster.nodes,
        gpus_per_node: cluster.gpus(),
        rails_per_node: cluster.rails(),
        channels: cluster.channels,
        theories,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
