//! A connection to a neighbour: messages in order, one direction at a time.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;

use super::{
    frame::{Frame, FrameKind, RANKS_LIMIT, Until},
    identity::Identity,
};

/// How long the end of a job may wait for a connection that does not take data.
const PATIENCE_AT_END: Duration = Duration::from_millis(500);

/// How long a message may take that has begun to arrive before the connection has a thread of its
/// own.
const MESSAGE_TAKES: Duration = Duration::from_secs(5);

/// A connection to another rank.
pub(super) struct Link {
    /// The rank of the other side.
    pub(super) rank: u32,
    /// The host of the other side.
    pub(super) host: String,
    stream: TcpStream,
    /// Held while a message is written, since another thread may end the job.
    writing: Mutex<()>,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    #[cfg(test)]
    sent: std::sync::atomic::AtomicU64,
}

/// What has arrived and is not read yet.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Vec<u8>>,
    /// Whether the other side sends nothing more.
    has_ended: bool,
}

/// What came that is no part of an exchange.
pub(super) enum News {
    /// A message.
    Message(Frame),
    /// The other side is gone, with the error if it is not the end of the connection.
    Gone(Option<io::Error>),
}

impl Link {
    /// Returns the connection `stream` to the process of `identity`.
    pub(super) fn new(identity: &Identity, stream: TcpStream) -> Arc<Link> {
        Arc::new(Link {
            rank: identity.rank,
            host: identity.host.clone(),
            stream,
            writing: Mutex::default(),
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            #[cfg(test)]
            sent: Default::default(),
        })
    }

    /// Returns the address of the other side.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(super) fn address(&self) -> io::Result<IpAddr> {
        Ok(self.stream.peer_addr()?.ip())
    }

    /// Returns how messages name the other side.
    pub(super) fn name(&self) -> String {
        format!("rank {} on {}", self.rank, self.host)
    }

    /// Returns the number of messages that were sent.
    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(test)]
        self.sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        frame.write(&self.stream)
    }

    /// Sends the last message, if the connection takes it soon.
    pub(super) fn send_last(&self, frame: &Frame) {
        let until = Instant::now() + PATIENCE_AT_END;
        let Some(_writing) = self.try_writing(until) else {
            return;
        };
        // The other side may be gone already: nothing is to be done about it.
        let _ = self.stream.set_write_timeout(Some(PATIENCE_AT_END));
        let _ = frame.write(&self.stream);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn try_writing(&self, until: Instant) -> Option<MutexGuard<'_, ()>> {
        loop {
            match self.writing.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Returns what has arrived on a connection that has no thread of its own, without waiting for
    /// it.
    pub(super) fn news(&self) -> Option<News> {
        if let Err(error) = self.stream.set_nonblocking(true) {
            return Some(News::Gone(Some(error)));
        }
        let peeked = self.stream.peek(&mut [0]);
        let is_quiet = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if let Err(error) = self.stream.set_nonblocking(false) {
            return Some(News::Gone(Some(error)));
        }
        if is_quiet {
            return None;
        }
        Some(match self.read_until(Instant::now() + MESSAGE_TAKES) {
            Ok(Some(frame)) => News::Message(frame),
            Ok(None) => News::Gone(None),
            Err(error) => News::Gone(Some(error)),
        })
    }

    /// Returns the next message of a connection that has no thread of its own; `None` at its end.
    ///
    /// # Errors
    /// Returns an error if there is none at `until`.
    pub(super) fn read_until(&self, until: Instant) -> io::Result<Option<Frame>> {
        let stream = &SockRef::from(&self.stream);
        Frame::read(Until { stream, until }, RANKS_LIMIT)
    }

    /// Starts the thread that receives until the connection ends, and calls `tell` if it ends as it
    /// should not or brings something else than exchanges.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(super) fn listen(self: &Arc<Link>, tell: fn(&Link, &News)) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        let link = Arc::clone(self);
        thread::Builder::new().spawn(move || link.receive_all(tell))?;
        Ok(())
    }

    fn receive_all(&self, tell: fn(&Link, &News)) {
        let mut has_said_bye = false;
        let error = loop {
            let frame = match Frame::read(&self.stream, RANKS_LIMIT) {
                Ok(Some(frame)) => frame,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            match frame.kind {
                FrameKind::Data => self.put(frame.body),
                FrameKind::Bye => {
                    has_said_bye = true;
                    self.end();
                }
                _ => tell(self, &News::Message(frame)),
            }
        };
        if !has_said_bye {
            tell(self, &News::Gone(error));
            self.end();
        }
    }

    fn put(&self, message: Vec<u8>) {
        self.inbox().messages.push_back(message);
        self.arrived.notify_all();
    }

    fn end(&self) {
        self.inbox().has_ended = true;
        self.arrived.notify_all();
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next message if it arrives within `patience`, and `Err` if none will.
    pub(super) fn receive_within(&self, patience: Duration) -> Result<Option<Vec<u8>>, Ended> {
        let waits = |inbox: &mut Inbox| inbox.messages.is_empty() && !inbox.has_ended;
        let waited = self
            .arrived
            .wait_timeout_while(self.inbox(), patience, waits);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match inbox.messages.pop_front() {
            None if inbox.has_ended => Err(Ended),
            message => Ok(message),
        }
    }
}

/// The other side sends nothing more.
#[derive(Debug)]
pub(super) struct Ended;
