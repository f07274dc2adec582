//! The exchanges of a [`World`] over a tree of connections.
//!
//! What all ranks contribute goes up the tree to rank 0, and the result comes down: at most one message per connection and
//! direction. Sums are added in the same order every time, and every rank receives the same bytes.

use std::{cell::Cell, io, sync::Arc, time::Duration};

use super::{
    failure,
    frame::{Frame, Kind},
    link::Link,
    parts::{self, Part},
    seat::Neighbours,
    variables::Contract,
};
use crate::{
    exit::Code,
    world::{World, abort, deadline},
};

/// The name of this library in files and reports.
const NAME: &str = "TCP";

/// The bytes before the content of a message: its number.
const HEADER: usize = 4;

/// The time after which a wait is named in the message of its deadline.
const NAMED_AFTER: Duration = Duration::from_secs(1);

/// The interval at which rank 0 listens to ranks that have no place yet.
const TICK: Duration = Duration::from_millis(50);

/// The ranks of a job that met over TCP.
pub(super) struct Tcp {
    rank: u32,
    size: u32,
    neighbours: Neighbours,
    /// The number of the current exchange. Neighbours compare it.
    exchange: Cell<u32>,
}

impl Tcp {
    /// Returns the ranks around this one, and starts listening to them.
    pub(super) fn new(contract: &Contract, neighbours: Neighbours) -> Tcp {
        let world = Tcp {
            rank: contract.rank,
            size: contract.size,
            neighbours,
            exchange: Cell::new(0),
        };
        for link in world.links() {
            if let Err(error) = link.listen(failure::learn) {
                let what = format!("a thread for {} cannot be started: {error}", link.name());
                abort::job(Code::Internal, &what);
            }
        }
        world
    }

    fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.neighbours.above.iter().chain(&self.neighbours.below)
    }

    /// Waits until every rank has its place. Meanwhile rank 0 listens to those of `waiting`, which may not find theirs; the
    /// connections to them end here.
    pub(super) fn confirm(&self, waiting: &[Arc<Link>]) {
        self.exchange.set(self.exchange.get() + 1);
        let mut missing: Vec<&Arc<Link>> = self.neighbours.below.iter().collect();
        while let Some(link) = missing.last() {
            match link.receive_within(TICK) {
                Ok(Some(message)) => {
                    self.content(link, message);
                    missing.pop();
                }
                Ok(None) => waiting.iter().for_each(listen_to),
                Err(_) => self.end_at(link, io::ErrorKind::UnexpectedEof.into()),
            }
        }
        if self.neighbours.above.is_some() {
            self.send_up(&[]);
            self.receive_down();
        }
        self.send_down(&[]);
        for link in waiting {
            failure::remove(link);
        }
    }

    fn begin(&self) {
        self.exchange.set(self.exchange.get().wrapping_add(1));
    }

    fn send(&self, link: &Link, content: &[u8]) {
        let mut body = Vec::with_capacity(HEADER + content.len());
        body.extend(self.exchange.get().to_le_bytes());
        body.extend(content);
        let kind = Kind::Data;
        if let Err(error) = link.send(&Frame { kind, body }) {
            self.end_at(link, error);
        }
    }

    fn receive(&self, link: &Link) -> Vec<u8> {
        let mut named = None;
        loop {
            match link.receive_within(NAMED_AFTER) {
                Ok(Some(message)) => return self.content(link, message),
                // The wait has a deadline, which ends the job.
                Ok(None) => {
                    named.get_or_insert_with(|| deadline::waiting_for(link.name()));
                }
                Err(_) => self.end_at(link, io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Returns what a message carries, which must be of the current exchange.
    fn content(&self, link: &Link, mut message: Vec<u8>) -> Vec<u8> {
        let number = message.first_chunk().copied().map(u32::from_le_bytes);
        if number != Some(self.exchange.get()) {
            let what = format!(
                "{} is at exchange {}, and this rank at {}. This is a bug of pxnbench: please report it",
                link.name(),
                number.unwrap_or_default(),
                self.exchange.get()
            );
            abort::job(Code::Internal, &what);
        }
        message.drain(..HEADER);
        message
    }

    /// Ends the job because a connection is broken. The thread that listens to it usually does so first, and knows more.
    fn end_at(&self, link: &Link, error: io::Error) -> ! {
        failure::lost(link);
        let what = format!("the connection to {} is broken: {error}", link.name());
        abort::job(Code::Launch, &what)
    }

    fn send_up(&self, content: &[u8]) {
        if let Some(above) = &self.neighbours.above {
            self.send(above, content);
        }
    }

    /// Returns what rank 0 sent, or nothing on rank 0.
    fn receive_down(&self) -> Vec<u8> {
        match &self.neighbours.above {
            Some(above) => self.receive(above),
            None => Vec::new(),
        }
    }

    fn send_down(&self, content: &[u8]) {
        for link in &self.neighbours.below {
            self.send(link, content);
        }
    }

    /// Passes what rank 0 has on to every rank, and returns it.
    fn spread(&self, from_rank_0: Vec<u8>) -> Vec<u8> {
        let content = if self.rank == 0 {
            from_rank_0
        } else {
            self.receive_down()
        };
        self.send_down(&content);
        content
    }

    /// Combines `own` with what comes from below, in rank order of the children, sends it up, and returns what rank 0 made.
    fn reduce<const SIZE: usize>(
        &self,
        own: [u8; SIZE],
        combine: impl Fn([u8; SIZE], [u8; SIZE]) -> [u8; SIZE],
    ) -> [u8; SIZE] {
        self.begin();
        let mut total = own;
        for link in &self.neighbours.below {
            let content = self.receive(link);
            total = combine(total, self.exactly(link, &content));
        }
        self.send_up(&total);
        let content = self.spread(total.to_vec());
        match content.first_chunk() {
            Some(result) if content.len() == SIZE => *result,
            _ => self.end_by_length(content.len()),
        }
    }

    fn exactly<const SIZE: usize>(&self, link: &Link, content: &[u8]) -> [u8; SIZE] {
        match content.try_into() {
            Ok(bytes) => bytes,
            Err(_) => self.end_at(link, super::frame::foreign()),
        }
    }

    fn end_by_length(&self, length: usize) -> ! {
        let what = format!(
            "a message of {length} bytes does not fit this exchange. This is a bug of pxnbench: please report it"
        );
        abort::job(Code::Internal, &what)
    }

    fn decoded(&self, content: &[u8]) -> Vec<Part> {
        parts::decode(content).unwrap_or_else(|_| self.end_by_length(content.len()))
    }
}

/// Ends the job if a rank that has no place yet ends it or is gone.
fn listen_to(link: &Arc<Link>) {
    if let Some(news) = link.news() {
        failure::learn(link, &news);
    }
}

impl World for Tcp {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn barrier(&self) {
        self.reduce([], |_, _| []);
    }

    fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
        self.begin();
        self.spread(bytes.to_vec())
    }

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.begin();
        let mut content = parts::encode(&[(self.rank, bytes.to_vec())]);
        for link in &self.neighbours.below {
            content.extend(self.receive(link));
        }
        self.send_up(&content);
        let content = self.spread(content);
        let mut all = self.decoded(&content);
        all.sort_by_key(|(rank, _)| *rank);
        let is_whole = all.iter().map(|(rank, _)| *rank).eq(0..self.size);
        if !is_whole {
            self.end_by_length(content.len());
        }
        all.into_iter().map(|(_, part)| part).collect()
    }

    fn all_reduce_sum(&self, value: u64) -> u64 {
        let total = self.reduce(value.to_le_bytes(), |one, other| {
            let sum = u64::from_le_bytes(one).wrapping_add(u64::from_le_bytes(other));
            sum.to_le_bytes()
        });
        u64::from_le_bytes(total)
    }

    fn mean(&self, value: f64) -> f64 {
        let total = self.reduce(value.to_le_bytes(), |one, other| {
            (f64::from_le_bytes(one) + f64::from_le_bytes(other)).to_le_bytes()
        });
        f64::from_le_bytes(total) / f64::from(self.size)
    }

    fn library(&self) -> String {
        NAME.into()
    }

    fn finish(self: Box<Self>) {
        self.barrier();
        failure::leave();
    }
}
