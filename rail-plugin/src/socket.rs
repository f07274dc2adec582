//! Sockets that never wait: every call returns at once.
//!
//! Their names are abstract, so there are no files, and a process that dies leaves nothing behind.
//! All users of the machine can see such names, connect to them, and listen at them when their
//! process has ended. So each end checks the user of the other.

use std::{io, path::PathBuf};

use rustix::{net::sockopt::socket_peercred, process::Uid};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::{
    failure::{Failure, Result},
    wire::Secret,
};

/// The result of reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    End,
}

/// A connected socket that never waits.
pub(crate) struct Connection(Socket);

/// A listening socket that never waits.
pub(crate) struct Entrance {
    socket: Socket,
    /// The user whose processes may connect.
    user: Uid,
}

/// Returns whether the process at the other end belongs to `user`.
fn is_of(user: Uid, socket: &Socket) -> io::Result<bool> {
    Ok(socket_peercred(socket)?.uid == user)
}

/// The most connections that can wait to be accepted.
const MOST_WAITING: i32 = 64;

fn address(name: &Secret) -> io::Result<SockAddr> {
    let mut path = String::from("\0pxnbench-rail-");
    for byte in name {
        path.push_str(&format!("{byte:02x}"));
    }
    SockAddr::unix(PathBuf::from(path))
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Entrance {
    /// Listens at an abstract address.
    ///
    /// # Errors
    /// Returns an error if there is no socket, as with too many open files.
    pub(crate) fn at(name: &Secret) -> Result<Entrance> {
        let open = || {
            let socket = socket()?;
            socket.bind(&address(name)?)?;
            socket.listen(MOST_WAITING)?;
            Ok(socket)
        };
        let socket = open()
            .map_err(|error: io::Error| Failure::system("Listening for a rail's peer", error))?;
        let user = rustix::process::geteuid();
        Ok(Entrance { socket, user })
    }

    /// Returns a new connection of this user, if there is one. Those of other users are closed.
    ///
    /// # Errors
    /// Returns an error if a connection cannot be accepted, as with too many open files.
    pub(crate) fn next(&self) -> Result<Option<Connection>> {
        // Others could connect faster than they are turned away, so a call accepts a bounded number
        // of them.
        for _ in 0..MOST_WAITING {
            match self.accept() {
                Ok(Some(connection)) => return Ok(Some(connection)),
                Ok(None) => {}
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(Failure::system("Accepting a rail's peer", error)),
            }
        }
        Ok(None)
    }

    /// Accepts a connection; `None` if it is another user's.
    fn accept(&self) -> io::Result<Option<Connection>> {
        let (socket, _) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        Ok(is_of(self.user, &socket)?.then_some(Connection(socket)))
    }
}

impl Connection {
    /// Connects to an abstract address; `None` if the queue is full, so that the caller has to try
    /// again.
    ///
    /// # Errors
    /// Returns an error if nobody listens there, or another user does.
    pub(crate) fn to(name: &Secret) -> Result<Option<Connection>> {
        let connect = || {
            let socket = socket()?;
            socket.connect(&address(name)?)?;
            if !is_of(rustix::process::geteuid(), &socket)? {
                return Err(io::Error::other(
                    "another user of this machine listens there",
                ));
            }
            Ok(Connection(socket))
        };
        match connect() {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if is_later(&error) => Ok(None),
            Err(error) => Err(Failure::system("Connecting to a rail's peer", error)),
        }
    }

    /// Returns the two ends of a connection.
    #[cfg(test)]
    pub(crate) fn pair() -> (Connection, Connection) {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        for socket in [&one, &other] {
            socket.set_nonblocking(true).expect("not blocking");
        }
        (Connection(one), Connection(other))
    }

    /// Reads the bytes that have arrived, as many as fit.
    pub(crate) fn read(&self, to: &mut [u8]) -> Read {
        match io::Read::read(&mut &self.0, to) {
            Ok(0) if !to.is_empty() => Read::End,
            Ok(count) => Read::Bytes(count),
            Err(error) if is_later(&error) => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    /// Writes as many bytes as there is room for, and returns their number; `None` if the other end
    /// is gone, which causes no SIGPIPE.
    pub(crate) fn write(&self, bytes: &[u8]) -> Option<usize> {
        match self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL) {
            Ok(count) => Some(count),
            Err(error) if is_later(&error) => Some(0),
            Err(_) => None,
        }
    }
}

/// A frame of `N` bytes, of which a part may have been read.
pub(crate) struct Frame<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

/// The result of reading a frame.
pub(crate) enum FrameRead<const N: usize> {
    Whole([u8; N]),
    Nothing,
    End,
}

impl<const N: usize> Frame<N> {
    pub(crate) fn new() -> Frame<N> {
        Frame {
            bytes: [0; N],
            filled: 0,
        }
    }

    /// Reads on, and returns the frame once it is whole.
    pub(crate) fn read(&mut self, from: &Connection) -> FrameRead<N> {
        while self.filled < N {
            match from.read(&mut self.bytes[self.filled..]) {
                Read::Bytes(count) => self.filled += count,
                Read::Nothing => return FrameRead::Nothing,
                Read::End => return FrameRead::End,
            }
        }
        self.filled = 0;
        FrameRead::Whole(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_at_a_name_and_never_waits() {
        let name = [0x5d; 16];
        assert!(Connection::to(&name).is_err(), "nobody listens");
        let entrance = Entrance::at(&name).expect("an entrance");
        assert!(entrance.next().expect("no error").is_none());
        let one = Connection::to(&name).expect("no error").expect("at once");
        let other = entrance.next().expect("no error").expect("at once");
        let mut bytes = [0; 8];
        assert_eq!(other.read(&mut bytes), Read::Nothing);
        assert_eq!(one.write(b"abc"), Some(3));
        assert_eq!(other.read(&mut bytes), Read::Bytes(3));
        drop(one);
        assert_eq!(other.read(&mut bytes), Read::End);
        assert_eq!(other.write(b"abc"), None);
    }

    #[test]
    fn processes_of_other_users_are_turned_away() {
        let name = [0x5e; 16];
        let mut entrance = Entrance::at(&name).expect("an entrance");
        let own = entrance.user;
        entrance.user = Uid::from_raw(own.as_raw().wrapping_add(1));
        let stranger = Connection::to(&name).expect("no error").expect("at once");
        assert!(entrance.next().expect("no error").is_none());
        assert_eq!(stranger.read(&mut [0; 8]), Read::End);
        entrance.user = own;
        let _one = Connection::to(&name).expect("no error").expect("at once");
        assert!(entrance.next().expect("no error").is_some());
    }

    #[test]
    fn a_frame_may_come_in_parts() {
        let (one, other) = Connection::pair();
        let mut frame = Frame::<4>::new();
        one.write(b"ab").expect("written");
        assert!(matches!(frame.read(&other), FrameRead::Nothing));
        one.write(b"cdef").expect("written");
        assert!(matches!(frame.read(&other), FrameRead::Whole(bytes) if &bytes == b"abcd"));
        assert!(matches!(frame.read(&other), FrameRead::Nothing));
    }
}
