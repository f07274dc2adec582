//! Messages on a connection: a kind, a length and a body.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | the kind |
//! | 4 | the length of the body, little-endian |
//! | as many | the body |

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use socket2::Socket;

/// The longest body before the other side has proved that it belongs to the job.
pub(in crate::world) const STRANGERS_LIMIT: u32 = 4 << 10;

/// The longest body among the ranks of a job.
pub(in crate::world) const RANKS_LIMIT: u32 = 1 << 30;

/// The largest step in which room for a body is made: a length alone takes no memory.
const STEP: usize = 1 << 20;

/// The bytes before the body.
const HEADER: usize = 5;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::world) enum FrameKind {
    /// The first message on a connection, from the side that listens.
    Greeting = b'G',
    /// The answer to it, with the identity of the other side.
    Hello = b'H',
    /// The answer to that.
    Welcome = b'W',
    /// The other answer: the proof is wrong.
    Refusal = b'R',
    /// The place of a rank in the tree.
    Position = b'P',
    /// A part of an exchange.
    Data = b'D',
    /// The job ends.
    Abort = b'A',
    /// This side sends nothing more, as it should.
    Bye = b'B',
}

impl FrameKind {
    const ALL: [FrameKind; 8] = [
        FrameKind::Greeting,
        FrameKind::Hello,
        FrameKind::Welcome,
        FrameKind::Refusal,
        FrameKind::Position,
        FrameKind::Data,
        FrameKind::Abort,
        FrameKind::Bye,
    ];

    fn from_byte(byte: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) struct Frame {
    pub(in crate::world) kind: FrameKind,
    pub(in crate::world) body: Vec<u8>,
}

impl Frame {
    /// Returns a message with `value` as JSON.
    ///
    /// # Errors
    /// Returns an error if `value` cannot be converted, which would be a bug.
    pub(in crate::world) fn json<T: Serialize>(kind: FrameKind, value: &T) -> io::Result<Frame> {
        let body = serde_json::to_vec(value)?;
        Ok(Frame { kind, body })
    }

    /// Returns the value in a message of `kind`.
    ///
    /// # Errors
    /// Returns an error if the message is another one.
    pub(in crate::world) fn parse<T: DeserializeOwned>(&self, kind: FrameKind) -> io::Result<T> {
        if self.kind != kind {
            return Err(foreign());
        }
        serde_json::from_slice(&self.body).map_err(|_| foreign())
    }

    /// Writes the message.
    ///
    /// # Errors
    /// Returns an error if the body is too long or the connection is broken.
    pub(in crate::world) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        if length > RANKS_LIMIT {
            return Err(io::Error::other("the message is longer than 1 GiB"));
        }
        let mut bytes = Vec::with_capacity(HEADER + self.body.len());
        bytes.push(self.kind as u8);
        bytes.extend(length.to_le_bytes());
        bytes.extend(&self.body);
        to.write_all(&bytes)
    }

    /// Reads a message whose body is at most `limit` bytes long; `None` if the connection ended
    /// before it.
    ///
    /// # Errors
    /// Returns an error if the connection breaks within it, or if it is no message of this program.
    pub(in crate::world) fn read(mut from: impl Read, limit: u32) -> io::Result<Option<Frame>> {
        let mut header = [0; HEADER];
        if from.read(&mut header[..1])? == 0 {
            return Ok(None);
        }
        // Whoever sends something else may send no more of it.
        let kind = FrameKind::from_byte(header[0]).ok_or_else(foreign)?;
        from.read_exact(&mut header[1..])?;
        let [_, length @ ..] = header;
        let length = u32::from_le_bytes(length);
        if length > limit {
            return Err(foreign());
        }
        let mut body = Vec::new();
        let mut rest = length as usize;
        while rest > 0 {
            let have = body.len();
            let step = rest.min(STEP);
            body.resize(have + step, 0);
            from.read_exact(&mut body[have..])?;
            rest -= step;
        }
        Ok(Some(Frame { kind, body }))
    }

    /// Takes the first message out of `bytes`, whose body is at most `limit` bytes long; `None` if
    /// it is not there as a whole.
    ///
    /// # Errors
    /// Returns an error if it is no message of this program.
    pub(in crate::world) fn take(bytes: &mut Vec<u8>, limit: u32) -> io::Result<Option<Frame>> {
        let Some([_, length @ ..]) = bytes.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length);
        if length > limit {
            return Err(foreign());
        }
        let whole = HEADER + length as usize;
        if bytes.len() < whole {
            return Ok(None);
        }
        let frame = Frame::read(&bytes[..whole], limit);
        bytes.drain(..whole);
        frame
    }
}

/// Returns the error of what is no message of this program.
pub(in crate::world) fn foreign() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what answers there is not pxnbench",
    )
}

/// The reading side of a connection, up to a moment.
pub(in crate::world) struct Until<'a> {
    pub(in crate::world) stream: &'a Socket,
    pub(in crate::world) until: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A limit of zero would be none.
        let rest = rest.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(rest))?;
        let mut stream = self.stream;
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::ErrorKind::TimedOut.into())
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(mut bytes: &[u8], limit: u32) -> Vec<io::Result<Option<Frame>>> {
        let mut all = Vec::new();
        loop {
            let frame = Frame::read(&mut bytes, limit);
            let is_last = !matches!(frame, Ok(Some(_)));
            all.push(frame);
            if is_last {
                return all;
            }
        }
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        let kind = prop::sample::select(FrameKind::ALL.to_vec());
        let body = prop::collection::vec(any::<u8>(), 0..300);
        (kind, body).prop_map(|(kind, body)| Frame { kind, body })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in prop::collection::vec(any_frame(), 0..8)) {
            let mut bytes = Vec::new();
            for frame in &frames {
                frame.write(&mut bytes).expect("written");
            }
            let mut read = read_all(&bytes, STRANGERS_LIMIT);
            prop_assert!(matches!(read.pop(), Some(Ok(None))));
            let read: Vec<Frame> = read.into_iter().flatten().flatten().collect();
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn what_arrives_in_pieces_is_taken_out_in_order(frames in prop::collection::vec(any_frame(), 0..8), piece in 1_usize..99) {
            let mut bytes = Vec::new();
            for frame in &frames {
                frame.write(&mut bytes).expect("written");
            }
            let (mut arrived, mut taken) = (Vec::new(), Vec::new());
            for piece in bytes.chunks(piece) {
                arrived.extend(piece);
                while let Some(frame) = Frame::take(&mut arrived, STRANGERS_LIMIT).expect("a message") {
                    taken.push(frame);
                }
            }
            prop_assert_eq!(taken, frames);
            prop_assert!(arrived.is_empty());
        }

        #[test]
        fn anything_else_is_an_error_or_the_end(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            for frame in read_all(&bytes, 64).into_iter().flatten().flatten() {
                prop_assert!(frame.body.len() <= 64);
            }
        }

        #[test]
        fn a_message_that_breaks_off_is_an_error(frame in any_frame(), cut in 1_usize..300) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).expect("written");
            let cut = cut.min(bytes.len() - 1);
            prop_assume!(cut > 0);
            prop_assert!(Frame::read(&bytes[..cut], STRANGERS_LIMIT).is_err());
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_read() {
        let mut bytes = vec![FrameKind::Hello as u8];
        bytes.extend((STRANGERS_LIMIT + 1).to_le_bytes());
        assert!(Frame::read(&bytes[..], STRANGERS_LIMIT).is_err());
        assert!(Frame::take(&mut bytes, STRANGERS_LIMIT).is_err());
    }
}
