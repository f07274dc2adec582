//! [`Receiver`]: the receiving end of a connection.

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

/// A buffer of a receive, for one message.
struct ReceiveBuffer {
    buffer: Buffer,
    tag: i32,
    /// The header of its message, once it has arrived.
    header: Option<Header>,
    /// The bytes of the message that are in the buffer.
    stored: usize,
    is_complete: bool,
}

/// A receive that NCCL has posted and that is not complete.
struct PostedReceive {
    request: u32,
    /// Its number on this connection.
    number: u64,
    buffers: Vec<ReceiveBuffer>,
}

/// A message whose bytes are being read from the socket.
struct ArrivingMessage {
    header: Header,
    /// The bytes before the block that is being filled.
    passed: usize,
    /// The bytes in the block that is being filled.
    filled: usize,
}

/// A block of a message that is being copied to its buffer.
struct StoredBlock {
    /// The block of the staging memory.
    slot: usize,
    /// The number of the receive.
    receive: u64,
    /// The index of the buffer in the receive.
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
    /// The receives that are not complete, the oldest first.
    posted: VecDeque<PostedReceive>,
    /// The number of receives so far.
    receives: u64,
    /// Grants of which at least a part is not written to the socket.
    outgoing: Vec<u8>,
    /// The bytes of `outgoing` that are written.
    written: usize,
    /// The next header, of which a part may have been read.
    incoming: Frame<{ Header::BYTES }>,
    arriving: Option<ArrivingMessage>,
    /// The blocks that are being copied, the oldest first.
    blocks: VecDeque<StoredBlock>,
    /// The number of blocks so far. The slots are used in turn.
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

    /// Posts a receive with a buffer for a message of each tag, and returns the number of the
    /// operation.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or if the number of buffers is not possible.
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
        let empty = |(buffer, tag)| ReceiveBuffer {
            buffer,
            tag,
            header: None,
            stored: 0,
            is_complete: false,
        };
        self.posted.push_back(PostedReceive {
            request,
            number: self.receives,
            buffers: buffers.into_iter().map(empty).collect(),
        });
        self.receives += 1;
        self.advance()?;
        Ok(request)
    }

    /// Does what can be done without waiting.
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

    /// Writes grants, as far as the socket has room. Whether the peer is gone is found out by
    /// reading.
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

    /// Reads a header or a part of a message, and returns whether there may be more to read.
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

    /// Reads the header of the next message, and returns whether there may be more to read.
    fn read_header(&mut self) -> Result<bool> {
        match self.incoming.read(&self.connection) {
            FrameRead::Whole(bytes) => {
                self.begin_message(Header::from_bytes(&bytes))?;
                Ok(true)
            }
            FrameRead::Nothing => Ok(false),
            FrameRead::End => {
                self.is_peer_gone = true;
                Ok(false)
            }
        }
    }

    /// Begins a message, or completes one of 0 bytes.
    fn begin_message(&mut self, header: Header) -> Result<()> {
        let rail = self.rail;
        let buffer = self.buffer(header.receive, header.place);
        let expects = |buffer: &&mut ReceiveBuffer| {
            buffer.header.is_none() && header.bytes <= buffer.buffer.bytes() as u64
        };
        let Some(buffer) = buffer.filter(expects) else {
            return Err(Failure::internal(format!(
                "rail{rail} gets a message of {} bytes that no receive is for.",
                header.bytes
            )));
        };
        buffer.header = Some(header);
        if header.bytes == 0 {
            self.complete(header.receive, header.place);
        } else {
            self.arriving = Some(ArrivingMessage {
                header,
                passed: 0,
                filled: 0,
            });
        }
        Ok(())
    }

    /// Begins to copy a full block to its buffer.
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
        let mut posted = self.posted.iter();
        let receive = posted.find(|posted| posted.number == header.receive);
        let buffer = receive.and_then(|receive| receive.buffers.get(header.place));
        if let Some(ReceiveBuffer { buffer, .. }) = buffer {
            self.staging.store(slot, buffer, offset, bytes)?;
        }
        self.blocks.push_back(StoredBlock {
            slot,
            receive: header.receive,
            place: header.place,
            bytes,
        });
        self.stores += 1;
        Ok(())
    }

    /// Counts the bytes of blocks whose copies have ended.
    fn finish_blocks(&mut self) -> Result<()> {
        while let Some(block) = self.blocks.front() {
            if !self.staging.is_ready(block.slot)? {
                return Ok(());
            }
            let Some(block) = self.blocks.pop_front() else {
                return Ok(());
            };
            let Some(buffer) = self.buffer(block.receive, block.place) else {
                continue;
            };
            buffer.stored += block.bytes;
            if buffer.header.map(|header| header.bytes) == Some(buffer.stored as u64) {
                self.complete(block.receive, block.place);
            }
        }
        Ok(())
    }

    /// Returns the buffer at `place` of a receive that is not complete.
    fn buffer(&mut self, receive: u64, place: usize) -> Option<&mut ReceiveBuffer> {
        let mut posted = self.posted.iter_mut();
        let receive = posted.find(|posted| posted.number == receive)?;
        receive.buffers.get_mut(place)
    }

    /// Counts a message that has arrived, and completes its receive if it was the last one.
    fn complete(&mut self, receive: u64, place: usize) {
        let Some(buffer) = self.buffer(receive, place) else {
            return;
        };
        let (Some(header), tag) = (buffer.header, buffer.tag) else {
            return;
        };
        buffer.is_complete = true;
        let flow = Flow {
            rail: self.rail,
            peer: self.peer,
            communicator: self.communicator.id,
            origin: tag,
            is_relayed: header.is_relayed,
        };
        self.shared.counters.count_received(flow, header.bytes);
        let is_complete = |posted: &PostedReceive| {
            let mut buffers = posted.buffers.iter();
            posted.number == receive && buffers.all(|buffer| buffer.is_complete)
        };
        let index = self.posted.iter().position(is_complete);
        if let Some(posted) = index.and_then(|index| self.posted.remove(index)) {
            let bytes = |buffer: &ReceiveBuffer| buffer.header.map_or(0, |header| header.bytes);
            let sizes = posted.buffers.iter().map(bytes).collect();
            self.requests.complete(posted.request, sizes);
        }
    }

    /// Returns the error of a peer that is gone.
    fn peer_is_gone(&self) -> Failure {
        Failure::new(
            Code::Remote,
            format!(
                "rail{}: {} is gone while messages from it were expected. Look for the first \
                 error in the output of that rank.",
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

    /// Does what can be done without waiting. Every call after an error returns that error: what
    /// follows in the stream could not be told from the message before.
    fn advance(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let moved = self.move_on();
        self.failure = moved.as_ref().err().cloned();
        moved
    }
}
