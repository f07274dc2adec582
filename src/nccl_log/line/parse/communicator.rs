//! The lines about communicators: `ncclCommInitRank comm 0x… rank 0 nranks 8 … - Init COMPLETE`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::nccl_log::line::{
    message::{CommEvent, CommView, Message},
    text::{Needle, decimal, hexadecimal},
};

static COMM: Needle = LazyLock::new(|| Finder::new("comm 0x"));
static NODES: Needle = LazyLock::new(|| Finder::new(" nNodes "));

/// Reads `comm 0x… rank …`, `ncclCommInitRank comm 0x… rank …`, `[Rank 0] ncclCommInitRank comm …`.
pub(super) fn communicator(message: &[u8]) -> Message<'_> {
    let Some(at) = COMM.find(message) else {
        return Message::Other;
    };
    if at > 0 && message[at - 1] != b' ' {
        return Message::Other;
    }
    let event = if message.ends_with(b"Init START") || is_size_alone(&message[at..]) {
        CommEvent::Start
    } else if message.ends_with(b"Init COMPLETE") || message.ends_with(b" - COMPLETE") {
        CommEvent::Complete
    } else if message.ends_with(b"Destroy COMPLETE") || message.ends_with(b"Abort COMPLETE") {
        return Message::CommEnded;
    } else if NODES.find(message).is_some() {
        CommEvent::Size
    } else {
        return Message::Other;
    };
    comm_view(&message[at..]).map_or(Message::Unclear, |view| Message::Communicator(event, view))
}

/// Returns whether `text` is `comm 0x… rank 0 nranks 16` and nothing else, with which 2.3 starts a
/// communicator.
fn is_size_alone(text: &[u8]) -> bool {
    let mut words = text.split(|c| *c == b' ');
    let mut expect = |name: &[u8]| words.next() == Some(name) && words.next().is_some();
    expect(b"comm") && expect(b"rank") && expect(b"nranks") && words.next().is_none()
}

/// Reads rank and size from pairs of words; `None` if there is no number of ranks.
fn comm_view(text: &[u8]) -> Option<CommView> {
    let mut view = CommView::default();
    let mut ranks = None;
    let mut words = text.split(|c| *c == b' ');
    while let Some(word) = words.next() {
        match word {
            b"comm" => view.pointer = words.next().and_then(hexadecimal).unwrap_or_default(),
            b"rank" => view.rank = words.next().and_then(decimal).unwrap_or_default(),
            b"nranks" | b"nRanks" => ranks = words.next().and_then(decimal),
            b"nNodes" => view.nodes = words.next().and_then(decimal),
            b"localRanks" => view.local_ranks = words.next().and_then(decimal),
            b"MNNVL" => view.nvlink_joins_nodes = words.next().and_then(decimal) == Some(1),
            b"commId" => view.id = words.next().and_then(hexadecimal),
            _ => {}
        }
    }
    view.ranks = ranks?;
    Some(view)
}
