//! Sockets: listening on IPv6 and IPv4, and what every connection of a job has set.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::Duration,
};

use rustix::process::{Resource, Rlimit};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// The connections that may wait to be accepted: every rank of a large job comes at once.
const BACKLOG: i32 = 4096;

/// A host that is cut off without a word is noticed after one idle time and as many intervals as
/// there are probes.
const IDLE: Duration = Duration::from_secs(10);
/// The time between two probes of a silent host.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The number of probes.
const PROBES: u32 = 3;

/// Listens at `port` on all addresses of this host, of IPv6 and IPv4; 0 takes a free port.
///
/// # Errors
/// Returns an error if the port is in use.
pub(in crate::world) fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = bind(port)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Takes `port` on all addresses of this host, of IPv6 and IPv4; 0 takes a free port.
fn bind(port: u16) -> io::Result<Socket> {
    match bind_to(Ipv6Addr::UNSPECIFIED.into(), port) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            // The host has no IPv6.
            bind_to(Ipv4Addr::UNSPECIFIED.into(), port)
        }
        socket => socket,
    }
}

fn bind_to(address: IpAddr, port: u16) -> io::Result<Socket> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Connections of an earlier job that are still closing do not hold the port, nor does a
    // [`ReservedPort`].
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A free port of this host for the ranks of a job. As long as this lives, the system gives it to
/// no program that asks for any port; rank 0, which asks for this one, can listen there.
#[derive(Debug)]
pub struct ReservedPort {
    /// It has the port and does not listen. Whoever may use an address again, as all sockets of
    /// ranks, can do so beside it.
    _socket: Socket,
    number: u16,
}

impl ReservedPort {
    /// Reserves a port.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn new() -> io::Result<ReservedPort> {
        let socket = bind(0)?;
        let address = socket.local_addr()?.as_socket();
        let number = address.map_or(0, |address| address.port());
        Ok(ReservedPort {
            _socket: socket,
            number,
        })
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// The files that a process has open besides its connections to other ranks.
const OTHER_FILES: u64 = 256;

/// Makes room for `count` connections in this process.
///
/// # Errors
/// Returns the number of files that it may open if that is too small.
pub(in crate::world) fn make_room(count: u64) -> Result<(), u64> {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let needed = count + OTHER_FILES;
    // No limit is unlimited.
    if limits.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limits.maximum.filter(|most| *most < needed) {
        return Err(most);
    }
    let raised = Rlimit {
        current: Some(needed),
        ..limits
    };
    let current = limits.current.unwrap_or_default();
    rustix::process::setrlimit(Resource::Nofile, raised).map_err(|_| current)
}

/// Returns the addresses of `host`.
///
/// # Errors
/// Returns an error if the name has none.
pub(in crate::world) fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    Ok(addresses)
}

/// Makes a connection send at once, and notice that the other host is gone.
///
/// # Errors
/// Returns an error if the system refuses.
pub(in crate::world) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(IDLE)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    // The same while data is on its way, for which there are no probes.
    socket.set_tcp_user_timeout(Some(IDLE + PROBES * PROBE_INTERVAL))
}

/// Returns whether `address` is one of this host.
pub(in crate::world) fn is_own(address: IpAddr) -> bool {
    // Only an own address can be bound to; nothing is sent.
    std::net::UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// Returns an IPv4 address in IPv6 notation as IPv4, and others as they are.
pub(in crate::world) fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_up_to_the_limit_of_the_system() {
        assert_eq!(make_room(1), Ok(()));
        let most = rustix::process::getrlimit(Resource::Nofile).maximum;
        if let Some(most) = most {
            assert_eq!(make_room(most), Err(most));
        }
    }

    #[test]
    fn a_reserved_port_is_given_to_whoever_asks_for_it_and_to_nobody_else() {
        let reserved = ReservedPort::new().expect("a port");
        let port = reserved.number();
        assert_ne!(port, 0);
        let others: Vec<ReservedPort> = (0..100)
            .map(|_| ReservedPort::new().expect("a port"))
            .collect();
        assert!(others.iter().all(|other| other.number() != port));
        let listener = listen(port).expect("rank 0 may listen there");
        assert!(listen(port).is_err(), "one listens already");
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        drop((stream, listener));
        drop(reserved);
        listen(port).expect("connections that are closing do not hold it");
    }
}
