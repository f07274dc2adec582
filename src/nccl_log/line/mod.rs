//! One line of NCCL's log as a value. Bytes in, borrowed values out; nothing is allocated.
//!
//! The forms are those of NCCL 2.12 to 2.32; each variant of [`Message`] names what differs between them. A [`Header`] marks
//! where the message begins, and a [`Speaker`] is the process that the text before it names.

mod fragment;
mod header;
mod message;
mod parse;
mod path_types;
mod text;

pub use fragment::{is_fragment, is_segmentation_fault};
pub use header::{Header, LogLevel, Speaker, find_header};
pub use message::{
    Algorithm, Channels, CommEvent, CommView, Connection, Endpoint, Message, Net, RingNumbers,
    Side, Via,
};
pub use parse::parse;
pub use path_types::{GpuPaths, PathTypes};
