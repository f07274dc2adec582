//! Statistics: which order to measure in, how large a difference is, whether it is one, and which
//! ranks are late. Pure.
//!
//! | question | answer |
//! |---|---|
//! | In which order are the steps of an experiment run? | [`BlockOrder`] |
//! | What is the mean of times that are compared by their ratios? | [`geometric_mean()`] |
//! | How much faster is one step than another, and how sure is that? | [`TimeRatio`] |
//! | How much slower is one run than another, whose times do not form pairs with its own? | [`UnpairedRatio`] |
//! | How sure is the mean of times that were measured one after another? | [`BatchMean`] |
//! | Do times change from the beginning to the end? | [`Drift`] |
//! | Which of many differences are real? | [`discoveries`] |
//! | Which of several candidates need no further block, and which is the fastest? | [`RaceTimes`] |
//! | Which ranks are late? | [`stragglers`] |

mod batch_mean;
mod discovery;
mod drift;
mod geometric_mean;
pub mod lateness;
mod order;
mod race;
mod ratio;
mod unpaired;
mod welch;

pub use batch_mean::BatchMean;
pub use discovery::discoveries;
pub use drift::Drift;
pub use geometric_mean::geometric_mean;
pub use lateness::stragglers;
pub use order::BlockOrder;
pub use race::{FEWEST_BLOCKS, RaceTimes, SlowerCandidate};
pub use ratio::{Pair, TimeRatio};
pub use unpaired::{LogTimes, UnpairedRatio};
