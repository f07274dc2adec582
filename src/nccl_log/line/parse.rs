//! The forms of messages.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use super::{
    header::LogLevel,
    message::{
        Algorithm, Channels, CommEvent, CommView, Connection, Endpoint, Message, Net, Operation,
        ReturnCode, RingNumbers, Side, Via,
    },
    path_types::{GpuPaths, PathTypes},
    text::{Cursor, Needle, after, decimal, hexadecimal, split_last},
    version::find_version,
};

/// Transports whose name can end a line. Others go on with a slash, so a line that ends there is torn.
const WHOLE_TRANSPORTS: [&[u8]; 4] = [b"P2P", b"SHM", b"NVLS", b"COLLNET"];

static VIA: Needle = LazyLock::new(|| Finder::new(" via "));
static ARROW: Needle = LazyLock::new(|| Finder::new(" -> "));
static SET: Needle = LazyLock::new(|| Finder::new(" set by environment to "));
static GPUDIRECT: Needle = LazyLock::new(|| Finder::new(" : GPU Direct RDMA "));
static LOADED: Needle = LazyLock::new(|| Finder::new("Loaded net plugin "));
static COLLNET: Needle = LazyLock::new(|| Finder::new(" via COLLNET/"));
static TYPE: Needle = LazyLock::new(|| Finder::new(", type "));
static COMM: Needle = LazyLock::new(|| Finder::new("comm 0x"));
static NODES: Needle = LazyLock::new(|| Finder::new(" nNodes "));
static OPERATION: Needle = LazyLock::new(|| Finder::new(": opCount "));
static RANKS: Needle = LazyLock::new(|| Finder::new(" [nranks="));
static BYTES: Needle = LazyLock::new(|| Finder::new(" Bytes -> "));

/// Reads a message. The first byte decides which forms are tried.
pub fn parse(message: &[u8], level: LogLevel) -> Message<'_> {
    let message = message.trim_ascii_end();
    if level == LogLevel::Warn {
        return Message::Warning(message);
    }
    let mut cursor = Cursor(message);
    match message.first() {
        Some(b'C') if cursor.eat(b"Channel ") => channel(cursor).unwrap_or(Message::Unclear),
        Some(b'R') if cursor.eat(b"Ring ") => ring(cursor),
        Some(b'C') if cursor.eat(b"Connected ") => connected(cursor.0),
        Some(b'C') if cursor.eat(b"CollNet ") => collnet(cursor.0),
        Some(b'N' | b'R') if cursor.eat(b"NCCL version") || cursor.eat(b"RCCL version") => {
            version(cursor)
        }
        Some(b'N') if message.starts_with(b"NCCL_") => setting(message),
        Some(b'N') if cursor.eat(b"NET/Plugin") => plugin(cursor.0),
        Some(b'N') if cursor.eat(b"NET/") => network(cursor.0),
        Some(b'G') if cursor.eat(b"GPU/") => paths(cursor.0),
        Some(b'G') if cursor.eat(b"GPU Direct RDMA Disabled for GPU") => Message::GpuDirectTooFar,
        Some(b'U') if cursor.eat(b"Using ") => using(cursor),
        Some(b'B') if cursor.eat(b"Bootstrap") => Message::Bootstrap,
        Some(b'P') if cursor.eat(b"Pattern ") => pattern(cursor).unwrap_or(Message::Unclear),
        Some(b'P') if cursor.eat(b"PXN Disabled as plugin is v4") => Message::PluginTooOld,
        Some(b'0'..=b'9') => counted(cursor),
        Some(b'c') if message.starts_with(b"cudaDriverVersion ") => Message::DriverVersion,
        Some(b'c' | b'n' | b'[') => match communicator(message) {
            Message::Other => return_code(message).unwrap_or(Message::Other),
            found => found,
        },
        Some(b'a'..=b'z') => return_code(message).unwrap_or(Message::Other),
        Some(b'A'..=b'Z') => algorithm(message),
        _ => Message::Other,
    }
}

/// Reads what follows `NCCL version`; RCCL puts a colon before the number.
fn version(mut cursor: Cursor<'_>) -> Message<'_> {
    let _ = cursor.eat(b" :") || cursor.eat(b":");
    find_version(cursor.0.trim_ascii_start()).map_or(Message::Unclear, Message::Version)
}

/// Reads `transport/net_ib.cc:1295 -> 6`, which may go on with ` [Progress Thread]`.
fn return_code(message: &[u8]) -> Option<Message<'_>> {
    let at = ARROW.find(message)?;
    let place = &message[..at];
    let (file, line) = split_last(place, b':')?;
    let is_place = memchr::memchr(b'.', file).is_some() && memchr::memchr(b' ', file).is_none();
    let mut cursor = Cursor(&message[at + ARROW.needle().len()..]);
    let code = cursor.number()?;
    let is_end = matches!(cursor.0.first(), None | Some(b' '));
    let is_return = is_place && is_end && decimal(line).is_some();
    is_return.then_some(Message::ReturnCode(ReturnCode { place, code }))
}

/// Reads what follows `Using `: `network IB`, and in 2.3 `internal Network IB`.
fn using(mut cursor: Cursor<'_>) -> Message<'_> {
    let _ = cursor.eat(b"internal ") || cursor.eat(b"external ");
    if cursor.eat(b"network ") || cursor.eat(b"Network ") {
        Message::Network(cursor.0.trim_ascii())
    } else {
        Message::Other
    }
}

/// Reads what follows `Channel `: a connection, or the order of a ring.
fn channel(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
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
fn ring(mut cursor: Cursor<'_>) -> Message<'_> {
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

/// Reads a connection of 2.3 to 2.6. Over a network, 2.3 logs only the receiving end, and names no side. GPUs have numbers
/// over a network since 2.5.
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

/// Reads what follows `NET/`. The name ends at the first slash that is followed by a number on its own.
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

/// Reads what follows `Connected `.
fn connected(text: &[u8]) -> Message<'_> {
    if text.starts_with(b"all trees") || text.starts_with(b"binomial trees") {
        return Message::Trees;
    }
    let Some(numbers) = text.strip_prefix(b"all rings") else {
        // `Connected to proxy localRank 0 -> connection 0x…`, `Connected NVLS tree`.
        return Message::Other;
    };
    // RCCL goes on with ` comm 0x… nRanks 08 busId c6000`.
    if numbers.is_empty() || numbers.starts_with(b" comm 0x") {
        return Message::Rings(None);
    }
    match ring_numbers(Cursor(numbers)) {
        Some(numbers) => Message::Rings(Some(numbers)),
        None => Message::Unclear,
    }
}

/// Reads `, use ring PXN 1 GDR 1`.
fn ring_numbers(mut cursor: Cursor<'_>) -> Option<RingNumbers> {
    cursor.require(b", use ring PXN ")?;
    let pxn = cursor.number()? != 0;
    cursor.require(b" GDR ")?;
    let gpudirect = cursor.number()? != 0;
    Some(RingNumbers { pxn, gpudirect })
}

/// Reads what follows `CollNet `.
fn collnet(text: &[u8]) -> Message<'_> {
    let Some(name) = after(&COLLNET, text) else {
        return Message::Other;
    };
    Message::CollNet(Cursor(name).until(b'/'))
}

fn setting(message: &[u8]) -> Message<'_> {
    let Some(at) = SET.find(message) else {
        return Message::Other;
    };
    let name = &message[..at];
    let value = message[at + SET.needle().len()..].trim_ascii();
    Message::Setting(name, without_final_dot(value))
}

/// Removes the dot that NCCL prints after a number.
fn without_final_dot(value: &[u8]) -> &[u8] {
    let Some(text) = value.strip_suffix(b".") else {
        return value;
    };
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if decimal(digits).is_some() {
        text
    } else {
        value
    }
}

/// Reads what follows `NET/Plugin`.
fn plugin(text: &[u8]) -> Message<'_> {
    after(&LOADED, text).map_or(Message::Other, |name| Message::Plugin(name.trim_ascii()))
}

/// Reads what follows `NET/`.
fn network(text: &[u8]) -> Message<'_> {
    match after(&GPUDIRECT, text) {
        Some(rest) if rest.starts_with(b"Enabled") => Message::GpuDirect(true),
        Some(rest) if rest.starts_with(b"Disabled") => Message::GpuDirect(false),
        Some(_) => Message::Unclear,
        None => Message::Other,
    }
}

/// Reads what follows `GPU/`. Other forms, such as `GPU/… (0)` in a tree of devices, are not used.
fn paths(text: &[u8]) -> Message<'_> {
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
fn pattern(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let number = cursor.number()?;
    let types = after(&TYPE, cursor.0)?;
    let types = Cursor(types).until(b',');
    let (_, between_nodes) = split_last(types, b'/')?;
    Some(Message::Pattern(
        number,
        PathTypes::from_name(between_nodes)?,
    ))
}

/// Reads a message that begins with a number: numbers of channels, or an algorithm before 2.23.
fn counted(mut cursor: Cursor<'_>) -> Message<'_> {
    let message = cursor.0;
    if cursor.number().is_some() && cursor.eat(b" coll channels") {
        channels(message)
    } else {
        algorithm(message)
    }
}

fn channels(message: &[u8]) -> Message<'_> {
    let mut channels = Channels::default();
    for part in message.split(|c| *c == b',') {
        let mut part = Cursor(part.trim_ascii());
        let Some(number) = part.number() else {
            return Message::Unclear;
        };
        match part.0 {
            b" coll channels" => channels.collective = number,
            b" nvls channels" => channels.nvls = number,
            b" p2p channels" => channels.send_recv = number,
            b" p2p channels per peer" => channels.send_recv_per_peer = number,
            // The number of collnet channels only repeats the first one since 2.21.
            _ => {}
        }
    }
    Message::Channels(channels)
}

/// Reads `comm 0x… rank …`, `ncclCommInitRank comm 0x… rank …`, `[Rank 0] ncclCommInitRank comm …`.
fn communicator(message: &[u8]) -> Message<'_> {
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

/// Returns whether `text` is `comm 0x… rank 0 nranks 16` and nothing else, with which 2.3 starts a communicator.
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

/// Reads `AllReduce: opCount 1a … [nranks=8] …`; the number is hexadecimal.
fn operation(message: &[u8]) -> Option<Message<'_>> {
    let at = OPERATION.find(message)?;
    let number = Cursor(&message[at + OPERATION.needle().len()..]).word();
    let ranks = Cursor(after(&RANKS, message)?).number()?;
    Some(Message::Operation(Operation {
        name: &message[..at],
        number: u64::from_str_radix(str::from_utf8(number).ok()?, 16).ok()?,
        ranks,
    }))
}

/// Reads `AllReduce: 8 Bytes -> Algo RING proto LL …`, `8 Bytes -> Algo 1 proto 0 time …`,
/// `AllReduce [Symmetric]: 8 Bytes -> Kernel NAME …`, `AllGather [Copy Engine]: 8 Bytes -> cudaMemcpy…`.
fn algorithm(message: &[u8]) -> Message<'_> {
    let Some(at) = BYTES.find(message) else {
        return operation(message).unwrap_or(Message::Other);
    };
    let (function, bytes) = match memmem::rfind(&message[..at], b": ") {
        Some(colon) => (&message[..colon], &message[colon + 2..at]),
        None => (&b""[..], &message[..at]),
    };
    let Some(bytes) = decimal(bytes) else {
        return Message::Unclear;
    };
    let mut cursor = Cursor(&message[at + BYTES.needle().len()..]);
    let (algorithm, protocol) = if cursor.eat(b"Algo ") {
        let algorithm = cursor.word();
        if !cursor.eat(b" proto ") {
            return Message::Unclear;
        }
        (algorithm, cursor.word())
    } else {
        cursor.eat(b"Kernel ");
        (cursor.word(), &b""[..])
    };
    Message::Algorithm(Algorithm {
        function,
        bytes,
        algorithm,
        protocol,
        channels: channels_used(cursor),
    })
}

/// Reads the rest of a line about an algorithm, ` channel{Lo..Hi}={0..7}`: 8 channels.
fn channels_used(mut cursor: Cursor<'_>) -> Option<u64> {
    cursor.require(b" channel{Lo..Hi}={")?;
    let first = cursor.number()?;
    let last = cursor.eat(b"..").then(|| cursor.number()).flatten()?;
    Some(last.checked_sub(first)? + 1)
}
