//! A client of NCCL's RAS, the service for reliability, availability and serviceability of NCCL
//! 2.24 and newer.
//!
//! A thread of NCCL in each process listens at one port of the node, speaks lines of text, and
//! knows the state of all communicators of the job. It answers also if an operation is stuck.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::ras_answer::RasAnswer;
use crate::{
    env::{self, Env},
    output::whole_file::write_whole,
    visible::visible,
    world::inquiry,
};

/// How long the question may take, with its file.
const LIMIT: Duration = Duration::from_secs(2);

/// How long the answer may take.
const ANSWER_TAKES: Duration = Duration::from_millis(1800);

/// How long the first line may take. All processes of a node listen at one port, and one that is
/// stopped may have got the connection; another connection may reach another process.
const FIRST_LINE_TAKES: Duration = Duration::from_millis(400);

/// The most that is read of an answer, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// Where RAS listens unless `NCCL_RAS_ADDR` says otherwise.
const USUAL_ADDRESS: &str = "localhost:28028";

/// The file with the whole answer.
const FILE: &str = "nccl-ras.txt";

/// Arranges that RAS is asked if the run is stuck, and that its answer is kept in `folder`.
pub(super) fn prepare(folder: Option<&Path>) {
    let Some(address) = address(&env::var) else {
        return;
    };
    let file = folder.map(|folder| folder.join(FILE));
    inquiry::add(LIMIT, move |_| clause(&address, file.as_ref()));
}

/// Returns where RAS listens; `None` if it is switched off.
fn address(env: Env) -> Option<String> {
    let enable = env("NCCL_RAS_ENABLE");
    let is_off = enable.is_some_and(|value| value.trim().parse() == Ok(0));
    let address = env("NCCL_RAS_ADDR").unwrap_or_else(|| USUAL_ADDRESS.to_owned());
    (!is_off).then_some(address)
}

/// Returns what RAS says; `None` if no RAS listens.
fn clause(address: &str, file: Option<&PathBuf>) -> Option<String> {
    let answer = ask(address, Instant::now() + ANSWER_TAKES)?;
    if answer.text.is_empty() {
        return Some(format!(
            "NCCL's RAS at {address} did not answer within {} s",
            LIMIT.as_secs()
        ));
    }
    let write = |file: &PathBuf| write_whole(file, |file| file.write_all(answer.text.as_bytes()));
    // If it cannot be written, the message has the gist.
    let kept = file.filter(|file| write(file).is_ok());
    let kept = kept.map(|file| format!(" (its whole answer: {})", file.display()));
    Some(answer.gist() + &kept.unwrap_or_default())
}

/// Asks RAS at `address`; `None` if none listens there.
fn ask(address: &str, until: Instant) -> Option<RasAnswer> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().ok()?.collect();
    let mut has_listener = false;
    while Instant::now() < until {
        let Some(socket) = connected(&addresses, until) else {
            break;
        };
        has_listener = true;
        let mut connection = RasConnection {
            socket,
            heard: Vec::new(),
        };
        let first_line_until = until.min(Instant::now() + FIRST_LINE_TAKES);
        match connection.request("CLIENT PROTOCOL 2", first_line_until) {
            Ok(line) if line.starts_with("SERVER PROTOCOL ") => {
                return Some(connection.status(until));
            }
            // Not RAS.
            Ok(_) => return None,
            Err(error) if is_late(&error) => {}
            Err(_) => return None,
        }
    }
    has_listener.then(RasAnswer::default)
}

/// Returns whether a time limit is over.
fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

fn connected(addresses: &[SocketAddr], until: Instant) -> Option<TcpStream> {
    addresses.iter().find_map(|address| {
        let rest = rest(until).ok()?;
        TcpStream::connect_timeout(address, rest).ok()
    })
}

/// Returns the time until `until`.
///
/// # Errors
/// Returns an error if it is over.
fn rest(until: Instant) -> io::Result<Duration> {
    let rest = until.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(rest)
}

/// A connection to a process that may be one with RAS.
struct RasConnection {
    socket: TcpStream,
    heard: Vec<u8>,
}

impl RasConnection {
    /// Sends a line, and returns the line that answers it.
    fn request(&mut self, line: &str, until: Instant) -> io::Result<String> {
        self.send(line, until)?;
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.receive(until)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn send(&mut self, line: &str, until: Instant) -> io::Result<()> {
        self.socket.set_write_timeout(Some(rest(until)?))?;
        self.socket.write_all(format!("{line}\n").as_bytes())
    }

    /// Receives what has come, or waits for more. Returns the number of bytes; 0 at the end.
    fn receive(&mut self, until: Instant) -> io::Result<usize> {
        if self.heard.len() >= MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut part = [0; 4096];
        self.socket.set_read_timeout(Some(rest(until)?))?;
        let count = self.socket.read(&mut part)?;
        self.heard.extend(&part[..count]);
        Ok(count)
    }

    /// Returns what it says of all communicators, as much as comes until `until`.
    fn status(mut self, until: Instant) -> RasAnswer {
        let is_whole = self.read_status(until).is_ok();
        self.heard.truncate(MOST_BYTES);
        RasAnswer {
            text: visible(&String::from_utf8_lossy(&self.heard)).into_owned(),
            is_whole,
        }
    }

    /// Reads it to the end.
    ///
    /// # Errors
    /// Returns an error if it does not end in time, or is too long.
    fn read_status(&mut self, until: Instant) -> io::Result<()> {
        // How long RAS waits for a process that does not answer it, in seconds; otherwise five.
        self.request("TIMEOUT 1", until)?;
        self.send("VERBOSE STATUS", until)?;
        while self.receive(until)? > 0 {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        net::TcpListener,
        thread,
    };

    #[test]
    fn variables_say_where_it_listens() {
        let with = |name: &'static str, value: &'static str| {
            address(&move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(with("", "").as_deref(), Some(USUAL_ADDRESS));
        assert_eq!(with("NCCL_RAS_ENABLE", "1").as_deref(), Some(USUAL_ADDRESS));
        assert_eq!(with("NCCL_RAS_ENABLE", "0"), None);
        assert_eq!(with("NCCL_RAS_ADDR", "[::1]:7").as_deref(), Some("[::1]:7"));
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn what_is_not_ras_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let other = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            socket
                .write_all(b"HTTP/1.1 400 Bad Request\r\n")
                .expect("sent");
        });
        assert!(ask(&address, soon()).is_none());
        other.join().expect("served");
        assert!(ask(&address, soon()).is_none(), "nobody listens any more");
        assert!(ask("no address", soon()).is_none());
    }

    #[test]
    fn a_process_that_is_stopped_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let served = thread::spawn(move || {
            let stopped = listener.accept().expect("a connection");
            let (mut socket, _) = listener.accept().expect("another one");
            socket
                .write_all(b"SERVER PROTOCOL 2\nOK\nErrors\n")
                .expect("sent");
            // A connection that is closed before all is read loses what was sent.
            let lines = BufReader::new(socket).lines();
            assert_eq!(
                lines.take(3).flatten().last().as_deref(),
                Some("VERBOSE STATUS")
            );
            drop(stopped);
        });
        let answer = ask(&address, soon()).expect("an answer");
        assert!(answer.text.starts_with("Errors"), "{}", answer.text);
        served.join().expect("served");
    }

    #[test]
    fn an_answer_without_an_end_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let served = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            let _ = socket.write_all(b"SERVER PROTOCOL 2\nOK\n");
            while socket.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let answer = ask(&address, soon()).expect("an answer");
        assert_eq!(answer.text.len(), MOST_BYTES);
        assert!(!answer.is_whole);
        served.join().expect("served");
    }
}
