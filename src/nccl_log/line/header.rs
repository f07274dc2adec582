//! What stands before a message: `host:pid:tid [device] NCCL INFO `, and what a launcher or a timestamp puts in front of it.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::text::{Needle, decimal, split_last};

static NCCL: Needle = LazyLock::new(|| Finder::new("NCCL "));

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
    /// Where `NCCL INFO ` begins.
    pub start: usize,
    /// Where the message begins.
    pub end: usize,
    /// The level of the message.
    pub level: LogLevel,
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

/// Finds the first header at or after `from`.
pub fn find_header(line: &[u8], from: usize) -> Option<Header> {
    let mut at = from;
    loop {
        let start = at + NCCL.find(line.get(at..)?)?;
        let after = start + NCCL.needle().len();
        let rest = &line[after..];
        for (word, level) in LEVELS {
            if rest.starts_with(word) {
                let end = after + word.len();
                return Some(Header { start, end, level });
            }
        }
        if from == 0 && rest.starts_with(b"version ") {
            return Some(Header {
                start,
                end: start,
                level: LogLevel::Bare,
            });
        }
        at = after;
    }
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
}

impl<'a> Speaker<'a> {
    /// Reads the text before a header. Launcher tags, timestamps, `file:line` and `(function)` are skipped; `None` if the
    /// text names no process, or is torn.
    pub fn parse(text: &'a [u8]) -> Option<Speaker<'a>> {
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
}

/// Reads `[device]`.
fn parse_device(word: &[u8]) -> Option<u32> {
    let number = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    u32::try_from(decimal(number)?).ok()
}

/// Reads `host:pid:tid`, with or without `[1,0]<stdout>:` before it.
fn parse_address(word: &[u8]) -> Option<Speaker<'_>> {
    let (rest, tid) = split_last(word, b':')?;
    let tid = decimal(tid)?;
    let (tagged_host, pid) = split_last(rest, b':')?;
    let host = match split_last(tagged_host, b':') {
        Some((tag, host)) if tag.ends_with(b">") => host,
        _ => tagged_host,
    };
    if host.is_empty() || !host.iter().all(is_host_character) {
        return None;
    }
    let pid = decimal(pid)?;
    Some(Speaker {
        host,
        pid,
        tid,
        device: None,
    })
}

fn is_host_character(c: &u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_')
}
