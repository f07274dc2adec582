//! From what was asked for to the list of cases. Pure, and the same on every rank.

use crate::{
    collective::{
        BufferMode, Case, Collective, Spec,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::Bytes,
};

/// How one size follows from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeStep {
    /// Times a factor of at least 2.
    Factor(u64),
    /// Plus a number of bytes of at least 1.
    Add(Bytes),
}

/// Which ranks are roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// This one.
    One(u32),
    /// Each in turn.
    All,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct SweepSpec {
    /// Which collectives, in order.
    pub collectives: Vec<Collective>,
    /// Smallest size.
    pub begin: Bytes,
    /// Largest size, inclusive.
    pub end: Bytes,
    /// From one size to the next.
    pub step: SizeStep,
    /// Element types.
    pub dtypes: Vec<DType>,
    /// Reductions, where the collective reduces.
    pub redops: Vec<RedOp>,
    /// Roots, where the collective has one.
    pub roots: Roots,
    /// Who sends how much to whom in an alltoallv.
    pub traffic: &'static Traffic,
}

/// The cases of one collective, type, operation and root.
#[derive(Clone, Debug)]
pub struct Series {
    /// Which collective.
    pub collective: Collective,
    /// What is run before, untimed: nccl-tests doubles from the smallest size to the largest, whatever the step.
    pub warm_up: Vec<Case>,
    /// What is measured: for each size out of place, then in place.
    pub cases: Vec<Case>,
}

/// All cases, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What they follow from.
    pub ask: SweepSpec,
    /// In nccl-tests' order: types, then operations, then roots.
    pub series: Vec<Series>,
}

/// More cases than this are a slip of the command line, such as `-i 1` where `-f 2` was meant: they would run for days,
/// and the plan alone would fill the memory.
const MOST_CASES: usize = 1_000_000;

impl Plan {
    /// Is the sweep of `ask` small enough to be meant?
    pub fn is_sane(ask: &SweepSpec, ranks: u64) -> bool {
        let sizes = ask.sizes().take(MOST_CASES).count() * BufferMode::ALL.len();
        let roots = match ask.roots {
            Roots::One(_) => 1,
            Roots::All => ranks as usize,
        };
        let of = |spec: &Spec| {
            let redops = if spec.reduces { ask.redops.len() } else { 1 };
            ask.dtypes.len() * redops * if spec.rooted { roots } else { 1 }
        };
        let series: usize = ask
            .collectives
            .iter()
            .map(|collective| of(collective.spec()))
            .sum();
        sizes.saturating_mul(series) <= MOST_CASES
    }

    /// The cases of `ask` on `ranks` ranks.
    pub fn new(ask: &SweepSpec, ranks: u64) -> Plan {
        let series = ask
            .series(ranks)
            .into_iter()
            .map(|(collective, dtype, redop, root)| {
                let case = |size, buffer_mode| {
                    Case::new(collective, size, dtype, redop, root, buffer_mode, ranks)
                        .with_size(size, ask.traffic)
                };
                ask.one_series(collective, &case)
            });
        Plan {
            ask: ask.clone(),
            series: series.collect(),
        }
    }

    /// All cases of all series, in order.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.series.iter().flat_map(|series| &series.cases)
    }

    /// The largest buffer that any case needs of those that run.
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
    /// The sizes of the sweep.
    pub fn sizes(&self) -> impl Iterator<Item = Bytes> + use<> {
        let (step, end) = (self.step, self.end);
        let next = move |size: &Bytes| match step {
            SizeStep::Factor(factor) => size.0.checked_mul(factor).map(Bytes),
            SizeStep::Add(bytes) => size.0.checked_add(bytes.0).map(Bytes),
        };
        // From 0 no factor leads anywhere.
        std::iter::successors(Some(self.begin), next)
            .take_while(move |size| *size <= end && size.0 > 0)
    }

    /// Collective, type, operation and root of each series, in nccl-tests' order.
    fn series(&self, ranks: u64) -> Vec<(Collective, DType, Option<RedOp>, Option<u32>)> {
        let mut all = Vec::new();
        for &collective in &self.collectives {
            let spec = collective.spec();
            let redops = if spec.reduces {
                self.redops.iter().copied().map(Some).collect()
            } else {
                vec![None]
            };
            let roots = if spec.rooted {
                self.root_list(ranks).map(Some).collect()
            } else {
                vec![None]
            };
            for &dtype in &self.dtypes {
                for &redop in &redops {
                    all.extend(roots.iter().map(|&root| (collective, dtype, redop, root)));
                }
            }
        }
        all
    }

    fn root_list(&self, ranks: u64) -> std::ops::Range<u32> {
        match self.roots {
            Roots::One(root) => root..root + 1,
            Roots::All => 0..ranks as u32,
        }
    }

    fn one_series(
        &self,
        collective: Collective,
        case: &dyn Fn(Bytes, BufferMode) -> Case,
    ) -> Series {
        let doubled = SweepSpec {
            step: SizeStep::Factor(2),
            ..self.clone()
        };
        Series {
            collective,
            warm_up: doubled
                .sizes()
                .map(|size| case(size, BufferMode::OutOfPlace))
                .collect(),
            cases: self
                .sizes()
                .flat_map(|size| BufferMode::ALL.map(|buffer_mode| case(size, buffer_mode)))
                .collect(),
        }
    }
}
