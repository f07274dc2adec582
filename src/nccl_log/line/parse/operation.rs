//! The lines about operations, and what NCCL chose for them: algorithm, protocol, and channels.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use crate::nccl_log::line::{
    message::{Algorithm, Channels, Message, Operation},
    text::{Cursor, Needle, after, decimal},
};

static OPERATION: Needle = LazyLock::new(|| Finder::new(": opCount "));
static RANKS: Needle = LazyLock::new(|| Finder::new(" [nranks="));
static BYTES: Needle = LazyLock::new(|| Finder::new(" Bytes -> "));

/// Reads a message that begins with a number: numbers of channels, or an algorithm before 2.23.
pub(super) fn counted(mut cursor: Cursor<'_>) -> Message<'_> {
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
/// `AllReduce [Symmetric]: 8 Bytes -> Kernel NAME …`,
/// `AllGather [Copy Engine]: 8 Bytes -> cudaMemcpy…`.
pub(super) fn algorithm(message: &[u8]) -> Message<'_> {
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
