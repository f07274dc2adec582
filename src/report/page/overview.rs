//! The lists of the page with a row per line: the best of each, and what NCCL's log shows of it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    report::{
        line_proof::LineProof,
        panel::{Line, Panel, Point, sum_of_known},
        table::figure,
    },
    units::{Bytes, counted},
};

/// The best of one line.
#[derive(Serialize)]
pub(super) struct OverviewRow {
    case: String,
    line: String,
    sizes: String,
    least_time: String,
    best_busbw: String,
    at: String,
    percent_of_peak: String,
    /// Wrong elements; empty if no data were checked.
    wrong: Option<u64>,
}

/// What NCCL's log shows of a line.
#[derive(Serialize)]
pub(super) struct ProofRow {
    case: String,
    line: String,
    pxn: String,
    transports: String,
    algorithms: String,
}

/// Returns the best of each line.
pub(super) fn overview(panels: &[Panel]) -> Vec<OverviewRow> {
    let lines = lines(panels);
    lines
        .map(|(panel, line)| overview_row(panel, line))
        .collect()
}

/// Returns what NCCL's log shows, for the lines of which it shows something.
pub(super) fn proof(panels: &[Panel]) -> Vec<ProofRow> {
    let proved = lines(panels).filter(|(_, line)| !line.proof.is_empty());
    proved.map(|(panel, line)| proof_row(panel, line)).collect()
}

/// Returns all lines, each with its panel.
fn lines(panels: &[Panel]) -> impl Iterator<Item = (&Panel, &Line)> {
    panels
        .iter()
        .flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)))
}

fn overview_row(panel: &Panel, line: &Line) -> OverviewRow {
    let busbw = |point: &Point| point.busbw.map_or(0.0, |busbw| busbw.value);
    let best = line
        .points
        .iter()
        .max_by(|a, b| busbw(a).total_cmp(&busbw(b)));
    let best = best.filter(|point| point.busbw.is_some());
    let times = line.points.iter().map(|point| point.time.value);
    let (first, last) = (line.points.first(), line.points.last());
    let size = |point: Option<&Point>| {
        point.map_or_else(String::new, |point| Bytes(point.size).to_string())
    };
    OverviewRow {
        case: panel.case.words(),
        line: line.label.clone(),
        sizes: match line.points.len() {
            1 => size(first),
            _ => format!("{} to {}", size(first), size(last)),
        },
        least_time: figure(times.reduce(f64::min)),
        best_busbw: figure(best.map(busbw)),
        at: size(best),
        percent_of_peak: figure(best.and_then(|best| Some(100.0 * busbw(best) / best.peak?))),
        wrong: line
            .points
            .iter()
            .map(|point| point.wrong)
            .fold(None, sum_of_known),
    }
}

fn proof_row(panel: &Panel, line: &Line) -> ProofRow {
    ProofRow {
        case: panel.case.words(),
        line: line.label.clone(),
        pxn: use_of_pxn(&line.proof),
        transports: joined(&line.proof.transports),
        algorithms: joined(&line.proof.algorithms),
    }
}

fn use_of_pxn(proof: &LineProof) -> String {
    match (proof.used, proof.not_used) {
        (0, 0) => "the log does not tell".to_owned(),
        (used, 0) => format!("used in {}", counted(used, "row")),
        (0, not_used) => format!("not used in {}", counted(not_used, "row")),
        (used, not_used) => {
            format!("used in {}, not used in {not_used}", counted(used, "row"))
        }
    }
}

fn joined(words: &BTreeSet<String>) -> String {
    words.iter().cloned().collect::<Vec<_>>().join("; ")
}
