//! Lines added up. Memory stays within bounds whatever the log holds: each list has a limit, and what exceeds it is counted
//! or left out.

use std::io::{self, Read};

use super::{
    connections::Connections,
    facts::LogFacts,
    line::{
        Connection, Header, LogLevel, Message, Via, find_header, is_fragment,
        is_segmentation_fault, parse,
    },
    proof::Proof,
};

/// Bytes that are read at once; a line longer than this is cut.
const CHUNK: usize = 1 << 20;

/// Lines of one or more logs, added up.
#[derive(Debug, Default)]
pub struct Fold {
    facts: LogFacts,
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
    /// Adds all lines of `log`, in constant memory.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn read(&mut self, mut log: impl Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        let mut filled = 0;
        let mut is_skipping = false;
        loop {
            let read = match log.read(&mut chunk[filled..]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if read == 0 {
                break;
            }
            let new = filled;
            filled += read;
            if let Some(last) = memchr::memrchr(b'\n', &chunk[new..filled]) {
                let whole = new + last + 1;
                self.add_lines(&chunk[..whole], &mut is_skipping);
                chunk.copy_within(whole..filled, 0);
                filled -= whole;
            } else if filled == CHUNK {
                // Longer than any line of NCCL: its beginning counts, and the rest is skipped.
                if !is_skipping {
                    self.facts.lines.torn += 1;
                    self.line(&chunk);
                }
                filled = 0;
                is_skipping = true;
            }
        }
        if filled > 0 && !is_skipping {
            self.add(&chunk[..filled], End::Log);
        }
        Ok(())
    }

    /// Adds the whole lines in `text`. The first is left out if `is_skipping`, because its beginning was added already.
    fn add_lines(&mut self, text: &[u8], is_skipping: &mut bool) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            if *is_skipping {
                *is_skipping = false;
            } else {
                self.line(&text[start..end]);
            }
            start = end + 1;
        }
    }

    /// Adds all lines of a log that is in memory.
    pub fn bytes(&mut self, log: &[u8]) {
        let whole = memchr::memrchr(b'\n', log).map_or(0, |last| last + 1);
        self.add_lines(&log[..whole], &mut false);
        if whole < log.len() {
            self.add(&log[whole..], End::Log);
        }
    }

    /// Adds one line, without its newline.
    pub fn line(&mut self, line: &[u8]) {
        self.add(line, End::Line);
    }

    /// Returns the connections so far.
    pub fn connections(&self) -> &Connections {
        &self.facts.connections
    }

    /// Judges the lines so far.
    pub fn proof(&self) -> Proof {
        Proof::new(&self.facts)
    }

    fn add(&mut self, line: &[u8], end: End) {
        self.facts.lines.read += 1;
        match find_header(line, 0) {
            Some(header) => self.add_messages(line, header, end),
            None if is_fragment(line) => self.facts.add_torn(line),
            None if is_segmentation_fault(line) => self.facts.add_segmentation_fault(line),
            None => {}
        }
    }

    /// Adds the messages of `line`. It has several if processes that write to one stream tore each other's lines.
    fn add_messages(&mut self, line: &[u8], first: Header, line_end: End) {
        self.facts.lines.nccl += 1;
        let mut header = first;
        let mut head = &line[..header.start];
        loop {
            let next = match header.level {
                LogLevel::Bare => None,
                LogLevel::Info | LogLevel::Warn => find_header(line, header.end),
            };
            let (stop, end) = match next {
                Some(next) => (next.start, End::Header),
                None => (line.len(), line_end),
            };
            let message = parse(&line[header.end..stop], header.level);
            self.facts.info_messages += u64::from(header.level == LogLevel::Info);
            if is_whole(&message, end) {
                self.facts.add(line, head, message);
            } else if end == End::Log {
                self.facts.add_torn(line);
            }
            let Some(next) = next else { break };
            self.facts.add_torn(line);
            head = &line[header.end..next.start];
            header = next;
        }
    }
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
