//! Fills a buffer on host memory, and counts the elements of one that are wrong.

use super::{
    content::{Content, DataKey},
    recipe::Recipe,
};

/// Fills `out`, a whole stretch of elements in little endian order, with `content`.
pub fn write(key: &DataKey, content: &Content, out: &mut [u8]) {
    let recipe = Recipe::new(key, content);
    let bytes = recipe.bytes_of(out.len());
    for (nth, piece) in out.chunks_mut(bytes).enumerate() {
        recipe.fill(recipe.rank + nth as u32, recipe.first, piece);
    }
}

/// How many elements of `got`, a whole stretch, are not what `content` demands.
pub fn count_wrong(key: &DataKey, content: &Content, got: &[u8]) -> u64 {
    let recipe = Recipe::new(key, content);
    let size = recipe.kind.bytes();
    let mut want = [0; 4096];
    let mut wrong = 0;
    for (nth, piece) in got.chunks(recipe.bytes_of(got.len())).enumerate() {
        for (at, part) in piece.chunks(want.len()).enumerate() {
            let want = &mut want[..part.len()];
            recipe.fill(
                recipe.rank + nth as u32,
                recipe.first + (at * 4096 / size) as u64,
                want,
            );
            wrong += differing(part, want, size, recipe.slack.into());
        }
    }
    wrong
}

/// The bits to invert in the first byte of an element of `content` so that it surely is wrong: the lowest, but where some
/// units in the last place are allowed, one that is worth more.
pub fn fault_in(key: &DataKey, content: &Content) -> u8 {
    if Recipe::new(key, content).slack == 0 {
        1
    } else {
        1 << 3
    }
}

/// Elements of `size` bytes in which `got` is further than `slack` from `want`.
fn differing(got: &[u8], want: &[u8], size: usize, slack: u64) -> u64 {
    if got == want {
        return 0;
    }
    let wrong =
        |(got, want): &(&[u8], &[u8])| got != want && (slack == 0 || distance(got, want) > slack);
    got.chunks_exact(size)
        .zip(want.chunks_exact(size))
        .filter(wrong)
        .count() as u64
}

/// How many values of their floating type lie between two elements, in units in the last place; -0 and +0 are one.
pub(super) fn distance(a: &[u8], b: &[u8]) -> u64 {
    let ordered = |element: &[u8]| {
        let mut bytes = [0; 8];
        bytes[8 - element.len()..].copy_from_slice(element);
        let bits = i64::from_le_bytes(bytes);
        let magnitude = (bits & i64::MAX) >> (64 - 8 * element.len());
        if bits < 0 { -magnitude } else { magnitude }
    };
    ordered(a).abs_diff(ordered(b))
}
