//! Lines added up. Memory stays within bounds whatever the log holds: each list has a limit, and
//! what exceeds it is counted or left out.

use std::{
    io::{self, Read},
    sync::Arc,
};

use super::{
    connections::Connections,
    decode::decoded,
    facts::LogFacts,
    failure::{Failure, Failures, Position},
    heads::HeadCache,
    limits::hashed,
    line::{
        CommEvent, Connection, Header, LogLevel, Message, Speaker, Via, find_header, is_fragment,
        is_segmentation_fault, parse, unwrap_record, without_colours, without_repeat_note,
        without_written_colours,
    },
    lines::{LineEnd, for_each_line},
    proof::Proof,
    runs::{RunFinder, is_of_a_life},
};

/// Lines of one or more logs, added up.
#[derive(Debug, Default)]
pub struct Fold {
    facts: LogFacts,
    failures: Failures,
    runs: Option<RunFinder>,
    /// The file's name.
    file: Arc<str>,
    /// What stands for a process that the file's lines do not name.
    file_tag: Arc<[u8]>,
    /// Whether a head names a process.
    named: HeadCache<bool>,
    line_number: u64,
}

/// What a message ends at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A newline.
    Line,
    /// The end of the log.
    Log,
    /// The header of another line.
    Header,
}

impl Fold {
    /// Makes a fold that also finds out which processes belong to one run.
    pub(super) fn with_runs() -> Fold {
        Fold {
            runs: Some(RunFinder::default()),
            ..Fold::default()
        }
    }

    /// Returns what stands for a process that the lines of this file do not name.
    pub(super) fn file_tag(&self) -> &[u8] {
        &self.file_tag
    }

    /// Returns what was found out about runs.
    pub(super) fn take_runs(&mut self) -> RunFinder {
        self.runs.take().unwrap_or_default()
    }

    /// Begins the file called `name`: lines that name no process are of another process than those
    /// of the file before.
    pub fn begin_file(&mut self, name: &str) {
        self.set_file(&Arc::from(name));
        if let Some(runs) = &mut self.runs {
            runs.begin_file(name);
        }
    }

    /// Continues in `file`.
    pub(super) fn set_file(&mut self, file: &Arc<str>) {
        if self.file != *file {
            self.file = Arc::clone(file);
            let tag = format!("[file{:x}] ", hashed(file));
            self.file_tag = Arc::from(tag.into_bytes());
        }
        self.line_number = 0;
    }

    /// Adds all lines of `log`, in constant memory. It may be compressed with gzip or zstd, or be
    /// UTF-16.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn read(&mut self, log: impl Read) -> io::Result<()> {
        for_each_line(decoded(log)?, |line, end| self.add_line(line, end))
    }

    /// Adds all lines of a log that is in memory.
    pub fn bytes(&mut self, log: &[u8]) {
        let whole = memchr::memrchr(b'\n', log).map_or(0, |last| last + 1);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &log[..whole]) {
            self.line(&log[start..end]);
            start = end + 1;
        }
        if whole < log.len() {
            self.add_line(&log[whole..], LineEnd::Log);
        }
    }

    /// Adds one line, without its newline.
    pub fn line(&mut self, line: &[u8]) {
        self.add_line(line, LineEnd::Newline);
    }

    /// Returns the connections so far.
    pub fn connections(&self) -> &Connections {
        &self.facts.connections
    }

    /// Judges the lines so far.
    pub fn proof(&self) -> Proof {
        Proof::new(&self.facts)
    }

    /// Returns the failure that the lines so far show; `None` if they show none.
    pub fn failure(&self) -> Option<Failure> {
        self.failures.failure()
    }

    /// Adds the line with this number.
    pub(super) fn add_numbered(&mut self, number: u64, line: &[u8], end: LineEnd) {
        self.line_number = number - 1;
        self.add_line(line, end);
    }

    fn add_line(&mut self, line: &[u8], end: LineEnd) {
        self.line_number += 1;
        self.facts.lines.read += 1;
        self.facts.lines.torn += u64::from(end == LineEnd::Cut);
        let end = match end {
            LineEnd::Log => End::Log,
            LineEnd::Newline | LineEnd::Cut => End::Line,
        };
        match unwrap_record(line) {
            Some(record) => {
                for line in record.split(|c| *c == b'\n') {
                    self.add(line, end);
                }
            }
            None => self.add(line, end),
        }
    }

    /// Adds a line as it was logged, or with the decoration of a terminal or a launcher.
    fn add(&mut self, line: &[u8], end: End) {
        undecorated(line, |line, header, left_out| {
            self.facts.lines.left_out += left_out;
            match header {
                Some(header) => self.add_messages(line, header, end),
                None => self.add_other(line),
            }
        });
    }

    /// Adds a line that is not NCCL's.
    fn add_other(&mut self, line: &[u8]) {
        if is_fragment(line) {
            self.facts.add_torn(line);
        } else if is_segmentation_fault(line) {
            self.facts.add_segmentation_fault(line);
        }
        let at = Position {
            file: &self.file,
            line: self.line_number,
        };
        self.failures.add_other(at, line);
    }

    /// Adds the messages of `line`. It has several if processes that write to one stream tore each
    /// other's lines.
    fn add_messages(&mut self, line: &[u8], first: Header, line_end: End) {
        self.facts.lines.nccl += 1;
        let mut header = first;
        let mut head = &line[..header.start];
        loop {
            let next = find_header(line, header.after());
            let (stop, end) = match next {
                Some(next) => (next.start, End::Header),
                None => (line.len(), line_end),
            };
            let text = &line[header.end..stop];
            let text = match next {
                Some(_) => text,
                None => without_closing_quote(head, text),
            };
            let message = parse(text, header.level);
            self.facts.info_messages += u64::from(header.level == LogLevel::Info);
            if is_whole(&message, end) {
                self.add_message(line, head, message);
            } else if end == End::Log {
                self.facts.add_torn(line);
            }
            let Some(next) = next else { break };
            self.facts.add_torn(line);
            // What stands before it is the message of another process, and no tag.
            head = &line[header.end..next.start];
            if Speaker::parse_address(head).is_none() {
                head = b"";
            }
            header = next;
        }
    }

    fn add_message(&mut self, line: &[u8], head: &[u8], message: Message<'_>) {
        let is_named = self.is_named(head);
        let head = if is_named { head } else { &self.file_tag };
        let at = Position {
            file: &self.file,
            line: self.line_number,
        };
        match message {
            Message::Warning(warning) => self.failures.add_warning(at, head, line, warning),
            Message::ReturnCode(returned) => self.failures.add_return(at, head, line, returned),
            Message::Operation(operation) => self.failures.add_operation(head, &operation),
            Message::Communicator(CommEvent::Complete, _) => self.failures.add_ready(head),
            _ => {}
        }
        if let Some(runs) = &mut self.runs
            && is_of_a_life(&message)
        {
            runs.add(head, &message, self.line_number);
        }
        self.facts.add(line, head, message);
    }

    /// Returns whether `head` names a process, or nothing else can.
    fn is_named(&mut self, head: &[u8]) -> bool {
        if self.file_tag.is_empty() {
            return true;
        }
        if let Some(known) = self.named.get(head) {
            return known;
        }
        let is_named = Speaker::parse(head).is_some();
        self.named.insert(head, is_named);
        is_named
    }
}

/// Passes `line` to `take` without what terminals and collectors add to it, with its first header
/// and the number of lines that were left out for it.
pub(super) fn undecorated<T>(line: &[u8], take: impl FnOnce(&[u8], Option<Header>, u64) -> T) -> T {
    let plain = without_colours(line);
    let (line, left_out) = without_repeat_note(&plain);
    match find_header(line, 0) {
        Some(header) if follows_colour(line, header) => {
            let plain = without_written_colours(line);
            take(&plain, find_header(&plain, 0), left_out)
        }
        header => take(line, header, left_out),
    }
}

/// Returns `text` up to the quote that closes one in `head`, as a collector's `msg="…"` or JSON
/// over several lines has it.
fn without_closing_quote<'a>(head: &[u8], text: &'a [u8]) -> &'a [u8] {
    // A comma or a bracket may follow it. Few lines end so, and only in these are the quotes of the
    // head counted.
    let last = &text[text.len().saturating_sub(3)..];
    if !last.contains(&b'"') || memchr::memchr_iter(b'"', head).count().is_multiple_of(2) {
        return text;
    }
    let end = memchr::memrchr(b'"', text).unwrap_or(text.len());
    &text[..end]
}

/// Returns `head`, or what stands for the file if `head` names no process.
pub(super) fn with_identity<'a>(head: &'a [u8], file_tag: &'a [u8]) -> &'a [u8] {
    if file_tag.is_empty() || Speaker::parse(head).is_some() {
        head
    } else {
        file_tag
    }
}

/// Returns whether something that may be a colour stands directly before `header`:
/// `#033[32mNCCL INFO`.
fn follows_colour(line: &[u8], header: Header) -> bool {
    line[..header.start].ends_with(b"m")
}

/// Returns whether `message` is sure to be complete.
fn is_whole(message: &Message<'_>, end: End) -> bool {
    if end == End::Line {
        return true;
    }
    match message {
        Message::Connection(Connection {
            via: Via::Net(net), ..
        }) => !net.bare,
        Message::Connection(_) => true,
        Message::Unclear => false,
        // What is glued to the toolkit's version is not read as a part of it.
        Message::Version(version) if end == End::Header => version.contains(&b'+'),
        _ => end == End::Log,
    }
}

impl Connections {
    /// Reads the connections of a whole log.
    pub fn read(log: &[u8]) -> Connections {
        let mut fold = Fold::default();
        fold.bytes(log);
        fold.facts.connections
    }
}
