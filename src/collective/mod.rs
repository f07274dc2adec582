//! Collectives: counts, bandwidth factors, and what each buffer holds before and must hold after.
//! Nothing here calls a library.
//!
//! One file per collective, each with a [`Spec`]. Sizes, rounding and formulas are those of
//! nccl-tests 2.19.6, so that numbers are comparable. [`Case`] is one cell of a sweep; [`data`] has
//! the values, and [`guard`] what must not change.

mod all_gather;
mod all_reduce;
mod alltoall;
mod alltoallv;
mod broadcast;
mod buffers;
mod case;
mod counts;
pub mod data;
mod fault_target;
mod gather;
pub mod guard;
pub mod hypercube;
mod kind;
mod reduce;
mod reduce_scatter;
mod scatter;
mod sendrecv;
mod spec;
pub mod traffic;

pub use buffers::{BufferMode, Layout, RankView};
pub use case::{Case, CaseShape};
pub use counts::{Counts, SizeRequest};
pub use fault_target::FaultTarget;
pub use kind::Collective;
pub use spec::Spec;
