//! The formats in which a topology is printed.

use serde_json::{Map, Value, json};

use super::{Topology, path, svg, text};

/// A format of `pxnbench topo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyFormat {
    /// Tree, matrix and paths.
    All,
    /// The devices as a tree.
    Tree,
    /// The path types between all pairs of devices.
    Matrix,
    /// The path and the choices of each GPU.
    Paths,
    /// Everything, for programs.
    Json,
    /// A picture.
    Svg,
}

/// Renders a topology.
///
/// # Errors
/// Returns an error if it does not survive JSON; that would be a bug.
pub fn render(topology: &Topology, format: TopologyFormat) -> anyhow::Result<String> {
    let missing = missing(topology);
    Ok(match format {
        TopologyFormat::All => {
            let mut parts = vec![
                text::tree(topology) + &missing,
                text::matrix(topology),
                text::paths(topology),
            ];
            parts.retain(|part| !part.is_empty());
            parts.join("\n")
        }
        TopologyFormat::Tree => text::tree(topology) + &missing,
        TopologyFormat::Matrix => text::matrix(topology) + &missing,
        TopologyFormat::Paths => text::paths(topology) + &missing,
        TopologyFormat::Json => serde_json::to_string_pretty(&json(topology))?,
        TopologyFormat::Svg => svg::draw(topology),
    })
}

fn missing(topology: &Topology) -> String {
    let mut text = String::new();
    for what in &topology.missing {
        text += &format!("Missing: {what}\n");
    }
    text
}

fn json(topology: &Topology) -> Value {
    let mut kinds = Map::new();
    for (_, word, meaning) in path::KINDS {
        kinds.insert((*word).to_owned(), json!(meaning));
    }
    let mut gpu_paths = Vec::new();
    for from in 0..topology.gpus.len() {
        for to in 0..topology.gpus.len() {
            if from != to {
                gpu_paths.push(json!({
                    "from": from,
                    "to": to,
                    "path": topology.between(from, to),
                    "transports": topology.inside(from, to),
                }));
            }
        }
    }
    json!({
        "topology": topology,
        "kinds": kinds,
        "gpu_paths": gpu_paths,
        "choices": topology.choices(),
    })
}
