//! The side that listens: receives the processes that connect.
//!
//! Each connection has a thread and a time limit, so one that stays silent delays no other. If
//! there are too many of them, the oldest goes: a process of the job needs milliseconds.

use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use socket2::SockRef;

use super::{
    failure,
    handshake::{self, Introduction, Peer, Purpose},
    identity::Identity,
    link::Link,
    secret::Secret,
    socket,
};

/// How long a connection may take to prove that it belongs to the job.
const LIMIT: Duration = Duration::from_secs(10);

/// The most connections that prove it at the same time.
const MOST_AT_ONCE: usize = 128;

/// The interval at which new connections are looked for.
const TICK: Duration = Duration::from_millis(2);

/// The stack of a thread that receives one connection.
const STACK: usize = 256 << 10;

/// A process that connected.
pub(super) enum Arrival {
    /// A process of this job, and the connection to it.
    Member(Identity, Arc<Link>),
    /// A process with another secret, and whom it says it is.
    Stranger(Identity, SocketAddr),
}

/// A port that is open until this is dropped.
pub(super) struct Acceptor {
    arrivals: Receiver<Arrival>,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of an acceptor share.
struct AcceptState {
    purpose: Purpose,
    secret: Arc<Secret>,
    identity: Identity,
    /// The connections that have not proved anything yet, oldest first.
    pending: Mutex<VecDeque<(u64, Arc<TcpStream>)>>,
}

impl Acceptor {
    /// Receives all that connect to `listener`, from now on.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(super) fn open(
        listener: TcpListener,
        purpose: Purpose,
        secret: Arc<Secret>,
        identity: Identity,
    ) -> io::Result<Acceptor> {
        listener.set_nonblocking(true)?;
        let (sender, arrivals) = mpsc::channel();
        let is_closed = Arc::new(AtomicBool::new(false));
        let state = Arc::new(AcceptState {
            purpose,
            secret,
            identity,
            pending: Mutex::default(),
        });
        let ends = Arc::clone(&is_closed);
        let thread = thread::Builder::new().spawn(move || {
            accept_until_closed(&listener, &state, &sender, &ends);
        })?;
        Ok(Acceptor {
            arrivals,
            is_closed,
            thread: Some(thread),
        })
    }

    /// Returns who comes next, if somebody does within `patience`.
    pub(super) fn next(&self, patience: Duration) -> Option<Arrival> {
        self.arrivals.recv_timeout(patience).ok()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // The thread has the listener, so the port is closed when it ends.
            let _ = thread.join();
        }
    }
}

fn accept_until_closed(
    listener: &TcpListener,
    state: &Arc<AcceptState>,
    arrivals: &Sender<Arrival>,
    is_closed: &AtomicBool,
) {
    let mut number = 0;
    while !is_closed.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((stream, from)) => {
                number += 1;
                let stream = Arc::new(stream);
                state.admit(number, Arc::clone(&stream));
                let (at_work, arrivals) = (Arc::clone(state), arrivals.clone());
                let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
                    at_work.attend(number, stream, from, &arrivals);
                });
                if thread.is_err() {
                    // A process of the job comes again.
                    state.dismiss(number);
                }
            }
            // Nobody is waiting, or the system has no more file descriptors.
            Err(_) => thread::sleep(TICK),
        }
    }
    for (_, stream) in state.pending().drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl AcceptState {
    fn pending(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<TcpStream>)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection, and breaks the oldest one if there are too many.
    fn admit(&self, number: u64, stream: Arc<TcpStream>) {
        let mut pending = self.pending();
        pending.push_back((number, stream));
        if pending.len() > MOST_AT_ONCE
            && let Some((_, oldest)) = pending.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// Takes a connection out of those that have not proved anything. Returns whether it was among
    /// them.
    fn dismiss(&self, number: u64) -> bool {
        let mut pending = self.pending();
        let before = pending.len();
        pending.retain(|(other, _)| *other != number);
        pending.len() < before
    }

    /// Receives one connection. Whoever breaks the protocol is gone without a word.
    fn attend(
        &self,
        number: u64,
        stream: Arc<TcpStream>,
        from: SocketAddr,
        arrivals: &Sender<Arrival>,
    ) {
        let own = Introduction {
            purpose: self.purpose,
            secret: &self.secret,
            identity: &self.identity,
        };
        let may_stay = || self.dismiss(number);
        let peer = socket::prepare(&stream)
            .and_then(|()| handshake::receive(&SockRef::from(&*stream), own, LIMIT, may_stay));
        self.dismiss(number);
        let stream = Arc::try_unwrap(stream).or_else(|shared| shared.try_clone());
        let (Ok(peer), Ok(stream)) = (peer, stream) else {
            return;
        };
        let arrival = match peer {
            Peer::Member(identity) => {
                let link = Link::new(&identity, stream);
                // It waits now, so it is to know if the job ends before it is looked at.
                failure::add(&link);
                Arrival::Member(identity, link)
            }
            Peer::Stranger(identity) => Arrival::Stranger(identity, from),
        };
        // Once it is dropped, nobody waits for arrivals.
        let _ = arrivals.send(arrival);
    }
}
