//! The sending end of a connection.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use crate::{
    communicators::Communicator,
    counters::{Flow, Waiting},
    failure::{Code, Failure, Result},
    ffi::{BLOCK_BYTES, BLOCKS, Buffer, Staging},
    rail::{Rail, Verdict},
    requests::{Operations, Requests},
    shared::Shared,
    socket::{Connection, Frame, FrameRead},
    wire::{Grant, Header, Peer},
};

/// A receive of the peer, and which of its places are taken.
struct OpenGrant {
    grant: Grant,
    taken: [bool; crate::wire::MOST_RECEIVES],
}

impl OpenGrant {
    fn is_full(&self) -> bool {
        self.taken[..self.grant.count].iter().all(|taken| *taken)
    }
}

/// A message that NCCL passed.
struct Message {
    request: u32,
    buffer: Buffer,
    tag: i32,
    header: Header,
    queued_at: Instant,
    /// Bytes that are in blocks or were written.
    loaded: usize,
    /// Whether it is never sent.
    is_stalled: bool,
}

/// A part of a message in host memory.
struct Block {
    slot: usize,
    bytes: usize,
    is_first: bool,
    is_last: bool,
    /// When it may leave; `None` until its rail is booked.
    due: Option<Instant>,
    /// What was written of it, the header included if it is the first.
    written: usize,
}

/// The sending end of a connection.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    communicator: Arc<Communicator>,
    rail: u32,
    peer: Peer,
    connection: Connection,
    staging: Staging,
    incoming: Frame<{ Grant::BYTES }>,
    grants: VecDeque<OpenGrant>,
    /// Messages that were not written completely; blocks belong to the first ones.
    messages: VecDeque<Message>,
    /// The message that is loaded next.
    next: usize,
    blocks: VecDeque<Block>,
    /// Blocks so far, which are taken in turn.
    loads: usize,
    requests: Requests,
    is_peer_gone: bool,
    failure: Option<Failure>,
}

impl Sender {
    pub(crate) fn new(
        shared: Arc<Shared>,
        communicator: Arc<Communicator>,
        rail: u32,
        peer: Peer,
        connection: Connection,
    ) -> Sender {
        Sender {
            shared,
            communicator,
            rail,
            peer,
            connection,
            staging: Staging::new(),
            incoming: Frame::new(),
            grants: VecDeque::new(),
            messages: VecDeque::new(),
            next: 0,
            blocks: VecDeque::new(),
            loads: 0,
            requests: Requests::default(),
            is_peer_gone: false,
            failure: None,
        }
    }

    pub(crate) fn staging(&mut self) -> &mut Staging {
        &mut self.staging
    }

    /// Returns the messages that NCCL passed and that were not written completely; `None` if there
    /// is none.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let oldest = self
            .messages
            .iter()
            .map(|message| message.queued_at)
            .min()?;
        let bytes = self
            .messages
            .iter()
            .map(|message| message.buffer.bytes() as u64);
        Some(Waiting {
            rail: self.rail,
            messages: self.messages.len() as u64,
            bytes: bytes.sum(),
            oldest: oldest.elapsed(),
        })
    }

    fn rail(&self) -> &Rail {
        &self.shared.rails[self.rail as usize]
    }

    /// Starts to send a buffer; `None` if the peer has not posted a receive for it, and NCCL has to
    /// try again.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or an error is played.
    pub(crate) fn start(&mut self, buffer: Buffer, tag: i32) -> Result<Option<u32>> {
        self.advance()?;
        let Some((receive, place)) = self.take_place(buffer.bytes(), tag)? else {
            return match self.is_peer_gone {
                true => Err(self.fail("has no receive for it left")),
                false => Ok(None),
            };
        };
        let is_stalled = self.judge()?;
        let request = self.requests.begin();
        self.messages.push_back(Message {
            request,
            tag,
            header: Header {
                receive,
                place,
                bytes: buffer.bytes() as u64,
                is_relayed: self.communicator.relays(tag),
            },
            buffer,
            queued_at: Instant::now(),
            loaded: 0,
            is_stalled,
        });
        self.advance()?;
        Ok(Some(request))
    }

    /// Takes the first place with that tag.
    fn take_place(&mut self, bytes: usize, tag: i32) -> Result<Option<(u64, usize)>> {
        for open in &mut self.grants {
            let places = &open.grant.places[..open.grant.count];
            let mut free = (0..).zip(places).filter(|(place, _)| !open.taken[*place]);
            let Some((place, found)) = free.find(|(_, place)| place.tag == tag) else {
                continue;
            };
            if bytes as u64 > found.capacity {
                return Err(Failure::internal(format!(
                    "rail{} is to send {bytes} bytes into a receive of {}.",
                    self.rail, found.capacity
                )));
            }
            open.taken[place] = true;
            let receive = open.grant.receive;
            while self.grants.front().is_some_and(OpenGrant::is_full) {
                self.grants.pop_front();
            }
            return Ok(Some((receive, place)));
        }
        Ok(None)
    }

    /// Counts a message, plays the fault of the rail, and returns whether the message is never
    /// sent.
    fn judge(&self) -> Result<bool> {
        let after = self.rail().settings().fault.map_or(0, |fault| fault.after);
        match self.rail().next_message() {
            Verdict::Goes => Ok(false),
            Verdict::Stalls { is_first } => {
                if is_first {
                    (self.shared.on_stall)(&format!(
                        "rail{} of rank {} stalls after {after} messages, as PXNBENCH_RAIL_FAULT \
                         says.",
                        self.rail,
                        self.shared.own_name()
                    ));
                }
                Ok(true)
            }
            Verdict::Fails => Err(Failure::new(
                Code::System,
                format!(
                    "rail{} of rank {} fails after {after} messages, as PXNBENCH_RAIL_FAULT says.",
                    self.rail,
                    self.shared.own_name()
                ),
            )),
        }
    }

    fn take_grants(&mut self) {
        while !self.is_peer_gone {
            match self.incoming.read(&self.connection) {
                FrameRead::Whole(bytes) => self.grants.push_back(OpenGrant {
                    grant: Grant::from_bytes(&bytes),
                    taken: Default::default(),
                }),
                FrameRead::Nothing => return,
                FrameRead::End => self.is_peer_gone = true,
            }
        }
    }

    /// Copies messages to host memory, as far as there are blocks.
    fn load(&mut self) -> Result<()> {
        while self.blocks.len() < BLOCKS {
            let Some(message) = self.messages.get_mut(self.next) else {
                return Ok(());
            };
            if message.is_stalled {
                return Ok(());
            }
            let whole = message.buffer.bytes();
            let bytes = BLOCK_BYTES.min(whole - message.loaded);
            let slot = self.loads % BLOCKS;
            self.staging
                .load(slot, &message.buffer, message.loaded, bytes)?;
            let is_first = message.loaded == 0;
            message.loaded += bytes;
            let is_last = message.loaded == whole;
            self.blocks.push_back(Block {
                slot,
                bytes,
                is_first,
                is_last,
                due: None,
                written: 0,
            });
            self.loads += 1;
            self.next += usize::from(is_last);
        }
        Ok(())
    }

    /// Writes blocks that are in host memory and due, as far as the socket has room.
    fn write(&mut self) -> Result<()> {
        loop {
            let now = Instant::now();
            let Some(block) = self.blocks.front_mut() else {
                return Ok(());
            };
            if !self.staging.is_ready(block.slot)? {
                return Ok(());
            }
            let message = &self.messages[0];
            let rail = &self.shared.rails[self.rail as usize];
            let queued_at = block.is_first.then_some(message.queued_at);
            let due = *block
                .due
                .get_or_insert_with(|| rail.book(block.bytes, queued_at, now));
            if now < due {
                return Ok(());
            }
            let header = message.header.to_bytes();
            let header = if block.is_first { &header[..] } else { &[] };
            let payload = self.staging.block(block.slot, block.bytes);
            while block.written < header.len() + payload.len() {
                let rest = match block.written.checked_sub(header.len()) {
                    None => &header[block.written..],
                    Some(written) => &payload[written..],
                };
                match self.connection.write(rest) {
                    Some(0) => return Ok(()),
                    Some(count) => block.written += count,
                    None => return Err(self.fail("has not taken all of a message")),
                }
            }
            let is_last = block.is_last;
            self.blocks.pop_front();
            if is_last {
                self.complete();
            }
        }
    }

    /// Notes that the first message was handed over.
    fn complete(&mut self) {
        let Some(message) = self.messages.pop_front() else {
            return;
        };
        self.next -= 1;
        let bytes = message.header.bytes;
        let flow = Flow {
            rail: self.rail,
            peer: self.peer,
            communicator: self.communicator.id,
            origin: message.tag,
            is_relayed: message.header.is_relayed,
        };
        self.shared.counters.count_sent(flow, bytes);
        self.requests.complete(message.request, vec![bytes]);
    }

    /// Notes that the peer is gone, and returns the error that each later call gets too.
    fn fail(&mut self, what: &str) -> Failure {
        let failure = Failure::new(
            Code::Remote,
            format!(
                "rail{}: {} is gone and {what}. Look for the first error in the output of that \
                 rank.",
                self.rail,
                self.peer.name()
            ),
        );
        self.failure = Some(failure.clone());
        failure
    }
}

impl Operations for Sender {
    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Does what can be done without waiting. After an error each later call gets it, too.
    fn advance(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.take_grants();
        let moved = self.load().and_then(|()| self.write());
        self.failure = moved.as_ref().err().cloned();
        moved
    }
}
