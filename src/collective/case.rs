//! [`Case`]: one cell of a sweep, with the sizes and bandwidths that follow from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Collective, Counts, Layout, RankView, SizeRequest,
    data::{self, DType, DataKey, RedOp},
    traffic::{self, Traffic, TrafficShares},
};
use crate::units::{Bytes, GBps, Micros};

/// Two buffers, or one that is sent from and received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum BufferMode {
    OutOfPlace,
    InPlace,
}

impl BufferMode {
    /// Both, in the order they are measured.
    pub const ALL: [BufferMode; 2] = [BufferMode::OutOfPlace, BufferMode::InPlace];
}

impl fmt::Display for BufferMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferMode::OutOfPlace => "out of place",
            BufferMode::InPlace => "in place",
        })
    }
}

/// One cell of a sweep. Every rank holds the same cases in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// Which collective.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// The reduction; `None` where elements are only moved.
    pub redop: Option<RedOp>,
    /// The root; `None` where there is none.
    pub root: Option<u32>,
    /// One buffer or two.
    pub buffer_mode: BufferMode,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Elements, after rounding.
    pub counts: Counts,
    /// Who sends how much to whom; `None` where this is no alltoallv. It stays in the process: a case that
    /// comes from another one has lost it, see [`Case::carrying`].
    #[serde(skip)]
    pub traffic: Option<&'static Traffic>,
}

impl Case {
    /// The case nearest to `size` bytes: nccl-tests divides by the element size, then rounds as the collective wants, so
    /// that the size of the case can be smaller than the one asked for, even 0. An alltoallv has nccl-tests' default pattern:
    /// see [`Case::shared_out`].
    pub fn new(
        collective: Collective,
        size: Bytes,
        dtype: DType,
        redop: Option<RedOp>,
        root: Option<u32>,
        buffer_mode: BufferMode,
        ranks: u64,
    ) -> Case {
        let (counts, traffic) = (Counts::default(), None);
        let case = Case {
            collective,
            dtype,
            redop,
            root,
            buffer_mode,
            ranks,
            counts,
            traffic,
        };
        case.shared_out(size, &traffic::DEFAULT)
    }

    /// The same case nearest to `size` bytes which, where it is an alltoallv, are shared out as `traffic` says.
    pub fn shared_out(self, size: Bytes, traffic: &'static Traffic) -> Case {
        let element_size = self.dtype.size();
        let ask = SizeRequest {
            elements: size.0 / element_size,
            ranks: self.ranks,
            element_size,
            traffic,
        };
        let counts = (self.collective.spec().counts)(&ask);
        Case {
            counts,
            ..self.carrying(traffic)
        }
    }

    /// The same case, which carries `traffic` where it is an alltoallv.
    pub fn carrying(self, traffic: &'static Traffic) -> Case {
        Case {
            traffic: (self.collective == Collective::AllToAllV).then_some(traffic),
            ..self
        }
    }

    /// The size as nccl-tests counts it: the larger of what a rank sends and receives.
    pub fn size(&self) -> Bytes {
        Bytes(self.counts.send.max(self.counts.recv) * self.dtype.size())
    }

    /// What the buffers of `rank` hold before and after the operation.
    pub fn layout(&self, rank: u64) -> Layout {
        let root = self.root.map_or(0, u64::from);
        let (counts, buffer_mode, shares) = (self.counts, self.buffer_mode, self.shares());
        let seat = RankView {
            counts,
            rank,
            ranks: self.ranks,
            root,
            buffer_mode,
            shares,
        };
        (self.collective.spec().layout)(&seat)
    }

    /// Who sends how much to whom, where this is an alltoallv.
    pub(super) fn shares(&self) -> TrafficShares<'static> {
        let (ranks, element_size) = (self.ranks, self.dtype.size());
        let traffic = self.traffic.unwrap_or(&traffic::DEFAULT);
        TrafficShares {
            traffic,
            ranks,
            total: self.counts.param * ranks * element_size,
            element_size,
        }
    }

    /// What tells an alltoallv from one that sends other amounts, for the records; empty for all else.
    pub fn pattern(&self) -> String {
        self.traffic.map_or_else(String::new, Traffic::label)
    }

    /// What the data of this case depend on.
    pub fn data(&self, seed: u64) -> DataKey {
        DataKey {
            dtype: self.dtype,
            redop: self.redop,
            ranks: self.ranks,
            seed,
        }
    }

    /// Why no library can run this case, whatever it runs on; `None` where one can.
    pub fn impossible(&self) -> Option<String> {
        if self.collective.spec().powers_of_two && !self.ranks.is_power_of_two() {
            return Some(format!(
                "{} is not a power of 2, which {} needs of its ranks",
                self.ranks, self.collective
            ));
        }
        let (most, dtype) = (data::most_ranks(self.dtype, self.redop), self.dtype.name());
        (self.ranks > most).then(|| {
            format!(
                "an {} of {dtype} is exact on {most} ranks at most",
                self.redop_name()
            )
        })
    }

    /// Is the result of this case checked?
    pub fn is_checked(&self) -> bool {
        self.buffer_mode == BufferMode::OutOfPlace || self.collective.spec().checked_in_place
    }

    /// Algorithm and bus bandwidth of an operation that took `time`.
    pub fn bandwidth(&self, time: Micros) -> (GBps, GBps) {
        let spec = self.collective.spec();
        let bytes = (spec.algbw_elements)(&self.counts, self.ranks) * self.dtype.size();
        let algbw = GBps::average(Bytes(bytes), time);
        (algbw, GBps(algbw.0 * (spec.bus_factor)(self.ranks as f64)))
    }

    /// nccl-tests' column `redop`.
    pub fn redop_name(&self) -> &'static str {
        self.redop.map_or("none", RedOp::name)
    }

    /// nccl-tests' column `root`: -1 where there is none.
    pub fn root_number(&self) -> i64 {
        self.root.map_or(-1, i64::from)
    }
}

impl fmt::Display for Case {
    /// A case as messages name it: `all_reduce 64M float sum in place`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.collective,
            self.size(),
            self.dtype.name()
        )?;
        if let Some(redop) = self.redop {
            write!(f, " {}", redop.name())?;
        }
        if let Some(root) = self.root {
            write!(f, " root {root}")?;
        }
        write!(f, " {}", self.buffer_mode)
    }
}
