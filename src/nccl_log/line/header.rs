//! What stands before a message: `host:pid:tid [device] NCCL INFO `, and what a launcher or a
//! timestamp puts in front of it.

use std::{hash::Hash, sync::LazyLock};

use memchr::memmem::Finder;

use super::{
    prose::is_prose,
    tag::{Tag, read_tag},
    text::{Needle, decimal, split_last},
    version::find_lone_version,
};

/// What `NCCL ` and `RCCL ` end in.
static LIBRARY: Needle = LazyLock::new(|| Finder::new("CCL "));

/// The words after `NCCL ` that begin a message, and the levels they stand for.
const LEVELS: [(&[u8], LogLevel); 4] = [
    (b"INFO ", LogLevel::Info),
    (b"WARN ", LogLevel::Warn),
    (b"ATTN ", LogLevel::Info),
    (b"TRACE ", LogLevel::Info),
];

/// The words that NCCL puts directly before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The index at which `NCCL INFO ` begins.
    pub start: usize,
    /// The index at which the message begins.
    pub end: usize,
    /// The level of the message.
    pub level: LogLevel,
}

impl Header {
    /// Returns where to look for the header of another line. A version without a level begins with
    /// what a header ends in.
    pub fn after(&self) -> usize {
        match self.level {
            LogLevel::Bare => self.end + b"NCCL ".len(),
            LogLevel::Info | LogLevel::Warn => self.end,
        }
    }
}

/// The level at which NCCL logs a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `NCCL INFO`, also `NCCL TRACE` and the `NCCL ATTN` of 2.32.
    Info,
    /// `NCCL WARN`.
    Warn,
    /// `NCCL version …` without a host and process, which goes to stdout at any level.
    Bare,
}

/// Finds the first header at or after `from`. A sentence that mentions NCCL has none.
pub fn find_header(line: &[u8], from: usize) -> Option<Header> {
    let mut at = from;
    loop {
        let found = at + LIBRARY.find(line.get(at..)?)?;
        let after = found + LIBRARY.needle().len();
        at = after;
        if found == from {
            continue;
        }
        let start = found - 1;
        let is_nccl = line[start] == b'N';
        let header = match line[start] {
            b'N' | b'R' => find_level(line, start, after, is_nccl),
            _ => None,
        };
        match header {
            // What follows `NCCL INFO ` directly is the message itself.
            Some(found) if found.level == LogLevel::Bare && from > 0 && start == from => {}
            Some(_) if from == 0 && is_prose(&line[..start]) => {}
            Some(header) => return Some(header),
            None => {}
        }
    }
}

/// Reads the level of the header at `start`; `after` is where its first word ends. Only NCCL's own
/// name stands before a level.
fn find_level(line: &[u8], start: usize, after: usize, is_nccl: bool) -> Option<Header> {
    let rest = &line[after..];
    for (word, level) in LEVELS {
        if is_nccl && rest.starts_with(word) {
            let end = after + word.len();
            return Some(Header { start, end, level });
        }
    }
    let version = rest.strip_prefix(b"version ")?;
    // RCCL: `RCCL version : 2.9.9`.
    find_lone_version(version.strip_prefix(b": ").unwrap_or(version))?;
    Some(Header {
        start,
        end: start,
        level: LogLevel::Bare,
    })
}

/// The process that logs a message: `host:pid:tid [device]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker<'a> {
    /// The host's name.
    pub host: &'a [u8],
    /// The process id.
    pub pid: u64,
    /// The thread id.
    pub tid: u64,
    /// The CUDA device, if one is current.
    pub device: Option<u32>,
    /// What a launcher put in front, if the line does not name the process itself.
    pub tag: Option<Tag>,
}

impl<'a> Speaker<'a> {
    /// Reads the text before a header. Launcher tags, timestamps, `file:line` and `(function)` are
    /// skipped. If the text names no process, what a launcher put in front stands for it:
    /// `[rank3]:`, `(Worker pid=5, ip=10.0.0.1)`. `None` if there is neither, or if the text is
    /// torn.
    pub fn parse(text: &'a [u8]) -> Option<Speaker<'a>> {
        Speaker::parse_address(text).or_else(|| Speaker::parse_tag(text))
    }

    /// Reads `host:pid:tid [device]`, behind whatever stands in front of it.
    pub fn parse_address(text: &'a [u8]) -> Option<Speaker<'a>> {
        let mut device = None;
        for word in text.rsplit(u8::is_ascii_whitespace) {
            if device.is_none() {
                device = parse_device(word);
            }
            if let Some(mut speaker) = parse_address(word) {
                speaker.device = device;
                return Some(speaker);
            }
        }
        None
    }

    /// Returns a value that is the same for all lines of the process.
    pub fn identity(&self) -> impl Hash + use<'a> {
        (self.host, self.pid, self.tag)
    }

    fn parse_tag(text: &'a [u8]) -> Option<Speaker<'a>> {
        let (tag, worker) = read_tag(text)?;
        Some(Speaker {
            host: worker.ip,
            pid: worker.pid,
            tid: 0,
            device: text.rsplit(u8::is_ascii_whitespace).find_map(parse_device),
            tag: Some(tag),
        })
    }
}

/// Reads `[device]`.
fn parse_device(word: &[u8]) -> Option<u32> {
    let number = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    u32::try_from(decimal(number)?).ok()
}

/// Reads `host:pid:tid`, with or without `[1,0]<stdout>:`, `[rank3]:`, `<12>` or the like before
/// it.
fn parse_address(word: &[u8]) -> Option<Speaker<'_>> {
    let (rest, tid) = split_last(word, b':')?;
    let tid = decimal(tid)?;
    let (tagged_host, pid) = split_last(rest, b':')?;
    let host = without_decoration(tagged_host);
    if host.is_empty() || !host.iter().all(is_host_character) || is_clock(host, pid) {
        return None;
    }
    let pid = decimal(pid)?;
    Some(Speaker {
        host,
        pid,
        tid,
        device: None,
        tag: None,
    })
}

/// Removes what ends in a bracket or a bar from the front of `host`. A host that somebody replaced
/// by `<name>` stays.
fn without_decoration(host: &[u8]) -> &[u8] {
    let closes = |c: &u8| {
        matches!(
            c,
            b'>' | b']' | b')' | b'}' | b'|' | b'"' | b'=' | b';' | b','
        )
    };
    let Some(last) = host.iter().rposition(closes) else {
        return host;
    };
    let rest = &host[last + 1..];
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    if rest.is_empty() && host.starts_with(b"<") {
        return &host[1..last];
    }
    rest
}

/// Returns whether `host` and what follows it are a time: `03:04:05`, `2026-01-02T03:04:05`.
fn is_clock(host: &[u8], minutes: &[u8]) -> bool {
    let hours = match host.iter().rposition(|c| *c == b'T') {
        Some(at) if host[0].is_ascii_digit() => &host[at + 1..],
        _ => host,
    };
    minutes.len() == 2 && hours.len() == 2 && hours.iter().all(u8::is_ascii_digit)
}

fn is_host_character(c: &u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_')
}
