//! Limits that keep the memory of a fold within bounds, whatever the log holds.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Processes, communicators and relays that are told apart.
pub(super) const MANY: usize = 1 << 16;
/// Names, settings and choices that are told apart.
pub(super) const SOME: usize = 256;
/// Bytes that are kept of a quoted line or a name.
const QUOTE: usize = 240;

/// Returns whether `bytes` is longer than what is kept.
pub(super) fn is_too_long(bytes: &[u8]) -> bool {
    bytes.len() > QUOTE
}

/// Returns the part of `bytes` that is kept.
pub(super) fn clipped(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(QUOTE)]
}

/// Returns the part of `bytes` that is kept, as text.
pub(super) fn clipped_text(bytes: &[u8]) -> String {
    text(clipped(bytes))
}

/// Returns `line` as it is quoted.
pub(super) fn quoted(line: &[u8]) -> String {
    text(clipped(line).trim_ascii())
}

/// Returns `bytes` as text; what is not UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a hash that stands for `value` in a set, so that its size does not matter.
pub(super) fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
