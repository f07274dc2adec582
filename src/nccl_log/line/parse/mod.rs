//! The forms of messages: here which form a message has, and the short ones.

mod communicator;
mod connection;
mod operation;
mod paths;

use std::sync::LazyLock;

use memchr::memmem::Finder;

use self::{
    communicator::communicator,
    connection::{channel, ring},
    operation::{algorithm, counted},
    paths::{paths, pattern},
};
use super::{
    header::LogLevel,
    message::{Message, ReturnCode, RingNumbers},
    text::{Cursor, Needle, after, decimal, split_last},
    version::find_version,
};

static ARROW: Needle = LazyLock::new(|| Finder::new(" -> "));
static SET: Needle = LazyLock::new(|| Finder::new(" set by environment to "));
static GPUDIRECT: Needle = LazyLock::new(|| Finder::new(" : GPU Direct RDMA "));
static LOADED: Needle = LazyLock::new(|| Finder::new("Loaded net plugin "));
static COLLNET: Needle = LazyLock::new(|| Finder::new(" via COLLNET/"));

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
