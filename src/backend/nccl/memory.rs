//! How much GPU memory is free, and how much of it the two buffers may use.

use super::buffers::BESIDE;
use crate::{record::MemoryUse, units::Bytes};

/// Free memory of each GPU at the moments between which it is used for different things.
pub(super) struct FreeMemory {
    pub(super) before_init: Vec<u64>,
    pub(super) before_buffers: Vec<u64>,
    pub(super) after_buffers: Vec<u64>,
}

impl FreeMemory {
    /// Returns what memory has been used for, if `now` is free at present.
    pub(super) fn used(&self, now: &[u64]) -> MemoryUse {
        MemoryUse {
            initialization: largest_decrease(&self.before_init, &self.before_buffers),
            buffers: largest_decrease(&self.before_buffers, &self.after_buffers),
            collectives: largest_decrease(&self.after_buffers, now),
        }
    }
}

/// Returns the largest decrease on a GPU, or 0 if nothing is known.
fn largest_decrease(before: &[u64], after: &[u64]) -> u64 {
    before
        .iter()
        .zip(after)
        .map(|(before, after)| before.saturating_sub(*after))
        .max()
        .unwrap_or(0)
}

/// Returns the largest buffer of which each of `sharers` ranks can have two, if `free` bytes of
/// `total` are free now.
///
/// NCCL connects ranks at the first operation that needs it, which is after this was asked, and
/// takes its buffers from the same memory: 9.2 MiB for each channel and each peer that a rank
/// receives from (4 for Simple, 4.7 for LL128, 0.5 for LL). On a node of 8 GPUs with NVLink
/// switches and 64 channels, the most there are, that is 1.7 GiB for a ring and a tree with two
/// neighbours, 4.0 GiB for sends and receives with 7 peers, and 0.5 to 1 GiB for NVLS (1 MiB per
/// channel, GPU and direction): 6.7 GiB in all. With 32 channels, which is NCCL's own choice, it is
/// half of that. So 7 GiB stay free on GPUs of 77 GiB and more. Smaller GPUs have fewer channels
/// and no NVLS; there an eleventh stays free, and at least 1 GiB. NCCL 2.19 to 2.25 round their
/// allocations up to 512 MiB; the half that is not needed by default has room for that.
///
/// nccl-tests leaves 2 to 5 GiB of all memory free and divides the rest by three when it checks,
/// because it also stores the expected values. On an H100 of 80 GB that is 24.7 GiB; here it is 35
/// GiB.
pub(super) fn largest_buffer(free: Bytes, total: Bytes, sharers: u32) -> Bytes {
    const LEAST: u64 = 1 << 30;
    const MOST: u64 = 7 << 30;
    const MEGABYTE: u64 = 1 << 20;
    let reserve = (total.0 / 11).clamp(LEAST, MOST);
    let share = free.0 / u64::from(sharers.max(1));
    let buffer = (share.saturating_sub(reserve) / 2).saturating_sub(BESIDE);
    // Whole megabytes, so that every offset derived from it is aligned.
    Bytes(buffer / MEGABYTE * MEGABYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1_u64 << 30) as f64;

    fn gib(value: f64) -> Bytes {
        Bytes((value * GIB) as u64)
    }

    #[test]
    fn larger_messages_fit_than_in_nccl_tests() {
        // Total memory, what is free beside a context and a communicator, and the largest message
        // of nccl-tests.
        for (total, free, theirs) in [
            (79.1, 77.5, 24.7),
            (139.8, 138.0, 44.9),
            (39.4, 38.4, 11.8),
            (23.7, 23.0, 6.9),
        ] {
            let ours = largest_buffer(gib(free), gib(total), 1).0 as f64 / GIB;
            assert!(ours >= 1.4 * theirs, "{ours} GiB of {total}");
            assert!(
                free - 2.0 * ours >= 7.0_f64.min(total / 11.0),
                "{ours} GiB of {total}"
            );
        }
        assert_eq!(largest_buffer(Bytes(1 << 30), gib(8.0), 1), Bytes(0));
        let alone = largest_buffer(gib(78.0), gib(79.1), 1);
        let shared = largest_buffer(gib(78.0), gib(79.1), 2);
        assert!(shared.0 < alone.0 / 2);
    }
}
