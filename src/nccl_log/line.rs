//! One line of NCCL's log as a value. Bytes in, borrowed values out; nothing is allocated.
//!
//! The forms are those of NCCL 2.12 to 2.32; each variant of [`Message`] names what differs between them. What stands before
//! a message (`host:pid:tid [device] NCCL INFO `, with what a launcher or a timestamp puts in front) is [`Speaker`].

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

/// A word that is looked for in lines. Making a finder takes longer than finding.
type Needle = LazyLock<Finder<'static>>;

static NCCL: Needle = LazyLock::new(|| Finder::new("NCCL "));
static ARROW: Needle = LazyLock::new(|| Finder::new("] -> "));
static VIA: Needle = LazyLock::new(|| Finder::new(" via "));
static FAULT: Needle = LazyLock::new(|| Finder::new("Segmentation fault"));
static SET: Needle = LazyLock::new(|| Finder::new(" set by environment to "));
static GPUDIRECT: Needle = LazyLock::new(|| Finder::new(" : GPU Direct RDMA "));
static TYPE: Needle = LazyLock::new(|| Finder::new(", type "));
static COMM: Needle = LazyLock::new(|| Finder::new("comm 0x"));
static NODES: Needle = LazyLock::new(|| Finder::new(" nNodes "));
static BYTES: Needle = LazyLock::new(|| Finder::new(" Bytes -> "));

/// Is it a piece of a line of NCCL's that tells of a connection, without the head?
pub fn is_piece(line: &[u8]) -> bool {
    ARROW.find(line).is_some() && VIA.find(line).is_some()
}

/// Does it tell of a segmentation fault? MPIs and shells say so in these words.
pub fn is_fault(line: &[u8]) -> bool {
    FAULT.find(line).is_some()
}

/// What stands between a line's beginning and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where `NCCL INFO ` begins.
    pub start: usize,
    /// Where the message begins.
    pub end: usize,
    /// How loud the message is.
    pub level: LogLevel,
}

/// How loud NCCL says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `NCCL INFO`, also `NCCL TRACE` and the `NCCL ATTN` of 2.32.
    Info,
    /// `NCCL WARN`.
    Warn,
    /// `NCCL version …` without a head, which goes to stdout at any level.
    Bare,
}

/// The first header at or after `from`.
pub fn header(line: &[u8], from: usize) -> Option<Header> {
    let mut at = from;
    loop {
        let start = at + NCCL.find(line.get(at..)?)?;
        let word = &line[start + 5..];
        let found = [
            (&b"INFO "[..], LogLevel::Info),
            (b"WARN ", LogLevel::Warn),
            (b"ATTN ", LogLevel::Info),
            (b"TRACE ", LogLevel::Info),
        ]
        .into_iter()
        .find(|(name, _)| word.starts_with(name));
        if let Some((name, level)) = found {
            return Some(Header {
                start,
                end: start + 5 + name.len(),
                level,
            });
        }
        if from == 0 && word.starts_with(b"version ") {
            return Some(Header {
                start,
                end: start,
                level: LogLevel::Bare,
            });
        }
        at = start + 5;
    }
}

/// Who speaks: `host:pid:tid [device]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker<'a> {
    /// The host's name.
    pub host: &'a [u8],
    /// The process.
    pub pid: u64,
    /// The thread.
    pub tid: u64,
    /// The CUDA device, where one is current.
    pub device: Option<u32>,
}

impl<'a> Speaker<'a> {
    /// The head that ends where `NCCL` begins. Tags of a launcher, timestamps, `file:line` and `(function)` around it are
    /// passed over; `None` where it is torn or there is none.
    pub fn parse(text: &'a [u8]) -> Option<Speaker<'a>> {
        let mut device = None;
        for word in text
            .rsplit(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
        {
            if let Some(number) = word
                .strip_prefix(b"[")
                .and_then(|rest| rest.strip_suffix(b"]"))
            {
                device =
                    device.or_else(|| whole(number).and_then(|number| u32::try_from(number).ok()));
            }
            if let Some((host, pid, tid)) = address(word) {
                return Some(Speaker {
                    host,
                    pid,
                    tid,
                    device,
                });
            }
        }
        None
    }
}

/// `host:pid:tid`, behind `[1,0]<stdout>:` or not.
fn address(word: &[u8]) -> Option<(&[u8], u64, u64)> {
    let (rest, tid) = split_last(word, b':')?;
    let tid = whole(tid)?;
    let (host, pid) = split_last(rest, b':')?;
    let host = split_last(host, b':')
        .filter(|(tag, _)| tag.ends_with(b">"))
        .map_or(host, |(_, host)| host);
    let is_name = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
    (!host.is_empty() && host.iter().all(is_name)).then_some((host, whole(pid)?, tid))
}

fn split_last(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    memchr::memrchr(at, text).map(|at| (&text[..at], &text[at + 1..]))
}

/// A whole number and nothing else.
fn whole(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor(text);
    cursor.number().filter(|_| cursor.0.is_empty())
}

/// One end of a connection: `3[1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The rank in its communicator.
    pub rank: i64,
    /// The GPU: NVML's number in decimal from 2.18.3 on, the bus id in hexadecimal before.
    pub gpu: &'a [u8],
}

/// Which end of a connection a line speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `[send]`, over a network.
    Send,
    /// `[receive]`, over a network. Never carries a relay.
    Receive,
    /// Neither: P2P and SHM print one line for both ends.
    Both,
}

/// `Channel 01/1 : 3[0] -> 0[1] [send] via …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The channel.
    pub channel: u64,
    /// 0 for collectives, 1 for send/recv. NET has it since 2.12, P2P since 2.14, SHM never.
    pub index: Option<u64>,
    /// Who sends.
    pub from: Endpoint<'a>,
    /// Who receives.
    pub to: Endpoint<'a>,
    /// Which end speaks.
    pub side: Side,
    /// What carries it.
    pub via: Via<'a>,
}

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via<'a> {
    /// `NET/name/device(relay)/GDRDMA(PCI)/Shared`.
    Net(Net<'a>),
    /// `P2P`, `SHM`: the word before the first slash.
    Other(&'a [u8]),
}

/// A connection over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net<'a> {
    /// The network's name, which may hold spaces and slashes.
    pub name: &'a [u8],
    /// The NIC by NCCL's number.
    pub device: u64,
    /// The rank whose NIC it is, where that is not the sender's own: PXN.
    pub relay: Option<u64>,
    /// GPUDirect RDMA at this end.
    pub gpudirect: bool,
    /// Nothing follows the device's number: where the line was cut there, a relay may be missing.
    pub bare: bool,
}

/// Rank and size of a communicator, as one process sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommView {
    /// The rank of the process in it.
    pub rank: u64,
    /// All ranks.
    pub ranks: u64,
    /// Nodes, where the line says so (2.20).
    pub nodes: Option<u64>,
    /// Ranks on this node, where the line says so (2.20).
    pub local_ranks: Option<u64>,
    /// The communicator's number, the same on all ranks (2.14).
    pub id: Option<u64>,
    /// NVLink joins its nodes (2.20).
    pub nvlink_joins_nodes: bool,
}

/// What a channel-count line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Channels {
    /// For rings and trees.
    pub collective: u64,
    /// For NVLink SHARP.
    pub nvls: u64,
    /// For send/recv.
    pub send_recv: u64,
    /// For send/recv with one peer.
    pub send_recv_per_peer: u64,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `NCCL version 2.28.3+cuda13.0`.
    Version(&'a [u8]),
    /// `NAME set by environment to VALUE`; NCCL ends numbers with a dot, which is taken off.
    Setting(&'a [u8], &'a [u8]),
    /// `Using network NAME`.
    Network(&'a [u8]),
    /// `NET/Plugin: Loaded net plugin NAME (v6)`.
    Plugin(&'a [u8]),
    /// `PXN Disabled as plugin is v4`.
    PluginTooOld,
    /// `NET/NAME : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`.
    GpuDirect(bool),
    /// `GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 0)`.
    TooFar,
    /// `… Init START`: a communicator begins.
    Start(CommView),
    /// `… Init COMPLETE`: a communicator is ready.
    Complete(CommView),
    /// `… Destroy COMPLETE` or `… Abort COMPLETE`: the process ended it in order.
    Ended,
    /// `comm 0x… rank 0 nRanks 4 nNodes 2 localRanks 2 …` (2.20).
    Size(CommView),
    /// A connection.
    Connection(Connection<'a>),
    /// `CollNet 00/0 : 0 [send] via COLLNET/NAME/0`: the network's name.
    CollNet(&'a [u8]),
    /// `Channel 00/08 :  0 1 2 3`: the order of a ring. No connection, though it looks like one.
    RingOrder,
    /// `Connected all rings, use ring PXN 1 GDR 1`; the two numbers since 2.24.
    Rings(Option<(bool, bool)>),
    /// `Connected all trees`, `Connected binomial trees`.
    Trees,
    /// `8 coll channels, … 8 p2p channels, 2 p2p channels per peer`.
    Channels(Channels),
    /// `Pattern 4, … type NVL/PXN, …`: the graph's number (4 is the ring) and its path between nodes.
    Pattern(u64, Path),
    /// `GPU/… :GPU/… (0/5000.0/LOC) … NET/… (5/48.0/PXN)`: paths from one GPU.
    Paths(GpuPaths),
    /// `AllReduce: 8 Bytes -> Algo RING proto LL …`.
    Algorithm(Algorithm<'a>),
    /// `NCCL WARN …`.
    Warning(&'a [u8]),
    /// It begins like one of the above and goes on otherwise.
    Unclear,
    /// Something this does not look at.
    Other,
}

/// What NCCL chose for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm<'a> {
    /// `AllReduce`; empty before 2.23.
    pub function: &'a [u8],
    /// Size in bytes.
    pub bytes: u64,
    /// `RING`, or the number of it before 2.24.
    pub algorithm: &'a [u8],
    /// `SIMPLE`, or the number of it before 2.24; empty for kernels that have none.
    pub protocol: &'a [u8],
}

/// How far apart two devices are. The names are NCCL's; their order differs between versions, so none is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path(u16);

/// Names of paths, in no order.
const PATHS: [&[u8]; 12] = [
    b"LOC", b"NVL", b"NVB", b"C2C", b"PIX", b"PXB", b"P2C", b"PXN", b"PHB", b"SYS", b"NET", b"DIS",
];

impl Path {
    /// NVLink.
    pub const NVL: Path = Path(1 << 1);
    /// Through the NIC of another GPU.
    pub const PXN: Path = Path(1 << 7);

    /// The path of this name.
    pub fn of(name: &[u8]) -> Option<Path> {
        PATHS
            .iter()
            .position(|known| *known == name)
            .map(|at| Path(1 << at))
    }

    /// Both sets of paths.
    #[must_use]
    pub fn and(self, other: Path) -> Path {
        Path(self.0 | other.0)
    }

    /// Is any of `other` in it?
    pub fn has(self, other: Path) -> bool {
        self.0 & other.0 != 0
    }

    /// Is it a set of none?
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The names in it.
    pub fn names(self) -> String {
        let named = PATHS
            .iter()
            .enumerate()
            .filter(|(at, _)| self.0 & (1 << at) != 0);
        named
            .map(|(_, name)| String::from_utf8_lossy(name))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The paths of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPaths {
    /// To other GPUs of the node.
    pub gpus: Path,
    /// To NICs.
    pub nics: Path,
}

/// What a message says. `cut` where the line ends in the middle of something.
pub fn parse(message: &[u8], level: LogLevel) -> Message<'_> {
    let message = message.trim_ascii_end();
    if level == LogLevel::Warn {
        return Message::Warning(message);
    }
    let mut cursor = Cursor(message);
    match message.first() {
        Some(b'C') if cursor.eat(b"Channel ") => channel(cursor).unwrap_or(Message::Unclear),
        Some(b'C') if cursor.eat(b"Connected ") => connected(cursor.0),
        Some(b'C') if cursor.eat(b"CollNet ") => collnet(cursor.0),
        Some(b'N') if cursor.eat(b"NCCL version ") => Message::Version(cursor.word()),
        Some(b'N') if message.starts_with(b"NCCL_") => setting(message),
        Some(b'N') if cursor.eat(b"NET/") => network(cursor.0),
        Some(b'G') if cursor.eat(b"GPU/") => paths(cursor.0),
        Some(b'G') if cursor.eat(b"GPU Direct RDMA Disabled for GPU") => Message::TooFar,
        Some(b'U') if cursor.eat(b"Using network ") => Message::Network(cursor.0.trim_ascii()),
        Some(b'P') if cursor.eat(b"Pattern ") => pattern(cursor).unwrap_or(Message::Unclear),
        Some(b'P') if cursor.eat(b"PXN Disabled as plugin is v4") => Message::PluginTooOld,
        Some(b'0'..=b'9') => counted(cursor),
        Some(b'c' | b'n' | b'[') => communicator(message),
        Some(b'A'..=b'Z') => algorithm(message),
        _ => Message::Other,
    }
}

/// Behind `Channel `.
fn channel(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let channel = cursor.number()?;
    let index = if cursor.eat(b"/") {
        Some(cursor.number()?)
    } else {
        None
    };
    cursor.need(b" : ")?;
    if cursor.0.first() == Some(&b' ')
        || (index.is_some() && memchr::memchr(b'>', cursor.0).is_none())
    {
        let is_order =
            cursor.0.iter().all(|c| c.is_ascii_digit() || *c == b' ') && !cursor.0.is_empty();
        return is_order.then_some(Message::RingOrder);
    }
    let from = cursor.end()?;
    cursor.need(b" -> ")?;
    let to = cursor.end()?;
    let side = if cursor.eat(b" [send]") {
        Side::Send
    } else if cursor.eat(b" [receive]") {
        Side::Receive
    } else {
        Side::Both
    };
    cursor.need(b" via ")?;
    let via = if cursor.eat(b"NET/") {
        Via::Net(net(cursor.0)?)
    } else {
        Via::Other(cursor.kind()?)
    };
    if (side == Side::Both) == matches!(via, Via::Net(_)) {
        return None;
    }
    Some(Message::Connection(Connection {
        channel,
        index,
        from,
        to,
        side,
        via,
    }))
}

/// Behind `NET/`: the name ends at the first slash behind which a number stands alone.
fn net(text: &[u8]) -> Option<Net<'_>> {
    for at in memchr::memchr_iter(b'/', text) {
        let mut cursor = Cursor(&text[at + 1..]);
        let Some(device) = cursor.number() else {
            continue;
        };
        if at == 0 || !matches!(cursor.0.first(), None | Some(b'(' | b'/' | b' ')) {
            continue;
        }
        let bare = cursor.0.is_empty();
        let relay = if cursor.0.get(1).is_some_and(u8::is_ascii_digit) && cursor.eat(b"(") {
            let relay = cursor.number()?;
            cursor.need(b")")?;
            Some(relay)
        } else {
            None
        };
        return Some(Net {
            name: &text[..at],
            device,
            relay,
            gpudirect: cursor.eat(b"/GDRDMA"),
            bare,
        });
    }
    None
}

fn connected(text: &[u8]) -> Message<'_> {
    if text.starts_with(b"all trees") || text.starts_with(b"binomial trees") {
        return Message::Trees;
    }
    let mut cursor = Cursor(text);
    if !cursor.eat(b"all rings") {
        // `Connected to proxy localRank 0 -> connection 0x…`, `Connected NVLS tree`.
        return Message::Other;
    }
    let mut numbers = || {
        cursor.need(b", use ring PXN ")?;
        let pxn = cursor.number()?;
        cursor.need(b" GDR ")?;
        Some((pxn != 0, cursor.number()? != 0))
    };
    let found = numbers();
    if found.is_none() && text != b"all rings" {
        Message::Unclear
    } else {
        Message::Rings(found)
    }
}

fn collnet(text: &[u8]) -> Message<'_> {
    let Some(at) = memmem::find(text, b" via COLLNET/") else {
        return Message::Other;
    };
    let name = &text[at + b" via COLLNET/".len()..];
    Message::CollNet(&name[..memchr::memchr(b'/', name).unwrap_or(name.len())])
}

fn setting(message: &[u8]) -> Message<'_> {
    let Some(at) = SET.find(message) else {
        return Message::Other;
    };
    let (name, value) = (
        &message[..at],
        message[at + SET.needle().len()..].trim_ascii(),
    );
    let number = value.strip_suffix(b".").filter(|text| {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        whole(digits).is_some()
    });
    Message::Setting(name, number.unwrap_or(value))
}

/// Behind `NET/`.
fn network(text: &[u8]) -> Message<'_> {
    const LOADED: &[u8] = b"Loaded net plugin ";
    if let Some(rest) = text.strip_prefix(b"Plugin") {
        return memmem::find(rest, LOADED).map_or(Message::Other, |at| {
            Message::Plugin(rest[at + LOADED.len()..].trim_ascii())
        });
    }
    match GPUDIRECT
        .find(text)
        .map(|at| &text[at + GPUDIRECT.needle().len()..])
    {
        Some(rest) if rest.starts_with(b"Enabled") => Message::GpuDirect(true),
        Some(rest) if rest.starts_with(b"Disabled") => Message::GpuDirect(false),
        Some(_) => Message::Unclear,
        None => Message::Other,
    }
}

/// Behind `GPU/`. What is not of this form, such as `GPU/… (0)` in a tree of devices, is something else.
fn paths(text: &[u8]) -> Message<'_> {
    let Some(at) = text.windows(2).position(|pair| pair == b" :") else {
        return Message::Other;
    };
    let mut found = GpuPaths::default();
    let mut words = text[at + 2..]
        .split(|c| *c == b' ')
        .filter(|word| !word.is_empty());
    while let (Some(to), Some(path)) = (words.next(), words.next()) {
        let name = path
            .strip_prefix(b"(")
            .and_then(|rest| rest.strip_suffix(b")"));
        let Some(path) = name
            .and_then(|name| split_last(name, b'/'))
            .and_then(|(_, name)| Path::of(name))
        else {
            return Message::Unclear;
        };
        if to.starts_with(b"NET/") {
            found.nics = found.nics.and(path);
        } else if to.starts_with(b"GPU/") && path != Path(1) {
            found.gpus = found.gpus.and(path);
        }
    }
    Message::Paths(found)
}

fn pattern(mut cursor: Cursor<'_>) -> Option<Message<'_>> {
    let number = cursor.number()?;
    let at = TYPE.find(cursor.0)?;
    let types = &cursor.0[at + TYPE.needle().len()..];
    let types = &types[..memchr::memchr(b',', types).unwrap_or(types.len())];
    let (_, between) = split_last(types, b'/')?;
    Some(Message::Pattern(number, Path::of(between)?))
}

/// A line that begins with a number: channel counts, or an algorithm before 2.23.
fn counted(mut cursor: Cursor<'_>) -> Message<'_> {
    let whole = cursor.0;
    let is_channels = cursor.number().is_some() && cursor.eat(b" coll channels");
    if !is_channels {
        return algorithm(whole);
    }
    let mut channels = Channels::default();
    for part in whole.split(|c| *c == b',') {
        let mut part = Cursor(part.trim_ascii());
        let Some(number) = part.number() else {
            return Message::Unclear;
        };
        match part.0 {
            b" coll channels" => channels.collective = number,
            b" nvls channels" => channels.nvls = number,
            b" p2p channels" => channels.send_recv = number,
            b" p2p channels per peer" => channels.send_recv_per_peer = number,
            // The number of collnet channels repeats the first from 2.21 on, and says nothing.
            _ => {}
        }
    }
    Message::Channels(channels)
}

/// `comm 0x… rank …`, `ncclCommInitRank comm 0x… rank …`, `[Rank 0] ncclCommInitRank comm …`.
fn communicator(message: &[u8]) -> Message<'_> {
    let Some(at) = COMM.find(message) else {
        return Message::Other;
    };
    if at > 0 && message[at - 1] != b' ' {
        return Message::Other;
    }
    let what = match message {
        _ if message.ends_with(b"Init START") => Message::Start,
        _ if message.ends_with(b"Init COMPLETE") => Message::Complete,
        _ if message.ends_with(b"Destroy COMPLETE") || message.ends_with(b"Abort COMPLETE") => {
            return Message::Ended;
        }
        _ if NODES.find(message).is_some() => Message::Size,
        _ => return Message::Other,
    };
    let mut comm = CommView::default();
    let mut has_ranks = false;
    let mut words = message[at..].split(|c| *c == b' ');
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(whole);
        match word {
            b"rank" => comm.rank = number().unwrap_or_default(),
            b"nranks" | b"nRanks" => {
                let ranks = number();
                has_ranks = ranks.is_some();
                comm.ranks = ranks.unwrap_or_default();
            }
            b"nNodes" => comm.nodes = number(),
            b"localRanks" => comm.local_ranks = number(),
            b"MNNVL" => comm.nvlink_joins_nodes = number() == Some(1),
            b"commId" => comm.id = words.next().and_then(hexadecimal),
            _ => {}
        }
    }
    if has_ranks {
        what(comm)
    } else {
        Message::Unclear
    }
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x")?;
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// `AllReduce: 8 Bytes -> Algo RING proto LL …`, `8 Bytes -> Algo 1 proto 0 time …`,
/// `AllReduce [Symmetric]: 8 Bytes -> Kernel NAME …`, `AllGather [Copy Engine]: 8 Bytes -> cudaMemcpy…`.
fn algorithm(message: &[u8]) -> Message<'_> {
    let Some(at) = BYTES.find(message) else {
        return Message::Other;
    };
    let (function, bytes) = match message[..at].windows(2).rposition(|pair| pair == b": ") {
        Some(colon) => (&message[..colon], &message[colon + 2..at]),
        None => (&b""[..], &message[..at]),
    };
    let Some(bytes) = whole(bytes) else {
        return Message::Unclear;
    };
    let mut cursor = Cursor(&message[at + BYTES.needle().len()..]);
    let (algorithm, protocol) = if cursor.eat(b"Algo ") {
        let algorithm = cursor.word();
        if !cursor.eat(b" proto ") {
            return Message::Unclear;
        }
        (algorithm, cursor.word())
    } else {
        let _ = cursor.eat(b"Kernel ");
        (cursor.word(), &b""[..])
    };
    Message::Algorithm(Algorithm {
        function,
        bytes,
        algorithm,
        protocol,
    })
}

/// What is left to read of a message.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Passes over `text` if it comes next.
    fn eat(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Passes over `text`, which must come next.
    fn need(&mut self, text: &[u8]) -> Option<()> {
        self.eat(text).then_some(())
    }

    /// A decimal number that fits.
    fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|c| c.is_ascii_digit()).count();
        let (text, rest) = self.0.split_at(digits);
        let fold = |sum: u64, c: &u8| sum.checked_mul(10)?.checked_add(u64::from(c - b'0'));
        let number = text.iter().try_fold(0, fold).filter(|_| digits > 0)?;
        self.0 = rest;
        Some(number)
    }

    /// What comes before the next space.
    fn word(&mut self) -> &'a [u8] {
        let (word, rest) = self
            .0
            .split_at(memchr::memchr(b' ', self.0).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    /// A transport's name: letters and digits up to a slash or a space.
    fn kind(&mut self) -> Option<&'a [u8]> {
        let length = self
            .0
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric())
            .count();
        let ends = matches!(self.0.get(length), None | Some(b'/' | b' '));
        (length > 0 && ends).then(|| &self.0[..length])
    }

    /// `3[1]`.
    fn end(&mut self) -> Option<Endpoint<'a>> {
        let is_negative = self.eat(b"-");
        let rank = i64::try_from(self.number()?).ok()?;
        self.need(b"[")?;
        let length = self
            .0
            .iter()
            .take_while(|c| c.is_ascii_hexdigit() || **c == b'-')
            .count();
        let (gpu, rest) = self.0.split_at(length);
        self.0 = rest;
        self.need(b"]")?;
        (length > 0).then_some(Endpoint {
            rank: if is_negative { -rank } else { rank },
            gpu,
        })
    }
}
