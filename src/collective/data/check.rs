//! Fills a buffer in host memory, and counts the wrong elements of one.

use super::{
    content::{Content, DataKey},
    recipe::Recipe,
};

/// The bytes after which the functions with a `note` call it; a multiple of [`CHECKED_AT_ONCE`].
const NOTED_AFTER: usize = 4 << 20;

/// The bytes that are made at once to compare with.
const CHECKED_AT_ONCE: usize = 4096;

/// Fills `out`, a whole stretch of elements in little-endian order, with `content`.
pub fn write(key: &DataKey, content: &Content, out: &mut [u8]) {
    write_noting(key, content, out, &|| {});
}

/// As [`write()`], and calls `note` after every few megabytes.
pub fn write_noting(key: &DataKey, content: &Content, out: &mut [u8], note: &dyn Fn()) {
    let recipe = Recipe::new(key, content);
    let size = recipe.kind.bytes();
    let bytes = recipe.chunk_bytes(out.len());
    for (nth, chunk) in out.chunks_mut(bytes).enumerate() {
        let rank = recipe.rank + nth as u32;
        for (at, piece) in chunk.chunks_mut(NOTED_AFTER).enumerate() {
            let first = recipe.first + (at * NOTED_AFTER / size) as u64;
            recipe.fill(rank, first, piece);
            note();
        }
    }
}

/// Returns the number of elements of `got`, a whole stretch, that differ from `content`.
pub fn count_wrong(key: &DataKey, content: &Content, got: &[u8]) -> u64 {
    count_wrong_noting(key, content, got, &|| {})
}

/// As [`count_wrong()`], and calls `note` after every few megabytes.
pub fn count_wrong_noting(key: &DataKey, content: &Content, got: &[u8], note: &dyn Fn()) -> u64 {
    let recipe = Recipe::new(key, content);
    let size = recipe.kind.bytes();
    let mut want = [0; CHECKED_AT_ONCE];
    let mut wrong = 0;
    for (nth, chunk) in got.chunks(recipe.chunk_bytes(got.len())).enumerate() {
        for (at, part) in chunk.chunks(want.len()).enumerate() {
            let want = &mut want[..part.len()];
            let first = at * CHECKED_AT_ONCE;
            recipe.fill(
                recipe.rank + nth as u32,
                recipe.first + (first / size) as u64,
                want,
            );
            wrong += differing(part, want, size, recipe.slack.into());
            if first.is_multiple_of(NOTED_AFTER) {
                note();
            }
        }
    }
    wrong
}

/// Returns the bits to invert in the first byte of an element of `content` to make it wrong: the
/// lowest bit, or a higher one if a few units in the last place are allowed.
pub fn fault_in(key: &DataKey, content: &Content) -> u8 {
    if Recipe::new(key, content).slack == 0 {
        1
    } else {
        1 << 3
    }
}

/// Returns the number of elements of `size` bytes in which `got` is more than `slack` from `want`.
fn differing(got: &[u8], want: &[u8], size: usize, slack: u64) -> u64 {
    if got == want {
        return 0;
    }
    got.chunks_exact(size)
        .zip(want.chunks_exact(size))
        .filter(|(got, want)| got != want && (slack == 0 || distance(got, want) > slack))
        .count() as u64
}

/// Returns the distance of two floats in units in the last place; -0 and +0 are the same.
pub(super) fn distance(a: &[u8], b: &[u8]) -> u64 {
    place_in_order(a).abs_diff(place_in_order(b))
}

/// Returns the place of a float among all values of its type, from 0 for zero.
fn place_in_order(element: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes[8 - element.len()..].copy_from_slice(element);
    let bits = i64::from_le_bytes(bytes);
    let magnitude = (bits & i64::MAX) >> (64 - 8 * element.len());
    if bits < 0 { -magnitude } else { magnitude }
}
