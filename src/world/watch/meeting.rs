//! How the processes of the watch connect: children to their parent, on threads of their own, while
//! the run goes on.

use std::{
    io::{self, Read, Write},
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, Socket, Type};

use super::channel::Channel;
use crate::world::tcp::{
    dial::Dial,
    handshake::{self, Introduction, Peer, Purpose},
    identity::Identity,
    secret::{Secret, random_token},
    socket,
};

/// How long connections are tried and accepted.
const TRIES_FOR: Duration = Duration::from_secs(30);

/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one attempt may take to connect to any address.
const CONNECTS: Duration = Duration::from_secs(2);

/// How long the other side may take to prove that it belongs to the job.
const PROVES: Duration = Duration::from_secs(5);

/// What a child sends when it has heard that it is welcome. One that gave up before that comes
/// again.
const HEARD: [u8; 1] = [1];

/// How long that may take: longer than the child waits.
const HEARS: Duration = PROVES.saturating_mul(2);

/// The most connections that prove it at the same time.
const MOST_AT_ONCE: usize = 64;

/// The stack of a thread that connects.
const STACK: usize = 256 << 10;

/// An event that the thread of the watch waits for.
pub(super) enum WatchEvent {
    /// The parent answers.
    Parent(Channel),
    /// A child has connected.
    Child(u32, Channel),
    /// The job is over.
    End,
}

/// The addresses at which a process accepts its children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Endpoint {
    /// The name of its socket on this host, which needs no file.
    name: Option<String>,
    /// Its port for other hosts.
    port: Option<u16>,
    addresses: Vec<IpAddr>,
}

/// The sockets of an endpoint.
pub(super) struct Listeners {
    sockets: Vec<Socket>,
}

/// The secret and the identity with which a process connects.
pub(super) struct Introducer {
    pub(super) secret: Secret,
    pub(super) identity: Identity,
}

impl Introducer {
    fn introduction(&self) -> Introduction<'_> {
        Introduction {
            purpose: Purpose::Watch,
            secret: &self.secret,
            identity: &self.identity,
        }
    }
}

/// Opens what the children of a process need; what the system refuses is left out.
pub(super) fn open(addresses: Vec<IpAddr>) -> (Endpoint, Listeners) {
    let mut endpoint = Endpoint::default();
    let mut sockets = Vec::new();
    if let Ok((name, socket)) = open_on_host() {
        endpoint.name = Some(name);
        sockets.push(socket);
    }
    if let Ok(listener) = socket::listen(0)
        && let Ok(address) = listener.local_addr()
    {
        endpoint.port = Some(address.port());
        endpoint.addresses = addresses;
        sockets.push(listener.into());
    }
    (endpoint, Listeners { sockets })
}

fn open_on_host() -> io::Result<(String, Socket)> {
    let name = random_token().map_err(io::Error::other)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&host_address(&name)?)?;
    socket.listen(MOST_AT_ONCE as i32)?;
    Ok((name, socket))
}

/// Returns the address of a socket without a file: its first byte is zero.
fn host_address(name: &str) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0pxnbench-watch-{name}"))
}

/// Accepts the children with the numbers `expected`, each once, until all have come or the time is
/// over.
pub(super) fn accept(
    listeners: Listeners,
    introducer: &Arc<Introducer>,
    expected: Vec<u32>,
    events: &Sender<WatchEvent>,
) {
    let missing = Arc::new(Mutex::new(expected));
    for listener in listeners.sockets {
        let introducer = Arc::clone(introducer);
        let (missing, events) = (Arc::clone(&missing), events.clone());
        // Without a thread nobody is reached here, which the watch says.
        let _ = thread::Builder::new().stack_size(STACK).spawn(move || {
            accept_on(&listener, &introducer, &missing, &events);
        });
    }
}

/// The numbers of the children that have not come.
type Missing = Arc<Mutex<Vec<u32>>>;

fn accept_on(
    listener: &Socket,
    introducer: &Arc<Introducer>,
    missing: &Missing,
    events: &Sender<WatchEvent>,
) {
    let until = Instant::now() + TRIES_FOR;
    let at_work = Arc::new(AtomicUsize::new(0));
    if listener.set_read_timeout(Some(PAUSE)).is_err() {
        return;
    }
    while Instant::now() < until && !is_empty(missing) {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                // Such as too many open files, which would be said again at once.
                if error.kind() != io::ErrorKind::WouldBlock {
                    thread::sleep(PAUSE);
                }
                continue;
            }
        };
        if at_work.load(Ordering::Relaxed) >= MOST_AT_ONCE {
            // A child comes again.
            continue;
        }
        at_work.fetch_add(1, Ordering::Relaxed);
        let introducer = Arc::clone(introducer);
        let (missing, events) = (Arc::clone(missing), events.clone());
        let working = Arc::clone(&at_work);
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
            if let Some(event) = admit(socket, &introducer, &missing) {
                // Once the watch has ended, nobody waits for events.
                let _ = events.send(event);
            }
            working.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            at_work.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn is_empty(missing: &Missing) -> bool {
    missing
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .is_empty()
}

/// Returns the child behind `socket`, if it is one that is expected.
fn admit(mut socket: Socket, introducer: &Introducer, missing: &Missing) -> Option<WatchEvent> {
    socket.set_nonblocking(false).ok()?;
    let own = introducer.introduction();
    let peer = handshake::receive(&socket, own, PROVES, || true).ok()?;
    let Peer::Member(identity) = peer else {
        return None;
    };
    socket.set_read_timeout(Some(HEARS)).ok()?;
    let mut heard = HEARD;
    socket.read_exact(&mut heard).ok()?;
    let channel = Channel::new(socket).ok()?;
    let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
    let at = missing.iter().position(|rank| *rank == identity.rank)?;
    missing.swap_remove(at);
    Some(WatchEvent::Child(identity.rank, channel))
}

/// Connects to the parent, which is `rank` at `endpoint`, until it answers or the time is over.
pub(super) fn find_parent(
    rank: u32,
    endpoint: Endpoint,
    introducer: Arc<Introducer>,
    events: Sender<WatchEvent>,
) {
    // Without a thread the parent is not reached, which it says.
    let _ = thread::Builder::new().stack_size(STACK).spawn(move || {
        let until = Instant::now() + TRIES_FOR;
        while Instant::now() < until {
            if let Some(channel) = attempt(rank, &endpoint, &introducer) {
                let _ = events.send(WatchEvent::Parent(channel));
                return;
            }
            thread::sleep(PAUSE);
        }
    });
}

/// Tries all ways to the parent once.
fn attempt(rank: u32, endpoint: &Endpoint, introducer: &Introducer) -> Option<Channel> {
    let on_host = endpoint.name.as_deref().map(connect_on_host);
    let over_network = endpoint.port.into_iter().flat_map(|port| {
        let dial = Dial::new(&endpoint.addresses, port, CONNECTS);
        dial.map(Socket::from)
    });
    // A way that is not needed is not tried.
    let mut ways = on_host.into_iter().flatten().chain(over_network);
    ways.find_map(|socket| introduce(socket, rank, introducer))
}

/// Introduces this process to the parent, and says that it has heard its answer.
fn introduce(mut socket: Socket, rank: u32, introducer: &Introducer) -> Option<Channel> {
    let parent = handshake::introduce(&socket, introducer.introduction(), PROVES).ok()?;
    // Hosts may have an address in common, which leads to another process.
    if parent.rank != rank {
        return None;
    }
    socket.write_all(&HEARD).ok()?;
    Channel::new(socket).ok()
}

fn connect_on_host(name: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.connect(&host_address(name)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tcp::dial::DeadAddresses;
    use std::{net::SocketAddr, sync::mpsc};

    fn introducer(rank: u32, key: &[u8]) -> Arc<Introducer> {
        Arc::new(Introducer {
            secret: Secret::from_rank_0(key.to_vec()),
            identity: Identity::of_rank(rank, 4),
        })
    }

    fn here() -> Vec<IpAddr> {
        vec!["127.0.0.1".parse().expect("an address")]
    }

    #[test]
    fn children_find_their_parent_on_the_host_and_over_the_network() {
        let (endpoint, listeners) = open(here());
        assert!(endpoint.name.is_some() && endpoint.port.is_some());
        let (parent, events) = mpsc::channel();
        accept(listeners, &introducer(0, b"a"), vec![1, 2], &parent);
        let ways = [
            Endpoint {
                port: None,
                ..endpoint.clone()
            },
            Endpoint {
                name: None,
                ..endpoint
            },
        ];
        for (rank, way) in (1..).zip(ways) {
            let (own, answers) = mpsc::channel();
            find_parent(0, way, introducer(rank, b"a"), own);
            let mut child = match answers.recv_timeout(TRIES_FOR).expect("an answer") {
                WatchEvent::Parent(channel) => channel,
                _ => panic!("no parent"),
            };
            let WatchEvent::Child(number, mut channel) =
                events.recv_timeout(TRIES_FOR).expect("a child")
            else {
                panic!("no child");
            };
            assert_eq!(number, rank);
            child.beat(&rank);
            let said = channel.listen().beat.expect("a beat");
            assert_eq!(said, rank.to_string().into_bytes());
        }
    }

    #[test]
    fn a_child_that_gave_up_waiting_comes_again() {
        let (endpoint, listeners) = open(here());
        let (parent, events) = mpsc::channel();
        accept(listeners, &introducer(0, b"a"), vec![1], &parent);
        let child = introducer(1, b"a");
        let name = endpoint.name.as_deref().expect("a name");
        let socket = connect_on_host(name).expect("connected");
        handshake::introduce(&socket, child.introduction(), PROVES).expect("welcome");
        drop(socket);
        let mut channel = attempt(0, &endpoint, &child).expect("a connection");
        channel.beat(&1);
        let Ok(WatchEvent::Child(1, mut channel)) = events.recv_timeout(TRIES_FOR) else {
            panic!("no child");
        };
        let heard = channel.listen();
        assert_eq!(heard.beat.expect("a beat"), b"1");
    }

    #[test]
    fn addresses_at_which_nobody_answers_do_not_keep_a_child_from_its_parent() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any_port = SocketAddr::new(here()[0], 0);
        listener.bind(&any_port.into()).expect("a port");
        listener.listen(8).expect("listening");
        let address = listener.local_addr().expect("an address").as_socket();
        let port = address.expect("an address").port();
        let (parent, events) = mpsc::channel();
        let sockets = vec![listener];
        accept(
            Listeners { sockets },
            &introducer(0, b"a"),
            vec![1],
            &parent,
        );
        let dead = DeadAddresses::at(port, 16);
        let endpoint = Endpoint {
            name: None,
            port: Some(port),
            addresses: [dead.addresses.clone(), here()].concat(),
        };
        let began = Instant::now();
        attempt(0, &endpoint, &introducer(1, b"a")).expect("a connection");
        let one_by_one = CONNECTS * 16;
        assert!(began.elapsed() < one_by_one / 2, "{:?}", began.elapsed());
        let first = events.recv_timeout(TRIES_FOR).expect("a child");
        assert!(matches!(first, WatchEvent::Child(1, _)));
    }

    #[test]
    fn strangers_and_ranks_that_are_not_expected_stay_outside() {
        let (endpoint, listeners) = open(here());
        let (parent, events) = mpsc::channel();
        accept(listeners, &introducer(0, b"a"), vec![1], &parent);
        assert!(attempt(0, &endpoint, &introducer(1, b"b")).is_none());
        // Another process than the parent answers.
        assert!(attempt(7, &endpoint, &introducer(2, b"a")).is_none());
        attempt(0, &endpoint, &introducer(1, b"a")).expect("a connection");
        let first = events.recv_timeout(TRIES_FOR).expect("a child");
        assert!(matches!(first, WatchEvent::Child(1, _)));
        assert!(events.recv_timeout(Duration::from_millis(50)).is_err());
    }
}
