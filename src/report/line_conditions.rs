//! What a line was measured on and with: what all lines have in common, and what tells one from the
//! others.

use crate::units::counted;

/// The columns that say what a line was measured on and with.
pub(super) const CONDITIONS: [&str; 11] = [
    "backend",
    "nodes",
    "ranks",
    "gpus_per_process",
    "group",
    "network",
    "resources",
    "hosts",
    "device",
    "nccl_version",
    "mpi_version",
];

/// Returns the conditions that all lines have, and those of each line that others do not have.
pub(super) fn common_and_special(all: &[Vec<String>]) -> (Vec<String>, Vec<Vec<String>>) {
    let Some(first) = all.first() else {
        return (Vec::new(), Vec::new());
    };
    let is_common: Vec<bool> = (0..first.len())
        .map(|part| all.iter().all(|one| one[part] == first[part]))
        .collect();
    let chosen = |one: &Vec<String>, common: bool| {
        let mut words = Vec::new();
        for (place, value) in one.iter().enumerate() {
            let word = in_words(place, value);
            if is_common[place] == common && !word.is_empty() {
                words.push(word);
            }
        }
        words
    };
    let special = all.iter().map(|one| chosen(one, false)).collect();
    (chosen(first, true), special)
}

/// Returns a condition in words; empty if there is nothing to say.
fn in_words(place: usize, value: &str) -> String {
    let number: u64 = value.parse().unwrap_or(0);
    match CONDITIONS[place] {
        _ if value.is_empty() => String::new(),
        "nodes" => counted(number, "node"),
        "ranks" => counted(number, "rank"),
        "gpus_per_process" if number == 0 => String::new(),
        "gpus_per_process" => format!("{} per process", counted(number, "GPU")),
        "group" => format!("communicator {value}"),
        "nccl_version" => format!("NCCL {value}"),
        // It calls itself MPI, with its name.
        "mpi_version" => value.to_owned(),
        name => format!("{name} {value}"),
    }
}
