//! Lines added up. Whatever the log holds, memory stays within bounds: each list has a limit, and what is over it is counted
//! or left out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
};

use serde::{Deserialize, Serialize};

use super::{
    line::{
        self, Algorithm, Channels, CommView, Connection, GpuPaths, Header, LogLevel, Message, Net,
        Path, Side, Speaker, Via,
    },
    proof::{AlgorithmChoice, LineCounts, Proof, RelayUse},
};

/// Bytes read at once; a line longer than this is cut.
const CHUNK: usize = 1 << 20;
/// Processes, communicators and relays that are told apart.
const MANY: usize = 1 << 16;
/// Names, settings and choices that are told apart.
const SOME: usize = 256;
/// Values of one setting that are told apart.
const VALUES: usize = 32;
/// Quoted lines of one topic.
const QUOTES: usize = 2;
/// Bytes of a quoted line.
const QUOTE: usize = 240;

/// Connections of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendCounts {
    /// Sending ends over a network.
    pub sends: u64,
    /// Those that leave through the NIC of another GPU: PXN.
    pub relayed: u64,
    /// Those with GPUDirect RDMA.
    pub gpudirect_sends: u64,
    /// Receiving ends over a network. NCCL never relays at this end.
    pub receives: u64,
    /// Those with GPUDirect RDMA.
    pub gpudirect_receives: u64,
    /// Sends to the peer with the same GPU number.
    pub same_rail: u64,
}

impl SendCounts {
    fn add(&mut self, other: &SendCounts) {
        self.sends += other.sends;
        self.relayed += other.relayed;
        self.gpudirect_sends += other.gpudirect_sends;
        self.receives += other.receives;
        self.gpudirect_receives += other.gpudirect_receives;
        self.same_rail += other.same_rail;
    }
}

/// The connections that a log shows: what ranks gather of each other. [`Connections::add`] joins those of two ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// How many by transport: `P2P`, `SHM`, `COLLNET/` or `NET/` with the network's name. A connection counts once, at the
    /// end that sends.
    pub by: BTreeMap<String, u64>,
    /// Those of `by` whose line says what they are for: of collectives, and of send/recv.
    pub told: BTreeMap<String, [u64; 2]>,
    /// Of send/recv, over a network.
    pub send_recv: SendCounts,
    /// Of collectives, over a network.
    pub collective: SendCounts,
    /// Over a network, of which the line does not say what they are for (before 2.12).
    pub unsorted: SendCounts,
    /// The channels of the last communicator.
    pub channels: Option<Channels>,
}

impl Connections {
    /// The connections of a whole log.
    pub fn read(log: &[u8]) -> Connections {
        let mut fold = Fold::default();
        fold.bytes(log);
        fold.connections().clone()
    }

    /// How many leave through the NIC of another GPU: PXN.
    pub fn relayed(&self) -> u64 {
        self.send_recv.relayed + self.collective.relayed + self.unsorted.relayed
    }

    /// How many send over a network.
    pub fn sends(&self) -> u64 {
        self.send_recv.sends + self.collective.sends + self.unsorted.sends
    }

    /// The transports of send/recv, or of collectives. SHM's lines never say which they are for, so that it is in both.
    pub fn transports(&self, of_send_recv: bool) -> Vec<&str> {
        let is_of = |name: &&String| match self.told.get(*name) {
            None => true,
            Some(told) => told[usize::from(of_send_recv)] > 0,
        };
        self.by.keys().filter(is_of).map(String::as_str).collect()
    }

    /// Adds another rank's.
    pub fn add(&mut self, other: &Connections) {
        for (transport, [collective, send_recv]) in &other.told {
            let told = self.told.entry(transport.clone()).or_default();
            *told = [told[0] + collective, told[1] + send_recv];
        }
        for (transport, count) in &other.by {
            *self.by.entry(transport.clone()).or_default() += count;
        }
        self.send_recv.add(&other.send_recv);
        self.collective.add(&other.collective);
        self.unsorted.add(&other.unsorted);
        self.channels = self.channels.or(other.channels);
    }
}

/// What the lines that are quoted speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    RelayUse,
    SendRecv,
    Collective,
    Local,
    CollNet,
    Network,
    GpuDirect,
    TooFar,
    PluginTooOld,
    Size,
    Rings,
    Trees,
    RingPattern,
    TreePattern,
    Paths,
    HostBuffers,
    Warning,
    Signal,
    Start,
    Version,
    Unclear,
    Torn,
}

const TOPICS: usize = Topic::Torn as usize + 1;

/// Where the processes of a log are in their making of communicators.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    started: u64,
    complete: u64,
    ended: u64,
}

/// A setting that NCCL says it read: how often each value, and the first line that says so.
pub(super) type Setting = BTreeMap<Vec<u8>, (u64, String)>;

/// Lines of one or more logs, added up.
#[derive(Debug, Default)]
pub struct Fold {
    pub(super) lines: LineCounts,
    pub(super) seen: Connections,
    pub(super) versions: BTreeSet<String>,
    pub(super) networks: BTreeSet<String>,
    pub(super) plugins: BTreeSet<String>,
    pub(super) settings: BTreeMap<Vec<u8>, Setting>,
    pub(super) plugin_too_old: bool,
    pub(super) host_buffers: bool,
    pub(super) warnings: u64,
    pub(super) signals: u64,
    pub(super) info: u64,
    pub(super) gpudirect: (u64, u64),
    pub(super) too_far: u64,
    pub(super) nodes: Option<u64>,
    pub(super) ranks: Option<u64>,
    pub(super) local_ranks: Option<u64>,
    pub(super) nvlink_joins_nodes: bool,
    pub(super) ranks_seen: HashSet<u64>,
    pub(super) hosts: BTreeSet<Vec<u8>>,
    pub(super) rings: u64,
    pub(super) ring_numbers: (u64, u64, u64),
    pub(super) trees: u64,
    pub(super) ring_path: Path,
    pub(super) tree_path: Path,
    pub(super) paths: GpuPaths,
    pub(super) relays: HashMap<u64, RelayUse>,
    pub(super) relays_left_out: u64,
    pub(super) choices: Vec<AlgorithmChoice>,
    transports: Vec<(Vec<u8>, String)>,
    processes: HashMap<u64, Process>,
    communicators: HashSet<u64>,
    first_ranks: u64,
    quotes: [Vec<String>; TOPICS],
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn insert(set: &mut BTreeSet<String>, bytes: &[u8]) {
    if set.len() < SOME {
        set.insert(text(&bytes[..bytes.len().min(QUOTE)]));
    }
}

impl Fold {
    /// Adds all lines of `log`, in constant memory.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&mut self, mut log: impl Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        let (mut filled, mut skipping) = (0, false);
        loop {
            let read = match log.read(&mut chunk[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if read == 0 {
                break;
            }
            let new = filled;
            filled += read;
            let Some(last) = memchr::memrchr(b'\n', &chunk[new..filled]).map(|at| new + at) else {
                if filled == CHUNK {
                    // Longer than any line of NCCL's: its beginning counts, the rest is passed over.
                    if !skipping {
                        self.lines.torn += 1;
                        self.line(&chunk[..filled]);
                    }
                    (filled, skipping) = (0, true);
                }
                continue;
            };
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', &chunk[..=last]) {
                if !std::mem::take(&mut skipping) {
                    self.line(&chunk[start..end]);
                }
                start = end + 1;
            }
            chunk.copy_within(start..filled, 0);
            filled -= start;
        }
        if filled > 0 && !skipping {
            self.last_line(&chunk[..filled]);
        }
        Ok(())
    }

    /// Adds all lines of a log that is in memory.
    pub fn bytes(&mut self, log: &[u8]) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', log) {
            self.line(&log[start..end]);
            start = end + 1;
        }
        if start < log.len() {
            self.last_line(&log[start..]);
        }
    }

    /// A line without an end: the writer may be in the middle of it.
    fn last_line(&mut self, line: &[u8]) {
        self.add(line, Ends::Log);
    }

    /// Adds one line, without its newline.
    pub fn line(&mut self, line: &[u8]) {
        self.add(line, Ends::Line);
    }

    fn add(&mut self, line: &[u8], ends: Ends) {
        self.lines.read += 1;
        let Some(mut header) = line::header(line, 0) else {
            self.foreign(line);
            return;
        };
        self.lines.nccl += 1;
        let mut head = &line[..header.start];
        loop {
            // Two processes that write to one stream can tear each other's lines: then a second head follows.
            let next = if header.level == LogLevel::Bare {
                None
            } else {
                line::header(line, header.end)
            };
            let end = next.map_or(line.len(), |next: Header| next.start);
            let ends = if next.is_some() { Ends::Torn } else { ends };
            let said = line::parse(&line[header.end..end], header.level);
            self.info += u64::from(header.level == LogLevel::Info);
            match is_whole(&said, ends) {
                true => self.said(line, head, said),
                false if ends == Ends::Log => self.torn(line),
                false => {}
            }
            let Some(next) = next else { break };
            self.torn(line);
            head = &line[header.end..next.start];
            header = next;
        }
    }

    /// A line that is not NCCL's: a piece of one, or what an MPI says of a crash.
    fn foreign(&mut self, line: &[u8]) {
        if line::is_piece(line) {
            self.torn(line);
        } else if line::is_fault(line) {
            self.signals += 1;
            self.quote(Topic::Signal, line);
        }
    }

    fn torn(&mut self, line: &[u8]) {
        self.lines.torn += 1;
        self.quote(Topic::Torn, line);
    }

    fn quote(&mut self, topic: Topic, line: &[u8]) {
        let quotes = &mut self.quotes[topic as usize];
        if quotes.len() < QUOTES {
            quotes.push(text(line[..line.len().min(QUOTE)].trim_ascii()));
        }
    }

    /// The quoted lines of a topic.
    pub(super) fn quoted(&self, topic: Topic) -> &[String] {
        &self.quotes[topic as usize]
    }

    fn said(&mut self, line: &[u8], head: &[u8], said: Message<'_>) {
        match said {
            Message::Other => {}
            Message::Unclear => {
                self.lines.not_understood += 1;
                self.quote(Topic::Unclear, line);
            }
            Message::Connection(connection) => self.connection(line, head, &connection),
            Message::Algorithm(algorithm) => self.algorithm(&algorithm),
            Message::Ended => self.ended(head),
            Message::Start(comm) | Message::Complete(comm) | Message::Size(comm) => {
                self.comm(line, head, said, &comm)
            }
            Message::Setting(name, value) => self.setting(line, name, value),
            Message::Warning(warning) => self.warning(line, warning),
            _ => self.fact(line, said),
        }
    }

    fn fact(&mut self, line: &[u8], said: Message<'_>) {
        let topic = match said {
            Message::Version(version) => {
                insert(&mut self.versions, version);
                Topic::Version
            }
            Message::Network(name) => {
                insert(&mut self.networks, name);
                Topic::Network
            }
            Message::Plugin(name) => return insert(&mut self.plugins, name),
            Message::PluginTooOld => {
                self.plugin_too_old = true;
                Topic::PluginTooOld
            }
            Message::GpuDirect(true) => {
                self.gpudirect.0 += 1;
                return;
            }
            Message::GpuDirect(false) => {
                self.gpudirect.1 += 1;
                Topic::GpuDirect
            }
            Message::TooFar => {
                self.too_far += 1;
                Topic::TooFar
            }
            Message::CollNet(name) => {
                self.transport(b"COLLNET/", name, None);
                Topic::CollNet
            }
            Message::Rings(numbers) => {
                self.rings += 1;
                if let Some((pxn, gdr)) = numbers {
                    let (all, with_pxn, with_gdr) = &mut self.ring_numbers;
                    *all += 1;
                    *with_pxn += u64::from(pxn);
                    *with_gdr += u64::from(gdr);
                }
                Topic::Rings
            }
            Message::Trees => {
                self.trees += 1;
                Topic::Trees
            }
            Message::Channels(channels) => {
                self.seen.channels = Some(channels);
                return;
            }
            Message::Pattern(RING, path) => {
                self.ring_path = self.ring_path.and(path);
                Topic::RingPattern
            }
            Message::Pattern(_, path) => {
                self.tree_path = self.tree_path.and(path);
                Topic::TreePattern
            }
            Message::Paths(paths) => {
                self.paths.gpus = self.paths.gpus.and(paths.gpus);
                self.paths.nics = self.paths.nics.and(paths.nics);
                Topic::Paths
            }
            _ => return,
        };
        self.quote(topic, line);
    }

    fn connection(&mut self, line: &[u8], head: &[u8], connection: &Connection<'_>) {
        let net = match connection.via {
            Via::Other(name) => {
                self.transport(name, b"", connection.index);
                return self.quote(Topic::Local, line);
            }
            Via::Net(net) => net,
        };
        let (kind, topic) = match connection.index {
            Some(0) => (&mut self.seen.collective, Topic::Collective),
            Some(_) => (&mut self.seen.send_recv, Topic::SendRecv),
            None => (&mut self.seen.unsorted, Topic::Collective),
        };
        if connection.side == Side::Receive {
            kind.receives += 1;
            kind.gpudirect_receives += u64::from(net.gpudirect);
            return;
        }
        kind.sends += 1;
        kind.gpudirect_sends += u64::from(net.gpudirect);
        kind.relayed += u64::from(net.relay.is_some());
        kind.same_rail += u64::from(connection.from.gpu == connection.to.gpu);
        self.transport(b"NET/", net.name, connection.index);
        match net.relay {
            None => self.quote(topic, line),
            Some(rank) => {
                self.quote(Topic::RelayUse, line);
                self.relay(head, &net, rank, topic == Topic::SendRecv);
            }
        }
    }

    fn relay(&mut self, head: &[u8], net: &Net<'_>, rank: u64, is_send_recv: bool) {
        let host = Speaker::parse(head).map_or(&b""[..], |head| head.host);
        let key = hashed((host, rank, net.name, net.device));
        if self.relays.len() >= MANY && !self.relays.contains_key(&key) {
            self.relays_left_out += 1;
            return;
        }
        let relay = self.relays.entry(key).or_insert_with(|| RelayUse {
            host: text(host),
            rank,
            nic: format!("{}/{}", String::from_utf8_lossy(net.name), net.device),
            send_recv: 0,
            collective: 0,
        });
        *(if is_send_recv {
            &mut relay.send_recv
        } else {
            &mut relay.collective
        }) += 1;
    }

    fn transport(&mut self, kind: &[u8], name: &[u8], index: Option<u64>) {
        let is_it = |key: &[u8]| {
            key.len() == kind.len() + name.len() && key.starts_with(kind) && key.ends_with(name)
        };
        let at = self.transports.iter().position(|(key, _)| is_it(key));
        let at = at.unwrap_or_else(|| {
            if self.transports.len() < SOME {
                let key = [kind, &name[..name.len().min(QUOTE)]].concat();
                self.transports.push((key.clone(), text(&key)));
            }
            self.transports.len() - 1
        });
        let name = &self.transports[at].1;
        match self.seen.by.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.seen.by.insert(name.clone(), 1)),
        }
        if let Some(index) = index {
            let of_send_recv = usize::from(index > 0);
            match self.seen.told.get_mut(name) {
                Some(told) => told[of_send_recv] += 1,
                None => self.seen.told.entry(name.clone()).or_default()[of_send_recv] = 1,
            }
        }
    }

    fn comm(&mut self, line: &[u8], head: &[u8], said: Message<'_>, comm: &CommView) {
        if self.ranks < Some(comm.ranks) {
            self.ranks = Some(comm.ranks);
            self.ranks_seen.clear();
        }
        if self.ranks == Some(comm.ranks) && self.ranks_seen.len() < MANY {
            self.ranks_seen.insert(comm.rank);
        }
        self.nvlink_joins_nodes |= comm.nvlink_joins_nodes;
        self.nodes = self.nodes.max(comm.nodes);
        self.local_ranks = self.local_ranks.max(comm.local_ranks);
        if let Some(id) = comm.id.filter(|_| self.communicators.len() < MANY) {
            self.communicators.insert(id);
        }
        let head = Speaker::parse(head);
        if let Some(head) =
            head.filter(|head| self.hosts.len() < MANY && !self.hosts.contains(head.host))
        {
            self.hosts.insert(head.host.to_vec());
        }
        let key = hashed(head.map(|head| (head.host, head.pid)));
        let is_known = self.processes.len() < MANY || self.processes.contains_key(&key);
        let mut throwaway = Process::default();
        let process = if is_known {
            self.processes.entry(key).or_default()
        } else {
            &mut throwaway
        };
        match said {
            Message::Start(_) => {
                process.started += 1;
                self.quote(Topic::Start, line);
            }
            Message::Complete(_) => {
                process.complete += 1;
                self.first_ranks += u64::from(comm.rank == 0);
            }
            _ => self.quote(Topic::Size, line),
        }
    }

    /// Who ends a communicator had made it, even where the line that says so is torn.
    fn ended(&mut self, head: &[u8]) {
        let key = hashed(Speaker::parse(head).map(|head| (head.host, head.pid)));
        if let Some(process) = self.processes.get_mut(&key) {
            process.ended += 1;
        }
    }

    fn setting(&mut self, line: &[u8], name: &[u8], value: &[u8]) {
        if name.len() > QUOTE || (self.settings.len() >= SOME && !self.settings.contains_key(name))
        {
            return;
        }
        let values = match self.settings.get_mut(name) {
            Some(values) => values,
            None => self.settings.entry(name.to_vec()).or_default(),
        };
        let value = &value[..value.len().min(QUOTE)];
        if let Some((count, _)) = values.get_mut(value) {
            *count += 1;
        } else if values.len() < VALUES {
            let quote = text(line[..line.len().min(QUOTE)].trim_ascii());
            values.insert(value.to_vec(), (1, quote));
        }
    }

    fn warning(&mut self, line: &[u8], warning: &[u8]) {
        self.warnings += 1;
        if memchr::memmem::find(warning, b"PXN should not use host buffers").is_some() {
            self.host_buffers = true;
            self.quote(Topic::HostBuffers, line);
        }
        self.quote(Topic::Warning, line);
    }

    fn algorithm(&mut self, seen: &Algorithm<'_>) {
        let algorithm = named(ALGORITHMS, seen.algorithm);
        let protocol = named(PROTOCOLS, seen.protocol);
        let same = |choice: &&mut AlgorithmChoice| {
            choice.function.as_bytes() == seen.function
                && choice.algorithm.as_bytes() == algorithm
                && choice.protocol.as_bytes() == protocol
        };
        if let Some(choice) = self.choices.iter_mut().find(same) {
            choice.from_bytes = choice.from_bytes.min(seen.bytes);
            choice.to_bytes = choice.to_bytes.max(seen.bytes);
            choice.times += 1;
        } else if self.choices.len() < SOME {
            let cut = |bytes: &[u8]| text(&bytes[..bytes.len().min(QUOTE)]);
            self.choices.push(AlgorithmChoice {
                function: cut(seen.function),
                algorithm: cut(algorithm),
                protocol: cut(protocol),
                from_bytes: seen.bytes,
                to_bytes: seen.bytes,
                times: 1,
            });
        }
    }

    /// The connections so far.
    pub fn connections(&self) -> &Connections {
        &self.seen
    }

    /// Processes that began to make a communicator and did not come to its end.
    pub(super) fn unfinished(&self) -> usize {
        self.processes
            .values()
            .filter(|process| process.started > process.complete.max(process.ended))
            .count()
    }

    /// Did all that began fail to come to the end?
    pub(super) fn is_never_ready(&self) -> bool {
        !self.processes.is_empty()
            && self
                .processes
                .values()
                .all(|of| of.started > 0 && of.complete.max(of.ended) == 0)
    }

    /// Processes that made a communicator.
    pub(super) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Communicators, by their numbers, or where NCCL gives none by their first ranks.
    pub(super) fn communicators(&self) -> u64 {
        (self.communicators.len() as u64).max(if self.communicators.is_empty() {
            self.first_ranks
        } else {
            0
        })
    }

    /// What it comes to.
    pub fn proof(&self) -> Proof {
        Proof::of(self)
    }
}

/// NCCL's number of the ring's graph.
const RING: u64 = 4;

/// Names of algorithms by the number that NCCL 2.20 to 2.23 prints.
const ALGORITHMS: &[&[u8]] = &[
    b"TREE",
    b"RING",
    b"COLLNET_DIRECT",
    b"COLLNET_CHAIN",
    b"NVLS",
    b"NVLS_TREE",
    b"PAT",
];
/// Names of protocols by that number.
const PROTOCOLS: &[&[u8]] = &[b"LL", b"LL128", b"SIMPLE"];

/// The name for a number; what is no number is a name already.
fn named<'a>(names: &[&'a [u8]], text: &'a [u8]) -> &'a [u8] {
    match text {
        [digit @ b'0'..=b'9'] => names
            .get(usize::from(digit - b'0'))
            .copied()
            .unwrap_or(text),
        _ => text,
    }
}

/// What a message ends at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// A newline.
    Line,
    /// The end of the log.
    Log,
    /// The head of another line.
    Torn,
}

/// Is what is said sure to be all that was?
fn is_whole(said: &Message<'_>, ends: Ends) -> bool {
    match (ends, said) {
        (Ends::Line, _) => true,
        (
            _,
            Message::Connection(Connection {
                via: Via::Net(net), ..
            }),
        ) => !net.bare,
        (Ends::Torn, Message::Connection(_)) => true,
        (Ends::Torn, _) => false,
        (Ends::Log, said) => !matches!(said, Message::Unclear),
    }
}
