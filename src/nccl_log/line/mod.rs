//! One line of NCCL's log as a value. Bytes in, borrowed values out; nothing is allocated.
//!
//! The forms are those of NCCL 2.3 to 2.32 and of RCCL; each variant of [`Message`] names what
//! differs between them. A [`Header`] marks where the message begins, and a [`Speaker`] is the
//! process that the text before it names.

mod decoration;
mod fragment;
mod header;
mod message;
mod parse;
mod path_types;
mod prose;
mod record;
mod tag;
mod text;
mod version;

pub use decoration::{without_colours, without_repeat_note, without_written_colours};
pub use fragment::{is_fragment, is_segmentation_fault};
pub use header::{Header, LogLevel, Speaker, find_header};
pub use message::{
    Algorithm, Channels, CommEvent, CommView, Connection, Endpoint, Message, Net, Operation,
    ReturnCode, RingNumbers, Side, Via,
};
pub use parse::parse;
pub use path_types::{GpuPaths, PathTypes};
pub use record::unwrap_record;
pub use tag::Tag;
