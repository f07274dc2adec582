//! What collectives and training steps would take at sizes and on numbers of ranks that were not
//! measured. `docs/PLAN.md` has the formulas.
//!
//! | step | type |
//! |---|---|
//! | read the rows of runs | [`Measurements`], one [`Series`] per collective, type and reduction |
//! | fit costs to a series | [`CostFit`], with one [`Regime`] per range of sizes |
//! | predict the time of an operation, or refuse what is too far from the rows | [`Plan`], [`Forecast`] |
//! | predict the time of a training step | [`StepPlan`] |

mod copies;
mod cost;
mod division;
mod forecast;
mod latency;
mod measurements;
mod nonnegative;
mod regimes;
mod robust;
mod size_class;
mod step_plan;
pub mod table;
#[cfg(test)]
mod tests;

pub use copies::PlannedCopies;
pub use cost::{Coefficient, Cost, CostFit};
pub use forecast::{Forecast, Plan};
pub use latency::Latency;
pub use measurements::{Conditions, Measurements, Point, Series, SeriesKey};
pub use regimes::Regime;
pub use step_plan::{StepBound, StepPlan, StepPlanCollective};
