//! What this process runs: the plan of its communicator, refused if it cannot be, cut to what fits
//! into memory.

use std::collections::HashSet;

use super::context::RunContext;
use crate::{
    backend::Backend,
    collective::{BufferMode, Case},
    exit::{Code, Failure},
    record::Record,
    sweep::{
        self,
        plan::{Plan, Roots, SweepSpec},
    },
    units::{Bytes, counted},
    world::{self, World},
};

/// The smallest and largest size of a plan that was cut; `None` if they are those of the command
/// line.
pub(super) type CutSizes = Option<(Bytes, Bytes)>;

/// Returns the plan of a communicator of `ranks` ranks.
///
/// # Errors
///
/// Returns an error if a root does not exist, or if there are more cases than anybody can want.
pub(super) fn plan(spec: &SweepSpec, ranks: u64) -> anyhow::Result<Plan> {
    refuse_missing_root(spec, ranks)?;
    if !Plan::is_sane(spec, ranks) {
        return usage(
            "these sizes, types, operations and roots make more than a million cases: did you \
             mean -f 2 instead of -i?",
        );
    }
    Ok(Plan::new(spec, ranks))
}

/// Refuses communicators that could not run side by side.
///
/// # Errors
///
/// Returns an error if `NCCL_TESTS_SPLIT` makes communicators whose plans would not end together,
/// or if it is combined with `--proof` or `-U`, whose workers know of one communicator only.
pub(super) fn refuse_uneven_groups(plan: &Plan, context: &RunContext) -> anyhow::Result<()> {
    if context.group().is_none() {
        return Ok(());
    }
    if context.request.proof || context.request.table.tuning {
        return usage(
            "--proof and -U are for one communicator, and NCCL_TESTS_SPLIT makes several. Leave \
             one of them out",
        );
    }
    let world = context.world;
    if differs_between_ranks(&plan.cases().count(), world)? {
        return usage(
            "NCCL_TESTS_SPLIT makes communicators of several sizes, which have different numbers \
             of roots. Use one root",
        );
    }
    // All ranks of the job run a case or none does, because they meet at its barriers.
    let mut waived = Vec::new();
    for (at, case) in plan.cases().enumerate() {
        if case.impossible().is_some() {
            waived.push(at);
        }
    }
    if differs_between_ranks(&waived, world)? {
        return usage(
            "NCCL_TESTS_SPLIT makes communicators of several sizes, and some cases, such as those \
             of a hypercube, can run on some of them only. Leave these cases out, or split evenly",
        );
    }
    Ok(())
}

fn differs_between_ranks<T>(own: &T, world: &dyn World) -> anyhow::Result<bool>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq,
{
    let all = world::all_gather(world, own)?;
    Ok(all.iter().any(|other| *other != all[0]))
}

fn refuse_missing_root(spec: &SweepSpec, ranks: u64) -> anyhow::Result<()> {
    let Roots::One(root) = spec.roots else {
        return Ok(());
    };
    let is_rooted = spec.collectives.iter().any(|one| one.spec().rooted);
    if is_rooted && u64::from(root) >= ranks {
        let what = format!(
            "root {root} does not exist among {}. Use -r with a rank below {ranks}, or -r all",
            counted(ranks, "rank")
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    Ok(())
}

/// Returns `plan`, or, if it does not fit into the memory of every process, the same plan up to the
/// size that does, with its smallest and largest size.
///
/// # Errors
///
/// Returns an error if nothing fits, if the only size that was requested does not, or if a process
/// cannot tell what does.
pub(super) fn fit(
    plan: Plan,
    ranks: u64,
    backend: &dyn Backend,
    world: &dyn World,
) -> anyhow::Result<(Plan, CutSizes)> {
    let Some(capacity) = sweep::capacity(world, backend)? else {
        return Ok((plan, None));
    };
    let needed = largest(&plan, backend, world)?;
    if needed <= capacity {
        return Ok((plan, None));
    }
    if capacity.0 < LEAST_PER_RANK * ranks {
        return nothing_fits(capacity);
    }
    if plan.ask.sizes().count() == 1 {
        let what = format!(
            "{needed} does not fit into memory: each of the two buffers can have at most \
             {capacity}. Use a smaller size"
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    let smaller = cut(&plan.ask, capacity, ranks)?;
    let sizes = Some((smaller.begin, smaller.end));
    let plan = Plan::new(&smaller, ranks);
    // The matrix of an alltoallv does not shrink.
    let needed = largest(&plan, backend, world)?;
    if needed > capacity {
        let what =
            format!("each of the two buffers can have at most {capacity}, but {needed} are needed");
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok((plan, sizes))
}

/// Returns the largest buffer that any communicator needs: those of several sizes round
/// differently, and all are cut or none is.
fn largest(plan: &Plan, backend: &dyn Backend, world: &dyn World) -> anyhow::Result<Bytes> {
    let own = plan.largest(&|case| backend.supports(case).is_ok());
    let all = world::all_gather(world, &own)?;
    Ok(all.into_iter().max().unwrap_or_default())
}

/// Cuts the sweep to what fits. As in nccl-tests, a smallest size that does not fit becomes the
/// largest that does.
fn cut(spec: &SweepSpec, capacity: Bytes, ranks: u64) -> anyhow::Result<SweepSpec> {
    if capacity.0 < LEAST_PER_RANK * ranks {
        return nothing_fits(capacity);
    }
    Ok(SweepSpec {
        begin: spec.begin.min(capacity),
        end: capacity,
        ..spec.clone()
    })
}

/// Bytes of a buffer for each rank, below which nothing is left of a sweep: 16 of the largest
/// element.
const LEAST_PER_RANK: u64 = 128;

fn nothing_fits<T>(capacity: Bytes) -> anyhow::Result<T> {
    let room = match capacity {
        Bytes(0) => "none is left for buffers".to_owned(),
        some => format!("each of the two buffers could have {some} only"),
    };
    let what = format!(
        "there is too little free memory for any size: {room}. Something else is using it; \
         nvidia-smi, or free, shows what"
    );
    Err(Failure::on_all_ranks(Code::NothingRan, what))
}

/// What there is to say if the sizes of a plan were cut.
pub(super) struct CutNote {
    /// The sentence.
    pub(super) text: String,
    /// The cases of the largest size that is left, whose records have it as a note.
    cases: HashSet<Case>,
}

impl CutNote {
    /// Returns the note for `plan`, which was cut to `sizes` from those of `asked`; `None` if it
    /// was not cut.
    pub(super) fn new(plan: &Plan, sizes: CutSizes, asked: &SweepSpec) -> Option<CutNote> {
        let (begin, end) = sizes?;
        let text = if begin < asked.begin {
            format!(
                "{} to {} do not fit into memory: {begin} is measured instead",
                asked.begin, asked.end
            )
        } else {
            format!(
                "sizes above {end} and up to {} do not fit into memory: they are not measured",
                asked.end
            )
        };
        let mut cases = HashSet::new();
        for series in &plan.series {
            cases.extend(series.cases.iter().rev().take(BufferMode::ALL.len()));
        }
        Some(CutNote { text, cases })
    }

    /// Adds the note to `record` if it is of the largest size.
    pub(super) fn add_to(&self, record: &mut Record) {
        if self.cases.contains(&record.case) {
            record.add_note(&self.text);
        }
    }
}

fn usage<T>(what: &str) -> anyhow::Result<T> {
    Err(Failure::on_all_ranks(Code::Usage, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{Collective, data::DType, traffic::DEFAULT},
        sweep::plan::SizeStep,
    };

    #[test]
    fn a_sweep_shrinks_to_what_fits_and_never_to_nothing() {
        let ask = SweepSpec {
            collectives: vec![Collective::AllReduce],
            begin: Bytes(8 << 30),
            end: Bytes(64 << 30),
            step: SizeStep::Factor(2),
            dtypes: vec![DType::Float],
            redops: Vec::new(),
            roots: Roots::One(0),
            traffic: &DEFAULT,
        };
        let sizes = |ask: SweepSpec| ask.sizes().map(|size| size.0).collect::<Vec<_>>();
        assert_eq!(
            sizes(cut(&ask, Bytes(20 << 30), 2).expect("fits")),
            [8 << 30, 16 << 30]
        );
        assert_eq!(
            sizes(cut(&ask, Bytes(1 << 30), 2).expect("fits")),
            [1 << 30]
        );
        for nothing in [0, 100] {
            let error = cut(&ask, Bytes(nothing), 2).expect_err("no room");
            assert_eq!(crate::exit::code_of(&error), Code::NothingRan);
        }
        assert_eq!(
            sizes(SweepSpec {
                begin: Bytes(0),
                ..ask
            }),
            [] as [u64; 0],
            "no sweep without end from 0"
        );
    }
}
