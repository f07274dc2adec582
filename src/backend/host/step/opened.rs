//! [`OpenedSteps`]: the communicators and buffers that steps run on.

#![expect(unsafe_code, reason = "collectives run on addresses of buffers")]

use super::{
    super::{
        backend::{Host, Prepared, supports},
        nonblocking::{NonblockingCall, StartedCollective, nonblocking_call},
    },
    copy_buffers::CopyBuffers,
    spin::Spin,
};
use crate::{
    backend::{Backend, Waived, step::StepSetup},
    collective::{Case, Collective},
    exit::{Code, Failure},
    units::Bytes,
    workload::{Step, StepWork},
};

/// Makes the communicators and buffers of a step. Every process calls it.
///
/// # Errors
/// Returns an error if MPI cannot run one of the collectives while the rank computes, or if there
/// is not enough memory.
pub(super) fn open(setup: &StepSetup<'_>) -> anyhow::Result<OpenedSteps> {
    let step = setup.step;
    for operation in &step.operations {
        if let StepWork::Collective { case, .. } = &operation.work {
            call_for(case).map_err(|Waived(why)| refused(&operation.name, case, &why))?;
        }
    }
    let mut communicators = Vec::with_capacity(step.communicators.len());
    for (index, communicator) in step.communicators.iter().enumerate() {
        let group = &communicator.group;
        let rank = group.ranks[setup.rank as usize];
        let color = group.colors[setup.rank as usize];
        let mut host = Host::in_group(rank.into(), color, rank, None);
        let size = step.largest(index);
        host.allocate(size)
            .map_err(|_| no_memory(&format!("the communicator {}", communicator.name), size))?;
        communicators.push(host);
    }
    let mut collectives = Vec::with_capacity(step.operations.len());
    for operation in &step.operations {
        collectives.push(match &operation.work {
            StepWork::Compute(_) | StepWork::Copies(_) => None,
            StepWork::Collective { communicator, case } => Some(PreparedCollective::new(
                &mut communicators[*communicator],
                case,
            )?),
        });
    }
    let largest = step.largest_copies();
    let copies =
        CopyBuffers::allocate(largest).map_err(|_| no_memory("the copies of a step", largest))?;
    Ok(OpenedSteps {
        step: step.clone(),
        communicators,
        collectives,
        copies,
        spin: Spin::calibrated(),
    })
}

/// Returns the MPI call that starts `case`.
///
/// # Errors
/// Returns the reason if there is none.
fn call_for(case: &Case) -> Result<NonblockingCall, Waived> {
    supports(case)?;
    nonblocking_call(case.collective).ok_or_else(|| {
        Waived(format!(
            "a {} has rounds, which MPI cannot run while a rank computes",
            Collective::HyperCube
        ))
    })
}

/// Returns the error of an operation that cannot run.
fn refused(name: &str, case: &Case, why: &str) -> anyhow::Error {
    let what = format!("the operation {name} ({case}) cannot run on host memory: {why}");
    Failure::on_all_ranks(Code::Usage, what)
}

/// Returns the error if the buffers that `user` needs do not fit.
fn no_memory(user: &str, size: Bytes) -> anyhow::Error {
    let what = format!(
        "host memory has no room on this rank for two buffers of {size} for {user}. Use fewer \
         ranks on a node or a smaller workload"
    );
    Failure::on_this_rank(Code::Usage, what)
}

/// What steps run on.
pub(super) struct OpenedSteps {
    pub(super) step: Step,
    /// The buffers and the communicator of each communicator of the step.
    pub(super) communicators: Vec<Host>,
    /// For each operation what starts it, if it is a collective.
    pub(super) collectives: Vec<Option<PreparedCollective>>,
    /// What copies read and write; empty if the step has none.
    pub(super) copies: CopyBuffers,
    pub(super) spin: Spin,
}

/// A collective that is prepared to be started many times.
pub(super) struct PreparedCollective {
    case: Case,
    call: NonblockingCall,
    prepared: Prepared,
}

impl PreparedCollective {
    /// Prepares `case` on the communicator and buffers of `host`.
    ///
    /// # Errors
    /// Returns an error if MPI cannot start it, or if it does not fit into the buffers.
    pub(super) fn new(host: &mut Host, case: &Case) -> anyhow::Result<PreparedCollective> {
        let call = call_for(case).map_err(|Waived(why)| anyhow::anyhow!("{case}: {why}"))?;
        Ok(PreparedCollective {
            case: *case,
            call,
            prepared: host.prepare(case)?,
        })
    }

    /// Starts it in the buffers of `host`, where nothing else runs.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub(super) fn start(&self, host: &mut Host) -> anyhow::Result<StartedCollective> {
        let operation = host.ready(&self.case, &self.prepared, 0);
        // SAFETY: `prepare` has checked that the case fits into the buffers of `host`. They, and
        // the parts in `self`, stay where they are until the collective has ended: whoever starts
        // one waits for its end, or the process ends.
        unsafe { self.call.start(&operation, &self.case) }
    }
}
