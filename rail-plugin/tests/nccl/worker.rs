//! What a process of a job works with: connections, messages that flow, and files to meet the other
//! process by.

use std::{
    env,
    ffi::c_int,
    fs,
    path::{Path, PathBuf},
    ptr, thread,
    time::{Duration, Instant},
};

use crate::{
    job::{LIMIT, RANK, SCENARIO, VERSION},
    plugin::{HOST, Handle, Opaque, Plugin},
    scenarios,
};

/// A process of a job.
pub(crate) struct Worker {
    pub(crate) plugin: Plugin,
    pub(crate) rank: i32,
    /// NCCL's context.
    pub(crate) context: Opaque,
    folder: PathBuf,
}

/// Does what the environment says.
pub(crate) fn run(folder: &Path) {
    let variable = |name: &str| env::var(name).ok();
    let version = variable(VERSION).map_or(11, |version| version.parse().expect("a version"));
    let worker = Worker {
        plugin: Plugin::load(version),
        rank: variable(RANK)
            .and_then(|rank| rank.parse().ok())
            .expect("a rank"),
        context: ptr::null_mut(),
        folder: folder.to_owned(),
    };
    scenarios::run(&variable(SCENARIO).expect("a scenario"), worker);
}

/// A message that is to be sent.
pub(crate) struct Send {
    pub(crate) sender: Opaque,
    pub(crate) memory: Memory,
    pub(crate) tag: c_int,
    pub(crate) request: Option<Opaque>,
}

/// A receive that was posted, and what has to arrive.
pub(crate) struct Receive {
    pub(crate) request: Opaque,
    pub(crate) parts: Vec<(Memory, Vec<u8>)>,
}

/// Memory for a message, which is never freed.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) registration: Opaque,
}

impl Memory {
    /// Returns memory of the processor, with what a registration of it is.
    pub(crate) fn host(contents: Vec<u8>) -> Memory {
        let contents = contents.leak();
        Memory {
            start: contents.as_mut_ptr(),
            bytes: contents.len(),
            registration: ptr::without_provenance_mut(HOST as usize),
        }
    }
}

/// Bytes that differ by what they are for.
pub(crate) fn pattern(bytes: usize, from: i32, tag: i32, number: usize) -> Vec<u8> {
    let seed = from as usize * 101 + tag as usize * 37 + number * 11;
    let byte = |at: usize| (at * 31 + at / 253 + seed) as u8;
    // A prime, so that what is moved by whole blocks differs too.
    let few: Vec<u8> = (0..bytes.min(1021)).map(byte).collect();
    let mut all = few.repeat(bytes.div_ceil(1021));
    all.truncate(bytes);
    all
}

impl Worker {
    pub(crate) fn init(&mut self, communicator: u64) {
        let (code, context) = self.plugin.init(communicator);
        assert_eq!(code, 0);
        self.context = context;
    }

    pub(crate) fn peer(&self) -> i32 {
        1 - self.rank
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    // --- the other
    // process -------------------------------------------------------------------------------------

    /// Tells the other process something.
    pub(crate) fn tell(&self, name: &str, bytes: &[u8]) {
        let temporary = self.file(&format!("{name}.part"));
        fs::write(&temporary, bytes).expect("written");
        fs::rename(temporary, self.file(name)).expect("renamed");
    }

    /// Waits for what the other process tells.
    pub(crate) fn hear(&self, name: &str) -> Vec<u8> {
        let began = Instant::now();
        loop {
            if let Ok(bytes) = fs::read(self.file(name)) {
                return bytes;
            }
            assert!(began.elapsed() < LIMIT, "{name} is told");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until both processes are here.
    pub(crate) fn meet(&self, name: &str) {
        self.tell(&format!("{name}-{}", self.rank), b"");
        self.hear(&format!("{name}-{}", self.peer()));
    }

    // ---
    // connections ---------------------------------------------------------------------------------

    /// Connects to a listener, trying again as NCCL does.
    pub(crate) fn connect(&self, rail: c_int, handle: Handle) -> Opaque {
        let began = Instant::now();
        loop {
            let sender = self.plugin.connect(self.context, rail, handle);
            let sender = sender.expect("a listener");
            if !sender.is_null() {
                return sender;
            }
            assert!(began.elapsed() < LIMIT, "it is connected");
        }
    }

    pub(crate) fn accept(&self, listener: Opaque) -> Opaque {
        let began = Instant::now();
        loop {
            let receiver = self.plugin.accept(listener);
            if !receiver.is_null() {
                return receiver;
            }
            assert!(began.elapsed() < LIMIT, "it is accepted");
        }
    }

    /// Connects rank 0 to rank 1 on a rail, and returns this process's end.
    pub(crate) fn link(&self, rail: c_int) -> Opaque {
        let name = format!("handle-{rail}");
        if self.rank == 0 {
            let handle = self.hear(&name).try_into().expect("a handle");
            return self.connect(rail, handle);
        }
        let (handle, listener) = self.plugin.listen(self.context, rail);
        self.tell(&name, &handle);
        let receiver = self.accept(listener);
        self.plugin.close_listen(listener);
        receiver
    }

    // ---
    // messages ------------------------------------------------------------------------------------

    pub(crate) fn post(&self, receiver: Opaque, parts: Vec<(Memory, c_int, Vec<u8>)>) -> Receive {
        let passed: Vec<_> = parts
            .iter()
            .map(|(memory, tag, _)| (memory.start, memory.bytes, *tag, memory.registration))
            .collect();
        let request = self.plugin.irecv(receiver, &passed).expect("posted");
        assert!(request.addr() > 1, "a request");
        let part = |(memory, _, expected)| (memory, expected);
        Receive {
            request,
            parts: parts.into_iter().map(part).collect(),
        }
    }

    /// Posts a receive of one message in host memory.
    pub(crate) fn post_one(&self, receiver: Opaque, tag: c_int, expected: Vec<u8>) -> Receive {
        let memory = Memory::host(vec![0; expected.len()]);
        self.post(receiver, vec![(memory, tag, expected)])
    }

    /// Starts to send, trying again as NCCL does.
    pub(crate) fn send(&self, sender: Opaque, memory: Memory, tag: c_int) -> Send {
        let mut send = Send {
            sender,
            memory,
            tag,
            request: None,
        };
        let began = Instant::now();
        while send.request.is_none() {
            self.start(&mut send);
            assert!(began.elapsed() < LIMIT, "a receive is posted");
        }
        send
    }

    fn start(&self, send: &mut Send) {
        let Memory {
            start,
            bytes,
            registration,
        } = send.memory;
        let request = self
            .plugin
            .isend(send.sender, start, bytes, send.tag, registration);
        let request = request.expect("a connection");
        send.request = (!request.is_null()).then_some(request);
    }

    /// Drives all operations until all are complete. They start in order, and the last one is
    /// tested first.
    pub(crate) fn finish(&self, mut sends: Vec<Send>, mut receives: Vec<Receive>) {
        let began = Instant::now();
        while !sends.is_empty() || !receives.is_empty() {
            for send in &mut sends {
                if send.request.is_none() {
                    self.start(send);
                }
                if send.request.is_none() {
                    break;
                }
            }
            for at in (0..sends.len()).rev() {
                let Some(request) = sends[at].request else {
                    continue;
                };
                if let Some(sizes) = self.plugin.test(request).expect("a connection") {
                    assert_eq!(sizes[0] as usize, sends[at].memory.bytes);
                    sends.remove(at);
                }
            }
            for at in (0..receives.len()).rev() {
                let done = self.plugin.test(receives[at].request);
                if let Some(sizes) = done.expect("a connection") {
                    check(&receives.remove(at), &sizes);
                }
            }
            assert!(began.elapsed() < LIMIT, "all messages arrive");
        }
    }
}

/// Compares what arrived with what was sent.
#[expect(unsafe_code, reason = "memory that the plugin wrote to")]
fn check(receive: &Receive, sizes: &[c_int; 8]) {
    for ((memory, expected), size) in receive.parts.iter().zip(sizes) {
        assert_eq!(*size as usize, expected.len());
        // SAFETY: the memory is never freed, and the operation is complete.
        let arrived = unsafe { std::slice::from_raw_parts(memory.start, expected.len()) };
        assert!(arrived == expected, "{size} bytes arrive as they were sent");
    }
}
