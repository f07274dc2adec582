//! Names of variables, and `NAME=value`.

pub(super) use crate::levels::conf::{is_audited, mentions_audited};

/// Returns whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_first = bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    is_first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits `NAME=value`.
pub(super) fn assignment(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| is_name(name))
}
