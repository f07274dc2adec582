//! Whether ranks can meet at a port of a host: one process there holds the port open and greets,
//! the others look whether they hear the greeting. A port that answers with something else is on
//! another machine, or belongs to another program.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    thread,
    time::Duration,
};

use super::join::with_port;
use crate::world::placement;

/// How long a connection, and the greeting over it, may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest greeting.
const LONGEST: u64 = 200;

/// A check of the place where ranks meet.
#[derive(Clone, Debug)]
pub enum MeetingCheck {
    /// This host is the place.
    Listen {
        /// The port.
        port: u16,
        /// What it says to those that come.
        greeting: String,
    },
    /// Another host is the place.
    Reach {
        /// Its name or address.
        host: String,
        /// The port.
        port: u16,
        /// What it says.
        greeting: String,
    },
}

impl MeetingCheck {
    /// Holds the port open until this process ends, or looks whether it can be reached. An error is
    /// a sentence without the name of this host.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            MeetingCheck::Listen { port, greeting } => {
                let listener = listen(*port)?;
                let greeting = greeting.clone();
                thread::spawn(move || greet(&listener, &greeting));
                Ok(())
            }
            MeetingCheck::Reach {
                host,
                port,
                greeting,
            } => reach(host, *port, greeting),
        }
    }
}

/// Listens on all addresses of this host.
fn listen(port: u16) -> Result<TcpListener, String> {
    let any: [SocketAddr; 2] = [
        (Ipv6Addr::UNSPECIFIED, port).into(),
        (Ipv4Addr::UNSPECIFIED, port).into(),
    ];
    TcpListener::bind(&any[..]).map_err(|error| {
        let remedy = "Name another port: --master HOST:PORT";
        match error.kind() {
            io::ErrorKind::AddrInUse => format!("its port {port} is in use. {remedy}"),
            _ => format!("its port {port} cannot be opened: {error}. {remedy}"),
        }
    })
}

fn greet(listener: &TcpListener, greeting: &str) {
    for mut stream in listener.incoming().flatten() {
        // Who does not listen learns nothing.
        let _ = stream.set_write_timeout(Some(LIMIT));
        let _ = writeln!(stream, "{greeting}");
    }
}

fn reach(host: &str, port: u16, greeting: &str) -> Result<(), String> {
    let place = with_port(host, port);
    let addresses = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(error) => {
            return Err(format!(
                "it cannot resolve {host}, where the ranks meet ({error}). Name an address that \
                 all hosts reach: --master ADDRESS"
            ));
        }
    };
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match heard(address) {
            Ok(heard) if heard == greeting => return Ok(()),
            Ok(_) => why = format!("something other than this pxnbench answers at {address}"),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(format!(
        "it cannot reach {place}, where the ranks meet, from {}: {why}. Open the port in the \
         firewall, or name another address of that host: --master ADDRESS:PORT",
        placement::host_name()
    ))
}

/// Returns the greeting at `address`.
fn heard(address: SocketAddr) -> io::Result<String> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a listener of the system's choice, and its port.
    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        (listener, port)
    }

    #[test]
    fn only_the_right_greeting_is_the_place() {
        let (listener, port) = listener();
        thread::spawn(move || greet(&listener, "right"));
        assert_eq!(reach("127.0.0.1", port, "right"), Ok(()));
        let why = reach("127.0.0.1", port, "other").expect_err("another");
        assert!(
            why.contains(&format!("it cannot reach 127.0.0.1:{port}"))
                && why.contains("something other than this pxnbench"),
            "{why}"
        );
    }

    #[test]
    fn a_port_that_is_in_use_is_said_to_be() {
        let (listener, port) = listener();
        let why = listen(port).expect_err("in use");
        assert!(why.contains(&format!("its port {port} is in use")), "{why}");
        drop(listener);
        assert!(reach("127.0.0.1", port, "x").is_err_and(|why| why.contains("--master ADDRESS")));
    }

    #[test]
    fn a_name_that_does_not_resolve_is_said_not_to() {
        let why = reach("no-such-host.invalid", 1, "x").expect_err("no address");
        assert!(
            why.contains("it cannot resolve no-such-host.invalid"),
            "{why}"
        );
    }
}
