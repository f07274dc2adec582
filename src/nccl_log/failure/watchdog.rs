//! What PyTorch's watchdogs say of the operations that ranks wait in.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::limits::{MANY, SOME, clipped_text};

/// Ranks that a list names.
const LISTED: usize = 64;

/// What the watchdog of one rank reported first.
#[derive(Clone, Debug, Default)]
struct Wait {
    /// The operation that did not end: its number in the group, and its type.
    timed_out: Option<(u64, String)>,
    /// The last operation that the rank entered.
    entered: Option<u64>,
}

/// An operation that did not end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Waiting {
    /// Its number among those of its group.
    pub sequence: u64,
    /// Its type, such as `ALLREDUCE`.
    pub name: String,
    /// The ranks whose watchdog waited for it, at most 64.
    pub ranks: Vec<u64>,
}

/// What the watchdogs show of a hang.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hang {
    /// The operations that ranks waited for, the earliest first. If there are several, the ranks
    /// were not in the same one.
    pub operations: Vec<Waiting>,
    /// Ranks that had not entered the latest of these operations, at most 64.
    pub not_entered: Vec<u64>,
    /// Ranks that PyTorch's own analysis names as the ones that hold up the others, at most 64.
    pub lagging: Vec<u64>,
    /// Processes that entered fewer operations than others, as NCCL's subsystem COLL logs them, at
    /// most 64.
    pub behind: Vec<String>,
}

/// The reports of all watchdogs.
#[derive(Debug, Default)]
pub(super) struct Watchdogs {
    ranks: BTreeMap<u64, Wait>,
    group: Option<String>,
    lagging: BTreeSet<u64>,
    is_listing: bool,
}

impl Watchdogs {
    /// Adds a line with `Watchdog caught collective operation timeout`.
    pub(super) fn add_timeout(&mut self, line: &str) {
        let (Some(rank), Some(sequence)) = (rank_of(line), number_after(line, "SeqNum=")) else {
            return;
        };
        let name = line
            .split_once("OpType=")
            .map_or("", |(_, rest)| rest.split([',', ')']).next().unwrap_or(""));
        let name = clipped_text(name.as_bytes());
        if let Some(wait) = self.rank(rank)
            && wait.timed_out.is_none()
        {
            wait.timed_out = Some((sequence, name));
        }
    }

    /// Adds a line with `last enqueued NCCL work: 1582, last completed NCCL work: 1579`. Only one
    /// group counts, because each has numbers of its own.
    pub(super) fn add_progress(&mut self, line: &str) {
        let entered = number_after(line, "last enqueued NCCL work: ")
            .or_else(|| number_after(line, "last enqueued work: "));
        let (Some(rank), Some(entered)) = (rank_of(line), entered) else {
            return;
        };
        let group = group_of(line);
        if *self.group.get_or_insert_with(|| group.clone()) != group {
            return;
        }
        if let Some(wait) = self.rank(rank) {
            wait.entered.get_or_insert(entered);
        }
    }

    /// Begins PyTorch's list of the ranks that hold up the others.
    pub(super) fn begin_lagging(&mut self) {
        self.is_listing = true;
    }

    /// Returns whether such a list was begun and not ended.
    pub(super) fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// Adds a line of that list: `  - [1] joined but didn't finish collective #2`, or several ranks
    /// in the brackets.
    pub(super) fn add_listed(&mut self, line: &str) {
        let Some((_, list)) = line.split_once("- [") else {
            self.is_listing = false;
            return;
        };
        let ranks = list.split(']').next().unwrap_or("");
        for rank in ranks.split(',') {
            if let Ok(rank) = rank.trim().parse()
                && self.lagging.len() < SOME
            {
                self.lagging.insert(rank);
            }
        }
    }

    fn rank(&mut self, rank: u64) -> Option<&mut Wait> {
        let is_full = self.ranks.len() >= MANY && !self.ranks.contains_key(&rank);
        (!is_full).then(|| self.ranks.entry(rank).or_default())
    }

    /// Returns what the reports show; `None` if there is none.
    pub(super) fn hang(&self) -> Option<Hang> {
        let mut operations: BTreeMap<(u64, &str), Vec<u64>> = BTreeMap::new();
        for (rank, wait) in &self.ranks {
            if let Some((sequence, name)) = &wait.timed_out {
                operations
                    .entry((*sequence, name.as_str()))
                    .or_default()
                    .push(*rank);
            }
        }
        if operations.is_empty() && self.lagging.is_empty() {
            return None;
        }
        let latest = operations.keys().next_back().map(|(sequence, _)| *sequence);
        let has_not_entered =
            |wait: &Wait| wait.entered.is_some_and(|entered| Some(entered) < latest);
        let late = self.ranks.iter().filter(|(_, wait)| has_not_entered(wait));
        Some(Hang {
            behind: Vec::new(),
            not_entered: late.map(|(rank, _)| *rank).take(LISTED).collect(),
            lagging: self.lagging.iter().copied().take(LISTED).collect(),
            operations: operations
                .into_iter()
                .take(LISTED)
                .map(|((sequence, name), mut ranks)| {
                    ranks.truncate(LISTED);
                    Waiting {
                        sequence,
                        name: name.to_owned(),
                        ranks,
                    }
                })
                .collect(),
        })
    }
}

/// Reads the rank in `[Rank 7]`, `[PG 1 Rank 7]` or `[rank7]:`.
pub(super) fn rank_of(line: &str) -> Option<u64> {
    number_after(line, "Rank ").or_else(|| number_after(line, "[rank"))
}

/// Returns the name of the group: what stands between `[PG ` and ` Rank `.
fn group_of(line: &str) -> String {
    let group = line
        .split_once("[PG ")
        .and_then(|(_, rest)| rest.split_once("Rank "))
        .map_or("", |(group, _)| group);
    clipped_text(group.as_bytes())
}

/// Returns the number that follows the first `words` with a number after them.
pub(super) fn number_after(line: &str, words: &str) -> Option<u64> {
    line.match_indices(words).find_map(|(at, _)| {
        let rest = &line[at + words.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    })
}
