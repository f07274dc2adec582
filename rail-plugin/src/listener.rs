//! [`Listener`] and [`connect`]: how a connection begins.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    communicators::Communicator,
    failure::{Failure, Result},
    receive::Receiver,
    send::Sender,
    shared::Shared,
    socket::{Connection, Entrance, Frame, FrameRead},
    wire::{Handle, Hello, Peer, Secret},
};

/// The most connections that have not introduced themselves. Other users of the machine can connect
/// too, but only a peer has the token, which NCCL passes in the handle.
const MOST_STRANGERS: usize = 64;

/// Returns random bytes.
fn secret() -> Result<Secret> {
    let mut bytes = Secret::default();
    getrandom::fill(&mut bytes).map_err(|error| Failure::system("Getting random bytes", error))?;
    Ok(bytes)
}

/// A receiver that waits for its sender.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    communicator: Arc<Communicator>,
    handle: Handle,
    entrance: Entrance,
    /// Connections that have not introduced themselves.
    strangers: VecDeque<(Connection, Frame<{ Hello::BYTES }>)>,
}

impl Listener {
    /// Listens for a sender, which needs [`Listener::handle`].
    ///
    /// # Errors
    /// Returns an error if there is no socket.
    pub(crate) fn new(
        shared: Arc<Shared>,
        communicator: Arc<Communicator>,
        rail: u32,
    ) -> Result<Listener> {
        let listener = Peer {
            rank: shared.rank,
            rail,
        };
        let handle = Handle {
            name: secret()?,
            token: secret()?,
            listener,
        };
        Ok(Listener {
            shared,
            communicator,
            handle,
            entrance: Entrance::at(&handle.name)?,
            strangers: VecDeque::new(),
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the receiver if its sender has connected.
    ///
    /// # Errors
    /// Returns an error if a connection cannot be accepted.
    pub(crate) fn accept(&mut self) -> Result<Option<Receiver>> {
        while let Some(connection) = self.entrance.next()? {
            if self.strangers.len() == MOST_STRANGERS {
                self.strangers.pop_front();
            }
            self.strangers.push_back((connection, Frame::new()));
        }
        for _ in 0..self.strangers.len() {
            let Some((connection, mut frame)) = self.strangers.pop_front() else {
                break;
            };
            match frame.read(&connection) {
                FrameRead::Nothing => self.strangers.push_back((connection, frame)),
                FrameRead::End => {}
                FrameRead::Whole(bytes) => {
                    let hello = Hello::from_bytes(&bytes);
                    if let Some(hello) = hello.filter(|hello| hello.token == self.handle.token) {
                        return Ok(Some(self.receiver(hello.sender, connection)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn receiver(&self, peer: Peer, connection: Connection) -> Receiver {
        Receiver::new(
            Arc::clone(&self.shared),
            Arc::clone(&self.communicator),
            self.handle.listener.rail,
            peer,
            connection,
        )
    }
}

/// Connects a sender to the receiver that made `handle`; `None` if the caller has to try again.
///
/// # Errors
/// Returns an error if nobody listens there.
pub(crate) fn connect(
    shared: Arc<Shared>,
    communicator: Arc<Communicator>,
    rail: u32,
    handle: Handle,
) -> Result<Option<Sender>> {
    let Some(connection) = Connection::to(&handle.name)? else {
        return Ok(None);
    };
    let sender = Peer {
        rank: shared.rank,
        rail,
    };
    let hello = Hello {
        token: handle.token,
        sender,
    };
    let bytes = hello.to_bytes();
    // A new socket has room for so few bytes.
    if connection.write(&bytes) != Some(bytes.len()) {
        return Err(Failure::internal(format!(
            "rail{rail} could not introduce itself to {}.",
            handle.listener.name()
        )));
    }
    Ok(Some(Sender::new(
        shared,
        communicator,
        rail,
        handle.listener,
        connection,
    )))
}
