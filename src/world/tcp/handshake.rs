//! The first messages on a connection: both sides prove that they know the secret, and say who they
//! are.
//!
//! The side that listens sends a random number. The other one answers with its identity, a random
//! number of its own, and the proof over both numbers and the identity. The first side checks it
//! and answers in the same way. So neither the secret nor anything that could be used again
//! travels, and an identity cannot be changed on its way.

use std::{
    io,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use socket2::Socket;

use super::{
    frame::{Frame, FrameKind, STRANGERS_LIMIT, Until, foreign},
    identity::Identity,
    secret::{Nonce, Proof, Secret, nonce},
};

/// The first word of a greeting.
const MAGIC: &str = "pxnbench";

/// The version of the messages.
const PROTOCOL: u32 = 1;

/// The purpose of a connection. A proof for one is not valid for another.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) enum Purpose {
    /// To join the job at rank 0.
    Join,
    /// To exchange with the parent in the tree.
    Tree,
    /// To tell the parent in the tree of the watch that this process makes progress.
    Watch,
}

impl Purpose {
    fn hello(self) -> &'static str {
        match self {
            Purpose::Join => "pxnbench join hello",
            Purpose::Tree => "pxnbench tree hello",
            Purpose::Watch => "pxnbench watch hello",
        }
    }

    fn welcome(self) -> &'static str {
        match self {
            Purpose::Join => "pxnbench join welcome",
            Purpose::Tree => "pxnbench tree welcome",
            Purpose::Watch => "pxnbench watch welcome",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Greeting {
    magic: String,
    protocol: u32,
    nonce: Nonce,
}

#[derive(Serialize, Deserialize)]
struct Hello {
    /// An [`Identity`] as JSON. The proof is over these bytes.
    identity: String,
    nonce: Nonce,
    proof: Proof,
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    identity: String,
    proof: Proof,
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub(in crate::world) enum Peer {
    /// A process of this job.
    Member(Identity),
    /// Somebody with another secret, and whom it says it is.
    Stranger(Identity),
}

/// The reason for which a connection was not accepted.
#[derive(Debug)]
pub(in crate::world) enum Rejection {
    /// The connection broke, or something else listens there.
    Io(io::Error),
    /// The other side has another secret.
    WrongSecret,
    /// The other side speaks another version of these messages.
    Protocol(u32),
}

impl From<io::Error> for Rejection {
    fn from(error: io::Error) -> Rejection {
        Rejection::Io(error)
    }
}

/// What a process says of itself on a connection.
#[derive(Clone, Copy)]
pub(in crate::world) struct Introduction<'a> {
    pub(in crate::world) purpose: Purpose,
    pub(in crate::world) secret: &'a Secret,
    pub(in crate::world) identity: &'a Identity,
}

/// Receives whoever connected, within `limit`. `may_stay` is asked before a member is welcome.
///
/// # Errors
/// Returns an error if it does not follow the protocol in time, or may not stay.
pub(in crate::world) fn receive(
    stream: &Socket,
    own: Introduction,
    limit: Duration,
    may_stay: impl FnOnce() -> bool,
) -> io::Result<Peer> {
    let until = Instant::now() + limit;
    stream.set_write_timeout(Some(limit))?;
    let own_nonce = nonce()?;
    let greeting = Greeting {
        magic: MAGIC.into(),
        protocol: PROTOCOL,
        nonce: own_nonce,
    };
    Frame::json(FrameKind::Greeting, &greeting)?.write(stream)?;
    let hello: Hello = next(stream, until)?.parse(FrameKind::Hello)?;
    let identity: Identity = serde_json::from_str(&hello.identity).map_err(|_| foreign())?;
    let parts: [&[u8]; 3] = [&own_nonce, &hello.nonce, hello.identity.as_bytes()];
    let is_member = own
        .secret
        .is_proved(own.purpose.hello(), &parts, &hello.proof);
    if !is_member {
        let refusal = Frame {
            kind: FrameKind::Refusal,
            body: Vec::new(),
        };
        refusal.write(stream)?;
        return Ok(Peer::Stranger(identity));
    }
    if !may_stay() {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    let own_identity = serde_json::to_string(own.identity)?;
    let parts: [&[u8]; 3] = [&hello.nonce, &own_nonce, own_identity.as_bytes()];
    let proof = own.secret.prove(own.purpose.welcome(), &parts);
    let welcome = Welcome {
        identity: own_identity,
        proof,
    };
    Frame::json(FrameKind::Welcome, &welcome)?.write(stream)?;
    stream.set_write_timeout(None)?;
    Ok(Peer::Member(identity))
}

/// Introduces this process to the one that listens, and returns its identity.
///
/// # Errors
/// Returns an error if something else listens there, or a process of another job.
pub(in crate::world) fn introduce(
    stream: &Socket,
    own: Introduction,
    limit: Duration,
) -> Result<Identity, Rejection> {
    let until = Instant::now() + limit;
    let greeting: Greeting = next(stream, until)?.parse(FrameKind::Greeting)?;
    if greeting.magic != MAGIC {
        return Err(foreign().into());
    }
    if greeting.protocol != PROTOCOL {
        return Err(Rejection::Protocol(greeting.protocol));
    }
    let own_nonce = nonce()?;
    let own_identity = serde_json::to_string(own.identity).map_err(io::Error::from)?;
    let parts: [&[u8]; 3] = [&greeting.nonce, &own_nonce, own_identity.as_bytes()];
    let proof = own.secret.prove(own.purpose.hello(), &parts);
    let hello = Hello {
        identity: own_identity,
        nonce: own_nonce,
        proof,
    };
    Frame::json(FrameKind::Hello, &hello)?.write(stream)?;
    let answer = next(stream, until)?;
    if answer.kind == FrameKind::Refusal {
        return Err(Rejection::WrongSecret);
    }
    let welcome: Welcome = answer.parse(FrameKind::Welcome)?;
    let parts: [&[u8]; 3] = [&own_nonce, &greeting.nonce, welcome.identity.as_bytes()];
    let is_member = own
        .secret
        .is_proved(own.purpose.welcome(), &parts, &welcome.proof);
    if !is_member {
        return Err(Rejection::WrongSecret);
    }
    Ok(serde_json::from_str(&welcome.identity).map_err(|_| foreign())?)
}

fn next(stream: &Socket, until: Instant) -> io::Result<Frame> {
    let frame = Frame::read(Until { stream, until }, STRANGERS_LIMIT)?;
    frame.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tcp::secret::TOKEN;
    use socket2::SockRef;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        thread,
    };

    const LIMIT: Duration = Duration::from_secs(20);

    fn secret(token: &str) -> Secret {
        Secret::from_env(&|name| (name == TOKEN).then(|| token.to_owned()))
    }

    /// Returns what `peer` makes of the side that listens, and that of it, which has the token `a`
    /// and is for joining.
    fn meet<T: Send + 'static>(
        may_stay: bool,
        peer: impl FnOnce(TcpStream) -> T + Send + 'static,
    ) -> (T, io::Result<Peer>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let peer = thread::spawn(move || peer(TcpStream::connect(address).expect("connected")));
        let (stream, _) = listener.accept().expect("accepted");
        let own = Introduction {
            purpose: Purpose::Join,
            secret: &secret("a"),
            identity: &Identity::example(0),
        };
        let received = receive(&SockRef::from(&stream), own, Duration::from_secs(2), || {
            may_stay
        });
        drop(stream);
        (peer.join().expect("a peer"), received)
    }

    fn introduced(
        purpose: Purpose,
        token: &'static str,
    ) -> impl FnOnce(TcpStream) -> Result<Identity, Rejection> {
        move |stream| {
            let own = Introduction {
                purpose,
                secret: &secret(token),
                identity: &Identity::example(1),
            };
            introduce(&SockRef::from(&stream), own, LIMIT)
        }
    }

    #[test]
    fn two_processes_of_a_job_know_each_other() {
        let (theirs, ours) = meet(true, introduced(Purpose::Join, "a"));
        assert_eq!(theirs.expect("welcome"), Identity::example(0));
        assert!(matches!(ours, Ok(Peer::Member(member)) if member == Identity::example(1)));
    }

    #[test]
    fn another_secret_or_purpose_is_refused_on_both_sides() {
        for (purpose, token) in [(Purpose::Join, "b"), (Purpose::Tree, "a")] {
            let (theirs, ours) = meet(true, introduced(purpose, token));
            assert!(matches!(theirs, Err(Rejection::WrongSecret)));
            assert!(matches!(ours, Ok(Peer::Stranger(_))));
        }
    }

    #[test]
    fn whoever_had_to_go_is_not_welcome() {
        let (theirs, ours) = meet(false, introduced(Purpose::Join, "a"));
        assert!(matches!(theirs, Err(Rejection::Io(_))));
        assert!(ours.is_err());
    }

    #[test]
    fn silence_and_noise_are_no_guests() {
        let (_, silent) = meet(true, |stream| stream);
        assert!(matches!(silent, Err(error) if error.kind() == io::ErrorKind::TimedOut));
        for noise in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"H\xff\xff\xff\xff",
            b"H\x02\0\0\0{}",
        ] {
            let (_, noisy) = meet(true, |mut stream| stream.write_all(noise));
            assert!(noisy.is_err(), "{noise:?}");
        }
    }

    #[test]
    fn a_proof_cannot_be_used_again() {
        // Whoever listened to one connection sends the same on the next, whose random number is
        // another one.
        let recorded = thread::spawn(|| {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            let address = listener.local_addr().expect("an address");
            let peer = thread::spawn(move || {
                let stream = TcpStream::connect(address).expect("connected");
                introduced(Purpose::Join, "a")(stream)
            });
            let (stream, _) = listener.accept().expect("accepted");
            let greeting = Greeting {
                magic: MAGIC.into(),
                protocol: PROTOCOL,
                nonce: [0; 32],
            };
            let greeting = Frame::json(FrameKind::Greeting, &greeting).expect("JSON");
            greeting.write(&stream).expect("written");
            let hello = next(&SockRef::from(&stream), Instant::now() + LIMIT).expect("an answer");
            drop(stream);
            assert!(peer.join().expect("a peer").is_err());
            hello
        });
        let hello = recorded.join().expect("a recording");
        let (_, replayed) = meet(true, move |stream| hello.write(&stream));
        assert!(matches!(replayed, Ok(Peer::Stranger(_)) | Err(_)));
    }
}
