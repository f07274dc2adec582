//! Circles of files that import each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The files that each file imports.
pub(crate) type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns circles such that each file in any circle is in one of them, as `a.rs → b.rs → a.rs`;
/// the shortest first.
pub(crate) fn circles(graph: &Graph) -> Vec<String> {
    let shortest: BTreeSet<Vec<&str>> = graph
        .keys()
        .filter_map(|file| shortest_circle(graph, file))
        .map(from_its_first_name)
        .collect();
    let mut shortest: Vec<_> = shortest.into_iter().collect();
    shortest.sort_by_key(Vec::len);
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut reports = Vec::new();
    for circle in shortest {
        if circle.iter().all(|file| told.contains(file)) {
            continue;
        }
        reports.push(format!("{} → {}", circle.join(" → "), circle[0]));
        told.extend(circle);
    }
    reports
}

/// Returns the files on a shortest way from `start` back to it, `start` first.
fn shortest_circle<'a>(graph: &Graph<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    // File by which each file was reached.
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for &next in graph.get(file).into_iter().flatten() {
            if next == start {
                let mut circle = vec![file];
                while circle[circle.len() - 1] != start {
                    circle.push(reached[circle[circle.len() - 1]]);
                }
                circle.reverse();
                return Some(circle);
            }
            if !reached.contains_key(next) {
                reached.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}

/// Turns a circle so that it starts at the name that comes first: two readings of one circle become
/// equal.
fn from_its_first_name(mut circle: Vec<&str>) -> Vec<&str> {
    let first = (0..circle.len()).min_by_key(|at| circle[*at]);
    circle.rotate_left(first.unwrap_or_default());
    circle
}

#[test]
fn each_file_of_a_circle_is_told() {
    let graph = Graph::from([
        ("a", BTreeSet::from(["b", "leaf"])),
        ("b", BTreeSet::from(["a", "c"])),
        ("c", BTreeSet::from(["d"])),
        ("d", BTreeSet::from(["b", "leaf"])),
        ("top", BTreeSet::from(["a"])),
        ("leaf", BTreeSet::new()),
    ]);
    assert_eq!(circles(&graph), ["a → b → a", "b → c → d → b"]);
    let without = Graph::from([("a", BTreeSet::from(["b"])), ("b", BTreeSet::new())]);
    assert!(circles(&without).is_empty());
}
