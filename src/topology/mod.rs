//! The devices of a node and their connections, as plain data: NUMA nodes, PCI switches, GPUs,
//! NICs, NVLinks.
//!
//! [`xml`] reads it from NCCL's topology file, [`smi`] from nvidia-smi's matrix, and [`read()`]
//! from either; [`crate::facts`] fills it from sysfs and NVML. [`path`] types the path between any
//! two devices, [`choice`] says what NCCL makes of that, [`figures`] what a link carries. [`text`]
//! and [`svg`] draw it, and [`render`] renders every format.

pub mod choice;
pub mod figures;
mod near;
mod node;
mod oddities;
pub mod path;
mod read;
pub mod render;
pub mod smi;
pub mod svg;
pub mod text;
mod transport;
pub mod xml;

pub use node::{
    C2cLinks, Cpu, Device, DeviceLocation, GivenPaths, Gpu, Nic, NvLinkEnd, NvLinks, Switch,
    Topology,
};
pub use read::read;
