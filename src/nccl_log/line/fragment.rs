//! Lines without a header of NCCL that still tell something.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::text::Needle;

static ARROW: Needle = LazyLock::new(|| Finder::new("] -> "));
static VIA: Needle = LazyLock::new(|| Finder::new(" via "));
static FAULT: Needle = LazyLock::new(|| Finder::new("Segmentation fault"));

/// Returns whether `line` is a piece of a line about a connection.
pub fn is_fragment(line: &[u8]) -> bool {
    ARROW.find(line).is_some() && VIA.find(line).is_some()
}

/// Returns whether `line` reports a segmentation fault in the words that MPI libraries and shells
/// use.
pub fn is_segmentation_fault(line: &[u8]) -> bool {
    FAULT.find(line).is_some()
}
