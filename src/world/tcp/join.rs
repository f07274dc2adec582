//! The other ranks' side of the rendezvous: each looks for rank 0, learns its place, and connects
//! to its parent.

use std::{
    io,
    net::{IpAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;

use super::{
    acceptor::{Acceptor, Arrival},
    dial, failure,
    frame::FrameKind,
    handshake::{self, Introduction, Purpose, Rejection},
    identity::Identity,
    link::Link,
    position::{Address, Connected, Neighbours, Position},
    secret::TOKEN,
    socket,
    variables::Contract,
};
use crate::exit::Code;

/// How long one attempt to connect may take.
const CONNECTS: Duration = Duration::from_secs(5);

/// How long the other side may take to answer. If there are several ports, something else may
/// listen at one.
const ANSWERS: Duration = Duration::from_secs(10);
const ANSWERS_AT_SEVERAL: Duration = Duration::from_secs(3);

/// How long a rank that is refused at one of several ports tries the others: another job may listen
/// there, whose secret is its own.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The shortest limit of an attempt.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// The shortest and the longest time between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// How much longer than rank 0 a rank waits for its place: rank 0 knows who is missing.
const SLACK: Duration = Duration::from_secs(8);

/// Looks for rank 0 until `until`, and takes the place that it gives. Ends the job if that fails.
pub(super) fn rank_0(contract: &Contract, identity: &Identity, until: Instant) -> Connected {
    let search = Search { contract, until };
    let listener = socket::listen(0).unwrap_or_else(|error| {
        let what = format!("this rank cannot listen for the ranks below it: {error}");
        search.fail(Code::Internal, &what)
    });
    let port = listener.local_addr().map_or(0, |address| address.port());
    let identity = Identity {
        port,
        ..identity.clone()
    };
    failure::set_own(&identity);
    let own = Introduction {
        purpose: Purpose::Join,
        secret: &contract.secret,
        identity: &identity,
    };
    let (stream, rank_0) = search.find_rank_0(own);
    // Through this address others reach the host of rank 0 too.
    let ip_of_rank_0 = stream
        .peer_addr()
        .map(|address| socket::plain(address.ip()));
    let join = Link::new(&rank_0, stream);
    failure::add(&join);
    let position = search.wait_for_position(&join);
    failure::set_speaks_for_rank_0(position.speaks_for_rank_0);
    let acceptor = (!position.below.is_empty()).then(|| search.accept_on(listener, &identity));
    let mut waiting = Vec::new();
    let above = if position.above.rank == 0 {
        join
    } else {
        let own = Introduction {
            purpose: Purpose::Tree,
            ..own
        };
        let above = search.find_parent(own, &position.above, ip_of_rank_0.ok());
        waiting.push(join);
        above
    };
    let below = match acceptor {
        Some(acceptor) => search.wait_for_children(&acceptor, &position.below),
        None => Vec::new(),
    };
    Connected {
        neighbours: Neighbours {
            above: Some(above),
            below,
        },
        waiting,
    }
}

/// What a rank looks for, and until when.
struct Search<'a> {
    contract: &'a Contract,
    until: Instant,
}

impl Search<'_> {
    fn fail(&self, code: Code, what: &str) -> ! {
        failure::of_this_rank(self.contract.local_rank, code, what)
    }

    /// Accepts the ranks below this one, which connect to `listener`.
    fn accept_on(&self, listener: TcpListener, identity: &Identity) -> Acceptor {
        let secret = Arc::clone(&self.contract.secret);
        let acceptor = Acceptor::open(listener, Purpose::Tree, secret, identity.clone());
        acceptor.unwrap_or_else(|error| {
            let what = format!("this rank cannot receive the ranks below it: {error}");
            self.fail(Code::Internal, &what)
        })
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Returns how long one of several attempts may take that alone would take `longest`.
    fn patience(&self, longest: Duration) -> Duration {
        let rest = self.until.saturating_duration_since(Instant::now());
        longest.min(rest).max(SHORTEST_ATTEMPT)
    }

    /// Tries all addresses and ports of rank 0 in turn, since it may start later.
    fn find_rank_0(&self, own: Introduction) -> (TcpStream, Identity) {
        let ports = &self.contract.ports;
        let answers = if ports.len() > 1 {
            ANSWERS_AT_SEVERAL
        } else {
            ANSWERS
        };
        let mut pause = PAUSES.0;
        let mut refused_since: Option<Instant> = None;
        loop {
            let mut last = None;
            match socket::resolve(&self.contract.address) {
                Err(error) => last = Some((Code::Launch, self.unknown_name(&error))),
                Ok(addresses) => {
                    for port in ports {
                        match self.attempt(&addresses, *port, own, answers) {
                            Ok(found) => return found,
                            Err(Rejection::Io(error)) => {
                                let what = self.unreachable(*port, &addresses, &error);
                                last.get_or_insert((Code::TimedOut, what));
                            }
                            Err(Rejection::Protocol(theirs)) => self.fail(
                                Code::Launch,
                                &format!(
                                    "rank 0 at {} port {port} is another version of pxnbench, \
                                     with version {theirs} of the messages. Start the same \
                                     version on every node",
                                    self.contract.address
                                ),
                            ),
                            Err(Rejection::WrongSecret) => {
                                refused_since.get_or_insert_with(Instant::now);
                            }
                        }
                    }
                }
            }
            if let Some(since) = refused_since
                && (ports.len() == 1 || self.is_over() || since.elapsed() > REFUSED_FOR)
            {
                self.fail(Code::Launch, &self.wrong_secret());
            }
            if let Some((code, what)) = last
                && self.is_over()
            {
                self.fail(code, &what);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    fn unknown_name(&self, error: &io::Error) -> String {
        format!(
            "MASTER_ADDR={} has no address: {error}. Set it to a name or an address of the host \
             of rank 0 that this host knows",
            self.contract.address
        )
    }

    fn unreachable(&self, port: u16, addresses: &[IpAddr], error: &io::Error) -> String {
        let mut names = Vec::new();
        for address in addresses {
            let name = address.to_string();
            if name != self.contract.address {
                names.push(name);
            }
        }
        let known_as = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        let (what, remedy) = match error.kind() {
            io::ErrorKind::ConnectionRefused => (
                "nothing listens there".to_owned(),
                "Start rank 0 on that host with the same MASTER_PORT",
            ),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => (
                "what listens there is not pxnbench".to_owned(),
                "Choose a free port of that host with MASTER_PORT or PXNBENCH_PORT, the same on \
                 every rank",
            ),
            io::ErrorKind::TimedOut => (
                "there is no answer".to_owned(),
                "Check that rank 0 runs there, and that no firewall is between the hosts",
            ),
            _ => (
                error.to_string(),
                "Check MASTER_ADDR and the network between the hosts",
            ),
        };
        let ports = if self.contract.ports.len() > 1 {
            self.contract.port_names()
        } else {
            format!("port {port}")
        };
        format!(
            "rank 0 cannot be reached at {}{known_as}, {ports}: {what}. {remedy}",
            self.contract.address
        )
    }

    fn wrong_secret(&self) -> String {
        format!(
            "rank 0 at {}, {}, refuses this rank: they have different secrets, and that of this \
             rank is from {}. Set {TOKEN} to the same value on every rank",
            self.contract.address,
            self.contract.port_names(),
            self.contract.secret.source.name()
        )
    }

    fn wait_for_position(&self, join: &Link) -> Position {
        match join.read_until(self.until + SLACK) {
            Ok(Some(frame)) if frame.kind == FrameKind::Abort => {
                failure::heard(&frame);
                let what = format!(
                    "{} ended the job, but its reason cannot be read. See its output",
                    join.name()
                );
                self.fail(Code::Internal, &what);
            }
            Ok(Some(frame)) => frame.parse(FrameKind::Position).unwrap_or_else(|_| {
                let what = format!(
                    "{} sent an unexpected message instead of this rank's place in the job. This \
                     is a bug of pxnbench: please report it",
                    join.name()
                );
                self.fail(Code::Internal, &what)
            }),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => self.fail(
                Code::TimedOut,
                &format!(
                    "{} does not answer any more. See its output, and whether that host is \
                     overloaded",
                    join.name()
                ),
            ),
            Ok(None) => self.fail(Code::Launch, &failure::gone(join, None)),
            Err(error) => self.fail(Code::Launch, &failure::gone(join, Some(&error))),
        }
    }

    /// Connects to the parent in the tree, which has its place already or receives it now.
    fn find_parent(
        &self,
        own: Introduction,
        parent: &Address,
        ip_of_rank_0: Option<IpAddr>,
    ) -> Arc<Link> {
        let mut addresses = vec![parent.ip];
        // A rank that reached rank 0 on its own host did so from an address that means this host
        // elsewhere.
        if parent.ip.is_loopback() {
            addresses.extend(ip_of_rank_0.filter(|ip| !ip.is_loopback()));
        }
        let mut pause = PAUSES.0;
        loop {
            let attempt = self.attempt(&addresses, parent.port, own, ANSWERS);
            let why = match attempt {
                Ok((stream, identity)) if identity.rank == parent.rank => {
                    let link = Link::new(&identity, stream);
                    failure::add(&link);
                    return link;
                }
                Ok((_, identity)) => format!("{} answers", identity.name()),
                Err(Rejection::Io(error)) => error.to_string(),
                Err(Rejection::WrongSecret) => "it has a different secret".into(),
                Err(Rejection::Protocol(_)) => "it is a different version of pxnbench".into(),
            };
            if self.is_over() {
                let what = format!(
                    "rank {} on {} cannot be reached at {} port {}: {why}. Check that no firewall \
                     is between the hosts",
                    parent.rank, parent.host, parent.ip, parent.port
                );
                self.fail(Code::TimedOut, &what);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    fn attempt(
        &self,
        addresses: &[IpAddr],
        port: u16,
        own: Introduction,
        answers: Duration,
    ) -> Result<(TcpStream, Identity), Rejection> {
        let stream = dial::connect(addresses, port, self.patience(CONNECTS))?;
        let identity = handshake::introduce(&SockRef::from(&stream), own, self.patience(answers))?;
        Ok((stream, identity))
    }

    /// Waits for the ranks below, in rank order.
    fn wait_for_children(&self, acceptor: &Acceptor, ranks: &[u32]) -> Vec<Arc<Link>> {
        let mut links: Vec<Arc<Link>> = Vec::new();
        while links.len() < ranks.len() {
            let rest = (self.until + SLACK).saturating_duration_since(Instant::now());
            if rest.is_zero() {
                let here = |rank: &&u32| links.iter().any(|link| link.rank == **rank);
                let late = ranks.iter().find(|rank| !here(rank));
                let what = format!(
                    "rank {} did not connect to this rank, which is above it in the tree. Check \
                     that no firewall is between the hosts",
                    late.unwrap_or(&0)
                );
                self.fail(Code::TimedOut, &what);
            }
            if let Some(Arrival::Member(identity, link)) = acceptor.next(rest)
                && ranks.contains(&identity.rank)
            {
                // The same rank again: its first connection broke before it was welcome.
                links.retain(|other| other.rank != identity.rank);
                links.push(link);
            }
        }
        links.sort_by_key(|link| link.rank);
        links
    }
}
