//! Training steps on host memory: collectives that MPI has started run while this rank computes.
//!
//! One thread does both. It computes a few microseconds at a time, and asks MPI in between whether the collectives have
//! ended, in which most MPI libraries go on with them. What that takes is not counted as computation, so that computation
//! takes longer beside communication, as on a GPU.

mod running;
mod spin;

use super::{
    Host, Prepared,
    nonblocking::{NonblockingCall, StartedCollective, nonblocking_call},
    supports,
};
use crate::{
    backend::{
        Backend, Waived,
        step::{StepBackend, StepMode, StepSetup, StepTimes, waits},
    },
    collective::{Case, Collective},
    exit::{Code, Failure},
    units::Bytes,
    workload::{Step, StepWork},
    world::progress,
};

use self::{running::RunningStep, spin::Spin};

/// Opens the backend of training steps on host memory, with a communicator of MPI and two buffers for each communicator of the
/// step. Every process calls it; MPI is running.
///
/// # Errors
/// Returns an error if MPI cannot run one of the collectives while the rank computes, or if there is not enough memory.
pub fn open_steps(setup: &StepSetup<'_>) -> anyhow::Result<Box<dyn StepBackend>> {
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
            .map_err(|_| no_memory(&communicator.name, size))?;
        communicators.push(host);
    }
    let mut collectives = Vec::with_capacity(step.operations.len());
    for operation in &step.operations {
        collectives.push(match &operation.work {
            StepWork::Compute(_) => None,
            StepWork::Collective { communicator, case } => Some(PreparedCollective::new(
                &mut communicators[*communicator],
                case,
            )?),
        });
    }
    Ok(Box::new(HostSteps {
        step: step.clone(),
        communicators,
        collectives,
        spin: Spin::calibrated(),
    }))
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

/// Returns the error if the buffers of communicator `name` do not fit.
fn no_memory(name: &str, size: Bytes) -> anyhow::Error {
    let what = format!(
        "host memory has no room on this rank for two buffers of {size} for the communicator {name}. Use fewer ranks on a node \
         or a smaller workload"
    );
    Failure::on_this_rank(Code::Usage, what)
}

/// Training steps of MPI on host memory.
struct HostSteps {
    step: Step,
    /// The buffers and the communicator of each communicator of the step.
    communicators: Vec<Host>,
    /// For each operation what starts it, if it is a collective.
    collectives: Vec<Option<PreparedCollective>>,
    spin: Spin,
}

/// A collective that is prepared to be started many times.
struct PreparedCollective {
    case: Case,
    call: NonblockingCall,
    prepared: Prepared,
}

impl PreparedCollective {
    fn new(host: &mut Host, case: &Case) -> anyhow::Result<PreparedCollective> {
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
    fn start(&self, host: &mut Host) -> anyhow::Result<StartedCollective> {
        let operation = host.ready(&self.case, &self.prepared, 0);
        // SAFETY: `prepare` has checked that the case fits into the buffers of `host`. They, and the parts in `self`, stay
        // where they are until the collective has ended: whoever starts one waits for its end, or the process ends.
        unsafe { self.call.start(&operation, &self.case) }
    }
}

impl StepBackend for HostSteps {
    fn verify(&mut self, communicator: usize, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let host = &mut self.communicators[communicator];
        let collective = PreparedCollective::new(host, case)?;
        host.fill(case, seed)?;
        progress::begin(1);
        let mut started = collective.start(host)?;
        while !started.has_ended()? {
            std::thread::yield_now();
        }
        progress::done(1);
        host.count_wrong(case, seed)
    }

    fn run(
        &mut self,
        mode: StepMode,
        times: u32,
        barrier: &dyn Fn(),
    ) -> anyhow::Result<Vec<StepTimes>> {
        let waits = waits(&self.step, mode);
        let running = waits.iter().flatten().count() as u64;
        let mut all = Vec::with_capacity(times as usize);
        barrier();
        progress::begin(running * u64::from(times));
        for number in 0..u64::from(times) {
            let step = RunningStep::new(self, &waits, number * running);
            all.push(step.run()?);
        }
        Ok(all)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.communicators.iter_mut().try_for_each(Backend::finish)
    }
}
