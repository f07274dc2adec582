//! What the two processes of each test do.

use std::{
    ffi::c_int,
    fs, process, ptr,
    time::{Duration, Instant},
};

use libloading::Library;
use serde_json::Value;

use crate::{
    gpu,
    job::LIMIT,
    plugin::{self, CUDA, HOST, Opaque},
    worker::{Memory, Receive, Send, Worker, pattern},
};

/// The id of the communicator of all scenarios.
pub(crate) const COMMUNICATOR: u64 = 0xfe40_8bfb_c3fb_5073;

/// Messages of a connection in [`all_calls`]: none, few, a block of the plugin, and more than all
/// its blocks.
pub(crate) const SIZES: [u64; 6] = [0, 1, 4095, 262_144, 262_145, 1_100_007];

/// The bytes of each message in [`many`], and in [`slow`].
pub(crate) const MANY_BYTES: u64 = 30_000;
pub(crate) const SLOW_BYTES: u64 = 1 << 20;

/// Messages of the grouped receive in [`all_calls`].
pub(crate) fn grouped_sizes() -> [u64; 8] {
    [0, 1, 2000, 0, 70_000, 300_000, 5, 262_144]
}

pub(crate) fn run(scenario: &str, worker: Worker) {
    match scenario {
        "all_calls" => all_calls(worker),
        "world" => world(worker),
        "many" => many(worker),
        "not_closed" => not_closed(worker),
        "dies" => dies(worker),
        "stalls" => stalls(worker),
        "fails" => fails(worker),
        "slow" => slow(worker),
        "refused" => refused(&worker),
        other => panic!("no scenario {other}"),
    }
}

fn logged(words: &str) -> bool {
    plugin::log().iter().any(|line| line.contains(words))
}

// --- all
// calls -------------------------------------------------------------------------------------------

/// Memory of a kind, filled, and registered with an end.
#[expect(unsafe_code, reason = "memory of a GPU that is the processor's")]
fn memory(worker: &Worker, gpu: &Library, end: Opaque, kind: c_int, contents: Vec<u8>) -> Memory {
    let bytes = contents.len();
    let start = match kind {
        CUDA => {
            let start = gpu::allocate(gpu, bytes);
            // SAFETY: it was just allocated with that size.
            unsafe { ptr::copy_nonoverlapping(contents.as_ptr(), start, bytes) };
            start
        }
        _ => Memory::host(contents).start,
    };
    let registration = worker.plugin.register(end, start, bytes, kind);
    Memory {
        start,
        bytes,
        registration: registration.expect("registered"),
    }
}

fn check_set_up(worker: &Worker) {
    assert_eq!(worker.plugin.name(), "pxnbench");
    assert!(logged("pxnbench plays 3 rails"), "{:?}", plugin::log());
    assert_eq!(worker.plugin.devices(), 3);
    for rail in 0..3 {
        let properties = worker.plugin.properties(rail).expect("a rail");
        assert_eq!(properties.name, format!("rail{rail}"));
        assert_eq!(properties.pointers, HOST | CUDA);
        assert_eq!(properties.speed, 100_000);
        assert_eq!(properties.most_receives, 8);
    }
    assert_eq!(worker.plugin.properties(3).expect_err("no rail"), 3);
    assert!(logged("NCCL asks for rail 3 of 3"));
}

/// Ends of the connections of one rail, one in each direction.
struct Ends {
    rail: c_int,
    kind: c_int,
    sender: Opaque,
    receiver: Opaque,
}

/// Connects both processes on a rail, both ways.
fn both_ways(worker: &Worker, rail: c_int, kind: c_int) -> Ends {
    let name = |rank| format!("all-{rail}-{rank}");
    let (handle, listener) = worker.plugin.listen(worker.context, rail);
    worker.tell(&name(worker.rank), &handle);
    let other = worker.hear(&name(worker.peer()));
    let sender = worker.connect(rail, other.try_into().expect("a handle"));
    let receiver = worker.accept(listener);
    worker.plugin.close_listen(listener);
    Ends {
        rail,
        kind,
        sender,
        receiver,
    }
}

/// Tags of what rank `rank` of the job sends: its own rank in the communicator, and one that it
/// relays for.
fn tags(rank: i32) -> [c_int; 2] {
    [4 + rank, 6 + rank]
}

/// Messages of all sizes, one receive for each.
fn single(worker: &Worker, gpu: &Library, ends: &Ends) -> (Vec<Send>, Vec<Receive>) {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (number, size) in SIZES.into_iter().enumerate() {
        let number = number + 100 * ends.rail as usize;
        for tag in tags(worker.peer()) {
            let expected = pattern(size as usize, worker.peer(), tag, number);
            let room = vec![0; size as usize];
            let room = memory(worker, gpu, ends.receiver, ends.kind, room);
            receives.push(worker.post(ends.receiver, vec![(room, tag, expected)]));
        }
        for tag in tags(worker.rank).into_iter().rev() {
            let contents = pattern(size as usize, worker.rank, tag, number);
            sends.push(Send {
                sender: ends.sender,
                memory: memory(worker, gpu, ends.sender, ends.kind, contents),
                tag,
                request: None,
            });
        }
    }
    (sends, receives)
}

/// A receive of eight messages, in memory of both kinds, which are sent in another order.
fn grouped(worker: &Worker, gpu: &Library, ends: &Ends) -> (Vec<Send>, Vec<Receive>) {
    let (mut sends, mut parts) = (Vec::new(), Vec::new());
    for (tag, size) in (10..).zip(grouped_sizes()) {
        let kind = if tag % 2 == 0 { HOST } else { CUDA };
        let expected = pattern(size as usize, worker.peer(), tag, 9);
        // There is more room than bytes.
        let room = memory(
            worker,
            gpu,
            ends.receiver,
            kind,
            vec![0; size as usize + 100],
        );
        parts.push((room, tag, expected));
        let contents = pattern(size as usize, worker.rank, tag, 9);
        sends.push(Send {
            sender: ends.sender,
            memory: memory(worker, gpu, ends.sender, kind, contents),
            tag,
            request: None,
        });
    }
    let receive = worker.post(ends.receiver, parts);
    (sends, vec![receive])
}

fn all_calls(mut worker: Worker) {
    let gpu = gpu::start();
    worker.init(COMMUNICATOR);
    worker.plugin.tell_rank(COMMUNICATOR, 4 + worker.rank);
    check_set_up(&worker);
    let all = [(0, CUDA), (2, HOST)].map(|(rail, kind)| both_ways(&worker, rail, kind));
    for ends in &all {
        let mut bytes = [0; 64];
        let unknown = worker
            .plugin
            .register(ends.sender, bytes.as_mut_ptr(), 64, 4);
        assert_eq!(unknown.expect_err("no such kind"), 3);
        let registration = memory(&worker, &gpu, ends.sender, ends.kind, vec![0; 64]).registration;
        worker.plugin.deregister(ends.sender, registration);

        let (sends, receives) = single(&worker, &gpu, ends);
        // Another thread of NCCL sends, whose context may be another one.
        gpu::leave(&gpu);
        worker.finish(sends, receives);
        gpu::choose(&gpu);
    }
    let (sends, receives) = grouped(&worker, &gpu, &all[0]);
    let last = receives[0].request;
    worker.finish(sends, receives);
    assert_eq!(worker.plugin.test(last).expect_err("it has ended"), 3);
    let room = memory(&worker, &gpu, all[0].receiver, CUDA, vec![0; 1]);
    let flush = worker
        .plugin
        .iflush(all[0].receiver, room.start, room.registration);
    assert!(flush.is_null(), "there is nothing to wait for");
    for count in [0, 9] {
        let parts = vec![(room.start, 1, 0, room.registration); count];
        let refused = worker.plugin.irecv(all[0].receiver, &parts);
        assert_eq!(refused.expect_err("none, or more than claimed"), 3);
    }
    assert!(logged("of 9 messages; a rail has from 1 to 8"));

    worker.meet("done");
    for ends in &all {
        worker.plugin.close_send(ends.sender);
        worker.plugin.close_recv(ends.receiver);
    }
    let counters = worker.file(&format!("counters/rails-{}.json", worker.rank));
    assert!(
        counters.exists(),
        "they are written with the last connection"
    );
    let closed = worker
        .plugin
        .isend(all[0].sender, room.start, 1, 0, room.registration);
    assert_eq!(closed.expect_err("it is closed"), 3);
    assert!(logged("a connection that it has closed"));
    worker.plugin.finalize(worker.context);
}

// ---
// connections -------------------------------------------------------------------------------------

fn world(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let end = worker.link(1);
    let parts = [(0, 100), (1, 28)].map(|(tag, bytes)| (tag, pattern(bytes, 0, tag, 0)));
    if worker.rank == 0 {
        let sends = parts.map(|(tag, bytes)| worker.send(end, Memory::host(bytes), tag));
        worker.finish(sends.into(), Vec::new());
        worker.plugin.close_send(end);
    } else {
        let receives = parts.map(|(tag, bytes)| worker.post_one(end, tag, bytes));
        worker.finish(Vec::new(), receives.into());
        worker.plugin.close_recv(end);
    }
}

fn many(mut worker: Worker) {
    const COUNT: usize = 64;
    worker.init(COMMUNICATOR);
    let contents = |number| pattern(MANY_BYTES as usize, 0, 0, number);
    if worker.rank == 0 {
        let handles = worker.hear("handles");
        let handles = handles
            .chunks(128)
            .map(|handle| handle.try_into().expect("a handle"));
        let senders: Vec<Opaque> = handles.map(|handle| worker.connect(0, handle)).collect();
        let send = |(number, sender): (usize, &Opaque)| Send {
            sender: *sender,
            memory: Memory::host(contents(number)),
            tag: 0,
            request: None,
        };
        let sends = senders.iter().enumerate().map(send).collect();
        worker.finish(sends, Vec::new());
        senders
            .iter()
            .for_each(|end| worker.plugin.close_send(*end));
        return;
    }
    let listening: Vec<_> = (0..COUNT)
        .map(|_| worker.plugin.listen(worker.context, 1))
        .collect();
    let handles: Vec<u8> = listening.iter().flat_map(|(handle, _)| *handle).collect();
    worker.tell("handles", &handles);
    let listeners = listening.iter().map(|(_, listener)| *listener);
    let receivers: Vec<Opaque> = listeners.map(|listener| worker.accept(listener)).collect();
    let post =
        |(number, receiver): (usize, &Opaque)| worker.post_one(*receiver, 0, contents(number));
    let receives = receivers.iter().enumerate().map(post).collect();
    worker.finish(Vec::new(), receives);
    receivers
        .iter()
        .for_each(|end| worker.plugin.close_recv(*end));
    for (_, listener) in listening {
        worker.plugin.close_listen(listener);
    }
}

fn not_closed(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let end = worker.link(0);
    let bytes = pattern(1000, 0, 0, 0);
    if worker.rank == 0 {
        let send = worker.send(end, Memory::host(bytes), 0);
        worker.finish(vec![send], Vec::new());
    } else {
        let receive = worker.post_one(end, 0, bytes);
        worker.finish(Vec::new(), vec![receive]);
    }
}

fn dies(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let end = worker.link(0);
    if worker.rank == 0 {
        worker.hear("posted");
        process::abort();
    }
    let receive = worker.post_one(end, 0, vec![0; 10]);
    assert_eq!(worker.plugin.test(receive.request), Ok(None));
    worker.tell("posted", b"");
    let began = Instant::now();
    let code = loop {
        if let Err(code) = worker.plugin.test(receive.request) {
            break code;
        }
        assert!(began.elapsed() < LIMIT, "the end is noticed");
    };
    assert_eq!(code, 6, "ncclRemoteError");
    assert!(
        logged("2 rail0: rank 0 is gone while"),
        "{:?}",
        plugin::log()
    );
    worker.plugin.close_recv(end);
}

// --- what is
// played ------------------------------------------------------------------------------------------

fn stalls(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let end = worker.link(1);
    let bytes = || pattern(1000, 0, 0, 0);
    if worker.rank == 1 {
        for _ in 0..2 {
            let receive = worker.post_one(end, 0, bytes());
            worker.finish(Vec::new(), vec![receive]);
        }
        let receive = worker.post_one(end, 0, bytes());
        worker.hear("stalled");
        for _ in 0..1000 {
            assert_eq!(worker.plugin.test(receive.request), Ok(None));
        }
        worker.tell("seen", b"");
        return;
    }
    for _ in 0..2 {
        let send = worker.send(end, Memory::host(bytes()), 0);
        worker.finish(vec![send], Vec::new());
    }
    let send = worker.send(end, Memory::host(bytes()), 0);
    let request = send.request.expect("it is accepted");
    for _ in 0..1000 {
        assert_eq!(worker.plugin.test(request), Ok(None));
    }
    let sentence = "2 rail1 of rank 0 stalls after 2 messages, as PXNBENCH_RAIL_FAULT says.";
    assert!(logged(sentence), "{:?}", plugin::log());
    let text = fs::read(worker.file("counters/rails-0.json")).expect("written while it stalls");
    let counters: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(counters["sent"][0]["messages"], 2);
    assert_eq!(counters["played"][0]["fault"], "stall:2");
    worker.tell("stalled", b"");
    worker.hear("seen");
}

fn fails(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let end = worker.link(0);
    let bytes = || pattern(1000, 0, 0, 0);
    if worker.rank == 1 {
        let receives = (0..4).map(|_| worker.post_one(end, 0, bytes()));
        let mut receives: Vec<Receive> = receives.collect();
        receives.truncate(3);
        worker.finish(Vec::new(), receives);
        return;
    }
    let sends = (0..3).map(|_| worker.send(end, Memory::host(bytes()), 0));
    let sends = sends.collect();
    worker.finish(sends, Vec::new());
    let memory = Memory::host(bytes());
    let began = Instant::now();
    let code = loop {
        let sent = worker
            .plugin
            .isend(end, memory.start, memory.bytes, 0, memory.registration);
        if let Err(code) = sent {
            break code;
        }
        assert!(began.elapsed() < LIMIT, "the fourth message fails");
    };
    assert_eq!(code, 2, "ncclSystemError");
    assert!(logged("2 rail0 of rank 0 fails after 3 messages"));
}

fn slow(mut worker: Worker) {
    worker.init(COMMUNICATOR);
    let mut took = Vec::new();
    for rail in [0, 1] {
        let end = worker.link(rail);
        let bytes = pattern(SLOW_BYTES as usize, 0, 0, 0);
        if worker.rank == 1 {
            let receive = worker.post_one(end, 0, bytes);
            worker.finish(Vec::new(), vec![receive]);
            worker.plugin.close_recv(end);
            continue;
        }
        let send = worker.send(end, Memory::host(bytes), 0);
        let began = Instant::now();
        worker.finish(vec![send], Vec::new());
        took.push(began.elapsed());
        worker.plugin.close_send(end);
    }
    // How fast the other one is depends on what else the machine does. The first block may have
    // left before.
    if let [_, slow] = took[..] {
        let least = Duration::from_secs_f64((SLOW_BYTES as f64 - 262_144.0) / 20e6);
        assert!(slow >= least, "{slow:?}");
    }
}

fn refused(worker: &Worker) {
    let (code, _) = worker.plugin.init(COMMUNICATOR);
    assert_eq!(code, 5, "ncclInvalidUsage");
    let sentence = "PXNBENCH_RAILS is \"many\": give a number from 1 to 64.";
    assert!(logged(sentence), "{:?}", plugin::log());
}
