//! What collectives, and training steps, would take at sizes and numbers of ranks that were not measured. `docs/PLAN.md` has
//! the formulas.
//!
//! Measured rows become [`Measurements`]; a [`CostFit`] is fitted to each [`Series`] of them; a [`Plan`] has all fits, answers
//! how long an operation takes, and refuses what they cannot tell. A [`StepPlan`] adds up the operations of a training step.

mod cost;
mod forecast;
mod measurements;
mod nonnegative;
mod regimes;
mod robust;
mod step_plan;
pub mod table;
#[cfg(test)]
mod tests;

pub use cost::{Coefficient, Cost, CostFit};
pub use forecast::{Forecast, Plan};
pub use measurements::{Conditions, Measurements, Point, Series, SeriesKey};
pub use regimes::{Latency, Regime};
pub use step_plan::{StepBound, StepPlan, StepPlanCollective};
