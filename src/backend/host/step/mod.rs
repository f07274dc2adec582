//! Training steps on host memory: collectives that MPI has started run while this rank computes.
//!
//! One thread does both. It computes a few microseconds at a time, and asks MPI in between whether
//! the collectives have ended, in which most MPI libraries go on with them. What that takes is not
//! counted as computation, so that computation takes longer beside communication, as on a GPU.
//! Copies run in the same way.

mod copy_buffers;
mod opened;
mod running;
mod spin;

use self::{
    opened::{OpenedSteps, PreparedCollective},
    running::RunningStep,
};
use crate::{
    backend::{
        Backend,
        step::{StepBackend, StepMode, StepSetup, StepTimes, waits},
    },
    collective::Case,
    world::{progress, rest},
};

/// Opens the backend of training steps on host memory, with a communicator of MPI and two buffers
/// for each communicator of the step. Every process calls it; MPI is running.
///
/// # Errors
/// Returns an error if MPI cannot run one of the collectives while the rank computes, or if there
/// is not enough memory.
pub fn open_steps(setup: &StepSetup<'_>) -> anyhow::Result<Box<dyn StepBackend>> {
    Ok(Box::new(opened::open(setup)?))
}

impl StepBackend for OpenedSteps {
    fn verify(&mut self, communicator: usize, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let host = &mut self.communicators[communicator];
        let collective = PreparedCollective::new(host, case)?;
        host.fill(case, seed)?;
        progress::begin(1);
        let mut started = collective.start(host)?;
        while !started.has_ended()? {
            if !rest::if_due() {
                std::thread::yield_now();
            }
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
            // Not between the barrier and the first step, which all ranks begin together.
            rest::if_due();
        }
        Ok(all)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.communicators.iter_mut().try_for_each(Backend::finish)
    }
}
