//! A net plugin for NCCL that plays the NICs of virtual nodes on one machine.
//!
//! NCCL loads the shared object of this crate (`NCCL_NET_PLUGIN`) and sees NICs `rail0`, `rail1`, …
//! that claim GPUDirect. Bytes go through pinned host memory and a socket between the processes of
//! one machine, so a run shows what NCCL decides and which way the bytes go, and never how fast
//! that is. `docs/REHEARSAL.md` describes what is counted, and the variables.
//!
//! | module | what it is |
//! |---|---|
//! | `failure` | an error: NCCL's code and a sentence |
//! | `settings` | what the environment says |
//! | `rail` | a virtual NIC: its pace and its faults |
//! | `wire` | what goes over a socket, as bytes |
//! | `socket` | sockets that never wait |
//! | `counters`, `report` | messages and bytes, and the file that they are written to |
//! | `communicators` | communicators of NCCL, and this process's ranks in them |
//! | `requests` | operations that NCCL started and tests |
//! | `shared` | what the connections of a process share |
//! | `send`, `receive`, `listener` | the two ends of a connection, and how one begins |
//! | `plugin` | all of this behind numbers instead of pointers |
//! | `ffi` | what NCCL calls, and what this calls in the CUDA driver: the only unsafe code |
//!
//! It depends on nothing of `pxnbench`, so that loading it loads neither MPI nor CUDA.

mod communicators;
mod counters;
mod failure;
mod ffi;
mod listener;
mod plugin;
mod rail;
mod receive;
mod report;
mod requests;
mod send;
mod settings;
mod shared;
mod socket;
#[cfg(test)]
mod tests;
mod wire;
