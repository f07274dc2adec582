//! The lines about connections and rings: `Channel 00/0 : 0[0] -> 1[1] via P2P/IPC`,
//! `Ring 00 : 0[0] -> 1[1] via NET/IB/0`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::nccl_log::line::{
    message::{Connection, Endpoint, Message, Net, Side, Via},
    text::{Cursor, Needle, after},
};

/// Transports whose name can end a line. Others go on with a slash, so a line that ends there is
/// torn.
const WHOLE_TRANSPORTS: [&[u8]; 4] = [b"P2P", b"SHM", b"NVLS", b"COLLNET"];

static VIA: Needle = LazyLock::new(|| Finder::new(" via "));

/// Reads what follows `Channel `: a connection, or the order of a ring.
pub(super) fn channel(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let channel = cursor.number()?;
    let index = if cursor.eat(b"/") {
        Some(cursor.number()?)
    } else {
        None
    };
    cursor.require(b" : ")?;
    let is_indented = cursor.0.starts_with(b" ");
    if is_indented || (index.is_some() && memchr::memchr(b'>', cursor.0).is_none()) {
        return is_ring_order(cursor.0).then_some(Message::RingOrder);
    }
    let ends = Ends {
        from: endpoint(&mut cursor)?,
        to: endpoint_after_arrow(&mut cursor)?,
        side: side(&mut cursor),
    };
    cursor.require(b" via ")?;
    let via = via(&mut cursor)?;
    let is_net = matches!(via, Via::Net(_));
    if is_net != (ends.side != Side::Both) {
        return None;
    }
    Some(ends.connection(channel, index, via))
}

/// Reads what follows `Ring `: a connection before 2.7, or the order of a ring.
pub(super) fn ring(mut cursor: Cursor<'_>) -> Message<'_> {
    let Some(channel) = cursor.number() else {
        return Message::Other;
    };
    if !cursor.eat(b" : ") {
        return Message::Other;
    }
    if is_ring_order(cursor.0) {
        return Message::RingOrder;
    }
    let has_transport = memchr::memchr(b'[', cursor.0).is_some() || after(&VIA, cursor.0).is_some();
    if !has_transport {
        // `Ring 00 : 3 -> 0 -> 1`: the neighbours of a rank.
        return Message::Other;
    }
    old_connection(channel, cursor).unwrap_or(Message::Unclear)
}

/// Reads a connection of 2.3 to 2.6. Over a network, 2.3 logs only the receiving end, and names no
/// side. GPUs have numbers over a network since 2.5.
fn old_connection(channel: u64, mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let from = old_endpoint(&mut cursor)?;
    cursor.require(b" -> ")?;
    let to = old_endpoint(&mut cursor)?;
    let mut ends = Ends {
        from,
        to,
        side: side(&mut cursor),
    };
    cursor.require(b" via ")?;
    let via = via(&mut cursor)?;
    match via {
        Via::Net(_) if ends.side == Side::Both => ends.side = Side::Receive,
        Via::Other(_) if ends.side != Side::Both => return None,
        _ => {}
    }
    Some(ends.connection(channel, None, via))
}

/// What a line says of a connection before its transport.
struct Ends<'a> {
    from: Endpoint<'a>,
    to: Endpoint<'a>,
    side: Side,
}

impl<'a> Ends<'a> {
    fn connection(self, channel: u64, index: Option<u64>, via: Via<'a>) -> Message<'a> {
        Message::Connection(Connection {
            channel,
            index,
            from: self.from,
            to: self.to,
            side: self.side,
            via,
        })
    }
}

/// Reads what follows ` via `.
fn via<'a>(cursor: &mut Cursor<'a>) -> Option<Via<'a>> {
    if cursor.eat(b"NET/") {
        return Some(Via::Net(net(cursor.0)?));
    }
    // Before 2.7: `direct shared memory`, and `P2P/direct pointer` without its first word.
    if cursor.eat(b"direct shared memory") {
        return Some(Via::Other(b"SHM"));
    }
    if cursor.eat(b"direct pointer") {
        return Some(Via::Other(b"P2P"));
    }
    let name = cursor.transport()?;
    let is_followed = cursor.0.get(name.len()) == Some(&b'/');
    let is_whole = is_followed || WHOLE_TRANSPORTS.contains(&name);
    is_whole.then_some(Via::Other(name))
}

/// Returns whether `text` is ranks in the order of a ring: ` 0 1 2 3`.
fn is_ring_order(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|c| c.is_ascii_digit() || *c == b' ')
}

/// Reads `3[1]`.
fn endpoint<'a>(cursor: &mut Cursor<'a>) -> Option<Endpoint<'a>> {
    let is_negative = cursor.eat(b"-");
    let number = i64::try_from(cursor.number()?).ok()?;
    let rank = if is_negative { -number } else { number };
    let gpu = cursor.gpu()?;
    Some(Endpoint { rank, gpu })
}

fn endpoint_after_arrow<'a>(cursor: &mut Cursor<'a>) -> Option<Endpoint<'a>> {
    cursor.require(b" -> ")?;
    endpoint(cursor)
}

/// Reads `3[1]`, or `3` before 2.5.
fn old_endpoint<'a>(cursor: &mut Cursor<'a>) -> Option<Endpoint<'a>> {
    let rank = i64::try_from(cursor.number()?).ok()?;
    let gpu = if cursor.0.starts_with(b"[") {
        cursor.gpu()?
    } else {
        b""
    };
    Some(Endpoint { rank, gpu })
}

/// Reads ` [send]` or ` [receive]`.
fn side(cursor: &mut Cursor<'_>) -> Side {
    if cursor.eat(b" [send]") {
        Side::Send
    } else if cursor.eat(b" [receive]") {
        Side::Receive
    } else {
        Side::Both
    }
}

/// Reads what follows `NET/`. The name ends at the first slash that is followed by a number on its
/// own.
fn net(text: &[u8]) -> Option<Net<'_>> {
    for slash in memchr::memchr_iter(b'/', text) {
        let mut cursor = Cursor(&text[slash + 1..]);
        let Some(device) = cursor.number() else {
            continue;
        };
        if slash == 0 || !matches!(cursor.0.first(), None | Some(b'(' | b'/' | b' ')) {
            continue;
        }
        let bare = cursor.0.is_empty();
        // `(2)` is a relay; `(PCI)` is not.
        let has_relay = cursor.0.get(1).is_some_and(u8::is_ascii_digit) && cursor.eat(b"(");
        let mut relay = None;
        if has_relay {
            relay = Some(cursor.number()?);
            cursor.require(b")")?;
        }
        let gpudirect = cursor.eat(b"/GDRDMA");
        if !gpudirect && is_torn(cursor.0) {
            return None;
        }
        return Some(Net {
            name: &text[..slash],
            device,
            relay,
            gpudirect,
            bare,
        });
    }
    None
}

/// Returns whether `end`, the end of a line, is the beginning of `/GDRDMA`.
fn is_torn(end: &[u8]) -> bool {
    !end.is_empty() && b"/GDRDMA".starts_with(end)
}
