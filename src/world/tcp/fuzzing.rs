//! What the fuzzer does with bytes that come through a connection.

use std::{io::Write, net::Shutdown, os::unix::net::UnixStream, time::Duration};

use socket2::Socket;

use super::{
    failure::EndNotice,
    frame::{Frame, FrameKind, RANKS_LIMIT, STRANGERS_LIMIT},
    handshake::{self, Introduction, Purpose},
    identity::Identity,
    parts,
    position::Position,
    secret::Secret,
};

/// Far more than bytes that are there already take.
const LIMIT: Duration = Duration::from_secs(5);

/// Reads messages, whatever they are, and meets somebody who sends them.
pub(crate) fn read(bytes: &[u8]) {
    messages(bytes);
    meet(bytes, |stream, own| {
        let _ = handshake::receive(&stream, own, LIMIT, || true);
    });
    meet(bytes, |stream, own| {
        let _ = handshake::introduce(&stream, own, LIMIT);
    });
}

fn messages(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(frame)) = Frame::read(&mut rest, STRANGERS_LIMIT) {
        assert!(frame.body.len() <= STRANGERS_LIMIT as usize);
        let mut written = Vec::new();
        frame.write(&mut written).expect("written");
        let again = Frame::read(&written[..], RANKS_LIMIT).expect("read");
        assert_eq!(again.as_ref(), Some(&frame));
        let _ = frame.parse::<Position>(FrameKind::Position);
        let _ = frame.parse::<EndNotice>(FrameKind::Abort);
        if let Ok(parts) = parts::decode(&frame.body) {
            assert_eq!(parts::encode(&parts), frame.body);
        }
    }
    // A length alone takes no memory.
    let _ = Frame::read(bytes, RANKS_LIMIT);
}

/// Hands a connection to `side` on which all of `bytes` have come, and nothing more will.
fn meet(bytes: &[u8], side: impl FnOnce(Socket, Introduction)) {
    const SOCKET_HOLDS: usize = 64 << 10;
    let (mut other, stream) = UnixStream::pair().expect("sockets");
    other
        .write_all(&bytes[..bytes.len().min(SOCKET_HOLDS)])
        .expect("sent");
    other.shutdown(Shutdown::Write).expect("ended");
    let own = Introduction {
        purpose: Purpose::Join,
        secret: &Secret::from_env(&|_| None),
        identity: &Identity::example(0),
    };
    side(Socket::from(stream), own);
}
