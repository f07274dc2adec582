//! Messages of NCCL as values.

use super::path_types::{GpuPaths, PathTypes};

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `NCCL version 2.28.3+cuda13.0`.
    Version(&'a [u8]),
    /// `NAME set by environment to VALUE`. NCCL ends numbers with a dot, which is removed.
    Setting(&'a [u8], &'a [u8]),
    /// `Bootstrap : Using eth0:…`, which every process logs before its first communicator.
    Bootstrap,
    /// `cudaDriverVersion 13000`, which every process logs once, before anything else of NCCL.
    DriverVersion,
    /// `Using network NAME`.
    Network(&'a [u8]),
    /// `NET/Plugin: Loaded net plugin NAME (v6)`.
    Plugin(&'a [u8]),
    /// `PXN Disabled as plugin is v4`.
    PluginTooOld,
    /// `NET/NAME : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`.
    GpuDirect(bool),
    /// `GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 0)`.
    GpuDirectTooFar,
    /// A communicator at some point of its life, as one of its ranks sees it.
    Communicator(CommEvent, CommView),
    /// `… Destroy COMPLETE` or `… Abort COMPLETE`: the process ended a communicator in order.
    CommEnded,
    /// A connection.
    Connection(Connection<'a>),
    /// `CollNet 00/0 : 0 [send] via COLLNET/NAME/0`: the network's name.
    CollNet(&'a [u8]),
    /// `Channel 00/08 :  0 1 2 3`: the order of a ring, which looks like a connection and is none.
    RingOrder,
    /// `Connected all rings, use ring PXN 1 GDR 1`; the two numbers since 2.24.
    Rings(Option<RingNumbers>),
    /// `Connected all trees`, `Connected binomial trees`.
    Trees,
    /// `8 coll channels, … 8 p2p channels, 2 p2p channels per peer`.
    Channels(Channels),
    /// `Pattern 4, … type NVL/PXN, …`: the number of a graph (4 is the ring), and its path type
    /// between nodes.
    Pattern(u64, PathTypes),
    /// `GPU/… :GPU/… (0/5000.0/LOC) … NET/… (5/48.0/PXN)`: paths from one GPU.
    Paths(GpuPaths),
    /// `AllReduce: 8 Bytes -> Algo RING proto LL …`.
    Algorithm(Algorithm<'a>),
    /// `transport/net_ib.cc:1295 -> 6`: an error on its way through NCCL's source.
    ReturnCode(ReturnCode<'a>),
    /// `AllReduce: opCount 1a sendbuff 0x… … comm 0x… [nranks=8] …`, of the subsystem COLL.
    Operation(Operation<'a>),
    /// `NCCL WARN …`.
    Warning(&'a [u8]),
    /// A message that begins like one of the above and continues differently.
    Unclear,
    /// A message that is not used.
    Other,
}

/// A point in the life of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommEvent {
    /// `… Init START`.
    Start,
    /// `… Init COMPLETE`.
    Complete,
    /// `comm 0x… rank 0 nRanks 4 nNodes 2 localRanks 2 …` (2.20), between the two.
    Size,
}

/// Rank and size of a communicator, as one process sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommView {
    /// Its address in the process, which tells it from the process's others.
    pub pointer: u64,
    /// The rank of the process in it.
    pub rank: u64,
    /// The number of ranks.
    pub ranks: u64,
    /// The number of nodes, if the line has it (2.20).
    pub nodes: Option<u64>,
    /// The number of ranks on this node, if the line has it (2.20).
    pub local_ranks: Option<u64>,
    /// The communicator's id, the same on all ranks (2.14).
    pub id: Option<u64>,
    /// Whether NVLink joins its nodes (2.20).
    pub nvlink_joins_nodes: bool,
}

/// `Channel 01/1 : 3[0] -> 0[1] [send] via …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The channel.
    pub channel: u64,
    /// 0 for collectives, 1 for send/recv. NET has it since 2.12, P2P since 2.14, SHM never.
    pub index: Option<u64>,
    /// The end that sends.
    pub from: Endpoint<'a>,
    /// The end that receives.
    pub to: Endpoint<'a>,
    /// The end that logs the line.
    pub side: Side,
    /// The transport.
    pub via: Via<'a>,
}

impl Connection<'_> {
    /// Returns whether both ends have the same GPU number. Before 2.5, lines about networks have
    /// none.
    pub fn is_same_rail(&self) -> bool {
        !self.from.gpu.is_empty() && self.from.gpu == self.to.gpu
    }
}

/// One end of a connection: `3[1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The rank in its communicator.
    pub rank: i64,
    /// The GPU: NVML's index in decimal since 2.18.3, the bus id in hexadecimal before; empty for
    /// networks before 2.5.
    pub gpu: &'a [u8],
}

/// The end of a connection that logs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `[send]`, over a network.
    Send,
    /// `[receive]`, over a network. Never names a relay.
    Receive,
    /// Neither: P2P and SHM print one line for both ends.
    Both,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via<'a> {
    /// `NET/name/device(relay)/GDRDMA(PCI)/Shared`.
    Net(Net<'a>),
    /// `P2P`, `SHM`: the word before the first slash.
    Other(&'a [u8]),
}

/// The network transport of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net<'a> {
    /// The network's name, which may contain spaces and slashes.
    pub name: &'a [u8],
    /// NCCL's number of the NIC.
    pub device: u64,
    /// The rank whose NIC it is, if that is not the sender's own: PXN.
    pub relay: Option<u64>,
    /// GPUDirect RDMA at this end.
    pub gpudirect: bool,
    /// Whether the line ends after the device's number. If it was cut there, a relay may be
    /// missing.
    pub bare: bool,
}

/// The two numbers of `Connected all rings, use ring PXN 1 GDR 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingNumbers {
    /// `PXN 1`.
    pub pxn: bool,
    /// `GDR 1`.
    pub gpudirect: bool,
}

/// Numbers of channels.
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

/// NCCL's choice for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm<'a> {
    /// `AllReduce`; empty before 2.23.
    pub function: &'a [u8],
    /// Size in bytes.
    pub bytes: u64,
    /// `RING`, or its number before 2.24.
    pub algorithm: &'a [u8],
    /// `SIMPLE`, or its number before 2.24; empty for kernels that have none.
    pub protocol: &'a [u8],
    /// Channels of the operation; `None` if the line does not name them.
    pub channels: Option<u64>,
}

/// An error that a line of NCCL's source returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnCode<'a> {
    /// The line: `transport/net_ib.cc:1295`.
    pub place: &'a [u8],
    /// NCCL's result code.
    pub code: u64,
}

/// An operation that a rank enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// `AllReduce`.
    pub name: &'a [u8],
    /// Its number in the communicator, from 0.
    pub number: u64,
    /// The ranks of the communicator.
    pub ranks: u64,
}
