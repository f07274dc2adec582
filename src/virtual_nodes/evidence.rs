//! What the files of a job say of why it failed, or why it is not as the theory has it.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, BufRead, BufReader},
    path::Path,
};

use super::files::JobFiles;
use crate::{
    input::{self, InputKind},
    rehearsal::rehearsed_case::RehearsedCase,
    visible,
};

/// The most lines of how the job was started.
const MOST_OF_START: usize = 60;

/// The most lines of what the ranks printed.
const MOST_PRINTED: usize = 10;

/// The most lines of NCCL's logs.
const MOST_LOGGED: usize = 80;

/// The most lines of a log's end: where a rank stands still that does not say why.
const LAST: usize = 2;

/// The most warnings that are kept of one log, and the most other lines.
const MOST_OF_A_LOG: usize = 1000;

/// The most letters of a line.
const MOST_LETTERS: usize = 400;

/// The most ways of data.
const MOST_WAYS: usize = 24;

/// How a warning of NCCL begins.
const WARNING: &str = "NCCL WARN ";

/// Words of NCCL's messages that tell which plugin, paths, channels, relays and algorithms it took.
const TELLING: [&str; 16] = [
    "/Plugin: ",
    " plugin ",
    "pxnbench plays",
    "GPU Direct RDMA",
    "NCCL_TOPO_FILE",
    "NCCL_PXN_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "Using network",
    " :GPU/",
    "Pattern ",
    "coll channels",
    "[send] via NET",
    "Connected all",
    "-> Algo ",
    "Init COMPLETE",
    ".cc:",
];

/// Returns how a job was started, what its ranks printed last, and what NCCL's logs say, as lines.
pub(super) fn of_job(files: &JobFiles, ranks: u64) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(named("start", end_of(&files.start(), MOST_OF_START)));
    lines.extend(named("printed", end_of(&files.output(), MOST_PRINTED)));
    lines.extend(of_logs(files, ranks));
    lines
}

/// Returns the ways that the data of a case took by the counters, as lines.
pub(super) fn ways(case: &RehearsedCase) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for flow in case.flows.iter().take(MOST_WAYS) {
        let relay = flow
            .relay
            .map_or_else(String::new, |rank| format!(", relayed by rank {rank}"));
        lines.push(format!(
            "counters: rank {} to rank {}: {} bytes in all operations, from rail {} to rail \
             {}{relay}",
            flow.from, flow.to, flow.bytes, flow.rail, flow.peer_rail
        ));
    }
    lines
}

/// Puts a word for where they come from before lines.
fn named(source: &str, lines: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let lines = lines.into_iter();
    lines.map(move |line| format!("{source}: {}", visible::beginning(&line, MOST_LETTERS)))
}

/// Returns the last lines of a file that are not empty.
fn end_of(file: &Path, most: usize) -> Vec<String> {
    let mut last = LastLines::new(most);
    let read = for_each_line(file, &mut |line| {
        if !line.trim().is_empty() {
            last.add(line);
        }
    });
    let mut lines: Vec<String> = last.lines.into();
    if let Err(error) = read {
        lines.push(format!("{} cannot be read: {error}", file.display()));
    }
    lines
}

fn for_each_line(file: &Path, take: &mut dyn FnMut(&str)) -> io::Result<()> {
    let reader = BufReader::new(input::open(file, InputKind::Log)?);
    for line in reader.split(b'\n') {
        take(&String::from_utf8_lossy(&line?));
    }
    Ok(())
}

/// The last lines of a text.
struct LastLines {
    lines: VecDeque<String>,
    most: usize,
}

impl LastLines {
    fn new(most: usize) -> LastLines {
        LastLines {
            lines: VecDeque::new(),
            most,
        }
    }

    fn add(&mut self, line: &str) {
        self.lines.push_back(line.to_owned());
        if self.lines.len() > self.most {
            self.lines.pop_front();
        }
    }
}

/// Returns what tells something in the logs of all ranks. What several ranks say alike is there
/// once.
fn of_logs(files: &JobFiles, ranks: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut known = BTreeSet::new();
    for rank in 0..ranks {
        let source = format!("rank {rank}");
        match telling_lines(&files.log_of(rank)) {
            Ok(messages) => {
                let new = messages
                    .into_iter()
                    .filter(|message| known.insert(message.clone()));
                lines.extend(named(&source, new));
            }
            Err(error) => lines.push(format!("{source}: its log cannot be read: {error}")),
        }
    }
    // Other lines are left out before warnings.
    lines.sort_by_key(|line| !line.contains(&format!(": {WARNING}")));
    let left_out = lines.len().saturating_sub(MOST_LOGGED);
    if left_out > 0 {
        lines.truncate(MOST_LOGGED);
        lines.push(format!(
            "{left_out} more such lines are in {}",
            files.logs().display()
        ));
    }
    lines
}

/// Returns the messages of a log that tell something, warnings first, and its last ones.
fn telling_lines(log: &Path) -> io::Result<Vec<String>> {
    let (mut warnings, mut telling) = (Vec::new(), Vec::new());
    let mut last = LastLines::new(LAST);
    for_each_line(log, &mut |line| {
        let Some(message) = message(line) else {
            return;
        };
        let lines = match message.starts_with(WARNING) {
            true => &mut warnings,
            false => &mut telling,
        };
        if is_telling(message) && lines.len() < MOST_OF_A_LOG {
            lines.push(message.to_owned());
        }
        last.add(message);
    })?;
    warnings.extend(telling);
    warnings.extend(last.lines);
    Ok(warnings)
}

/// Returns NCCL's message without what says who wrote it and when; `None` if the line has none.
fn message(line: &str) -> Option<&str> {
    let begins = ["NCCL INFO ", "NCCL WARN ", "NCCL version "]
        .iter()
        .filter_map(|word| line.find(word))
        .min()?;
    Some(line[begins..].trim_end())
}

fn is_telling(message: &str) -> bool {
    message.starts_with(WARNING) || TELLING.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOG: &str = "\
host:7:7 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
host:7:9 [0] NCCL INFO NET/Plugin: Loaded net plugin pxnbench (v11)
host:7:9 [0] NCCL INFO Channel 00/1 : 0[0] -> 2[0] [send] via NET/pxnbench/0/GDRDMA/Shared
host:7:9 [0] NCCL INFO Channel 00/1 : 2[0] -> 0[0] [receive] via NET/pxnbench/0/GDRDMA/Shared

[2026-01-01 00:00:00] host:7:9 [0] transport/net.cc:650 NCCL WARN PXN should not use host buffers for data
host:7:9 [0] NCCL INFO transport/net.cc:790 -> 3
host:7:9 [0] NCCL INFO something else
";

    fn job() -> (tempfile::TempDir, JobFiles) {
        let folder = tempfile::tempdir().expect("a folder");
        let files = JobFiles::below(&folder.path().join("job"));
        files.make_folders().expect("folders");
        (folder, files)
    }

    #[test]
    fn a_job_that_failed_says_how_it_was_started_and_what_nccl_warned_of() {
        let (_folder, files) = job();
        fs::write(files.start(), "pxnbench alltoall\n# all ranks\nA=1\n").expect("written");
        fs::write(files.output(), "one\n\ntwo\n".repeat(20)).expect("written");
        fs::write(files.log_of(0), LOG).expect("written");
        fs::write(files.log_of(1), LOG.replace("0[0] -> 2[0]", "1[1] -> 3[1]")).expect("written");
        let lines = of_job(&files, 3);
        assert_eq!(
            lines[..3],
            [
                "start: pxnbench alltoall",
                "start: # all ranks",
                "start: A=1"
            ]
        );
        let printed = lines.iter().filter(|line| line.starts_with("printed: "));
        assert_eq!(printed.count(), MOST_PRINTED);
        let of_logs = &lines[3 + MOST_PRINTED..];
        assert_eq!(
            of_logs[..6],
            [
                "rank 0: NCCL WARN PXN should not use host buffers for data",
                "rank 0: NCCL INFO NET/Plugin: Loaded net plugin pxnbench (v11)",
                "rank 0: NCCL INFO Channel 00/1 : 0[0] -> 2[0] [send] via \
                 NET/pxnbench/0/GDRDMA/Shared",
                "rank 0: NCCL INFO transport/net.cc:790 -> 3",
                "rank 0: NCCL INFO something else",
                "rank 1: NCCL INFO Channel 00/1 : 1[1] -> 3[1] [send] via \
                 NET/pxnbench/0/GDRDMA/Shared",
            ]
        );
        assert_eq!(of_logs.len(), 7);
        assert!(
            of_logs[6].starts_with("rank 2: its log cannot be read: "),
            "{of_logs:?}"
        );
    }

    #[test]
    fn logs_without_end_are_cut() {
        let (_folder, files) = job();
        let text: String = (0..500)
            .map(|number| format!("h:1:1 [0] NCCL WARN number {number}\n"))
            .collect();
        fs::write(files.log_of(0), text).expect("written");
        let lines = of_logs(&files, 1);
        assert_eq!(lines.len(), MOST_LOGGED + 1);
        assert!(lines[MOST_LOGGED].starts_with("420 more such lines are in "));
    }

    #[test]
    fn a_warning_after_many_other_lines_is_shown_first() {
        let (_folder, files) = job();
        let mut text: String = (0..2 * MOST_OF_A_LOG)
            .map(|number| format!("h:1:1 [0] NCCL INFO Channel {number} [send] via NET/x/0\n"))
            .collect();
        text += "h:1:1 [0] NCCL WARN too late\nh:1:1 [0] NCCL INFO one\nh:1:1 [0] NCCL INFO two\n";
        fs::write(files.log_of(0), text).expect("written");
        let lines = of_logs(&files, 1);
        assert_eq!(lines[0], "rank 0: NCCL WARN too late");
        assert_eq!(lines.len(), MOST_LOGGED + 1);
    }
}
