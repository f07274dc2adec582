//! What launchers and log collectors put in front of a line, as the identity of a process whose
//! line does not name it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    prose::{is_address, is_of_a_collector, is_of_a_date},
    text::{count_leading, decimal},
};

/// A value that is the same for all lines with the same prefix. Timestamps and the name of the
/// stream do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(u64);

/// What Ray's prefix `(RayTrainWorker pid=5, ip=10.0.0.1)` says of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worker<'a> {
    /// The node's address; empty on the node of the driver, for which Ray prints none.
    pub(super) ip: &'a [u8],
    /// The process id.
    pub(super) pid: u64,
}

/// Reads the text before a header that names no process. `None` if no word of it tells processes
/// apart.
pub(super) fn read_tag(text: &[u8]) -> Option<(Tag, Worker<'_>)> {
    let mut hasher = DefaultHasher::new();
    let mut worker = Worker::default();
    let mut has_names = false;
    let words = text.split(u8::is_ascii_whitespace);
    for (at, word) in words.filter(|word| !word.is_empty()).enumerate() {
        let is_srun_label = at == 0
            && word
                .strip_suffix(b":")
                .is_some_and(|n| decimal(n).is_some());
        let name = without_stream(without_priority(word));
        if is_address(name) && !is_time(name) {
            // A torn `host:pid:tid`, whose process is not known.
            return None;
        }
        if !is_srun_label && !is_name(name) {
            continue;
        }
        if let Some(pid) = name.strip_prefix(b"pid=") {
            worker.pid = leading_number(pid);
        } else if let Some(ip) = name.strip_prefix(b"ip=") {
            worker.ip = ip.strip_suffix(b")").unwrap_or(ip);
        }
        name.hash(&mut hasher);
        has_names = true;
    }
    has_names.then(|| (Tag(hasher.finish()), worker))
}

/// Returns whether `word` may tell processes apart: not a time, a place in the source or a piece of
/// an address.
fn is_name(word: &[u8]) -> bool {
    let has_letter_or_digit = word.iter().any(u8::is_ascii_alphanumeric);
    let is_function = word.starts_with(b"(") && word.ends_with(b")");
    has_letter_or_digit
        && !is_function
        && !is_time(word)
        && !is_of_a_date(word)
        && !is_of_a_collector(word)
        && !has_inner_colon(word)
}

/// Returns whether `word` is a part of a timestamp, or a bare number.
fn is_time(word: &[u8]) -> bool {
    let is_of_time = |c: &u8| c.is_ascii_digit() || b"[]()-+:.,/TZ".contains(c);
    word.iter().all(is_of_time) && !is_rank(word)
}

/// Returns whether `word` is a rank or a device in brackets: `[3]`, `[1,0]`.
fn is_rank(word: &[u8]) -> bool {
    let Some(inner) = word.strip_prefix(b"[") else {
        return false;
    };
    let numbers = count_leading(inner, |c| c.is_ascii_digit() || *c == b',');
    numbers > 0 && inner.get(numbers) == Some(&b']')
}

/// Returns whether a colon stands in `word` that ends no bracket, as in `host:pid:tid` and
/// `net.cc:12`.
fn has_inner_colon(word: &[u8]) -> bool {
    let inner = &word[..word.len() - 1];
    memchr::memchr_iter(b':', inner).any(|at| at == 0 || !matches!(inner[at - 1], b']' | b'>'))
}

/// Removes the `<12>` of syslog.
fn without_priority(word: &[u8]) -> &[u8] {
    let Some(rest) = word.strip_prefix(b"<") else {
        return word;
    };
    let digits = count_leading(rest, u8::is_ascii_digit);
    match rest[digits..].strip_prefix(b">") {
        Some(rest) if digits > 0 => rest,
        _ => word,
    }
}

/// Removes the `<stdout>:` of `[1,0]<stdout>:`, which is the same process as `[1,0]<stderr>:`.
fn without_stream(word: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(word, b"<std").unwrap_or(word.len());
    &word[..end]
}

fn leading_number(text: &[u8]) -> u64 {
    let digits = count_leading(text, u8::is_ascii_digit);
    decimal(&text[..digits]).unwrap_or_default()
}
