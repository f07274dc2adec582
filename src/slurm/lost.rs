//! Ranks that died and nodes that vanished, from the launcher's messages on stderr.

/// A rank that a signal terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRank {
    /// Its number, or several in the form of Slurm: `4-5`.
    pub rank: String,
    /// Its node.
    pub node: String,
    /// What terminated it: `Killed`, `Segmentation fault`.
    pub by: String,
}

/// Returns the rank that a signal terminated, according to this line of a launcher. A rank that
/// ended by itself, or was terminated because another one died, does not count.
pub fn parse(line: &str) -> Option<LostRank> {
    let lost = parse_srun(line).or_else(|| parse_mpirun(line))?;
    (!lost.by.starts_with("Terminated")).then_some(lost)
}

/// Parses `srun: error: node3: task 5: Killed`.
fn parse_srun(line: &str) -> Option<LostRank> {
    let (node, rest) = line.strip_prefix("srun: error: ")?.split_once(": task")?;
    let (rank, by) = rest.trim_start_matches('s').trim_start().split_once(": ")?;
    let ended_by_itself = by.starts_with("Exited");
    let is_rank = rank.starts_with(|c: char| c.is_ascii_digit());
    (is_rank && !ended_by_itself).then(|| LostRank {
        rank: rank.into(),
        node: node.into(),
        by: by.trim().into(),
    })
}

/// Parses `mpirun noticed that process rank 5 with PID 77 on node node3 exited on signal 9
/// (Killed).`
fn parse_mpirun(line: &str) -> Option<LostRank> {
    let (_, rest) = line.split_once("process rank ")?;
    let (rank, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once(" on node ")?;
    let (node, rest) = rest.split_once(" exited on signal ")?;
    let name = rest
        .split_once('(')
        .and_then(|(_, name)| name.split_once(')'));
    let by = name.map_or(rest, |(name, _)| name);
    Some(LostRank {
        rank: rank.into(),
        node: node.into(),
        by: by.into(),
    })
}

/// Returns the node that vanished with its ranks, according to this line of a launcher.
pub fn parse_node(line: &str) -> Option<&str> {
    // srun's own line, and one of several of Open MPI's mpirun:
    // `  Remote daemon: [[8,0],2] on node node7`
    let by_srun = line.strip_prefix("srun: error: Node failure on ");
    let by_mpirun = || {
        let rest = line.trim_start().strip_prefix("Remote daemon:")?;
        Some(rest.split_once(" on node ")?.1)
    };
    let node = by_srun.or_else(by_mpirun)?.split_whitespace().next()?;
    Some(node.trim_end_matches(['.', ',']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_vanished_is_named() {
        for (line, node) in [
            ("srun: error: Node failure on node7", Some("node7")),
            (
                "  Remote daemon: [[48398,0],2] on node cn003",
                Some("cn003"),
            ),
            (
                "  Remote daemon: prterun-cn001-812@0,2 on node cn003",
                Some("cn003"),
            ),
            ("  HNP daemon   : [[48398,0],0] on node cn001", None),
            ("srun: error: node3: task 5: Killed", None),
        ] {
            assert_eq!(parse_node(line), node, "{line}");
        }
    }

    #[test]
    fn the_first_death_is_distinguished_from_its_consequences() {
        let lost = |rank: &str, node: &str, by: &str| {
            Some(LostRank {
                rank: rank.into(),
                node: node.into(),
                by: by.into(),
            })
        };
        for (line, expected) in [
            (
                "srun: error: node3: task 5: Killed",
                lost("5", "node3", "Killed"),
            ),
            (
                "srun: error: n-1: tasks 4-5: Segmentation fault (core dumped)",
                lost("4-5", "n-1", "Segmentation fault (core dumped)"),
            ),
            (
                "srun: error: node3: task 5: Out Of Memory",
                lost("5", "node3", "Out Of Memory"),
            ),
            ("srun: error: node3: task 5: Exited with exit code 7", None),
            ("srun: error: node1: tasks 0-3: Terminated", None),
            (
                "srun: error: Unable to create step for job 3: Requested nodes are busy",
                None,
            ),
            (
                "mpirun noticed that process rank 5 with PID 77 on node node3 exited on signal 9 \
                 (Killed).",
                lost("5", "node3", "Killed"),
            ),
            ("# a row of the table", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
