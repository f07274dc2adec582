//! Which processes belong to one run.
//!
//! Processes that share a communicator do, and in one file also those whose lines overlap. Before
//! 2.14 communicators have no ids; there, processes are of one run as long as no rank appears
//! twice. A process that begins anew after it made a communicator is another process: in a
//! container, each start may have the same number.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    limits::{MANY, hashed},
    line::{CommEvent, CommView, Message, Speaker},
};

/// One life of a process.
#[derive(Clone, Debug, Default)]
struct Process {
    file: usize,
    first: u64,
    last: u64,
    /// Whether a line names a communicator of it.
    has_communicator: bool,
    has_id: bool,
    /// Size and own rank of its largest communicator.
    ranks: u64,
    rank: u64,
}

/// The beginning of a life of a process.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The file and the line.
    at: (usize, u64),
    life: usize,
}

/// The lives of processes.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Their beginnings by process, in the order of the logs.
    beginnings: HashMap<u64, Vec<Beginning>>,
    /// Whether each life made a communicator.
    ready: Vec<bool>,
}

impl Lives {
    /// Adds a message of the process of `head`, and returns the life it belongs to. `at` is the
    /// file and the line.
    fn add(&mut self, head: &[u8], message: &Message<'_>, at: (usize, u64)) -> Option<usize> {
        let process = process_key(head)?;
        let begins = matches!(message, Message::DriverVersion | Message::Version(_));
        let known = self.beginnings.get(&process).and_then(|known| known.last());
        let life = match known {
            Some(last) if !(begins && self.ready[last.life]) => last.life,
            _ if self.ready.len() >= MANY => return None,
            _ => {
                let life = self.ready.len();
                self.ready.push(false);
                let beginnings = self.beginnings.entry(process).or_default();
                beginnings.push(Beginning { at, life });
                life
            }
        };
        if matches!(message, Message::Communicator(CommEvent::Complete, _)) {
            self.ready[life] = true;
        }
        Some(life)
    }

    /// Returns the life that a line of the process of `head` belongs to. Lines before the first
    /// life are of that one.
    pub(super) fn find(&self, head: &[u8], at: (usize, u64)) -> Option<usize> {
        let known = self.beginnings.get(&process_key(head)?)?;
        let begun = known.partition_point(|beginning| beginning.at <= at);
        known.get(begun.saturating_sub(1)).map(|found| found.life)
    }
}

/// Returns whether `message` tells when a process lives, or with whom.
pub(super) fn is_of_a_life(message: &Message<'_>) -> bool {
    matches!(
        message,
        Message::Communicator(..)
            | Message::CommEnded
            | Message::Bootstrap
            | Message::DriverVersion
            | Message::Version(_)
    )
}

fn process_key(head: &[u8]) -> Option<u64> {
    Speaker::parse(head).map(|speaker| hashed(speaker.identity()))
}

/// Finds out which processes belong to one run, from the messages of a first reading.
#[derive(Debug, Default)]
pub(super) struct RunFinder {
    lives: Lives,
    processes: Vec<Process>,
    files: Vec<String>,
    /// The first process of each communicator.
    communicators: HashMap<u64, usize>,
    groups: Groups,
    last_line: u64,
}

/// Sets of processes that grow together.
#[derive(Debug, Default)]
struct Groups(Vec<usize>);

impl Groups {
    fn add(&mut self) {
        self.0.push(self.0.len());
    }

    fn root(&mut self, mut of: usize) -> usize {
        while self.0[of] != of {
            self.0[of] = self.0[self.0[of]];
            of = self.0[of];
        }
        of
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// A run: its processes, and the part of the files that they wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunExtent {
    /// First and last line by file. The lines between may be of other runs.
    pub(super) lines: BTreeMap<usize, (u64, u64)>,
}

/// The runs of some logs.
#[derive(Debug, Default)]
pub(super) struct FoundRuns {
    /// The run of each life.
    pub(super) run_of: Vec<usize>,
    /// The runs, in the order of their first lines.
    pub(super) extents: Vec<RunExtent>,
    pub(super) files: Vec<String>,
    /// The lives of processes.
    pub(super) lives: Lives,
}

impl RunFinder {
    /// Begins a file.
    pub(super) fn begin_file(&mut self, name: &str) {
        self.files.push(name.to_owned());
        self.last_line = 0;
    }

    /// Adds a message of the process of `head`.
    pub(super) fn add(&mut self, head: &[u8], message: &Message<'_>, line: u64) {
        let file = self.files.len().saturating_sub(1);
        let Some(life) = self.lives.add(head, message, (file, line)) else {
            return;
        };
        if life == self.processes.len() {
            self.groups.add();
            self.processes.push(Process {
                file,
                first: line,
                last: line,
                ..Process::default()
            });
        }
        let process = &mut self.processes[life];
        if process.file == file {
            process.last = line;
        }
        if let Message::Communicator(_, comm) = message {
            process.has_communicator = true;
            if comm.ranks > process.ranks {
                process.ranks = comm.ranks;
                process.rank = comm.rank;
            }
            self.add_id(life, comm);
        }
    }

    fn add_id(&mut self, life: usize, comm: &CommView) {
        let Some(id) = comm.id else { return };
        self.processes[life].has_id = true;
        if let Some(other) = self.communicators.get(&id) {
            self.groups.join(life, *other);
        } else if self.communicators.len() < MANY {
            self.communicators.insert(id, life);
        }
    }

    /// Returns the runs.
    pub(super) fn finish(mut self) -> FoundRuns {
        self.join_overlapping();
        self.join_without_ids();
        self.join_without_communicators();
        let mut numbers = HashMap::new();
        let mut found = FoundRuns {
            files: self.files,
            lives: self.lives,
            ..FoundRuns::default()
        };
        for (life, process) in self.processes.iter().enumerate() {
            let root = self.groups.root(life);
            let run = *numbers.entry(root).or_insert_with(|| {
                found.extents.push(RunExtent::default());
                found.extents.len() - 1
            });
            found.run_of.push(run);
            let lines = found.extents[run]
                .lines
                .entry(process.file)
                .or_insert((process.first, process.last));
            lines.0 = lines.0.min(process.first);
            lines.1 = lines.1.max(process.last);
        }
        found
    }

    /// Joins processes of one file whose lines overlap.
    fn join_overlapping(&mut self) {
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|life| (self.processes[*life].file, self.processes[*life].first));
        let mut latest: Option<usize> = None;
        for life in order {
            let process = &self.processes[life];
            if let Some(other) = latest {
                let before = &self.processes[other];
                let overlaps = before.file == process.file && process.first < before.last;
                if overlaps {
                    self.groups.join(life, other);
                }
                let ends_earlier = before.file == process.file && process.last < before.last;
                if ends_earlier {
                    continue;
                }
            }
            latest = Some(life);
        }
    }

    /// Joins groups whose communicators have no ids, one after the other, until a rank would appear
    /// twice.
    fn join_without_ids(&mut self) {
        let mut seen: HashSet<(u64, u64)> = HashSet::new();
        let mut size = 0;
        let mut current: Option<usize> = None;
        for (root, members) in self.members() {
            let has_ids = members.iter().any(|life| self.processes[*life].has_id);
            let ranks = members.iter().map(|life| self.processes[*life].ranks).max();
            let ranks = ranks.unwrap_or_default();
            if has_ids || ranks == 0 {
                continue;
            }
            let own: Vec<(u64, u64)> = members
                .iter()
                .map(|life| (self.processes[*life].ranks, self.processes[*life].rank))
                .filter(|(of, _)| *of == ranks)
                .collect();
            let is_new = ranks != size || own.iter().any(|rank| seen.contains(rank));
            match current {
                Some(run) if !is_new => self.groups.join(root, run),
                _ => {
                    seen.clear();
                    size = ranks;
                    current = Some(root);
                }
            }
            seen.extend(own);
        }
    }

    /// Joins processes that never came to a communicator to the run beside them: the only one, or
    /// the only one of their file.
    fn join_without_communicators(&mut self) {
        let members = self.members();
        let has_communicator = |members: &[usize]| {
            members
                .iter()
                .any(|life| self.processes[*life].has_communicator)
        };
        let (runs, others): (Vec<_>, Vec<_>) = members
            .into_iter()
            .partition(|(_, members)| has_communicator(members));
        for (root, lost) in others {
            let file = self.processes[lost[0]].file;
            let is_of_file = |members: &[usize]| {
                members
                    .iter()
                    .any(|life| self.processes[*life].file == file)
            };
            let mut beside = runs.iter().filter(|(_, members)| is_of_file(members));
            let run = match (beside.next(), beside.next()) {
                // Something that begins after the only run of its file is a run of its own.
                (Some((run, members)), None) if !self.is_after(&lost, members) => *run,
                (None, _) if runs.len() == 1 => runs[0].0,
                _ => continue,
            };
            self.groups.join(root, run);
        }
    }

    fn is_after(&self, later: &[usize], earlier: &[usize]) -> bool {
        let begin = later.iter().map(|life| self.processes[*life].first).min();
        let end = earlier.iter().map(|life| self.processes[*life].last).max();
        begin > end
    }

    /// Returns the members of each group, in the order of their first lines.
    fn members(&mut self) -> Vec<(usize, Vec<usize>)> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for life in 0..self.processes.len() {
            let root = self.groups.root(life);
            members.entry(root).or_default().push(life);
        }
        members.into_iter().collect()
    }
}
