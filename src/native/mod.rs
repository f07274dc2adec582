//! Loaders of NVIDIA's libraries: [`cuda`], [`nccl`] and [`nvml`]. The libraries are looked up when
//! the program runs, so that it builds and starts on machines without them. [`names`] finds in
//! libnccl's file which variables it knows. [`rail_plugin`] is where the plugin is that NCCL loads
//! in a rehearsal.
//!
//! Each function is looked up once and may be missing: a call of it then fails with a sentence, and
//! nothing else does. Result codes stay integers, because a library newer than this program returns
//! codes that it does not know, and a Rust enum of them would be undefined behaviour. Nothing in
//! here decides what to run; that is [`crate::backend`].

#[cfg(feature = "nccl")]
pub mod cuda;
pub mod cuda_release;
#[cfg(feature = "nccl")]
pub mod names;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod nvml;
pub mod rail_plugin;

#[cfg(feature = "nccl")]
mod symbol;
