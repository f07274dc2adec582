//! What NCCL's own log says it did. Bytes in, values out.
//!
//! [`mod@line`] understands one line, and [`Fold`] adds lines up in constant memory. Its files
//! build on each other in this order: `attribution` finds the communicator of each line, `facts`
//! keeps what each message says, `judge` draws the verdict on each communicator from the facts and
//! `causes` the reasons, and [`Proof`] is the result: connections, who relayed through whom, and
//! whether PXN was used or why not. [`report`] is that as text, and [`subsystems`] the settings
//! under which NCCL logs it.

pub mod failure;
pub mod line;
pub mod reading;
pub mod reading_report;
pub mod reason;
pub mod report;
pub mod subsystems;
pub mod tail;

mod algorithms;
mod attribution;
mod causes;
mod communicator;
mod communicator_table;
mod connections;
mod decode;
mod evidence;
mod facts;
mod files;
mod fold;
mod graph;
mod groups;
mod heads;
mod judge;
mod limits;
mod lines;
mod network;
mod participants;
mod process;
mod proof;
mod quotes;
mod readiness;
#[cfg(test)]
mod reading_tests;
mod relays;
mod runs;
mod settings;
#[cfg(test)]
mod tests;
mod transports;
mod verdict;
#[cfg(test)]
mod verdict_tests;

pub use algorithms::AlgorithmChoice;
pub use connections::{Connections, SendCounts, SortedCounts};
pub use facts::LineCounts;
pub use files::list_files;
pub use fold::Fold;
pub use graph::Rings;
pub use groups::CommunicatorGroup;
pub use proof::{GpuDirect, Proof};
pub use reason::Reason;
pub use relays::RelayUse;
pub use verdict::{PxnVerdict, TrafficVerdict, TrafficVerdicts};
