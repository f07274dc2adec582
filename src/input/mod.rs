//! What this program reads from files that somebody else may have written: how much of each kind,
//! and for how long.

mod file;
mod json;
mod kind;

pub use file::{InputFile, PATIENCE, open, read, read_from, read_text, read_text_from};
pub use json::why_no_json;
pub use kind::{INPUTS, InputKind};
