//! What terminals and log collectors add to a line: colours, and notes on lines that they left out.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem::Finder;

use super::text::{Cursor, Needle, after};

const ESCAPE: u8 = 0x1b;

static RAY_NOTE: Needle = LazyLock::new(|| Finder::new(" [repeated "));
static SYSLOG_NOTE: Needle = LazyLock::new(|| Finder::new("message repeated "));

/// How escape sequences look where the byte itself was replaced: by rsyslog, by a JSON string or a
/// shell, by `cat -v`.
const WRITTEN_ESCAPES: [&[u8]; 5] = [b"#033[", b"\\033[", b"\\u001b[", b"\\x1b[", b"^[["];

/// Removes colours and other sequences that a terminal obeys.
pub fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(ESCAPE, line) else {
        return Cow::Borrowed(line);
    };
    let mut plain = line[..first].to_vec();
    let mut rest = &line[first..];
    while let Some((begin, end)) = find_sequence(rest) {
        plain.extend_from_slice(&rest[..begin]);
        rest = &rest[end..];
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// Returns where the first escape sequence begins and ends.
fn find_sequence(text: &[u8]) -> Option<(usize, usize)> {
    let begin = memchr::memchr(ESCAPE, text)?;
    let body = &text[begin + 1..];
    let length = match body.first() {
        Some(b'[') => control_length(&body[1..]) + 1,
        // A window's title or a link, which ends with a bell or with another escape.
        Some(b']') => body
            .iter()
            .position(|c| matches!(*c, 0x07 | ESCAPE))
            .map_or(body.len(), |end| end + usize::from(body[end] == 0x07)),
        Some(_) => 1,
        None => 0,
    };
    Some((begin, begin + 1 + length))
}

/// Counts the bytes of `1;32m`, which begin `text`.
fn control_length(text: &[u8]) -> usize {
    let is_parameter = |c: &u8| matches!(*c, 0x20..=0x3f);
    let parameters = text.iter().take_while(|c| is_parameter(c)).count();
    (parameters + 1).min(text.len())
}

/// Removes colours whose escape byte was replaced by text: `#033[32m`, `^[[0m`.
pub fn without_written_colours(line: &[u8]) -> Cow<'_, [u8]> {
    let mut plain = Cow::Borrowed(line);
    for escape in WRITTEN_ESCAPES {
        while let Some(begin) = memchr::memmem::find(&plain, escape) {
            let end = begin + escape.len();
            let end = end + control_length(&plain[end..]);
            plain.to_mut().drain(begin..end);
        }
    }
    plain
}

/// Removes the note that a line stands for others, which were left out, and returns their number.
///
/// Ray ends a line with ` [repeated 3x across cluster]`, the first time with one more sentence in
/// parentheses. Syslog writes `message repeated 3 times: [ … ]` around it, or a line of its own:
/// `last message repeated 3 times`.
pub fn without_repeat_note(line: &[u8]) -> (&[u8], u64) {
    let text = line.trim_ascii_end();
    match text.last() {
        Some(b']' | b')') => {}
        Some(b's') => return (line, syslog_times(text).unwrap_or_default()),
        _ => return (line, 0),
    }
    if let Some(at) = RAY_NOTE.find(text)
        && let Some(times) = ray_times(&text[at + RAY_NOTE.needle().len()..])
    {
        return (&text[..at], times);
    }
    match syslog_times(text) {
        Some(times) => (text[..text.len() - 1].trim_ascii_end(), times),
        None => (line, 0),
    }
}

/// Reads `3x across cluster]`.
fn ray_times(note: &[u8]) -> Option<u64> {
    let mut cursor = Cursor(note);
    let times = cursor.number()?;
    cursor.require(b"x ")?;
    let place = cursor.until(b']');
    place.starts_with(b"across ").then_some(times)
}

/// Reads the number in `message repeated 3 times: [`.
fn syslog_times(line: &[u8]) -> Option<u64> {
    let mut cursor = Cursor(after(&SYSLOG_NOTE, line)?);
    let times = cursor.number()?;
    cursor.require(b" times")?;
    Some(times)
}
