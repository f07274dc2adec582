//! What the page shows of rehearsals: a table per topology, and who relays through whom as
//! pictures.

use serde::Serialize;

use super::{
    figure::Figure,
    picture::Picture,
    rehearsals::NamedRehearsal,
    replay_section::TakeFigures,
    table::{MOST_ROWS, Table, distinct, end_table, limited, words},
};
use crate::{
    rehearsal::{
        picture,
        rehearsed::Rehearsal,
        rehearsed_case::RehearsedCase,
        rehearsed_table::{self, HEADS},
        table::NO_TIMES,
    },
    units::counted,
};

/// A rehearsal on the page.
#[derive(Serialize)]
pub(super) struct RehearsalSection {
    name: String,
    sentences: Vec<String>,
    tables: Vec<Table>,
    pub(super) figures: Vec<Figure>,
}

/// Returns the sections. `take` decides which of their figures there is room for. What is not
/// listed is added to `left_out`.
///
/// # Errors
/// Returns an error if `take` does.
pub(super) fn sections(
    rehearsals: &[NamedRehearsal],
    take: &mut TakeFigures<'_>,
    left_out: &mut Vec<String>,
) -> anyhow::Result<Vec<RehearsalSection>> {
    let names = distinct(rehearsals.iter().map(|one| one.name.clone()));
    let mut sections = Vec::new();
    for (number, (one, name)) in (1..).zip(rehearsals.iter().zip(names)) {
        let rehearsal = &one.rehearsal;
        let mut tables = Vec::new();
        let mut figures = Vec::new();
        for cases in of_topologies(rehearsal) {
            tables.push(table(cases, left_out));
            for cases in of_collectives(cases) {
                figures.push(figure(rehearsal, cases, number));
            }
        }
        sections.push(RehearsalSection {
            name,
            sentences: sentences(rehearsal),
            tables,
            figures: take(figures, "relay picture")?,
        });
    }
    Ok(sections)
}

/// Returns how the cases of all rehearsals ended, as sentences.
pub(super) fn outcome(rehearsals: &[NamedRehearsal]) -> Vec<String> {
    let cases: Vec<&RehearsedCase> = rehearsals
        .iter()
        .flat_map(|one| &one.rehearsal.cases)
        .collect();
    let with_agreement = |agreement: Option<bool>| {
        let of_case = |case: &&&RehearsedCase| case.comparison.agreement() == agreement;
        cases.iter().filter(of_case).count()
    };
    let wrong = cases.iter().filter(|case| case.verified == Some(false));
    let counts = [
        (with_agreement(Some(true)), "theory, log and counters agree"),
        (
            with_agreement(Some(false)),
            "theory, log and counters differ",
        ),
        (with_agreement(None), "no number is known from two sources"),
        (wrong.count(), "wrong data"),
    ];
    let mut sentences = Vec::new();
    for (count, what) in counts {
        if count > 0 {
            sentences.push(format!(
                "{}: {what}.",
                counted(count as u64, "rehearsed case")
            ));
        }
    }
    sentences
}

/// Returns the cases by topology.
fn of_topologies(rehearsal: &Rehearsal) -> impl Iterator<Item = &[RehearsedCase]> {
    rehearsal
        .cases
        .chunk_by(|one, other| one.topology == other.topology)
}

/// Returns the cases of a topology by collective and algorithm: those in which only the level
/// differs.
fn of_collectives(cases: &[RehearsedCase]) -> impl Iterator<Item = &[RehearsedCase]> {
    cases.chunk_by(|one, other| one.label() == other.label())
}

fn sentences(rehearsal: &Rehearsal) -> Vec<String> {
    let mut all = vec![rehearsed_table::heading(rehearsal), NO_TIMES.to_owned()];
    if !rehearsal.note.is_empty() {
        all.push(rehearsal.note.clone());
    }
    for played in &rehearsal.played {
        all.push(format!("Imposed on the rails: {played}."));
    }
    all
}

/// Returns the table of a topology. Each of its rows has the collective and the level, since rows
/// are read one by one.
fn table(cases: &[RehearsedCase], left_out: &mut Vec<String>) -> Table {
    let mut rows = Vec::new();
    for case in cases {
        for mut row in rehearsed_table::rows_of(case) {
            row[0] = case.label();
            row[1].clone_from(&case.level);
            rows.push(row.to_vec());
        }
    }
    Table {
        caption: format!("Topology {}", cases[0].topology),
        head: words(&HEADS),
        rows: limited(rows, "rehearsal row", left_out),
    }
}

/// Draws who relays through whom, a panel per level.
fn figure(rehearsal: &Rehearsal, cases: &[RehearsedCase], number: usize) -> Figure {
    let svg = picture::draw_cases(rehearsal, cases);
    let first = &cases[0];
    let title = format!("{} on topology {}", first.label(), first.topology);
    let name = Picture::file_name(&format!("rehearsal {number} {title}"));
    let relayed: Vec<String> = cases.iter().map(relayed_sends).collect();
    let description = format!("Relayed sends by level: {}.", relayed.join(", "));
    let mut rows = ways(rehearsal, cases);
    let thinned = end_table(&mut rows).unwrap_or_default();
    Figure {
        pictures: vec![Picture::new(&name, title.clone(), description, &svg)],
        table: Table {
            caption: format!("The ways of the bytes of one operation: {title}"),
            head: words(&[
                "level",
                "from rank",
                "to rank",
                "rail",
                "relay",
                "arrives on rail",
                "bytes",
            ]),
            rows,
        },
        name,
        title,
        thinned,
    }
}

fn relayed_sends(case: &RehearsedCase) -> String {
    format!("{} {} of {}", case.level, case.sends.part, case.sends.whole)
}

/// Returns the rows of who sends to whom over which rail; one more than a table has if there are
/// too many.
fn ways(rehearsal: &Rehearsal, cases: &[RehearsedCase]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for case in cases {
        for flow in &case.flows {
            if rows.len() > MOST_ROWS {
                return rows;
            }
            let relay = flow.relay.map_or_else(String::new, |rank| {
                format!("GPU {} of the node", rank % rehearsal.gpus_per_node.max(1))
            });
            rows.push(vec![
                case.level.clone(),
                flow.from.to_string(),
                flow.to.to_string(),
                flow.rail.to_string(),
                relay,
                flow.peer_rail.to_string(),
                (flow.bytes / case.operations.max(1)).to_string(),
            ]);
        }
    }
    rows
}
