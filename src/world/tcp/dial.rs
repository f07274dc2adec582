//! [`Dial`]: connects to the addresses of a process. One that does not answer holds up none of the
//! others.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::socket::prepare;

/// How long the next address waits for the one before it: most answer within that, and need one
/// connection.
const HEAD_START: Duration = Duration::from_millis(100);

/// Connections to addresses, begun one after another, until each is made or refused, or the time is
/// over.
pub(in crate::world) struct Dial {
    rest: VecDeque<SocketAddr>,
    begun: Vec<Socket>,
    next_at: Instant,
    until: Instant,
    /// Why the last one that failed did.
    pub(in crate::world) error: io::Error,
}

impl Dial {
    /// Connects to `addresses` at `port`, all of them within `limit`.
    pub(in crate::world) fn new(addresses: &[IpAddr], port: u16, limit: Duration) -> Dial {
        let now = Instant::now();
        let addresses = addresses.iter().copied();
        Dial {
            rest: addresses.map(|ip| SocketAddr::new(ip, port)).collect(),
            begun: Vec::new(),
            next_at: now,
            until: now + limit,
            error: io::Error::other("there is no address"),
        }
    }

    /// Begins to connect to the next address.
    fn begin_next(&mut self) {
        let Some(address) = self.rest.pop_front() else {
            return;
        };
        match begin(address) {
            Ok(socket) => {
                self.begun.push(socket);
                self.next_at = Instant::now() + HEAD_START;
            }
            Err(error) => self.error = error,
        }
    }

    /// Waits until a connection is made or refused, no longer than to `until`. Returns the place of
    /// its socket.
    fn wait(&self, until: Instant) -> io::Result<Option<usize>> {
        let files = self.begun.iter();
        let mut files: Vec<PollFd> = files
            .map(|socket| PollFd::new(socket, PollFlags::OUT))
            .collect();
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut files, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(files.iter().position(|file| !file.revents().is_empty()))
    }

    /// Returns what became of the connection of a socket.
    fn end(socket: Socket) -> io::Result<TcpStream> {
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let stream = TcpStream::from(socket);
        prepare(&stream)?;
        Ok(stream)
    }
}

/// The connections that are made, in the order in which they are.
impl Iterator for Dial {
    type Item = TcpStream;

    fn next(&mut self) -> Option<TcpStream> {
        loop {
            while self.begun.is_empty() && !self.rest.is_empty() {
                self.begin_next();
            }
            if self.begun.is_empty() {
                return None;
            }
            let until = match self.rest.is_empty() {
                true => self.until,
                false => self.until.min(self.next_at),
            };
            match self.wait(until) {
                Ok(Some(at)) => match Dial::end(self.begun.swap_remove(at)) {
                    Ok(stream) => return Some(stream),
                    Err(error) => self.error = error,
                },
                Err(error) => {
                    self.error = error;
                    return None;
                }
                Ok(None) if Instant::now() >= self.until => {
                    self.error = io::ErrorKind::TimedOut.into();
                    return None;
                }
                Ok(None) if Instant::now() >= self.next_at => self.begin_next(),
                Ok(None) => {}
            }
        }
    }
}

/// Connects to the first of `addresses` that answers at `port`, within `patience`.
///
/// # Errors
/// Returns the error of the last one.
pub(in crate::world) fn connect(
    addresses: &[IpAddr],
    port: u16,
    patience: Duration,
) -> io::Result<TcpStream> {
    let mut dial = Dial::new(addresses, port, patience);
    dial.next().ok_or(dial.error)
}

/// Begins to connect to `address`, without waiting for the answer.
fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Addresses at which nobody answers, for tests: the queues of their listeners are full.
#[cfg(test)]
pub(in crate::world) struct DeadAddresses {
    _sockets: Vec<Socket>,
    pub(in crate::world) addresses: Vec<IpAddr>,
}

#[cfg(test)]
impl DeadAddresses {
    /// Makes `count` of them at `port`.
    pub(in crate::world) fn at(port: u16, count: u8) -> DeadAddresses {
        let mut dead = DeadAddresses {
            _sockets: Vec::new(),
            addresses: Vec::new(),
        };
        for number in 0..count {
            let ip: IpAddr = [127, 77, 0, number + 1].into();
            let address = SocketAddr::new(ip, port);
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            listener
                .bind(&address.into())
                .expect("an address of this host");
            listener.listen(0).expect("listening");
            dead._sockets.push(listener);
            for _ in 0..4 {
                dead._sockets.push(begin(address).expect("begun"));
            }
            dead.addresses.push(ip);
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    use super::{
        super::socket::{is_own, listen},
        *,
    };

    #[test]
    fn a_port_is_reached_over_ipv4_and_ipv6_where_there_is_any() {
        let listener = listen(0).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let patience = Duration::from_secs(10);
        connect(&[Ipv4Addr::LOCALHOST.into()], port, patience).expect("IPv4");
        if is_own(Ipv6Addr::LOCALHOST.into()) {
            connect(&[Ipv6Addr::LOCALHOST.into()], port, patience).expect("IPv6");
        }
        let busy = listen(port).expect_err("in use");
        assert_eq!(busy.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn addresses_that_do_not_answer_hold_nobody_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let alive = listener.local_addr().expect("an address");
        let dead = DeadAddresses::at(alive.port(), 16);
        let addresses = [&dead.addresses[..], &[alive.ip()]].concat();
        let began = Instant::now();
        let limit = Duration::from_secs(60);
        let mut dial = Dial::new(&addresses, alive.port(), limit);
        let stream = dial.next().expect("the last one answers");
        assert_eq!(stream.peer_addr().expect("connected"), alive);
        assert!(began.elapsed() < limit / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn all_addresses_have_one_limit() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let dead = DeadAddresses::at(port, 16);
        let began = Instant::now();
        let limit = Duration::from_secs(3);
        let mut dial = Dial::new(&dead.addresses, port, limit);
        assert!(dial.next().is_none());
        assert_eq!(dial.error.kind(), io::ErrorKind::TimedOut);
        let took = began.elapsed();
        assert!(took >= limit && took < 5 * limit, "{took:?}");
    }

    #[test]
    fn one_that_refuses_is_passed_over_at_once_and_said() {
        let mut dial = Dial::new(&[[127, 0, 0, 1].into()], 1, Duration::from_secs(60));
        assert!(dial.next().is_none());
        assert_eq!(dial.error.kind(), io::ErrorKind::ConnectionRefused);
        let mut none = Dial::new(&[], 1, Duration::from_secs(60));
        assert!(none.next().is_none());
        assert_eq!(none.error.to_string(), "there is no address");
    }

    #[test]
    fn the_address_that_answers_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let addresses = [
            "127.0.0.2".parse().expect("an address"),
            Ipv4Addr::LOCALHOST.into(),
        ];
        let stream = connect(&addresses, port, Duration::from_secs(10)).expect("the second one");
        assert_eq!(
            stream.peer_addr().expect("connected").ip(),
            IpAddr::from(Ipv4Addr::LOCALHOST)
        );
    }
}
