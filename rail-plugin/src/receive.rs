//! The receiving end of a connection.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    communicators::Communicator,
    counters::Flow,
    failure::{Code, Failure, Result},
    ffi::{BLOCK_BYTES, BLOCKS, Buffer, Staging},
    requests::{Operations, Requests},
    shared::Shared,
    socket::{Connection, Frame, FrameRead, Read},
    wire::{Grant, Header, MOST_RECEIVES, Peer, Place},
};

/// Memory for one message of a receive.
struct Part {
    buffer: Buffer,
    tag: i32,
    /// What its message begins with, once that is known.
    header: Option<Header>,
    /// Bytes that are in the buffer.
    stored: usize,
    is_complete: bool,
}

/// A receive that NCCL posted.
struct Posted {
    request: u32,
    /// Its number on this connection.
    number: u64,
    parts: Vec<Part>,
}

/// A message whose bytes are read.
struct Arriving {
    header: Header,
    /// Bytes that are in full blocks or in the buffer.
    passed: usize,
    /// Bytes in the block that is not full.
    filled: usize,
}

/// A part of a message that is copied to its buffer.
struct Block {
    slot: usize,
    receive: u64,
    place: usize,
    bytes: usize,
}

/// The receiving end of a connection.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    communicator: Arc<Communicator>,
    rail: u32,
    peer: Peer,
    connection: Connection,
    staging: Staging,
    posted: VecDeque<Posted>,
    receives: u64,
    /// Grants that were not written, and how much of them was.
    outgoing: Vec<u8>,
    written: usize,
    incoming: Frame<{ Header::BYTES }>,
    arriving: Option<Arriving>,
    blocks: VecDeque<Block>,
    /// Blocks so far, which are taken in turn.
    stores: usize,
    requests: Requests,
    is_peer_gone: bool,
    failure: Option<Failure>,
}

impl Receiver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        communicator: Arc<Communicator>,
        rail: u32,
        peer: Peer,
        connection: Connection,
    ) -> Receiver {
        Receiver {
            shared,
            communicator,
            rail,
            peer,
            connection,
            staging: Staging::new(),
            posted: VecDeque::new(),
            receives: 0,
            outgoing: Vec::new(),
            written: 0,
            incoming: Frame::new(),
            arriving: None,
            blocks: VecDeque::new(),
            stores: 0,
            requests: Requests::default(),
            is_peer_gone: false,
            failure: None,
        }
    }

    pub(crate) fn staging(&mut self) -> &mut Staging {
        &mut self.staging
    }

    /// Posts a receive: memory for a message of each tag.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or there are more buffers than a receive may have.
    pub(crate) fn start(&mut self, buffers: Vec<(Buffer, i32)>) -> Result<u32> {
        if buffers.is_empty() || buffers.len() > MOST_RECEIVES {
            return Err(Failure::internal(format!(
                "NCCL posts a receive of {} messages; a rail has from 1 to {MOST_RECEIVES}.",
                buffers.len()
            )));
        }
        let mut grant = Grant {
            receive: self.receives,
            count: buffers.len(),
            places: [Place::default(); MOST_RECEIVES],
        };
        for (place, (buffer, tag)) in grant.places.iter_mut().zip(&buffers) {
            *place = Place {
                tag: *tag,
                capacity: buffer.bytes() as u64,
            };
        }
        self.outgoing.extend(grant.to_bytes());
        let request = self.requests.begin();
        let part = |(buffer, tag)| Part {
            buffer,
            tag,
            header: None,
            stored: 0,
            is_complete: false,
        };
        self.posted.push_back(Posted {
            request,
            number: self.receives,
            parts: buffers.into_iter().map(part).collect(),
        });
        self.receives += 1;
        self.advance()?;
        Ok(request)
    }

    fn move_on(&mut self) -> Result<()> {
        self.write_grants();
        loop {
            self.finish_blocks()?;
            if !self.read_on()? {
                break;
            }
        }
        if self.is_peer_gone && self.blocks.is_empty() && !self.posted.is_empty() {
            return Err(self.peer_is_gone());
        }
        Ok(())
    }

    /// Writes grants, as far as the socket has room. If the peer is gone, reading tells.
    fn write_grants(&mut self) {
        while self.written < self.outgoing.len() {
            match self.connection.write(&self.outgoing[self.written..]) {
                Some(0) | None => return,
                Some(count) => self.written += count,
            }
        }
        self.outgoing.clear();
        self.written = 0;
    }

    /// Reads a header, or a part of a message, and returns whether there may be more.
    fn read_on(&mut self) -> Result<bool> {
        let Some(arriving) = &mut self.arriving else {
            return self.read_header();
        };
        if self.blocks.len() == BLOCKS {
            return Ok(false);
        }
        let slot = self.stores % BLOCKS;
        let rest = arriving.header.bytes as usize - arriving.passed;
        let bytes = BLOCK_BYTES.min(rest);
        let block = self.staging.block_mut(slot, bytes);
        match self.connection.read(&mut block[arriving.filled..]) {
            Read::Bytes(count) => arriving.filled += count,
            Read::Nothing => return Ok(false),
            Read::End => {
                self.is_peer_gone = true;
                return Ok(false);
            }
        }
        if arriving.filled == bytes {
            self.store(slot, bytes)?;
        }
        Ok(true)
    }

    fn read_header(&mut self) -> Result<bool> {
        match self.incoming.read(&self.connection) {
            FrameRead::Whole(bytes) => {
                let header = Header::from_bytes(&bytes);
                let rail = self.rail;
                let part = self.part(header.receive, header.place);
                let expects = |part: &&mut Part| {
                    part.header.is_none() && header.bytes <= part.buffer.bytes() as u64
                };
                let Some(part) = part.filter(expects) else {
                    return Err(Failure::internal(format!(
                        "rail{rail} gets a message of {} bytes that no receive is for.",
                        header.bytes
                    )));
                };
                part.header = Some(header);
                if header.bytes == 0 {
                    self.complete(header.receive, header.place);
                } else {
                    self.arriving = Some(Arriving {
                        header,
                        passed: 0,
                        filled: 0,
                    });
                }
                Ok(true)
            }
            FrameRead::Nothing => Ok(false),
            FrameRead::End => {
                self.is_peer_gone = true;
                Ok(false)
            }
        }
    }

    /// Copies a full block to its buffer.
    fn store(&mut self, slot: usize, bytes: usize) -> Result<()> {
        let Some(arriving) = &mut self.arriving else {
            return Ok(());
        };
        let (header, offset) = (arriving.header, arriving.passed);
        arriving.passed += bytes;
        arriving.filled = 0;
        if arriving.passed as u64 == header.bytes {
            self.arriving = None;
        }
        let mut posted = self.posted.iter_mut();
        let receive = posted.find(|posted| posted.number == header.receive);
        let part = receive.and_then(|receive| receive.parts.get_mut(header.place));
        if let Some(part) = part {
            self.staging.store(slot, &part.buffer, offset, bytes)?;
        }
        self.blocks.push_back(Block {
            slot,
            receive: header.receive,
            place: header.place,
            bytes,
        });
        self.stores += 1;
        Ok(())
    }

    /// Notes which blocks have reached their buffers.
    fn finish_blocks(&mut self) -> Result<()> {
        while let Some(block) = self.blocks.front() {
            if !self.staging.is_ready(block.slot)? {
                return Ok(());
            }
            let Some(block) = self.blocks.pop_front() else {
                return Ok(());
            };
            let Some(part) = self.part(block.receive, block.place) else {
                continue;
            };
            part.stored += block.bytes;
            if part.header.map(|header| header.bytes) == Some(part.stored as u64) {
                self.complete(block.receive, block.place);
            }
        }
        Ok(())
    }

    fn part(&mut self, receive: u64, place: usize) -> Option<&mut Part> {
        let posted = self.posted.iter_mut();
        let mut of_number = posted.filter(|posted| posted.number == receive);
        of_number.next()?.parts.get_mut(place)
    }

    /// Notes that a message has arrived, and its receive is complete if it was the last one.
    fn complete(&mut self, receive: u64, place: usize) {
        let Some(part) = self.part(receive, place) else {
            return;
        };
        let (Some(header), tag) = (part.header, part.tag) else {
            return;
        };
        part.is_complete = true;
        let flow = Flow {
            rail: self.rail,
            peer: self.peer,
            communicator: self.communicator.id,
            origin: tag,
            is_relayed: header.is_relayed,
        };
        self.shared.counters.count_received(flow, header.bytes);
        let is_done = |posted: &Posted| posted.parts.iter().all(|part| part.is_complete);
        let found = self
            .posted
            .iter()
            .position(|posted| posted.number == receive && is_done(posted));
        if let Some(posted) = found.and_then(|at| self.posted.remove(at)) {
            let bytes = |part: &Part| part.header.map_or(0, |header| header.bytes);
            let sizes = posted.parts.iter().map(bytes).collect();
            self.requests.complete(posted.request, sizes);
        }
    }

    /// Returns the error of a peer that is gone.
    fn peer_is_gone(&self) -> Failure {
        Failure::new(
            Code::Remote,
            format!(
                "rail{}: {} is gone while messages from it were expected. Look for the first error in the output of that rank.",
                self.rail,
                self.peer.name()
            ),
        )
    }
}

impl Operations for Receiver {
    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Does what can be done without waiting. After an error each later call gets it, too: what follows in the stream would be
    /// taken for something else.
    fn advance(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let moved = self.move_on();
        self.failure = moved.as_ref().err().cloned();
        moved
    }
}
