//! Sockets: listening on IPv6 and IPv4, and connecting to one of several addresses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::Duration,
};

use rustix::process::{Resource, Rlimit};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// The connections that may wait to be accepted: every rank of a large job comes at once.
const BACKLOG: i32 = 4096;

/// A host that is cut off without a word is noticed after one idle time and as many intervals as there are probes.
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
    match listen_on(Ipv6Addr::UNSPECIFIED.into(), port) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            // The host has no IPv6.
            listen_on(Ipv4Addr::UNSPECIFIED.into(), port)
        }
        listener => listener,
    }
}

fn listen_on(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Connections of an earlier job that are still closing do not hold the port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
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

/// Connects to the first of `addresses` that answers at `port`, each within `patience`.
///
/// # Errors
/// Returns the error of the last one.
pub(in crate::world) fn connect(
    addresses: &[IpAddr],
    port: u16,
    patience: Duration,
) -> io::Result<TcpStream> {
    let mut last = io::Error::other("there is no address");
    for address in addresses {
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), patience) {
            Ok(stream) => {
                prepare(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
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
    fn room_is_made_up_to_the_limit_of_the_system() {
        assert_eq!(make_room(1), Ok(()));
        let most = rustix::process::getrlimit(Resource::Nofile).maximum;
        if let Some(most) = most {
            assert_eq!(make_room(most), Err(most));
        }
    }

    #[test]
    fn the_address_that_answers_is_found() {
        let listener = listen_on(Ipv4Addr::LOCALHOST.into(), 0).expect("a port");
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
