//! [`Plan`]: the list of cases that a [`SweepSpec`] requests. Pure, and the same on every rank.

use crate::{
    collective::{
        BufferMode, Case, CaseShape, Collective,
        data::{DType, RedOp},
        traffic::{self, Traffic},
    },
    units::Bytes,
};

/// The step from one size to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeStep {
    /// Multiplication by a factor of at least 2.
    Factor(u64),
    /// Addition of at least 1 byte.
    Add(Bytes),
}

/// The ranks used as roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// One rank.
    One(u32),
    /// Each rank in turn.
    All,
}

/// The requested sweep.
#[derive(Clone, Debug)]
pub struct SweepSpec {
    /// Collectives, in order.
    pub collectives: Vec<Collective>,
    /// Smallest size.
    pub begin: Bytes,
    /// Largest size, inclusive.
    pub end: Bytes,
    /// Step from one size to the next.
    pub step: SizeStep,
    /// Element types.
    pub dtypes: Vec<DType>,
    /// Reductions, for collectives that reduce.
    pub redops: Vec<RedOp>,
    /// Roots, for collectives that have one.
    pub roots: Roots,
    /// Traffic of an alltoallv.
    pub traffic: &'static Traffic,
}

impl Default for SweepSpec {
    /// Returns an all_reduce of float sums from 8 bytes to 1M, doubling the size each step.
    fn default() -> SweepSpec {
        SweepSpec {
            collectives: vec![Collective::AllReduce],
            begin: Bytes(8),
            end: Bytes(1 << 20),
            step: SizeStep::Factor(2),
            dtypes: vec![DType::Float],
            redops: vec![RedOp::Sum],
            roots: Roots::One(0),
            traffic: &traffic::DEFAULT,
        }
    }
}

/// The cases of one collective, type, operation and root.
#[derive(Clone, Debug)]
pub struct Series {
    /// The collective.
    pub collective: Collective,
    /// Cases run untimed before: nccl-tests doubles from the smallest size to the largest, whatever
    /// the step.
    pub warm_up: Vec<Case>,
    /// Measured cases: for each size out of place, then in place.
    pub cases: Vec<Case>,
}

/// All cases, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request that they fulfil.
    pub ask: SweepSpec,
    /// In nccl-tests' order: types, then operations, then roots.
    pub series: Vec<Series>,
}

/// Maximum number of cases. More are a mistake on the command line, such as `-i 1` instead of
/// `-f 2`: they would run for days, and the plan alone would fill the memory.
const MOST_CASES: usize = 1_000_000;

impl Plan {
    /// Returns whether the sweep has a plausible number of cases.
    pub fn is_sane(ask: &SweepSpec, ranks: u64) -> bool {
        let sizes = ask.sizes().take(MOST_CASES).count() * BufferMode::ALL.len();
        let roots = match ask.roots {
            Roots::One(_) => 1,
            Roots::All => ranks as usize,
        };
        let mut series = 0;
        for collective in &ask.collectives {
            let spec = collective.spec();
            let redops = if spec.reduces { ask.redops.len() } else { 1 };
            let roots = if spec.rooted { roots } else { 1 };
            series += ask.dtypes.len() * redops * roots;
        }
        sizes.saturating_mul(series) <= MOST_CASES
    }

    /// Returns the cases of `ask` on `ranks` ranks.
    pub fn new(ask: &SweepSpec, ranks: u64) -> Plan {
        let mut series = Vec::new();
        for &collective in &ask.collectives {
            for &dtype in &ask.dtypes {
                for redop in ask.redops_of(collective) {
                    for root in ask.roots_of(collective, ranks) {
                        let smallest = CaseShape {
                            collective,
                            dtype,
                            redop,
                            root,
                            buffer_mode: BufferMode::OutOfPlace,
                            ranks,
                        }
                        .nearest(ask.begin);
                        series.push(ask.series(&smallest));
                    }
                }
            }
        }
        Plan {
            ask: ask.clone(),
            series,
        }
    }

    /// Returns all cases of all series, in order.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.series.iter().flat_map(|series| &series.cases)
    }

    /// Returns the largest buffer that any case needs for which `runs` is true.
    pub fn largest(&self, runs: &dyn Fn(&Case) -> bool) -> Bytes {
        let warm_up = self.series.iter().flat_map(|series| &series.warm_up);
        self.cases()
            .chain(warm_up)
            .filter(|case| runs(case))
            .map(Case::size)
            .max()
            .unwrap_or_default()
    }
}

impl SweepSpec {
    /// Returns the sizes of the sweep.
    pub fn sizes(&self) -> impl Iterator<Item = Bytes> + use<> {
        let (step, end) = (self.step, self.end);
        let next = move |size: &Bytes| match step {
            SizeStep::Factor(factor) => size.0.checked_mul(factor).map(Bytes),
            SizeStep::Add(bytes) => size.0.checked_add(bytes.0).map(Bytes),
        };
        // Multiplying 0 by a factor would never end.
        std::iter::successors(Some(self.begin), next)
            .take_while(move |size| *size <= end && size.0 > 0)
    }

    /// Returns the reductions to measure for `collective`.
    fn redops_of(&self, collective: Collective) -> Vec<Option<RedOp>> {
        if collective.spec().reduces {
            self.redops.iter().copied().map(Some).collect()
        } else {
            vec![None]
        }
    }

    /// Returns the roots to measure for `collective` on `ranks` ranks.
    fn roots_of(&self, collective: Collective, ranks: u64) -> Vec<Option<u32>> {
        if !collective.spec().rooted {
            return vec![None];
        }
        match self.roots {
            Roots::One(root) => vec![Some(root)],
            Roots::All => (0..ranks as u32).map(Some).collect(),
        }
    }

    /// Returns the cases that differ from `any` in size and buffer mode only.
    fn series(&self, any: &Case) -> Series {
        let doubled = SweepSpec {
            step: SizeStep::Factor(2),
            ..self.clone()
        };
        let mut warm_up = Vec::new();
        for size in doubled.sizes() {
            warm_up.push(any.with_size(size, self.traffic));
        }
        let mut cases = Vec::new();
        for size in self.sizes() {
            for buffer_mode in BufferMode::ALL {
                let case = Case {
                    buffer_mode,
                    ..*any
                };
                cases.push(case.with_size(size, self.traffic));
            }
        }
        Series {
            collective: any.collective,
            warm_up,
            cases,
        }
    }
}
