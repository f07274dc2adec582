//! The cells of a row whose words are not those of their types.

use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    collective::{BufferMode, data::RedOp},
    record::columns::pxn_word,
    units,
};

/// The most ranks that a row may have. What is computed of a row takes longer with more of them,
/// and no machine has so many.
pub const MOST_RANKS: u64 = 1 << 20;

/// Reads the column `redop`: `none` for collectives that only move elements.
pub(super) fn redop<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<RedOp>, D::Error> {
    let name = <&str>::deserialize(cell)?;
    if name == "none" {
        return Ok(None);
    }
    match RedOp::ALL.into_iter().find(|redop| redop.name() == name) {
        Some(redop) => Ok(Some(redop)),
        None => Err(D::Error::custom(format!("unknown redop {name}"))),
    }
}

/// Reads a number; empty if it is unknown.
///
/// # Errors
/// Returns an error if it is infinite or none at all.
pub fn finite<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(cell)? {
        Some(value) if !value.is_finite() => Err(D::Error::custom(units::NOT_FINITE)),
        value => Ok(value),
    }
}

/// Reads a number of ranks.
///
/// # Errors
/// Returns an error if it is 0 or more than [`MOST_RANKS`].
pub fn number_of_ranks<'de, D: Deserializer<'de>>(cell: D) -> Result<u64, D::Error> {
    match u64::deserialize(cell)? {
        0 => Err(D::Error::custom("there is at least one rank")),
        ranks if ranks > MOST_RANKS => Err(D::Error::custom(format!(
            "there are at most {MOST_RANKS} ranks"
        ))),
        ranks => Ok(ranks),
    }
}

/// Reads the column `root`: -1 for collectives without one.
pub(super) fn root<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<u32>, D::Error> {
    Ok(i64::deserialize(cell)?.try_into().ok())
}

/// Reads the column `in_place`: 1 or 0.
pub(super) fn buffer_mode<'de, D: Deserializer<'de>>(cell: D) -> Result<BufferMode, D::Error> {
    match u8::deserialize(cell)? {
        1 => Ok(BufferMode::InPlace),
        _ => Ok(BufferMode::OutOfPlace),
    }
}

/// Reads the column `pxn`; empty if unknown.
pub(super) fn pxn<'de, D: Deserializer<'de>>(cell: D) -> Result<Option<bool>, D::Error> {
    let word = <&str>::deserialize(cell)?;
    Ok([false, true]
        .into_iter()
        .find(|used| pxn_word(*used) == word))
}
