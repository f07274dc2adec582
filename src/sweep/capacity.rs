//! The memory that a sweep may use.

use crate::{
    backend::Backend,
    units::Bytes,
    world::{self, World},
};

/// Returns the bytes of the largest buffer that every process can hold twice; `None` if there is no
/// limit.
///
/// # Errors
/// Returns an error if a process cannot determine it.
pub fn capacity(world: &dyn World, backend: &dyn Backend) -> anyhow::Result<Option<Bytes>> {
    let mine = world::agree(world, backend.capacity())?;
    let all = world::all_gather(world, &mine)?;
    Ok(all.into_iter().flatten().min())
}
