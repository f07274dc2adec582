//! [`Job`]: this process as a rank, its output, times and sweeps.

use std::{
    cell::Cell,
    fmt::Display,
    time::{Duration, Instant},
};

use crate::{
    backend::{
        Backend,
        host::{self, Communicator},
        options::ExecOptions,
    },
    exit::{Code, Failure},
    output::stdout,
    record::Record,
    sweep::{
        self, EarlierRecords, Event,
        measure::Measure,
        plan::{Plan, SweepSpec},
    },
    units::Micros,
    world::{World, deadline, watch},
};

/// This process as a rank among those of its job. Every rank calls the same methods in the same
/// order.
pub struct Job {
    pub(super) world: Box<dyn World>,
    pub(super) communicator: Communicator,
    pub(super) timeout: Cell<Duration>,
}

impl Job {
    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    /// Sets how long a collective may make no progress before the job is ended; 10 minutes unless
    /// it is set.
    pub fn set_timeout(&self, timeout: Duration) {
        watch::set_silence(timeout);
        self.timeout.set(timeout);
    }

    /// Prints a line on rank 0. The other ranks print nothing.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn print(&self, line: impl Display) -> anyhow::Result<()> {
        match self.rank() {
            0 => stdout::line(&line.to_string()),
            _ => Ok(()),
        }
    }

    /// Waits until every rank is here.
    pub fn barrier(&self) {
        let _guard = self.watch("a barrier");
        self.world.barrier();
    }

    /// Times `operation`: all ranks start together and run it `times` times. Returns the mean time
    /// of one, over all ranks, as nccl-tests does.
    ///
    /// # Errors
    /// Returns an error if the operation does.
    pub fn time(
        &self,
        times: u32,
        mut operation: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Micros> {
        self.barrier();
        let start = Instant::now();
        for _ in 0..times {
            operation()?;
        }
        let elapsed = Micros::from(start.elapsed()).0 / f64::from(times.max(1));
        let _guard = self.watch("the mean time of all ranks");
        Ok(Micros(self.world.mean(elapsed)))
    }

    /// Measures every case that `spec` requests and checks its data, by the method of `measure`,
    /// and passes each record to `each`, on every rank. The timeout of the job replaces that of
    /// `measure`.
    ///
    /// # Errors
    /// Returns an error if a collective or `each` fails.
    pub fn sweep(
        &self,
        spec: &SweepSpec,
        measure: &mut Measure,
        each: &mut dyn FnMut(&Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let ranks = self.ranks() as u64;
        if !Plan::is_sane(spec, ranks) {
            let what = "the sweep has more than a million cases. Take larger steps";
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        let plan = Plan::new(spec, ranks);
        measure.timeout = self.timeout.get();
        let _guard = self.watch("the work between two cases");
        let exec = ExecOptions::default();
        let mut backend = host::open(self.rank() as u64, None, None, exec)?;
        backend.allocate(plan.largest(&|case| host::supports(case).is_ok()))?;
        self.measure(&plan, measure, &mut *backend, each)?;
        backend.finish()
    }

    fn measure(
        &self,
        plan: &Plan,
        measure: &mut Measure,
        backend: &mut dyn Backend,
        each: &mut dyn FnMut(&Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let earlier = EarlierRecords::default();
        let mut emit = |event: Event| match event {
            Event::Finished(record) => each(record),
            Event::Series(_) | Event::Started(_) | Event::Earlier(_) => Ok(()),
        };
        sweep::run(plan, earlier, measure, &*self.world, backend, &mut emit)?;
        Ok(())
    }

    /// Starts the deadline of an operation.
    pub(super) fn watch(&self, what: &str) -> deadline::Guard {
        deadline::limit(what, self.timeout.get())
    }
}
