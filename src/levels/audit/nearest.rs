//! The names that are most like a misspelled one.

use std::collections::BTreeSet;

/// Names longer than this are not compared.
const LONGEST: usize = 100;

/// Returns up to three of the names that a library reads which are most like `name`: a few letters
/// off, or the same words in another order. `not_variables` are never suggested.
pub fn nearest<'a>(
    name: &str,
    names: &'a BTreeSet<String>,
    not_variables: &[String],
) -> Vec<&'a str> {
    if name.chars().count() > LONGEST {
        return Vec::new();
    }
    let capitals = name.to_ascii_uppercase();
    let this = tail(&capitals);
    let mut best = tolerance(this);
    let mut near = Vec::new();
    for candidate in names {
        let distance = distance(this, tail(candidate));
        if distance > best || not_variables.contains(candidate) {
            continue;
        }
        if distance < best {
            best = distance;
            near.clear();
        }
        near.push(candidate.as_str());
    }
    near.truncate(3);
    near
}

/// Returns the part of a name that differs between variables.
fn tail(name: &str) -> &str {
    name.strip_prefix("NCCL_").unwrap_or(name)
}

/// Returns how many letters may be wrong.
fn tolerance(tail: &str) -> usize {
    match tail.len() {
        0..=3 => 0,
        4..=7 => 1,
        8..=12 => 2,
        _ => 3,
    }
}

fn distance(a: &str, b: &str) -> usize {
    if words(a) == words(b) {
        0
    } else {
        strsim::damerau_levenshtein(a, b)
    }
}

/// Returns the words of a name, sorted.
fn words(tail: &str) -> Vec<&str> {
    let mut words: Vec<&str> = tail.split('_').collect();
    words.sort_unstable();
    words
}
