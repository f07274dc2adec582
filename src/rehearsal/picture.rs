//! [`draw`] and [`draw_cases`]: a picture of who relays through whom, as one self-contained SVG
//! file.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{
    cluster::Cluster,
    rehearsed::Rehearsal,
    rehearsed_case::RehearsedCase,
    table::NO_TIMES,
    theory::{Answer, Relays, Theory},
};
use crate::topology::svg::escaped;

/// The most nodes that are drawn of each theory.
const MOST_NODES: u64 = 4;

// Lengths in pixels: the height of a row, the width of a node, the space between nodes and around
// all, and the height of a title.
const ROW: usize = 30;
const NODE_WIDTH: usize = 230;
const GAP: usize = 24;
const MARGIN: usize = 20;
const TITLE: usize = 46;

// The middle of GPUs and of rails, in pixels from the left side of a node.
const GPU_X: usize = 92;
const RAIL_X: usize = 178;

/// The colour of a path without a relay.
const DIRECT: &str = "#4a4a4a";

/// The colour of a path through a relay.
const RELAYED: &str = "#c24e00";

/// A path from a GPU of a node into the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DrawnPath {
    gpu: usize,
    /// The GPU that relays, if one does.
    relay: Option<usize>,
    rail: usize,
}

/// The nodes of a drawing, which are all alike.
struct DrawnNodes {
    count: u64,
    /// The label of each GPU of a node.
    gpus: Vec<String>,
    /// Rails of a node.
    rails: usize,
}

impl DrawnNodes {
    fn of_rank(&self, rank: u64) -> u64 {
        rank / self.gpus.len() as u64
    }

    fn gpu_of(&self, rank: u64) -> usize {
        (rank % self.gpus.len() as u64) as usize
    }

    /// Returns how many of them are drawn.
    fn drawn(&self) -> u64 {
        self.count.min(MOST_NODES)
    }

    /// Returns the rows of a drawn node.
    fn rows(&self) -> usize {
        self.gpus.len().max(self.rails) + 1
    }
}

/// Draws a panel per theory, one below the other.
pub fn draw(cluster: &Cluster, theories: &[Theory]) -> String {
    let gpus = (0..cluster.gpus()).map(|gpu| cluster.node.gpu_label(gpu));
    let nodes = DrawnNodes {
        count: cluster.nodes,
        gpus: gpus.collect(),
        rails: cluster.rails(),
    };
    draw_on(&nodes, theories)
}

/// Draws what a rehearsal showed in `cases`, a panel per case.
pub fn draw_cases(rehearsal: &Rehearsal, cases: &[RehearsedCase]) -> String {
    let gpus = (0..rehearsal.gpus_per_node).map(|gpu| format!("GPU {gpu}"));
    let nodes = DrawnNodes {
        count: rehearsal.nodes,
        gpus: gpus.collect(),
        rails: rehearsal.rails_per_node as usize,
    };
    let shown: Vec<Theory> = cases.iter().map(RehearsedCase::drawn).collect();
    draw_on(&nodes, &shown)
}

fn draw_on(nodes: &DrawnNodes, theories: &[Theory]) -> String {
    let drawn = nodes.drawn();
    let panel = panel_height(nodes);
    let width = 2 * MARGIN + drawn as usize * (NODE_WIDTH + GAP);
    let width = width.max(720);
    let height = MARGIN + 2 * ROW + theories.len() * panel;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>Who relays through whom</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(&mut out, MARGIN, MARGIN + 8, NO_TIMES);
    let legend = format!(
        "Grey: a GPU sends through its NIC itself. Orange: it passes its data to the GPU beside \
         the NIC, which relays them.{}",
        if drawn < nodes.count {
            format!(" The first {drawn} of {} nodes are drawn.", nodes.count)
        } else {
            String::new()
        }
    );
    text(&mut out, MARGIN, MARGIN + 8 + ROW, &legend);
    for (at, theory) in theories.iter().enumerate() {
        let top = MARGIN + 2 * ROW + at * panel;
        draw_theory(&mut out, nodes, theory, top);
    }
    out.push_str("</svg>\n");
    out
}

fn panel_height(nodes: &DrawnNodes) -> usize {
    TITLE + nodes.rows() * ROW + GAP
}

fn text(out: &mut String, x: usize, y: usize, words: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escaped(words));
}

fn draw_theory(out: &mut String, nodes: &DrawnNodes, theory: &Theory, top: usize) {
    let title = format!("{}, {}: {}", theory.level, theory.label(), summary(theory));
    text(out, MARGIN, top + 30, &title);
    for node in 0..nodes.drawn() {
        let left = MARGIN + node as usize * (NODE_WIDTH + GAP);
        draw_node(out, nodes, theory, node, (left, top + TITLE));
    }
}

/// Returns a sentence about the relays of a theory.
fn summary(theory: &Theory) -> String {
    match &theory.relays {
        Relays::Connections(share) => {
            format!("{} of {} sends relayed", share.part, share.whole)
        }
        Relays::Pairs { pairs, .. } => {
            format!(
                "the sends of {} of {} pairs relayed",
                pairs.part, pairs.whole
            )
        }
        Relays::Nothing { .. } => "nothing relayed; which rails are used cannot be told".into(),
        Relays::CannotTell(why) => format!("cannot tell: {why}"),
    }
}

/// Returns the paths out of a node.
fn paths(nodes: &DrawnNodes, theory: &Theory, node: u64) -> BTreeSet<DrawnPath> {
    let mut paths = BTreeSet::new();
    for flow in &theory.flows {
        if nodes.of_rank(flow.from) == node {
            paths.insert(DrawnPath {
                gpu: nodes.gpu_of(flow.from),
                relay: flow.relay.map(|rank| nodes.gpu_of(rank)),
                rail: flow.rail,
            });
        }
    }
    paths
}

fn draw_node(
    out: &mut String,
    nodes: &DrawnNodes,
    theory: &Theory,
    node: u64,
    (left, top): (usize, usize),
) {
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{NODE_WIDTH}\" height=\"{}\" rx=\"6\" \
         fill=\"#f6f6f6\" stroke=\"#aaaaaa\"/>",
        nodes.rows() * ROW
    );
    text(out, left + 8, top + 20, &format!("node {node}"));
    let middle = |row: usize| top + (row + 1) * ROW + ROW / 2 - 4;
    for DrawnPath { gpu, relay, rail } in paths(nodes, theory, node) {
        let by = relay.unwrap_or(gpu);
        let colour = if relay.is_some() { RELAYED } else { DIRECT };
        if relay.is_some() {
            // The path over NVLink is a bow on the left of the GPUs.
            let (from, to) = (middle(gpu), middle(by));
            let x = left + GPU_X - 26;
            let bow = x - 30;
            let _ = writeln!(
                out,
                "<path d=\"M{x} {from} C{bow} {from} {bow} {to} {x} {to}\" fill=\"none\" \
                 stroke=\"{colour}\" stroke-width=\"2\"/>"
            );
        }
        let (x1, x2) = (left + GPU_X + 26, left + RAIL_X - 24);
        // A direct and a relayed path may lead from one GPU to the same rail.
        let shift = if relay.is_some() { 3 } else { 0 };
        let _ = writeln!(
            out,
            "<line x1=\"{x1}\" y1=\"{}\" x2=\"{x2}\" y2=\"{}\" stroke=\"{colour}\" \
             stroke-width=\"2\"/>",
            middle(by) + shift,
            middle(rail) + shift
        );
    }
    for (gpu, label) in nodes.gpus.iter().enumerate() {
        draw_box(out, left + GPU_X, middle(gpu), "#d5ecc2", label);
    }
    for rail in 0..nodes.rails {
        let label = format!("rail {rail}");
        draw_box(out, left + RAIL_X, middle(rail), "#c7dcf5", &label);
    }
    if let Answer::Known(rails) = &theory.rails {
        let of_node = rails.iter().filter(|rail| rail.node == node);
        let sent = of_node.fold(0_u64, |sum, rail| sum.saturating_add(rail.sent));
        text(out, left + 70, top + 20, &format!("sends {sent} bytes"));
    }
}

fn draw_box(out: &mut String, x: usize, y: usize, colour: &str, label: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"50\" height=\"22\" rx=\"4\" fill=\"{colour}\" stroke=\"#666666\"/>\n\
         <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
        x - 25,
        y - 11,
        y + 4,
        escaped(label)
    );
}
