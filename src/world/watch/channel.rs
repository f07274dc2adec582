//! A connection of the watch: it never waits, and a beat that the other side does not take is left
//! out.

use std::io::{self, Read, Write};

use serde::Serialize;
use socket2::Socket;

use crate::world::{
    end_of_job::EndOfJob,
    tcp::frame::{Frame, FrameKind},
};

/// The longest message: a beat is a tenth of it.
const LIMIT: u32 = 16 << 10;

/// The most bytes that are read in one turn.
const MOST_AT_ONCE: usize = 256 << 10;

/// A connection to a neighbour.
pub(super) struct Channel {
    socket: Socket,
    arrived: Vec<u8>,
    /// What the system did not take yet.
    unsent: Vec<u8>,
    is_broken: bool,
}

/// What a neighbour said since the last look.
#[derive(Debug, Default)]
pub(super) struct NeighbourNews {
    /// The body of its last beat.
    pub(super) beat: Option<Vec<u8>>,
    /// Whether it leaves, as it should.
    pub(super) leaves: bool,
    /// What ended the job, if it says that the job ends.
    pub(super) end: Option<EndOfJob>,
}

impl Channel {
    /// Returns the channel over `socket`.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(super) fn new(socket: Socket) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        Ok(Channel {
            socket,
            arrived: Vec::new(),
            unsent: Vec::new(),
            is_broken: false,
        })
    }

    /// Sends a beat, unless an earlier one is still on its way into the system.
    pub(super) fn beat(&mut self, beat: &impl Serialize) {
        self.flush();
        if let Ok(frame) = Frame::json(FrameKind::Data, beat)
            && self.unsent.is_empty()
        {
            self.send(&frame);
        }
    }

    /// Says that this process leaves, as it should.
    pub(super) fn leave(&mut self) {
        self.send(&Frame {
            kind: FrameKind::Bye,
            body: Vec::new(),
        });
    }

    /// Says that this process ends the job.
    pub(super) fn end_job(&mut self, end: &EndOfJob) {
        if let Ok(frame) = Frame::json(FrameKind::Abort, end) {
            self.send(&frame);
        }
    }

    fn send(&mut self, frame: &Frame) {
        // A vector takes all.
        let _ = frame.write(&mut self.unsent);
        self.flush();
    }

    fn flush(&mut self) {
        while !self.is_broken && !self.unsent.is_empty() {
            match (&self.socket).write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_broken = true,
            }
        }
    }

    /// Returns what the neighbour said since the last look. One that breaks the protocol is not
    /// heard any more.
    pub(super) fn listen(&mut self) -> NeighbourNews {
        self.read();
        let mut news = NeighbourNews::default();
        loop {
            match Frame::take(&mut self.arrived, LIMIT) {
                Ok(None) => return news,
                Ok(Some(frame)) if frame.kind == FrameKind::Data => news.beat = Some(frame.body),
                Ok(Some(frame)) if frame.kind == FrameKind::Bye => news.leaves = true,
                Ok(Some(frame)) if frame.kind == FrameKind::Abort => {
                    news.end = frame.parse(FrameKind::Abort).ok();
                }
                Ok(Some(_)) | Err(_) => {
                    self.is_broken = true;
                    self.arrived.clear();
                    return news;
                }
            }
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let mut read = 0;
        while !self.is_broken && read < MOST_AT_ONCE {
            match (&self.socket).read(&mut buffer) {
                Ok(0) => self.is_broken = true,
                Ok(count) => {
                    self.arrived.extend(&buffer[..count]);
                    read += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_broken = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Code;
    use proptest::prelude::*;
    use socket2::{Domain, Type};

    fn pair() -> (Channel, Socket) {
        let (own, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        (Channel::new(own).expect("a channel"), other)
    }

    fn both() -> (Channel, Channel) {
        let (own, other) = pair();
        (own, Channel::new(other).expect("a channel"))
    }

    #[test]
    fn the_last_beat_is_what_counts() {
        let (mut own, mut other) = both();
        assert!(own.listen().beat.is_none());
        for number in 0..3 {
            other.beat(&number);
        }
        let news = own.listen();
        assert_eq!(news.beat.as_deref(), Some(&b"2"[..]));
        assert!(!news.leaves);
        let end = EndOfJob {
            code: Code::TimedOut,
            sentence: "rank 1 on node1: rank 0 is silent".into(),
        };
        other.end_job(&end);
        assert_eq!(own.listen().end, Some(end));
        other.leave();
        drop(other);
        assert!(own.listen().leaves);
    }

    #[test]
    fn a_neighbour_that_takes_nothing_holds_up_nothing() {
        let (mut own, mut other) = both();
        let beat = "x".repeat(1000);
        for _ in 0..10_000 {
            own.beat(&beat);
        }
        // One beat at most waits to be sent; what arrived before is whole.
        assert!(own.unsent.len() < 1100, "{}", own.unsent.len());
        for _ in 0..100 {
            other.listen();
            own.beat(&beat);
        }
        assert_eq!(other.listen().beat.map(|beat| beat.len()), Some(1002));
    }

    #[test]
    fn a_neighbour_that_is_gone_is_no_error() {
        let (mut own, other) = both();
        drop(other);
        own.beat(&1);
        assert!(own.listen().beat.is_none());
        own.beat(&2);
        own.leave();
    }

    proptest! {
        #[test]
        fn noise_is_no_beat_and_takes_no_memory(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let (mut own, other) = pair();
            (&other).write_all(&bytes).expect("written");
            own.listen();
            prop_assert!(own.arrived.len() <= bytes.len());
            (&other).write_all(&bytes).expect("written");
            own.listen();
            prop_assert!(own.arrived.len() <= LIMIT as usize);
        }
    }
}
