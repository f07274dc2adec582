//! The lines of a log that show a failure, and the one of them that is nearest to the cause.

use std::{collections::HashSet, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Serialize;

use super::super::{
    limits::{MANY, clipped_text, hashed, quoted, text},
    line::{Operation, ReturnCode, Speaker},
};
use super::{
    completion::read_completion,
    entered::Entered,
    known::{
        FailureKind, Known, MISMATCH, OUT_OF_MEMORY, RESULT_WORDS, TIME_LIMIT, TIMEOUT, WARNINGS,
        Weight, result,
    },
    signals::read_signal,
    watchdog::{Hang, Watchdogs, rank_of},
};

/// The position of a line: its file and number.
#[derive(Clone, Copy, Debug)]
pub(in crate::nccl_log) struct Position<'a> {
    /// The file's name; empty for standard input.
    pub(in crate::nccl_log) file: &'a str,
    /// The number of the line, from 1.
    pub(in crate::nccl_log) line: u64,
}

/// A line of a log, and who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file's name; empty for standard input.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The process: `host:pid`, or what stands before the message; empty if the line does not say.
    pub process: String,
    /// The line.
    pub text: String,
}

/// The failure that a log shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What happened.
    pub meaning: String,
    /// What helps.
    pub remedy: String,
    /// The line that shows it best: the first that is nearest to the cause.
    pub shown_by: Place,
    /// The first line of any failure in the log, if that is another one.
    pub began_at: Option<Place>,
    /// The status of the InfiniBand completion that failed.
    pub completion_status: Option<u64>,
    /// NCCL's result code, if the log names one.
    pub result_code: Option<u64>,
    /// The line of NCCL's source at which an error was first returned, and its code:
    /// `transport/net_ib.cc:1295 -> 6`.
    pub first_returned: Option<Place>,
    /// The number of processes, or of ranks, that report a failure.
    pub processes: u64,
    /// What watchdogs say of the operations that ranks waited in.
    pub hang: Option<Hang>,
}

/// The words that are looked for in lines that are not NCCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Timeout,
    Progress,
    Lagging,
    Mismatch,
    Result(u64),
    LastError,
    TimeLimit,
    OutOfMemory,
    Signal,
}

const WORDS: [(&str, Words); 25] = [
    (
        "Watchdog caught collective operation timeout",
        Words::Timeout,
    ),
    ("last enqueued NCCL work", Words::Progress),
    ("last enqueued work", Words::Progress),
    ("ranks that caused the desync", Words::Lagging),
    ("Detected mismatch between collectives", Words::Mismatch),
    ("Last error:", Words::LastError),
    ("DUE TO TIME LIMIT", Words::TimeLimit),
    ("oom-kill", Words::OutOfMemory),
    ("oom_kill", Words::OutOfMemory),
    ("OOM Killed", Words::OutOfMemory),
    ("OOMKilled", Words::OutOfMemory),
    ("Segmentation fault", Words::Signal),
    ("SIGSEGV", Words::Signal),
    ("SIGBUS", Words::Signal),
    ("Bus error", Words::Signal),
    ("SIGFPE", Words::Signal),
    ("SIGILL", Words::Signal),
    ("Illegal instruction", Words::Signal),
    ("SIGABRT", Words::Signal),
    ("Signal: Aborted", Words::Signal),
    (": Aborted", Words::Signal),
    ("SIGKILL", Words::Signal),
    (": Killed", Words::Signal),
    ("exited on signal", Words::Signal),
    ("exitcode", Words::Signal),
];

/// [`WORDS`] and [`RESULT_WORDS`], as one search.
static SEARCH: LazyLock<(AhoCorasick, Vec<Words>)> = LazyLock::new(|| {
    let mut patterns = Vec::new();
    let mut meanings = Vec::new();
    for (words, meaning) in WORDS {
        patterns.push(words);
        meanings.push(meaning);
    }
    for (words, code) in RESULT_WORDS {
        patterns.push(words);
        meanings.push(Words::Result(code));
    }
    let search = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(patterns)
        .expect("the words make a search");
    (search, meanings)
});

/// A line that shows a failure.
#[derive(Clone, Debug)]
struct Candidate {
    known: Known,
    prefix: String,
    place: Place,
}

/// All that lines say of failures.
#[derive(Debug, Default)]
pub(in crate::nccl_log) struct Failures {
    first: Option<Candidate>,
    best: Option<Candidate>,
    first_returned: Option<(Place, u64)>,
    completion_status: Option<u64>,
    result_code: Option<u64>,
    processes: HashSet<u64>,
    ranks: HashSet<u64>,
    watchdogs: Watchdogs,
    entered: Entered,
    /// Whether the line before announces NCCL's last warning, which PyTorch repeats.
    is_last_error: bool,
}

impl Failures {
    /// Adds one of NCCL's warnings; `head` is the text before its header.
    pub(in crate::nccl_log) fn add_warning(
        &mut self,
        at: Position<'_>,
        head: &[u8],
        line: &[u8],
        warning: &[u8],
    ) {
        let warning = text(warning);
        if let Some(completion) = read_completion(&warning) {
            let is_better = self.is_better(completion.known.weight);
            if is_better {
                self.completion_status = Some(completion.status);
            }
            let prefix = format!(
                "A transfer over InfiniBand failed with status {} ({}). ",
                completion.status, completion.name
            );
            self.add(at, head, line, completion.known, prefix);
        } else if let Some(known) = find_warning(&warning) {
            self.add(at, head, line, known, String::new());
        }
    }

    /// Adds a line by which NCCL follows an error through its source.
    pub(in crate::nccl_log) fn add_return(
        &mut self,
        at: Position<'_>,
        head: &[u8],
        line: &[u8],
        returned: ReturnCode<'_>,
    ) {
        if result(returned.code).is_some() && self.first_returned.is_none() {
            self.first_returned = Some((place(at, head, line), process_id(head)));
        }
        self.add_result(at, head, line, returned.code);
    }

    /// Adds a line that names NCCL's result `code`, if that stands for an error.
    fn add_result(&mut self, at: Position<'_>, head: &[u8], line: &[u8], code: u64) {
        let Some((name, known)) = result(code) else {
            return;
        };
        self.result_code.get_or_insert(code);
        let prefix = format!("NCCL returned {name} ({code}). ");
        self.add(at, head, line, *known, prefix);
    }

    /// Forgets the errors of the process of `head` if nothing but returned codes tells of them: it
    /// went on and made a communicator.
    pub(in crate::nccl_log) fn add_ready(&mut self, head: &[u8]) {
        let Some((_, process)) = &self.first_returned else {
            return;
        };
        let is_only_process = self.processes.len() == 1;
        let is_return_alone = self
            .best
            .as_ref()
            .is_some_and(|best| best.place.text.contains(" -> "));
        if is_only_process && is_return_alone && *process == process_id(head) {
            let entered = std::mem::take(&mut self.entered);
            *self = Failures {
                entered,
                ..Failures::default()
            };
        }
    }

    /// Adds an operation that the process of `head` enters.
    pub(in crate::nccl_log) fn add_operation(&mut self, head: &[u8], operation: &Operation<'_>) {
        self.entered
            .add(process_id(head), operation, || process_name(head, b""));
    }

    /// Returns what is known of a hang. Processes that are behind others mean something only if
    /// none could go on.
    fn hang(&self, kind: FailureKind) -> Option<Hang> {
        let hang = self.watchdogs.hang();
        if !matches!(kind, FailureKind::Hang | FailureKind::Stopped) {
            return hang;
        }
        let behind = self.entered.behind();
        if hang.is_none() && behind.is_empty() {
            return None;
        }
        Some(Hang {
            behind,
            ..hang.unwrap_or_default()
        })
    }

    /// Adds a line that is not NCCL's.
    pub(in crate::nccl_log) fn add_other(&mut self, at: Position<'_>, line: &[u8]) {
        let (search, meanings) = &*SEARCH;
        let Some(found) = search.find(line) else {
            self.add_after_announcement(at, line);
            return;
        };
        let words = meanings[found.pattern().as_usize()];
        self.is_last_error = words == Words::LastError;
        let line_text = text(line);
        match words {
            Words::Timeout => {
                self.watchdogs.add_timeout(&line_text);
                self.add(at, b"", line, TIMEOUT, String::new());
            }
            Words::Progress => self.watchdogs.add_progress(&line_text),
            Words::Lagging => self.watchdogs.begin_lagging(),
            Words::Mismatch => self.add(at, b"", line, MISMATCH, String::new()),
            Words::TimeLimit => self.add(at, b"", line, TIME_LIMIT, String::new()),
            Words::OutOfMemory => self.add(at, b"", line, OUT_OF_MEMORY, String::new()),
            Words::Result(code) => self.add_result(at, b"", line, code),
            Words::Signal => {
                if let Some(known) = read_signal(&line_text) {
                    self.add(at, b"", line, known, String::new());
                }
            }
            Words::LastError => {}
        }
    }

    /// Adds a line without any of the words, which may continue what the line before began.
    fn add_after_announcement(&mut self, at: Position<'_>, line: &[u8]) {
        if self.is_last_error && !line.trim_ascii().is_empty() {
            self.is_last_error = false;
            self.add_warning(at, b"", line, line);
        }
        if self.watchdogs.is_listing() {
            self.watchdogs.add_listed(&text(line));
        }
    }

    /// Returns whether a line of `weight` is nearer to the cause than what there is.
    fn is_better(&self, weight: Weight) -> bool {
        self.best
            .as_ref()
            .is_none_or(|best| best.known.weight < weight)
    }

    fn add(&mut self, at: Position<'_>, head: &[u8], line: &[u8], known: Known, prefix: String) {
        self.count_process(head, line);
        if self.first.is_some() && !self.is_better(known.weight) {
            return;
        }
        let candidate = Candidate {
            known,
            prefix,
            place: place(at, head, line),
        };
        if self.first.is_none() {
            self.first = Some(candidate.clone());
        }
        self.best = Some(candidate);
    }

    /// Counts the process of `head`, or the rank that `line` names.
    fn count_process(&mut self, head: &[u8], line: &[u8]) {
        if !head.is_empty() && self.processes.len() < MANY {
            self.processes.insert(process_id(head));
        } else if self.ranks.len() < MANY
            && let Some(rank) = rank_of(&text(line))
        {
            self.ranks.insert(rank);
        }
    }

    /// Returns the failure; `None` if the log shows none.
    pub(in crate::nccl_log) fn failure(&self) -> Option<Failure> {
        let best = self.best.as_ref()?;
        let first = self.first.as_ref()?;
        let began_elsewhere = first.place != best.place;
        Some(Failure {
            kind: best.known.kind,
            meaning: format!("{}{}", best.prefix, best.known.meaning),
            remedy: best.known.remedy.to_owned(),
            shown_by: best.place.clone(),
            began_at: began_elsewhere.then(|| first.place.clone()),
            completion_status: self.completion_status,
            result_code: self.result_code,
            first_returned: self.first_returned.as_ref().map(|(place, _)| place.clone()),
            processes: self.processes.len().max(self.ranks.len()) as u64,
            hang: self.hang(best.known.kind),
        })
    }
}

fn find_warning(warning: &str) -> Option<Known> {
    if warning.contains("retrying") {
        return None;
    }
    let found = WARNINGS.iter().find(|(words, _)| warning.contains(words));
    found.map(|(_, known)| *known)
}

fn place(at: Position<'_>, head: &[u8], line: &[u8]) -> Place {
    Place {
        file: at.file.to_owned(),
        line: at.line,
        process: process_name(head, line),
        text: quoted(line),
    }
}

/// Returns `host:pid`, what stands before the message, or the rank that the line names.
fn process_name(head: &[u8], line: &[u8]) -> String {
    if let Some(speaker) = Speaker::parse_address(head) {
        return format!("{}:{}", text(speaker.host), speaker.pid);
    }
    let head = head.trim_ascii();
    match rank_of(&text(line)) {
        Some(rank) if head.is_empty() => format!("rank {rank}"),
        _ => clipped_text(head),
    }
}

fn process_id(head: &[u8]) -> u64 {
    hashed(Speaker::parse(head).map(|speaker| speaker.identity()))
}
