//! NCCL's own estimate of how long an operation takes.

use std::ptr;

use super::{
    config::RawSimInfo,
    library::{Nccl, call},
};
use crate::units::Micros;

impl Nccl {
    /// Returns whether it can estimate times.
    pub fn has_simulation(&self) -> bool {
        self.symbols.group_simulate_end.is_there()
    }

    /// Returns the time that NCCL's model gives for `calls`, which are not run; `None` if it has
    /// none for them, as for sends and receives.
    ///
    /// NCCL leaves simulated calls in the plan of their communicators, and would run them with the
    /// next operation. Nothing else may be called on these communicators than to destroy them.
    ///
    /// # Errors
    /// Returns an error if a call fails, or if NCCL is older than 2.22.
    #[doc(alias = "ncclGroupSimulateEnd")]
    pub fn simulate(
        &self,
        calls: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Micros>> {
        let mut info = RawSimInfo::new(self.version);
        self.group_start()?;
        calls()?;
        // ncclGroupSimulateEnd reads and writes as much of the structure as its size says.
        call!(self, ptr::null_mut(), group_simulate_end(&mut info))?;
        let time = f64::from(info.estimated_time);
        Ok((time.is_finite() && time >= 0.0).then_some(Micros(time)))
    }
}
