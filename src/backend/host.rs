//! `host`: MPI on host memory. Laptops and CI machines run the main job with it.
//!
//! The collectives of NCCL and MPI differ in places; `call` tells for each which MPI call runs, on
//! which buffers, and what is checked. `backend` is what the sweep drives, and `step` runs training
//! steps with it.

mod backend;
mod call;
mod communicator;
mod damage;
mod datatype;
mod functions;
mod guarded_buffer;
mod nonblocking;
mod operation;
mod parts;
mod reduction;
mod started;
mod step;

pub use self::{
    backend::{open, supports},
    communicator::Communicator,
    started::StartedOperation,
    step::open_steps,
};
