//! Both ends of a connection in one process, without NCCL: what is sent arrives, and is counted to
//! the byte.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    communicators::Communicator,
    counters::{Counters, Flow, Tallies, Tally},
    failure::{Code, Result},
    ffi::{BLOCK_BYTES, TestMemory},
    listener::{self, Listener},
    rail::Rail,
    receive::Receiver,
    requests::Operations,
    send::Sender,
    settings::{Fault, FaultKind, RailSettings},
    shared::Shared,
    socket::Connection,
    wire::{Header, Hello, Peer},
};

/// What nothing here takes longer than, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

static STALLS: AtomicUsize = AtomicUsize::new(0);

fn count_stall(sentence: &str) {
    assert!(sentence.contains("rail0 of rank 0 stalls after 1 messages"));
    STALLS.fetch_add(1, Ordering::Relaxed);
}

fn shared(rank: i32, settings: RailSettings) -> Arc<Shared> {
    Arc::new(Shared {
        rails: vec![Rail::new(settings)],
        counters: Counters::default(),
        rank: Some(rank),
        on_stall: count_stall,
    })
}

fn peer(rank: i32) -> Peer {
    Peer {
        rank: Some(rank),
        rail: 0,
    }
}

/// A connection from rank 0 to rank 2.
struct Link {
    from: Arc<Shared>,
    to: Arc<Shared>,
    sender: Sender,
    receiver: Receiver,
}

impl Link {
    fn with(settings: RailSettings) -> Link {
        let (near, far) = Connection::pair();
        let (from, to) = (shared(0, settings), shared(2, RailSettings::default()));
        let at = |rank| Arc::new(Communicator::with_rank(Some(0xc0), rank));
        Link {
            sender: Sender::new(Arc::clone(&from), at(0), 0, peer(2), near),
            receiver: Receiver::new(Arc::clone(&to), at(2), 0, peer(0), far),
            from,
            to,
        }
    }

    fn new() -> Link {
        Link::with(RailSettings::default())
    }

    /// Starts to send, trying again as NCCL does.
    fn send(&mut self, memory: &TestMemory, tag: i32) -> u32 {
        let began = Instant::now();
        loop {
            let started = self.sender.start(memory.buffer(), tag);
            if let Some(request) = started.expect("a connection") {
                return request;
            }
            assert!(began.elapsed() < LIMIT, "a receive is posted");
        }
    }

    /// Tests both operations until both are complete, and returns the sizes of the receive.
    fn finish(&mut self, sends: &[u32], receive: u32) -> Vec<u64> {
        let mut open = sends.to_vec();
        let mut received = None;
        let began = Instant::now();
        while !open.is_empty() || received.is_none() {
            open.retain(|request| self.sender.test(*request).expect("a connection").is_none());
            if received.is_none() {
                received = self.receiver.test(receive).expect("a connection");
            }
            assert!(began.elapsed() < LIMIT, "the messages arrive");
        }
        received.expect("complete")
    }

    fn post(&mut self, parts: &[(&TestMemory, i32)]) -> u32 {
        let parts = parts.iter().map(|(memory, tag)| (memory.buffer(), *tag));
        self.receiver.start(parts.collect()).expect("a connection")
    }
}

/// Bytes that differ from one another and from those of another seed.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 31 + at / 251 + seed * 17) as u8;
    (0..count).map(byte).collect()
}

fn tally(tallies: &Tallies, origin: i32, relayed: bool) -> Tally {
    let wanted = |flow: &&Flow| flow.origin == origin && flow.is_relayed == Some(relayed);
    let found = tallies.keys().find(wanted);
    found.map_or(Tally::default(), |flow| tallies[flow])
}

#[test]
fn messages_of_all_sizes_arrive_and_are_counted() {
    let mut link = Link::new();
    let sizes = [
        0,
        1,
        4096,
        BLOCK_BYTES,
        BLOCK_BYTES + 1,
        5 * BLOCK_BYTES + 77,
    ];
    for (seed, size) in sizes.into_iter().enumerate() {
        let from = TestMemory::with(bytes(size, seed));
        // A receive may be larger than its message.
        let to = TestMemory::with(vec![0xee; size + 3]);
        let receive = link.post(&[(&to, 0)]);
        let send = link.send(&from, 0);
        assert_eq!(link.finish(&[send], receive), [size as u64]);
        let mut expected = from.contents();
        expected.extend([0xee; 3]);
        assert!(to.contents() == expected, "{size} bytes");
    }
    let whole = Tally {
        messages: sizes.len() as u64,
        bytes: sizes.iter().sum::<usize>() as u64,
    };
    assert_eq!(tally(&link.from.counters.so_far().0, 0, false), whole);
    assert_eq!(tally(&link.to.counters.so_far().1, 0, false), whole);
}

#[test]
fn grouped_receives_take_messages_by_tag_in_any_order() {
    let mut link = Link::new();
    let from: Vec<TestMemory> = (0..8)
        .map(|tag| TestMemory::with(bytes(1000 * tag, tag)))
        .collect();
    let to: Vec<TestMemory> = (0..8).map(|_| TestMemory::with(vec![0; 10_000])).collect();
    let parts: Vec<_> = to.iter().zip(0..).collect();
    let receive = link.post(&parts);
    let sends: Vec<u32> = (0..8)
        .rev()
        .map(|tag| link.send(&from[tag as usize], tag))
        .collect();
    let sizes = link.finish(&sends, receive);
    assert_eq!(sizes, (0..8).map(|tag| 1000 * tag).collect::<Vec<u64>>());
    for (tag, (from, to)) in from.iter().zip(&to).enumerate() {
        assert!(to.contents()[..1000 * tag] == from.contents(), "{tag}");
    }
    let (sent, _) = link.from.counters.so_far();
    assert_eq!(tally(&sent, 0, false).messages, 1, "its own");
    let relayed = Tally {
        messages: 1,
        bytes: 5000,
    };
    assert_eq!(tally(&sent, 5, true), relayed);
    assert_eq!(tally(&link.to.counters.so_far().1, 5, true), relayed);
}

#[test]
fn a_message_waits_for_a_receive_with_its_tag() {
    let mut link = Link::new();
    let from = TestMemory::with(bytes(100, 1));
    let to = TestMemory::with(vec![0; 100]);
    let early = link.sender.start(from.buffer(), 1).expect("a connection");
    assert_eq!(early, None);
    let other = TestMemory::with(vec![0; 100]);
    let first = link.post(&[(&other, 2)]);
    let second = link.post(&[(&to, 1)]);
    let send = link.send(&from, 1);
    assert_eq!(link.finish(&[send], second), [100], "the later one first");
    assert_eq!(link.receiver.test(first).expect("a connection"), None);
    let send = link.send(&from, 2);
    assert_eq!(link.finish(&[send], first), [100]);
}

#[test]
fn a_message_that_is_too_large_for_its_receive_is_refused() {
    let mut link = Link::new();
    let to = TestMemory::with(vec![0; 10]);
    link.post(&[(&to, 0)]);
    let from = TestMemory::with(vec![0; 11]);
    let failure = link.sender.start(from.buffer(), 0).expect_err("too large");
    assert_eq!(
        failure.sentence,
        "rail0 is to send 11 bytes into a receive of 10."
    );
}

/// Tries until it gives an error.
fn until_error<T>(mut attempt: impl FnMut() -> Result<T>) -> crate::failure::Failure {
    let began = Instant::now();
    loop {
        if let Err(failure) = attempt() {
            return failure;
        }
        assert!(began.elapsed() < LIMIT, "there is an error");
    }
}

#[test]
fn a_peer_that_is_gone_is_named() {
    let Link {
        sender,
        mut receiver,
        ..
    } = Link::new();
    let to = TestMemory::with(vec![0; 10]);
    let receive = receiver.start(vec![(to.buffer(), 0)]).expect("posted");
    assert_eq!(receiver.test(receive).expect("a connection"), None);
    drop(sender);
    let failure = until_error(|| receiver.test(receive));
    assert_eq!(failure.code, Code::Remote);
    assert!(
        failure.sentence.starts_with("rail0: rank 0 is gone while"),
        "{}",
        failure.sentence
    );
    let again = receiver.test(receive).expect_err("it stays broken");
    assert_eq!(again.sentence, failure.sentence);

    let Link {
        mut sender,
        receiver,
        ..
    } = Link::new();
    drop(receiver);
    let failure = until_error(|| sender.start(to.buffer(), 0));
    assert!(
        failure.sentence.starts_with("rail0: rank 2 is gone and"),
        "{}",
        failure.sentence
    );
}

#[test]
fn a_connection_without_open_receives_may_end() {
    let mut link = Link::new();
    let (from, to) = (
        TestMemory::with(bytes(3 * BLOCK_BYTES, 0)),
        TestMemory::with(vec![0; 3 * BLOCK_BYTES]),
    );
    let receive = link.post(&[(&to, 0)]);
    let send = link.send(&from, 0);
    let mut sent = false;
    let began = Instant::now();
    while !sent {
        sent = link.sender.test(send).expect("a connection").is_some();
        // The receiver makes room, and has not read all when the sender is gone.
        let _ = link.receiver.test(receive);
        assert!(began.elapsed() < LIMIT, "it is sent");
    }
    let Link {
        sender,
        mut receiver,
        ..
    } = link;
    drop(sender);
    if let Ok(None) = receiver.test(receive) {
        while receiver.test(receive).is_ok_and(|done| done.is_none()) {
            assert!(began.elapsed() < LIMIT, "it arrives");
        }
    }
    assert!(to.contents() == from.contents());
}

#[test]
fn what_no_receive_is_for_is_refused() {
    let (near, far) = Connection::pair();
    let to = shared(2, RailSettings::default());
    let communicator = Arc::new(Communicator::new(None));
    let mut receiver = Receiver::new(to, communicator, 0, peer(0), far);
    let memory = TestMemory::with(vec![0; 10]);
    let receive = receiver.start(vec![(memory.buffer(), 0)]).expect("posted");
    let header = Header {
        receive: 0,
        place: 1,
        bytes: 10,
        is_relayed: None,
    };
    near.write(&header.to_bytes()).expect("written");
    let failure = until_error(|| receiver.test(receive));
    assert_eq!(failure.code, Code::Internal);
    assert!(failure.sentence.contains("no receive is for"));
    // What follows, which would be the bytes of that message, is not taken for another one.
    let header = Header { place: 0, ..header };
    near.write(&header.to_bytes()).expect("written");
    near.write(&[0xee; 10]).expect("written");
    let again = until_error(|| receiver.test(receive));
    assert_eq!(again.sentence, failure.sentence);
    assert_eq!(memory.contents(), [0; 10]);
}

#[test]
fn who_does_not_know_the_handle_is_no_peer() {
    let shared = |rank| shared(rank, RailSettings::default());
    let unknown = || Arc::new(Communicator::new(None));
    let mut listener = Listener::new(shared(2), unknown(), 0).expect("a socket");
    let handle = listener.handle();
    // Another user sees the name of the socket in /proc/net/unix, and not what NCCL passes.
    let strangers: Vec<Connection> = (0..100)
        .filter_map(|_| Connection::to(&handle.name).expect("a listener"))
        .collect();
    for stranger in &strangers[1..] {
        let hello = Hello {
            token: [0; 16],
            sender: peer(0),
        };
        stranger.write(&hello.to_bytes()).expect("written");
    }
    assert!(listener.accept().expect("a socket").is_none());
    let sender = listener::connect(shared(0), unknown(), 0, handle);
    let mut sender = sender.expect("a listener").expect("at once");
    let mut receiver = listener.accept().expect("a socket").expect("the peer");
    let memory = TestMemory::with(vec![0; 3]);
    receiver.start(vec![(memory.buffer(), 7)]).expect("posted");
    let from = TestMemory::with(bytes(3, 0));
    assert!(sender.start(from.buffer(), 7).expect("connected").is_some());
}

#[test]
fn a_rail_that_stalls_accepts_messages_and_never_sends_them() {
    let fault = Fault {
        kind: FaultKind::Stall,
        after: 1,
    };
    let mut link = Link::with(RailSettings {
        fault: Some(fault),
        ..RailSettings::default()
    });
    let (from, to) = (
        TestMemory::with(bytes(10, 0)),
        TestMemory::with(vec![0; 10]),
    );
    let receive = link.post(&[(&to, 0)]);
    let send = link.send(&from, 0);
    assert_eq!(link.finish(&[send], receive), [10]);
    for _ in 0..2 {
        let receive = link.post(&[(&to, 0)]);
        let send = link.send(&from, 0);
        for _ in 0..1000 {
            assert_eq!(link.sender.test(send).expect("no error"), None);
            assert_eq!(link.receiver.test(receive).expect("no error"), None);
        }
    }
    assert_eq!(STALLS.load(Ordering::Relaxed), 1, "it is said once");
    let waiting = link.sender.waiting().expect("two messages wait");
    assert_eq!((waiting.rail, waiting.messages, waiting.bytes), (0, 2, 20));
    assert_eq!(tally(&link.from.counters.so_far().0, 0, false).messages, 1);
}

#[test]
fn a_rail_that_fails_says_after_how_many_messages() {
    let fault = Fault {
        kind: FaultKind::Error,
        after: 0,
    };
    let mut link = Link::with(RailSettings {
        fault: Some(fault),
        ..RailSettings::default()
    });
    let to = TestMemory::with(vec![0; 10]);
    link.post(&[(&to, 0)]);
    let failure = until_error(|| link.sender.start(to.buffer(), 0));
    assert_eq!(failure.code, Code::System);
    assert_eq!(
        failure.sentence,
        "rail0 of rank 0 fails after 0 messages, as PXNBENCH_RAIL_FAULT says."
    );
}

#[test]
fn a_slow_rail_takes_at_least_its_time() {
    let mut link = Link::with(RailSettings {
        bandwidth: Some(10e6),
        latency: Duration::from_millis(20),
        fault: None,
    });
    let size = 4 * BLOCK_BYTES;
    let (from, to) = (
        TestMemory::with(bytes(size, 0)),
        TestMemory::with(vec![0; size]),
    );
    let began = Instant::now();
    let receive = link.post(&[(&to, 0)]);
    let send = link.send(&from, 0);
    link.finish(&[send], receive);
    let least = Duration::from_secs_f64(size as f64 / 10e6) + Duration::from_millis(20);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    let of_a_block = Duration::from_secs_f64(BLOCK_BYTES as f64 / 10e6);
    assert!(link.from.rails[0].waited() >= of_a_block);
    assert!(to.contents() == from.contents());
}
