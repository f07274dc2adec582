//! The formats in which a topology is printed.

use serde_json::{Map, Value, json};

use super::{Topology, oddities, path, svg, text};

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

/// Renders the topologies of one source, one per host.
///
/// # Errors
/// Returns an error if one does not survive JSON; that would be a bug.
pub fn render(hosts: &[Topology], format: TopologyFormat) -> anyhow::Result<String> {
    if format == TopologyFormat::Json {
        return Ok(serde_json::to_string_pretty(&json(hosts))?);
    }
    let mut pages = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        pages.push(page(hosts, at, host, format));
    }
    match format {
        TopologyFormat::Svg => Ok(svg::draw(&pages.join("\n"))),
        _ => Ok(pages.join("\n")),
    }
}

fn page(hosts: &[Topology], at: usize, host: &Topology, format: TopologyFormat) -> String {
    let title = title(hosts.len(), at, host);
    let notes = notes(hosts, host);
    let body = match format {
        TopologyFormat::All => {
            let mut parts = vec![
                text::tree(host) + &notes,
                text::matrix(host),
                text::paths(host),
            ];
            parts.retain(|part| !part.is_empty());
            parts.join("\n")
        }
        TopologyFormat::Matrix => text::matrix(host) + &notes,
        TopologyFormat::Paths => text::paths(host) + &notes,
        TopologyFormat::Tree | TopologyFormat::Svg | TopologyFormat::Json => {
            text::tree(host) + &notes
        }
    };
    title + &body
}

/// Returns the line above a host, if there are several.
fn title(count: usize, at: usize, host: &Topology) -> String {
    if count < 2 {
        return String::new();
    }
    let hash = host.host.as_deref().unwrap_or("without host_hash");
    format!("Host {} of {count}: {hash}\n", at + 1)
}

/// Returns the lines below a tree.
fn notes(hosts: &[Topology], host: &Topology) -> String {
    let mut text = String::new();
    for what in all_notes(hosts, host) {
        text += &format!("Note: {what}\n");
    }
    for what in &host.missing {
        text += &format!("Missing: {what}\n");
    }
    text
}

fn all_notes(hosts: &[Topology], host: &Topology) -> Vec<String> {
    let mut notes = host.notes.clone();
    notes.extend(oddities::nvlinks(hosts, host));
    notes
}

/// Returns the only host, or a list of them.
fn json(hosts: &[Topology]) -> Value {
    let mut all: Vec<Value> = hosts.iter().map(|host| host_json(hosts, host)).collect();
    if all.len() == 1 {
        all.remove(0)
    } else {
        json!({ "hosts": all })
    }
}

fn host_json(hosts: &[Topology], topology: &Topology) -> Value {
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
                    "over_pci": topology.pci_between(from, to).kind,
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
        "notes": all_notes(hosts, topology),
    })
}
