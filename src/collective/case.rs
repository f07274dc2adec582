//! [`Case`]: one cell of a sweep, with the sizes and bandwidths that follow from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    buffers::{BufferMode, Layout, RankView},
    counts::{Counts, SizeRequest},
    data::{self, DType, DataKey, RedOp},
    kind::Collective,
    traffic::{self, PeerFlow, Traffic, TrafficShares},
};
use crate::units::{Bytes, GBps, Micros};

/// One cell of a sweep. Every rank holds the same cases in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// Collective.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// The reduction; `None` if elements are only moved.
    pub redop: Option<RedOp>,
    /// The root; `None` if the collective has none.
    pub root: Option<u32>,
    /// One buffer or two.
    pub buffer_mode: BufferMode,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Elements, after rounding.
    pub counts: Counts,
    /// The traffic of an uneven collective; `None` for all others. It is not serialized, because a
    /// matrix can be long: a case that was read from elsewhere gets it back by
    /// [`Case::with_traffic`].
    #[serde(skip)]
    pub traffic: Option<&'static Traffic>,
}

/// Everything about a case but its size.
#[derive(Clone, Copy, Debug)]
pub struct CaseShape {
    /// Collective.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// The reduction; `None` if elements are only moved.
    pub redop: Option<RedOp>,
    /// The root; `None` if the collective has none.
    pub root: Option<u32>,
    /// One buffer or two.
    pub buffer_mode: BufferMode,
    /// Ranks of the communicator.
    pub ranks: u64,
}

impl CaseShape {
    /// Returns the case nearest to `size` bytes. As in nccl-tests, the size is divided by the
    /// element size, then rounded as the collective needs, so the case can be smaller than
    /// requested, even 0. An uneven collective has nccl-tests' default traffic: see
    /// [`Case::with_size`].
    pub fn nearest(self, size: Bytes) -> Case {
        let case = Case {
            collective: self.collective,
            dtype: self.dtype,
            redop: self.redop,
            root: self.root,
            buffer_mode: self.buffer_mode,
            ranks: self.ranks,
            counts: Counts::default(),
            traffic: None,
        };
        case.with_size(size, &traffic::DEFAULT)
    }
}

impl Case {
    /// Returns the same case nearest to `size` bytes, which an uneven collective divides between
    /// ranks by `traffic`.
    pub fn with_size(self, size: Bytes, traffic: &'static Traffic) -> Case {
        let element_size = self.dtype.size();
        let request = SizeRequest {
            elements: size.0 / element_size,
            ranks: self.ranks,
            element_size,
            traffic,
        };
        Case {
            counts: (self.collective.spec().counts)(&request),
            ..self.with_traffic(traffic)
        }
    }

    /// Returns the same case with `traffic` if the collective is uneven; other collectives have
    /// none.
    pub fn with_traffic(self, traffic: &'static Traffic) -> Case {
        Case {
            traffic: self.collective.spec().uneven.then_some(traffic),
            ..self
        }
    }

    /// Returns the same case with the size and count of a row of results; `None` if no size rounds
    /// to them. `traffic` is the traffic of that row; if it is unknown, an uneven case has the
    /// counts of the row but cannot be run.
    pub fn recorded(
        self,
        size: Bytes,
        count: u64,
        traffic: Option<&'static Traffic>,
    ) -> Option<Case> {
        let element_size = self.dtype.size();
        let case = match (self.collective.spec().uneven, traffic) {
            // A size is rounded already, and rounding it again changes nothing.
            (false, _) => self.with_size(size, &traffic::DEFAULT),
            // Its parts are rounded one by one: the requested size follows from the count.
            (true, Some(traffic)) => {
                let requested = count.checked_mul(self.ranks)?.checked_mul(element_size)?;
                self.with_size(Bytes(requested), traffic)
            }
            (true, None) => {
                let elements = size.0 / element_size;
                let counts = Counts {
                    send: elements,
                    recv: elements,
                    param: count,
                };
                Case {
                    counts,
                    traffic: None,
                    ..self
                }
            }
        };
        (case.size() == size && case.counts.param == count).then_some(case)
    }

    /// Returns the size as nccl-tests counts it: the larger of what a rank sends and receives.
    pub fn size(&self) -> Bytes {
        Bytes(self.counts.send.max(self.counts.recv) * self.dtype.size())
    }

    /// Returns what the buffers of `rank` hold before and after the operation.
    pub fn layout(&self, rank: u64) -> Layout {
        let view = RankView {
            counts: self.counts,
            rank,
            ranks: self.ranks,
            root: self.root.map_or(0, u64::from),
            buffer_mode: self.buffer_mode,
            shares: self.shares(),
        };
        (self.collective.spec().layout)(&view)
    }

    /// Returns the amounts that ranks exchange, if they are not the same for all.
    fn shares(&self) -> Option<TrafficShares<'static>> {
        let traffic = self.traffic?;
        let shares = TrafficShares::new(traffic, self.counts.param, self.ranks, self.dtype.size());
        Some(shares)
    }

    /// Returns what `rank` exchanges with each rank, in rank order; empty if the amounts are the
    /// same for all.
    pub fn flows(&self, rank: u64) -> Vec<PeerFlow> {
        match self.shares() {
            Some(shares) => shares.flows(rank),
            None => Vec::new(),
        }
    }

    /// Returns the bandwidths of each rank in an operation that took `time`, as comment lines in
    /// nccl-tests' words; none if they are the same for all ranks.
    pub fn rank_bandwidths(&self, time: Micros) -> Vec<String> {
        let bus_factor = (self.collective.spec().bus_factor)(self.ranks as f64);
        match self.shares() {
            Some(shares) => traffic::lines(&shares, time, bus_factor),
            None => Vec::new(),
        }
    }

    /// Returns what identifies the traffic of the case in records; empty if ranks exchange equal
    /// amounts.
    pub fn pattern(&self) -> String {
        self.traffic.map_or_else(String::new, Traffic::label)
    }

    /// Returns what the data of this case depend on.
    pub fn data(&self, seed: u64) -> DataKey {
        DataKey {
            dtype: self.dtype,
            redop: self.redop,
            ranks: self.ranks,
            seed,
        }
    }

    /// Returns why no library can run this case on any system; `None` if one can.
    pub fn impossible(&self) -> Option<String> {
        if self.collective.spec().powers_of_two && !self.ranks.is_power_of_two() {
            return Some(format!(
                "{} is not a power of 2, as the number of ranks of a {} must be",
                self.ranks, self.collective
            ));
        }
        let most = data::most_ranks(self.dtype, self.redop);
        if self.ranks > most {
            return Some(format!(
                "an {} of {} is exact up to {most} ranks",
                self.redop_name(),
                self.dtype.name()
            ));
        }
        None
    }

    /// Returns whether the result of this case is checked.
    pub fn is_checked(&self) -> bool {
        self.buffer_mode == BufferMode::OutOfPlace || self.collective.spec().checked_in_place
    }

    /// Returns algorithm and bus bandwidth of an operation that took `time`.
    pub fn bandwidth(&self, time: Micros) -> (GBps, GBps) {
        let spec = self.collective.spec();
        let bytes = (spec.algbw_elements)(&self.counts, self.ranks) * self.dtype.size();
        let algbw = GBps::average(Bytes(bytes), time);
        (algbw, GBps(algbw.0 * (spec.bus_factor)(self.ranks as f64)))
    }

    /// Returns nccl-tests' column `redop`.
    pub fn redop_name(&self) -> &'static str {
        self.redop.map_or("none", RedOp::name)
    }

    /// Returns nccl-tests' column `root`: -1 if there is none.
    pub fn root_number(&self) -> i64 {
        self.root.map_or(-1, i64::from)
    }
}

impl fmt::Display for Case {
    /// Writes a case as messages name it: `all_reduce 64M float sum in place`.
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
