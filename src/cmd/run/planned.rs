//! What this process runs: the plan of its communicator, refused where it cannot be, cut to what fits.

use super::{args::Args, job::RunContext, tuning::Sizes};
use crate::{
    backend::Backend,
    exit::{Code, Failure},
    sweep::{
        self,
        plan::{Plan, Roots, SweepSpec},
    },
    units::Bytes,
    world::{self, World},
};

/// The plan of a communicator of `ranks` ranks.
///
/// # Errors
/// Where there is no such root, or more than anybody wants.
pub(super) fn plan(ask: &SweepSpec, ranks: u64) -> anyhow::Result<Plan> {
    refuse_missing_root(ask, ranks)?;
    if !Plan::is_sane(ask, ranks) {
        let what = "these sizes, types, operations and roots are more than a million cases: did you mean -f 2 instead of -i?";
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    Ok(Plan::new(ask, ranks))
}

/// Communicators of several sizes have several numbers of roots, and would not end together; a worker knows of one only.
pub(super) fn refuse_uneven_groups(
    plan: &Plan,
    job: &RunContext,
    args: &Args,
    world: &dyn World,
) -> anyhow::Result<()> {
    if job.group(world.rank()).is_none() {
        return Ok(());
    }
    if args.proof {
        let what = "--proof is for one communicator, and NCCL_TESTS_SPLIT makes several: leave one of them out";
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    let counts = world::all_gather(world, &plan.cases().count())?;
    if counts.iter().any(|count| *count != counts[0]) {
        let what = "NCCL_TESTS_SPLIT makes communicators of several sizes, which have different numbers of roots: use one root";
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    // All ranks of the job run a case or none does: they meet at its barriers.
    let waived: Vec<usize> = plan
        .cases()
        .enumerate()
        .filter(|(_, case)| case.impossible().is_some())
        .map(|(at, _)| at)
        .collect();
    let all = world::all_gather(world, &waived)?;
    if all.iter().any(|other| *other != all[0]) {
        let what = "NCCL_TESTS_SPLIT makes communicators of several sizes, and a case is waived on some of them only, such as a \
             hypercube: leave it out, or split evenly";
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    Ok(())
}

fn refuse_missing_root(ask: &SweepSpec, ranks: u64) -> anyhow::Result<()> {
    let is_rooted = ask
        .collectives
        .iter()
        .any(|collective| collective.spec().rooted);
    match ask.roots {
        Roots::One(root) if is_rooted && u64::from(root) >= ranks => {
            let what = format!(
                "root {root} does not exist among {ranks} ranks: use -r with a rank below {ranks}, or -r all"
            );
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
        _ => Ok(()),
    }
}

/// `plan`, or where it does not fit on every process the same up to what does, with its smallest and largest size.
///
/// # Errors
/// Where nothing fits, or a process cannot say what does.
pub(super) fn fitted(
    plan: Plan,
    ranks: u64,
    backend: &dyn Backend,
    world: &dyn World,
) -> anyhow::Result<(Plan, Sizes)> {
    // Communicators of several sizes round differently: all are cut, or none is.
    let largest = |plan: &Plan| {
        anyhow::Ok(
            world::all_gather(world, &plan.largest(&|case| backend.supports(case).is_ok()))?
                .into_iter()
                .max()
                .unwrap_or_default(),
        )
    };
    let Some(capacity) = sweep::measure::capacity(world, backend)? else {
        return Ok((plan, None));
    };
    if largest(&plan)? <= capacity {
        return Ok((plan, None));
    }
    let smaller = fit(&plan.ask, capacity, ranks)?;
    let (plan, sizes) = (
        Plan::new(&smaller, ranks),
        Some((smaller.begin, smaller.end)),
    );
    // A matrix of an alltoallv does not shrink.
    match largest(&plan)? {
        largest if largest <= capacity => Ok((plan, sizes)),
        largest => {
            let what = format!("only two buffers of {capacity} fit, and {largest} are needed");
            Err(Failure::on_all_ranks(Code::NothingRan, what))
        }
    }
}

/// The sweep up to what fits. As in nccl-tests, a smallest size that does not fit becomes the largest that does.
fn fit(ask: &SweepSpec, capacity: Bytes, ranks: u64) -> anyhow::Result<SweepSpec> {
    // The largest element, 16 of them a rank: below that nothing is left of a sweep.
    if capacity.0 < 128 * ranks {
        let what = format!("only two buffers of {capacity} fit: something else holds the memory");
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(SweepSpec {
        begin: ask.begin.min(capacity),
        end: capacity,
        ..ask.clone()
    })
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
            sizes(fit(&ask, Bytes(20 << 30), 2).expect("fits")),
            [8 << 30, 16 << 30]
        );
        assert_eq!(
            sizes(fit(&ask, Bytes(1 << 30), 2).expect("fits")),
            [1 << 30]
        );
        for nothing in [0, 100] {
            let error = fit(&ask, Bytes(nothing), 2).expect_err("no room");
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
