//! Version numbers of NCCL and RCCL.

use super::text::count_leading;

/// Returns the version that `text` begins with, such as `2.28.3+cuda13.0`. What another process's
/// line glued to it is left out.
pub(super) fn find_version(text: &[u8]) -> Option<&[u8]> {
    let numbers = count_numbers(text);
    let has_parts = memchr::memchr(b'.', &text[..numbers]).is_some();
    if numbers == 0 || !has_parts {
        return None;
    }
    let mut length = numbers;
    if text.get(length) == Some(&b'+') {
        let toolkit = count_leading(&text[length + 1..], u8::is_ascii_lowercase);
        let numbers = count_numbers(&text[length + 1 + toolkit..]);
        if numbers > 0 {
            length += 1 + toolkit + numbers;
        }
    }
    Some(&text[..length])
}

/// Returns the version in `text` if nothing but the version can follow it there: a sentence goes
/// on.
pub(super) fn find_lone_version(text: &[u8]) -> Option<&[u8]> {
    let version = find_version(text)?;
    let rest = text[version.len()..].trim_ascii();
    let is_bare_number = memchr::memchr(b'+', version).is_none();
    let goes_on = rest.first().is_some_and(u8::is_ascii_lowercase);
    (!is_bare_number || !goes_on).then_some(version)
}

/// Counts the bytes of numbers that dots separate. A dot at the end belongs to the sentence.
fn count_numbers(text: &[u8]) -> usize {
    let length = count_leading(text, |c| c.is_ascii_digit() || *c == b'.');
    let numbers = &text[..length];
    length - usize::from(numbers.ends_with(b"."))
}
