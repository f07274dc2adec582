//! The lines about paths between devices: `GPU/0 :GPU/0 (0/5000.0/LOC) NET/0 (3/24.0/PHB)`, and the
//! patterns chosen for them.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use crate::nccl_log::line::{
    message::Message,
    path_types::{GpuPaths, PathTypes},
    text::{Cursor, Needle, after, split_last},
};

static TYPE: Needle = LazyLock::new(|| Finder::new(", type "));

/// Reads what follows `GPU/`. Other forms, such as `GPU/… (0)` in a tree of devices, are not used.
pub(super) fn paths(text: &[u8]) -> Message<'_> {
    let Some(colon) = memmem::find(text, b" :") else {
        return Message::Other;
    };
    let mut found = GpuPaths::default();
    let mut words = text[colon + 2..]
        .split(|c| *c == b' ')
        .filter(|word| !word.is_empty());
    while let (Some(to), Some(path)) = (words.next(), words.next()) {
        let Some(path) = path_type(path) else {
            return Message::Unclear;
        };
        if to.starts_with(b"NET/") {
            found.nics.insert(path);
        } else if to.starts_with(b"GPU/") && path != PathTypes::LOC {
            found.gpus.insert(path);
        }
    }
    Message::Paths(found)
}

/// Reads the path type in `(5/48.0/PXN)`.
fn path_type(word: &[u8]) -> Option<PathTypes> {
    let parts = word.strip_prefix(b"(")?.strip_suffix(b")")?;
    let (_, name) = split_last(parts, b'/')?;
    PathTypes::from_name(name)
}

/// Reads what follows `Pattern `.
pub(super) fn pattern(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let number = cursor.number()?;
    let types = after(&TYPE, cursor.0)?;
    let types = Cursor(types).until(b',');
    let (_, between_nodes) = split_last(types, b'/')?;
    Some(Message::Pattern(
        number,
        PathTypes::from_name(between_nodes)?,
    ))
}
