//! Checks: from the facts of every process to findings with evidence and remedy. Nothing is
//! gathered here.
//!
//! Each area has a file with its part of the table of [`checks`]; [`examine`] applies them all, and
//! [`Report`] renders the result. [`RecipeReport`] is the report on a file that sets variables.

mod agree;
mod check;
mod compare;
mod examine;
mod fabric;
mod fit;
mod gdr;
mod gpu;
mod host;
mod library;
mod named;
mod nvlink;
mod outcome;
mod recipe;
mod report;
mod slurm;
mod sockets;
mod start;

pub use check::{Check, CheckScope};
pub use examine::{ReportLine, checks, examine};
pub use outcome::CheckOutcome;
pub use recipe::RecipeReport;
pub use report::Report;
