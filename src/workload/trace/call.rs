//! [`TracedCall`]: the collective that a call in a trace stands for.

use super::groups::{GroupFields, TraceGroup, TraceGroups};
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::Bytes,
    visible::excerpt,
    workload::limits::MOST_BYTES,
};

/// The most ranks of a group for which a matrix of its traffic is made: it has the square of that
/// many numbers.
const MOST_MATRIX_RANKS: usize = 1024;

/// The fields of a call of a collective, as PyTorch records them.
#[derive(Debug, Default)]
pub(super) struct CallFields {
    /// PyTorch's name of the collective.
    pub(super) name: String,
    pub(super) dtype: String,
    /// Elements of the input and of the output.
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    /// PyTorch's split sizes: rows of the tensor to and from each rank of the group. Empty if the
    /// tensor is divided evenly.
    pub(super) sent_to: Vec<u64>,
    pub(super) received_from: Vec<u64>,
    /// The root of a collective that has one, and the rank that made the call otherwise: its number
    /// in the group.
    pub(super) rank_or_root: Option<u64>,
    /// The number of the call in its group.
    pub(super) sequence: Option<u64>,
    /// Whether the call was asynchronous, so that its caller waits later; `None` if it is not
    /// recorded.
    pub(super) is_async: Option<bool>,
    pub(super) group: GroupFields,
}

/// What the replay of a call does.
pub(super) enum CallKind {
    Collective(Box<TracedCall>),
    /// Waits for an earlier call.
    Wait,
    /// Nothing.
    Nothing,
}

/// A collective of a trace.
pub(super) struct TracedCall {
    pub(super) collective: Collective,
    pub(super) size: Bytes,
    pub(super) dtype: DType,
    pub(super) redop: Option<RedOp>,
    pub(super) root: Option<u32>,
    pub(super) traffic: Option<&'static Traffic>,
    pub(super) group: TraceGroup,
    /// PyTorch's name of the process group.
    pub(super) group_name: String,
}

impl CallFields {
    /// Returns whether it is an all_gather.
    pub(super) fn gathers(&self) -> bool {
        by_name(&self.plain_name()) == Some(Collective::AllGather)
    }

    /// Returns PyTorch's name in one spelling: `_allgather_base`, `all_gather` and
    /// `allgather_into_tensor_coalesced` are one collective.
    fn plain_name(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "")
    }

    /// Returns what the call does.
    ///
    /// # Errors
    /// Returns what cannot be read, and why.
    pub(super) fn kind(&self, groups: &mut TraceGroups) -> Result<CallKind, String> {
        let collective = match self.plain_name().as_str() {
            "wait" => return Ok(CallKind::Wait),
            "init" | "startcoalescing" | "endcoalescing" => return Ok(CallKind::Nothing),
            "barrier" => return Err("barrier: it moves no data".to_owned()),
            "recv" => return Err("recv: it is replayed with the send of its peer".to_owned()),
            // A send has one peer; all ranks together form a ring.
            "send" => Collective::SendRecv,
            "alltoallv" | "alltoallbase" | "alltoall" if self.is_uneven() => Collective::AllToAllV,
            name => by_name(name).ok_or_else(|| {
                format!("{}: it is no collective known here", excerpt(&self.name))
            })?,
        };
        let traced = self.traced(collective, groups);
        let traced = traced.map_err(|why| format!("{}: {why}", excerpt(&self.name)))?;
        Ok(CallKind::Collective(Box::new(traced)))
    }

    /// Returns the collective.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    fn traced(
        &self,
        collective: Collective,
        groups: &mut TraceGroups,
    ) -> Result<TracedCall, String> {
        let spec = collective.spec();
        let known = dtype(&self.dtype);
        let known = known.filter(|(dtype, element)| !spec.reduces || *element == dtype.size());
        let (dtype, element) = known.ok_or_else(|| format!("type {}", excerpt(&self.dtype)))?;
        let group = groups.group(&self.group);
        let group = group.ok_or_else(|| {
            let name = excerpt(&self.group.name);
            format!("the ranks of process group '{name}' are unknown or uneven")
        })?;
        let ranks = group.size();
        if ranks == 1 {
            return Err("its process group has one rank".to_owned());
        }
        let elements = self
            .elements(collective, ranks)
            .ok_or("its size is unknown")?;
        let size = elements.checked_mul(element).map(Bytes);
        let size = size
            .filter(|size| *size <= MOST_BYTES)
            .ok_or("its size is not possible")?;
        let root = self.rank_or_root.filter(|root| *root < ranks).unwrap_or(0);
        let traffic = match collective {
            Collective::AllToAllV => {
                let traffic = self.traffic(element, ranks);
                Some(traffic.ok_or("its split sizes are not possible")?)
            }
            _ => None,
        };
        Ok(TracedCall {
            collective,
            size,
            dtype,
            redop: spec.reduces.then_some(RedOp::Sum),
            root: spec.rooted.then_some(root as u32),
            traffic,
            group,
            group_name: self.group.name.clone(),
        })
    }

    fn is_uneven(&self) -> bool {
        let uneven = |parts: &[u64]| parts.windows(2).any(|pair| pair[0] != pair[1]);
        uneven(&self.sent_to) || uneven(&self.received_from)
    }

    /// Returns the elements of the larger buffer.
    fn elements(&self, collective: Collective, ranks: u64) -> Option<u64> {
        let given = [self.sent, self.received].into_iter().flatten();
        let given = given.max().filter(|elements| *elements > 0)?;
        match (collective, self.received) {
            // Older traces have the input only.
            (Collective::AllGather | Collective::Gather, None) => given.checked_mul(ranks),
            _ => Some(given),
        }
    }

    /// Returns the traffic of an uneven exchange; `None` if its split sizes do not belong to its
    /// tensor. What the other ranks send is not in the trace: each is taken to send to the rank d
    /// places after it what the recorded rank sends to the one d places after it.
    fn traffic(&self, element: u64, ranks: u64) -> Option<&'static Traffic> {
        let (rows, elements) = if self.sent_to.iter().any(|rows| *rows > 0) {
            (&self.sent_to, self.sent?)
        } else {
            (&self.received_from, self.received?)
        };
        if rows.len() as u64 != ranks || rows.len() > MOST_MATRIX_RANKS {
            return None;
        }
        let row_bytes = bytes_of_row(rows, elements, element)?;
        let recorded = self.rank_or_root.filter(|rank| *rank < ranks).unwrap_or(0) as usize;
        let mut text = String::new();
        for from in 0..rows.len() {
            for to in 0..rows.len() {
                let distance = to + rows.len() - from;
                let bytes = rows[(recorded + distance) % rows.len()] * row_bytes;
                text.push_str(&format!("{bytes} "));
            }
            text.push('\n');
        }
        Traffic::matrix(&text).ok().map(Traffic::keep)
    }
}

/// Returns the bytes of a row of a tensor that is split into `rows`; `None` if its elements do not
/// fill that many rows.
fn bytes_of_row(rows: &[u64], elements: u64, element: u64) -> Option<u64> {
    let all_rows = rows
        .iter()
        .try_fold(0_u64, |sum, rows| sum.checked_add(*rows))?;
    if all_rows == 0 || !elements.is_multiple_of(all_rows) {
        return None;
    }
    elements
        .checked_mul(element)
        .filter(|bytes| *bytes < MOST_BYTES.0)?;
    Some(elements / all_rows * element)
}

/// Returns the collective with this name in PyTorch, in small letters without underscores.
fn by_name(name: &str) -> Option<Collective> {
    let collective = match name {
        "allreduce" | "allreducecoalesced" => Collective::AllReduce,
        "allgather" | "allgatherbase" | "allgatherintotensorcoalesced" => Collective::AllGather,
        "reducescatter" | "reducescatterbase" | "reducescattertensorcoalesced" => {
            Collective::ReduceScatter
        }
        "broadcast" | "broadcastoop" => Collective::Broadcast,
        "reduce" | "reduceoop" => Collective::Reduce,
        "alltoall" | "alltoallbase" | "alltoallv" => Collective::AllToAll,
        "gather" => Collective::Gather,
        "scatter" => Collective::Scatter,
        _ => return None,
    };
    Some(collective)
}

/// Returns the element type and the bytes of an element of a type of PyTorch. A type that NCCL
/// lacks is moved as bytes.
fn dtype(name: &str) -> Option<(DType, u64)> {
    let dtype = match name.to_ascii_lowercase().as_str() {
        "float" | "float32" => DType::Float,
        "half" | "float16" => DType::Half,
        "bfloat16" => DType::Bfloat16,
        "double" | "float64" => DType::Double,
        "long" | "int64" => DType::Int64,
        "int" | "int32" => DType::Int32,
        "char" | "int8" => DType::Int8,
        "byte" | "uint8" | "bool" => DType::Uint8,
        "float8_e4m3fn" => DType::F8e4m3,
        "float8_e5m2" => DType::F8e5m2,
        "short" | "int16" => return Some((DType::Uint8, 2)),
        "complexfloat" => return Some((DType::Uint8, 8)),
        "complexdouble" => return Some((DType::Uint8, 16)),
        _ => return None,
    };
    Some((dtype, dtype.size()))
}
