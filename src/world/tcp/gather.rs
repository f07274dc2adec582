//! Rank 0's side of the rendezvous: it listens until every rank has come, and gives each its place.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    acceptor::{Acceptor, Arrival},
    failure,
    frame::{Frame, FrameKind},
    handshake::Purpose,
    identity::Identity,
    link::Link,
    position::{Address, Connected, Neighbours, Position},
    secret::TOKEN,
    socket,
    tree::Tree,
    variables::Contract,
};
use crate::{exit::Code, units::counted, world::abort};

/// The interval at which rank 0 listens to those who wait for the others.
const TICK: Duration = Duration::from_millis(50);

/// The most strangers that are named.
const MOST_STRANGERS: usize = 4;

/// A rank that has come.
struct Member {
    identity: Identity,
    /// The address from which it came.
    ip: IpAddr,
    link: Arc<Link>,
}

/// Those who have come so far.
struct Members<'a> {
    own: &'a Identity,
    by_rank: BTreeMap<u32, Member>,
}

/// Waits for every rank until `until`, and gives each its place. Ends the job if one does not come
/// or does not fit.
pub(super) fn all_ranks(contract: &Contract, identity: &Identity, until: Instant) -> Connected {
    failure::set_own(identity);
    let began = Instant::now();
    if let Err(most) = socket::make_room(contract.size.into()) {
        let what = format!(
            "rank 0 cannot receive {} ranks, since it may open {most} files at once. Raise ulimit \
             -n (the hard limit) there",
            contract.size
        );
        abort::job(Code::Launch, &what);
    }
    let listener = listen(contract).unwrap_or_else(|what| abort::job(Code::Launch, &what));
    let secret = Arc::clone(&contract.secret);
    let acceptor = Acceptor::open(listener, Purpose::Join, secret, identity.clone());
    let acceptor = acceptor.unwrap_or_else(|error| {
        let what = format!("rank 0 cannot receive the others: {error}");
        abort::job(Code::Internal, &what)
    });
    let mut members = Members {
        own: identity,
        by_rank: BTreeMap::new(),
    };
    let mut strangers: Vec<String> = Vec::new();
    while !members.are_complete() {
        if Instant::now() >= until {
            let waited = began.elapsed();
            let what = missing(contract, &members.missing(), &strangers, waited);
            abort::job(Code::TimedOut, &what);
        }
        if let Some(arrival) = acceptor.next(TICK) {
            receive(arrival, &mut members, &mut strangers);
        } else {
            members.listen();
        }
    }
    drop(acceptor);
    members.assign_positions()
}

/// Listens at the first port that is free.
fn listen(contract: &Contract) -> Result<TcpListener, String> {
    let mut last = io::Error::other("there is none");
    for port in &contract.ports {
        match socket::listen(*port) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(format!(
        "rank 0 cannot listen at {}, where the other ranks look for it: {last}. {}",
        contract.port_names(),
        contract.other_port()
    ))
}

fn receive(arrival: Arrival, members: &mut Members, strangers: &mut Vec<String>) {
    match arrival {
        Arrival::Member(identity, link) => {
            if let Err(what) = members.add(identity, link) {
                abort::job(Code::Launch, &what);
            }
        }
        Arrival::Stranger(identity, from) => {
            let what = format!(
                "rank {} connected from {} with a different secret",
                identity.rank,
                socket::plain(from.ip())
            );
            if strangers.len() < MOST_STRANGERS && !strangers.contains(&what) {
                say!(
                    "pxnbench: {}: {what}: its secret is from {}, that of rank 0 from {}. Set \
                     {TOKEN} to the same value on every rank",
                    abort::process_name(),
                    identity.secret_from.name(),
                    members.own.secret_from.name()
                );
                strangers.push(what);
            }
        }
    }
}

impl Members<'_> {
    fn are_complete(&self) -> bool {
        self.by_rank.len() as u32 + 1 == self.own.size
    }

    fn missing(&self) -> Vec<u32> {
        let all = 1..self.own.size;
        all.filter(|rank| !self.by_rank.contains_key(rank))
            .collect()
    }

    /// Adds a rank, or returns why it does not fit the job.
    fn add(&mut self, identity: Identity, link: Arc<Link>) -> Result<(), String> {
        let own = self.own;
        if identity.version != own.version {
            return Err(format!(
                "{} is pxnbench {}, and {} is pxnbench {}. Start the same version on every node",
                identity.name(),
                identity.version,
                own.name(),
                own.version
            ));
        }
        if identity.size != own.size && identity.rank >= own.size {
            return Err(format!(
                "{} is one too many: its WORLD_SIZE is {}, that of {} is {}. Set WORLD_SIZE to \
                 the number of processes of the job, the same on every rank",
                identity.name(),
                identity.size,
                own.name(),
                own.size
            ));
        }
        if identity.size != own.size {
            return Err(format!(
                "{} has WORLD_SIZE={}, and {} has {}. Set it to the number of processes of the \
                 job, the same on every rank",
                identity.name(),
                identity.size,
                own.name(),
                own.size
            ));
        }
        if identity.rank == 0 || identity.rank >= own.size {
            return Err(twice(own, &identity));
        }
        match self.by_rank.get(&identity.rank) {
            Some(other) if !other.identity.is_same_process(&identity) => {
                Err(twice(&other.identity, &identity))
            }
            known => {
                if let Some(known) = known {
                    failure::remove(&known.link);
                }
                // If the connection is broken, listening to it says so.
                let ip = link.address().unwrap_or(IpAddr::from([0, 0, 0, 0]));
                let ip = socket::plain(ip);
                self.by_rank
                    .insert(identity.rank, Member { identity, ip, link });
                Ok(())
            }
        }
    }

    /// Ends the job if somebody who waits for the others ended it, or is gone.
    fn listen(&self) {
        for member in self.by_rank.values() {
            failure::check(&member.link);
        }
    }

    fn assign_positions(self) -> Connected {
        let mut host_ids = vec![self.own.host_id.as_str()];
        host_ids.extend(self.by_rank.values().map(|it| it.identity.host_id.as_str()));
        let tree = Tree::new(&host_ids);
        let mut connected = Connected {
            neighbours: Neighbours {
                above: None,
                below: Vec::new(),
            },
            waiting: Vec::new(),
        };
        let speakers = self.speakers(tree.children(0));
        for (rank, member) in &self.by_rank {
            let above = tree.parent(*rank).unwrap_or_default();
            let position = Position {
                above: self.address(above),
                below: tree.children(*rank).to_vec(),
                speaks_for_rank_0: speakers.contains(rank),
            };
            let sent = Frame::json(FrameKind::Position, &position)
                .and_then(|frame| member.link.send(&frame));
            if let Err(error) = sent {
                failure::lost(&member.link, Some(&error));
            }
            if above == 0 {
                connected.neighbours.below.push(Arc::clone(&member.link));
            } else {
                connected.waiting.push(Arc::clone(&member.link));
            }
        }
        connected
    }

    /// Returns the first of `children` on the node of rank 0, and the first on another one.
    fn speakers(&self, children: &[u32]) -> Vec<u32> {
        let is_here = |rank: &&u32| {
            let member = self.by_rank.get(rank);
            member.is_some_and(|member| member.identity.host_id == self.own.host_id)
        };
        let here = children.iter().find(is_here);
        let elsewhere = children.iter().find(|rank| !is_here(rank));
        here.into_iter().chain(elsewhere).copied().collect()
    }

    fn address(&self, rank: u32) -> Address {
        match self.by_rank.get(&rank) {
            Some(member) => Address {
                rank,
                host: member.identity.host.clone(),
                ip: member.ip,
                port: member.identity.port,
            },
            // The connection to rank 0 is there already.
            None => Address {
                rank: 0,
                host: self.own.host.clone(),
                ip: IpAddr::from([0, 0, 0, 0]),
                port: 0,
            },
        }
    }
}

fn twice(one: &Identity, other: &Identity) -> String {
    format!(
        "two processes say that they are rank {}: {} on {} and {} on {}. Give each process a RANK \
         of its own",
        one.rank, one.pid, one.host, other.pid, other.host
    )
}

/// Returns who has not come.
fn missing(contract: &Contract, ranks: &[u32], strangers: &[String], waited: Duration) -> String {
    let mut what = format!(
        "{} of {} ranks did not connect to {} within {} s: {}",
        ranks.len(),
        contract.size,
        contract.port_names(),
        waited.as_secs(),
        ranges(ranks, "rank")
    );
    if let Some(each) = contract.local_size.filter(|each| *each > 0) {
        let mut nodes: Vec<u32> = ranks.iter().map(|rank| rank / each).collect();
        nodes.dedup();
        let all = contract.size.div_ceil(each);
        if all > 1 {
            what += &format!(
                " ({} of {}, with {} per node)",
                ranges(&nodes, "node"),
                counted(all, "node"),
                counted(each, "rank")
            );
        }
    }
    for stranger in strangers {
        what += &format!("; {stranger}");
    }
    let addresses = socket::resolve(&contract.address).unwrap_or_default();
    if !addresses.is_empty() && !addresses.iter().copied().any(socket::is_own) {
        what += &format!(
            "; MASTER_ADDR={} is not an address of rank 0's host",
            contract.address
        );
    }
    what + ". Start them with the same MASTER_ADDR and MASTER_PORT, and see what they print; if \
            they only start late, raise --timeout"
}

/// Returns `rank 3`, `ranks 1, 4 to 7 and 9` of sorted numbers.
fn ranges(numbers: &[u32], noun: &str) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    let texts: Vec<String> = runs.iter().map(text).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tcp::secret::SecretSource;
    use std::net::TcpStream;

    fn identity(rank: u32) -> Identity {
        Identity {
            rank,
            size: 3,
            local_size: None,
            host: format!("node{rank}"),
            host_id: format!("node{rank}"),
            pid: 100 + rank,
            version: "1.0.0".into(),
            secret_from: SecretSource::Port,
            port: 4000,
        }
    }

    /// Adds `identity` to a job of three ranks that has rank 1 already.
    fn add(identity: Identity) -> Result<(), String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let link = |identity: &Identity| {
            Link::new(identity, TcpStream::connect(address).expect("connected"))
        };
        let own = tests::identity(0);
        let first = tests::identity(1);
        let mut members = Members {
            own: &own,
            by_rank: BTreeMap::new(),
        };
        let link_to_first = link(&first);
        members.add(first, link_to_first)?;
        let link = link(&identity);
        members.add(identity, link)
    }

    #[test]
    fn whoever_does_not_fit_the_job_is_named() {
        for (member, said) in [
            (
                Identity {
                    version: "2.0.0".into(),
                    ..identity(2)
                },
                "rank 2 on node2 is pxnbench 2.0.0, and rank 0 on node0 is pxnbench 1.0.0. Start \
                 the same version",
            ),
            (
                Identity {
                    size: 4,
                    ..identity(3)
                },
                "rank 3 on node3 is one too many: its WORLD_SIZE is 4, that of rank 0 on node0 is \
                 3. Set",
            ),
            (
                Identity {
                    size: 4,
                    ..identity(2)
                },
                "rank 2 on node2 has WORLD_SIZE=4, and rank 0 on node0 has 3. Set",
            ),
            (
                Identity {
                    pid: 7,
                    ..identity(1)
                },
                "two processes say that they are rank 1: 101 on node1 and 7 on node1. Give",
            ),
            (
                identity(0),
                "two processes say that they are rank 0: 100 on node0 and 100 on node0. Give",
            ),
        ] {
            let why = add(member).expect_err("does not fit");
            assert!(why.contains(said), "{why}");
        }
        assert_eq!(add(identity(2)), Ok(()));
    }

    #[test]
    fn a_process_may_come_again() {
        assert_eq!(add(identity(1)), Ok(()));
    }

    #[test]
    fn missing_ranks_are_named_by_ranges() {
        assert_eq!(ranges(&[3], "rank"), "rank 3");
        assert_eq!(ranges(&[1, 2], "rank"), "ranks 1, 2");
        assert_eq!(ranges(&[1, 4, 5, 6, 7, 9], "rank"), "ranks 1, 4 to 7, 9");
    }
}
