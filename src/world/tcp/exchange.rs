//! The exchanges of a [`World`] over a tree of connections.
//!
//! What all ranks contribute goes up the tree to rank 0, and the result comes down: at most one
//! message per connection and direction. Sums are added in the same order every time, and every
//! rank receives the same bytes.

use std::{cell::Cell, io, sync::Arc, time::Duration};

use super::{
    failure,
    frame::{Frame, FrameKind},
    link::Link,
    parts::{self, Part},
    position::Neighbours,
};
use crate::{
    exit::Code,
    world::{World, abort, deadline},
};

/// The name of this library in files and reports.
pub const NAME: &str = "TCP";

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
    pub(super) fn new(rank: u32, size: u32, neighbours: Neighbours) -> Tcp {
        let world = Tcp {
            rank,
            size,
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

    /// Waits until every rank has its place. Meanwhile rank 0 listens to those of `waiting`, which
    /// may not find theirs; the connections to them end here.
    pub(super) fn confirm(&self, waiting: &[Arc<Link>]) {
        self.begin();
        let mut missing: Vec<&Arc<Link>> = self.neighbours.below.iter().collect();
        while let Some(link) = missing.last() {
            match link.receive_within(TICK) {
                Ok(Some(message)) => {
                    self.content(link, message);
                    missing.pop();
                }
                Ok(None) => waiting.iter().for_each(|link| failure::check(link)),
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
        let kind = FrameKind::Data;
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
                "{} is at exchange {}, and this rank at {}. This is a bug of pxnbench: please \
                 report it",
                link.name(),
                number.unwrap_or_default(),
                self.exchange.get()
            );
            abort::job(Code::Internal, &what);
        }
        message.drain(..HEADER);
        message
    }

    /// Ends the job because a connection is broken. The thread that listens to it usually does so
    /// first, and knows more.
    fn end_at(&self, link: &Link, error: io::Error) -> ! {
        failure::lost(link, Some(&error));
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

    /// Combines `own` with what comes from below, in rank order of the children, sends it up, and
    /// returns what rank 0 made.
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
            "a message of {length} bytes does not fit this exchange. This is a bug of pxnbench: \
             please report it"
        );
        abort::job(Code::Internal, &what)
    }

    fn decoded(&self, content: &[u8]) -> Vec<Part> {
        parts::decode(content).unwrap_or_else(|_| self.end_by_length(content.len()))
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
        failure::leave(self.links());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tcp::{identity::Identity, tree::Tree};
    use std::{
        net::{TcpListener, TcpStream},
        thread,
    };

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let one = TcpStream::connect(address).expect("connected");
        (one, listener.accept().expect("accepted").0)
    }

    /// Returns the worlds of ranks that are spread over nodes as `hosts` says.
    fn worlds(hosts: &[&str]) -> Vec<Tcp> {
        let tree = Tree::new(hosts);
        let size = hosts.len() as u32;
        let mut above: Vec<Option<Arc<Link>>> = vec![None; hosts.len()];
        let mut worlds = Vec::new();
        for rank in 0..size {
            let mut below = Vec::new();
            for child in tree.children(rank) {
                let (up, down) = pair();
                above[*child as usize] = Some(Link::new(&Identity::example(rank), up));
                below.push(Link::new(&Identity::example(*child), down));
            }
            let above = above[rank as usize].take();
            worlds.push(Tcp::new(rank, size, Neighbours { above, below }));
        }
        worlds
    }

    /// Runs `steps` on all ranks at the same time, ends the communication, and returns the results
    /// in rank order.
    fn on_all<T: Send + 'static>(hosts: &[&str], steps: fn(&Tcp) -> T) -> Vec<T> {
        let mut threads = Vec::new();
        for world in worlds(hosts) {
            threads.push(thread::spawn(move || {
                let result = steps(&world);
                Box::new(world).finish();
                result
            }));
        }
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank"));
        results.collect()
    }

    fn sent(world: &Tcp) -> u64 {
        world.links().map(|link| link.sent()).sum()
    }

    /// Forty ranks on five nodes, one of which has a rank in the middle of others.
    const HOSTS: [&str; 40] = {
        let mut hosts = [""; 40];
        let names = ["a", "b", "c", "d", "e"];
        let mut rank = 0;
        while rank < hosts.len() {
            hosts[rank] = names[(rank / 7) % 5];
            rank += 1;
        }
        hosts
    };

    #[test]
    fn every_rank_has_the_same_result_of_an_exchange() {
        let results = on_all(&HOSTS, |world| {
            world.barrier();
            let own = vec![world.rank() as u8; world.rank() as usize];
            let gathered = world.all_gather(&own);
            let from_0 = world.broadcast(format!("of {}", world.rank()).as_bytes());
            let sum = world.all_reduce_sum(u64::from(world.rank()));
            let mean = world.mean(1.0 / f64::from(world.rank() + 1));
            (gathered, from_0, sum, mean.to_bits())
        });
        let (gathered, from_0, sum, mean) = &results[0];
        for (rank, bytes) in gathered.iter().enumerate() {
            assert_eq!(*bytes, vec![rank as u8; rank]);
        }
        assert_eq!(from_0, b"of 0");
        assert_eq!(*sum, 39 * 40 / 2);
        let expected = (1..=40).map(|it| 1.0 / f64::from(it)).sum::<f64>() / 40.0;
        assert!((f64::from_bits(*mean) - expected).abs() < 1e-15);
        for other in &results {
            assert_eq!(other, &results[0]);
        }
    }

    #[test]
    fn an_exchange_is_one_message_per_connection_and_direction() {
        let results = on_all(&HOSTS, |world| {
            let links = world.links().count() as u64;
            let below = world.neighbours.below.len() as u64;
            let before = sent(world);
            world.broadcast(b"down only");
            let of_broadcast = sent(world) - before;
            world.all_gather(b"up and down");
            world.all_reduce_sum(1);
            world.mean(1.0);
            world.barrier();
            let of_others = sent(world) - before - of_broadcast;
            (of_broadcast == below, of_others == 4 * links)
        });
        assert_eq!(results, vec![(true, true); HOSTS.len()]);
    }

    #[test]
    fn large_contributions_pass_both_ways_at_once() {
        let results = on_all(&HOSTS[..9], |world| {
            let own = vec![world.rank() as u8; 3 << 20];
            let gathered = world.all_gather(&own);
            gathered.iter().map(Vec::len).sum::<usize>()
        });
        assert_eq!(results, vec![9 * (3 << 20); 9]);
    }
}
