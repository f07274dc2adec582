//! All of the plugin behind numbers: NCCL holds what is a pointer to it, and means nothing to
//! anybody else.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    communicators::{Communicator, Communicators},
    counters::{Counters, Waiting},
    failure::{Failure, Result},
    ffi::{Buffer, Memory},
    listener::{self, Listener},
    rail::Rail,
    receive::Receiver,
    report,
    requests::Operations,
    send::Sender,
    settings::Settings,
    shared::Shared,
    wire::{HANDLE_BYTES, Handle},
};

/// How often counters are written while messages flow, so that those of a job that is killed are
/// not lost.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// A connection's number is a multiple of this; those of its operations lie between.
const NUMBERS_OF_A_CONNECTION: usize = 1 << 32;

/// One end of a connection.
enum End {
    Listener(Listener),
    Sender(Sender),
    Receiver(Receiver),
}

/// The plugin of a process.
pub(crate) struct Plugin {
    settings: Settings,
    shared: Arc<Shared>,
    communicators: Communicators,
    /// The communicator where the interface does not tell.
    unnamed: Arc<Communicator>,
    ends: Mutex<HashMap<usize, Arc<Mutex<End>>>>,
    last: AtomicUsize,
    written_at: Mutex<Instant>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin {
    pub(crate) fn new(settings: Settings, on_stall: fn(&str)) -> Plugin {
        let rank = settings.rank.filter(|_| settings.is_world);
        let unnamed = match rank {
            Some(rank) => Communicator::with_rank(None, rank),
            None => Communicator::new(None),
        };
        Plugin {
            shared: Arc::new(Shared {
                rails: settings.rails.iter().cloned().map(Rail::new).collect(),
                counters: Counters::default(),
                rank: settings.rank,
                on_stall,
            }),
            settings,
            communicators: Communicators::default(),
            unnamed: Arc::new(unnamed),
            ends: Mutex::default(),
            last: AtomicUsize::new(0),
            written_at: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    // ---
    // communicators -------------------------------------------------------------------------------

    /// Notes a communicator, and returns its number.
    pub(crate) fn open_communicator(&self, id: u64) -> usize {
        let number = self.communicators.open(id);
        if let Some(rank) = self.settings.rank.filter(|_| self.settings.is_world) {
            self.communicators.set_rank(id, rank);
        }
        number
    }

    /// Notes this process's rank in a communicator.
    pub(crate) fn set_rank(&self, id: u64, rank: i32) {
        self.communicators.set_rank(id, rank);
    }

    pub(crate) fn close_communicator(&self, number: usize) {
        self.communicators.close(number);
    }

    /// Returns the communicator of a number; the number is `None` if the interface does not tell.
    fn communicator(&self, number: Option<usize>) -> Result<Arc<Communicator>> {
        let Some(number) = number else {
            return Ok(Arc::clone(&self.unnamed));
        };
        self.communicators
            .get(number)
            .ok_or_else(|| Failure::internal("NCCL uses a communicator that it has closed."))
    }

    // ---
    // connections ---------------------------------------------------------------------------------

    fn rail(&self, number: i32) -> Result<u32> {
        let rails = self.shared.rails.len();
        let known = u32::try_from(number).ok();
        known
            .filter(|number| (*number as usize) < rails)
            .ok_or_else(|| Failure::internal(format!("NCCL asks for rail {number} of {rails}.")))
    }

    /// Checks the number of a rail.
    ///
    /// # Errors
    /// Returns an error if there is no such rail.
    pub(crate) fn check_rail(&self, number: i32) -> Result<usize> {
        Ok(self.rail(number)? as usize)
    }

    fn add(&self, end: End) -> usize {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let number = number * NUMBERS_OF_A_CONNECTION;
        held(&self.ends).insert(number, Arc::new(Mutex::new(end)));
        number
    }

    fn end(&self, number: usize) -> Result<Arc<Mutex<End>>> {
        held(&self.ends)
            .get(&number)
            .cloned()
            .ok_or_else(|| Failure::internal("NCCL uses a connection that it has closed."))
    }

    /// Begins to wait for a sender, and returns what it needs, and the number of the listener.
    ///
    /// # Errors
    /// Returns an error if there is no such rail, or no socket.
    pub(crate) fn listen(
        &self,
        communicator: Option<usize>,
        rail: i32,
    ) -> Result<([u8; HANDLE_BYTES], usize)> {
        let listener = Listener::new(
            Arc::clone(&self.shared),
            self.communicator(communicator)?,
            self.rail(rail)?,
        )?;
        let handle = listener.handle().to_bytes();
        Ok((handle, self.add(End::Listener(listener))))
    }

    /// Connects to a listener; `None` if it has to be tried again.
    ///
    /// # Errors
    /// Returns an error if the handle is another plugin's, or nobody listens.
    pub(crate) fn connect(
        &self,
        communicator: Option<usize>,
        rail: i32,
        handle: &[u8; HANDLE_BYTES],
    ) -> Result<Option<usize>> {
        let handle = Handle::from_bytes(handle).ok_or_else(|| {
            Failure::internal(
                "The peer uses another net plugin: all ranks need the same NCCL_NET_PLUGIN.",
            )
        })?;
        let sender = listener::connect(
            Arc::clone(&self.shared),
            self.communicator(communicator)?,
            self.rail(rail)?,
            handle,
        )?;
        Ok(sender.map(|sender| self.add(End::Sender(sender))))
    }

    /// Returns the number of the receiver, once its sender has connected.
    ///
    /// # Errors
    /// Returns an error if a connection cannot be accepted.
    pub(crate) fn accept(&self, listener: usize) -> Result<Option<usize>> {
        let end = self.end(listener)?;
        let receiver = match &mut *held(&end) {
            End::Listener(listener) => listener.accept()?,
            _ => return Err(wrong_end("accepts at")),
        };
        Ok(receiver.map(|receiver| self.add(End::Receiver(receiver))))
    }

    /// Prepares an end for memory of that kind.
    ///
    /// # Errors
    /// Returns an error if the CUDA driver does not give what copies from and to a GPU need.
    pub(crate) fn register(&self, number: usize, memory: Memory) -> Result<()> {
        if memory == Memory::Host {
            return Ok(());
        }
        let end = self.end(number)?;
        match &mut *held(&end) {
            End::Sender(sender) => sender.staging().use_gpu(),
            End::Receiver(receiver) => receiver.staging().use_gpu(),
            End::Listener(_) => Err(wrong_end("registers memory with")),
        }
    }

    /// Starts to send, and returns the number of the operation; `None` if NCCL has to try again.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or an error is played.
    pub(crate) fn send(&self, number: usize, buffer: Buffer, tag: i32) -> Result<Option<usize>> {
        let end = self.end(number)?;
        let request = match &mut *held(&end) {
            End::Sender(sender) => sender.start(buffer, tag)?,
            _ => return Err(wrong_end("sends over")),
        };
        Ok(request.map(|request| number + request as usize))
    }

    /// Posts a receive, and returns the number of the operation.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(crate) fn receive(&self, number: usize, buffers: Vec<(Buffer, i32)>) -> Result<usize> {
        let end = self.end(number)?;
        let request = match &mut *held(&end) {
            End::Receiver(receiver) => receiver.start(buffers)?,
            _ => return Err(wrong_end("receives from")),
        };
        Ok(number + request as usize)
    }

    /// Returns the bytes of each message of an operation that is complete; `None` if it is not.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or there is no such operation.
    pub(crate) fn test(&self, operation: usize) -> Result<Option<Vec<u64>>> {
        let request = operation % NUMBERS_OF_A_CONNECTION;
        let end = self.end(operation - request)?;
        let request = u32::try_from(request)
            .map_err(|_| Failure::internal("NCCL tests an operation that cannot be."))?;
        let done = match &mut *held(&end) {
            End::Sender(sender) => sender.test(request)?,
            End::Receiver(receiver) => receiver.test(request)?,
            End::Listener(_) => return Err(wrong_end("tests an operation of")),
        };
        self.write_now_and_then()?;
        Ok(done)
    }

    /// Closes an end. With the last one, the counters are written.
    ///
    /// # Errors
    /// Returns an error if the counters cannot be written.
    pub(crate) fn close(&self, number: usize) -> Result<()> {
        let (closed, is_last) = {
            let mut ends = held(&self.ends);
            (ends.remove(&number), ends.is_empty())
        };
        // Waits for copies, which nobody else should have to.
        drop(closed);
        if is_last {
            self.write_counters()?;
        }
        Ok(())
    }

    // ---
    // counters ------------------------------------------------------------------------------------

    /// Writes the counters into the folder that the environment names.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub(crate) fn write_counters(&self) -> Result<()> {
        *held(&self.written_at) = Instant::now();
        let waiting = self.waiting();
        report::write(
            &self.settings,
            &self.shared.rails,
            &self.shared.counters,
            &waiting,
        )
    }

    /// Returns what waits at the senders. One that another thread holds at this moment is left out;
    /// the next file has it.
    fn waiting(&self) -> Vec<Waiting> {
        let ends: Vec<_> = held(&self.ends).values().cloned().collect();
        let of_end = |end: &Arc<Mutex<End>>| match &*end.try_lock().ok()? {
            End::Sender(sender) => sender.waiting(),
            End::Listener(_) | End::Receiver(_) => None,
        };
        ends.iter().filter_map(of_end).collect()
    }

    fn write_now_and_then(&self) -> Result<()> {
        if self.settings.counters.is_none() || held(&self.written_at).elapsed() < WRITE_INTERVAL {
            return Ok(());
        }
        self.write_counters()
    }
}

fn wrong_end(does: &str) -> Failure {
    Failure::internal(format!("NCCL {does} the wrong end of a connection."))
}
