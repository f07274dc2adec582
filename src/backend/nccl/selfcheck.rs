//! Do the kernels make and find the values that [`crate::collective::data`] describes? Runs them on a GPU against it.

use anyhow::ensure;

use super::{
    device::{Buffer, Device},
    kernels::Kernels,
};
use crate::{
    collective::data::{self, Content, DType, DataKey, RedOp, Region},
    units::Bytes,
};

/// Sizes of communicators: alone, powers of two and not, and the largest that is promised.
const RANKS: [u64; 6] = [1, 2, 3, 8, 9, 4096];

/// Elements before the region: at the buffer's start, and where no vector access is aligned.
const OFFSETS: [u64; 4] = [0, 1, 3, 17];

/// Elements of the region, but for those of several chunks; a prime, so that nothing divides it.
const LEN: u64 = 6151;

/// Elements of a chunk; a prime too.
const CHUNK: u64 = 1031;

/// What the buffer holds where no kernel may write.
const UNTOUCHED: u8 = 0xa5;

/// Elements behind the region.
const TAIL: u64 = 19;

/// Compares fill and check on GPU `gpu` with [`data::write`], byte for byte, for each type, operation, number of ranks
/// and content. Tells `report` of each difference, and gives back how many combinations have one.
///
/// # Errors
/// Where the GPU fails.
pub fn self_check(
    gpu: usize,
    report: &mut dyn FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let bench = Bench::open(gpu)?;
    let (mut tried, mut wrong) = (0_u64, 0_u64);
    for (key, region) in combinations() {
        tried += 1;
        if let Some(what) = bench.difference(&key, &region)? {
            wrong += 1;
            report(format!("{key:?} {region:?}: {what}"))?;
        }
    }
    report(format!(
        "{tried} combinations of type, operation, ranks and content, {wrong} wrong"
    ))?;
    bench.close()?;
    Ok(wrong)
}

/// All that is tried.
fn combinations() -> impl Iterator<Item = (DataKey, Region)> {
    let redops = || [None].into_iter().chain(RedOp::ALL.map(Some));
    let keys = DType::ALL.into_iter().flat_map(move |dtype| {
        redops().flat_map(move |redop| {
            RANKS.map(|ranks| DataKey {
                dtype,
                redop,
                ranks,
                seed: 7 * ranks + 1,
            })
        })
    });
    keys.enumerate().flat_map(|(nth, key)| {
        let offset = move |at: usize| OFFSETS[(nth + at) % OFFSETS.len()];
        let regions = contents(&key).into_iter().enumerate();
        regions.map(move |(at, (len, content))| {
            (
                key,
                Region {
                    offset: offset(at),
                    len,
                    content,
                },
            )
        })
    })
}

/// Contents for `key` and how many elements of each.
fn contents(key: &DataKey) -> Vec<(u64, Content)> {
    let ranks = key.ranks;
    let chunks = ranks.min(5);
    let beyond_32_bits = 5_000_000_011;
    let mut all = vec![
        (
            chunks * CHUNK,
            Content::Input {
                rank: ranks - chunks,
                chunk: CHUNK,
                first: 0,
            },
        ),
        (
            chunks * CHUNK,
            Content::Input {
                rank: 0,
                chunk: CHUNK,
                first: 4093,
            },
        ),
        (
            chunks,
            Content::Input {
                rank: ranks - chunks,
                chunk: 1,
                first: 12_345,
            },
        ),
        (
            LEN,
            Content::Input {
                rank: ranks / 2,
                chunk: LEN,
                first: beyond_32_bits,
            },
        ),
        (
            1,
            Content::Input {
                rank: ranks - 1,
                chunk: 1,
                first: 5,
            },
        ),
        (LEN, Content::Sentinel),
    ];
    if key.redop.is_some() {
        all.extend([0, 8191, beyond_32_bits].map(|first| (LEN, Content::Reduced { first })));
    }
    all
}

/// A GPU with the kernels and a buffer to try them on.
struct Bench {
    device: Device,
    kernels: Kernels,
    buffer: Buffer,
    counter: Buffer,
}

impl Bench {
    fn open(gpu: usize) -> anyhow::Result<Bench> {
        let device = Device::open(gpu, false)?;
        let kernels = Kernels::new(device.context())?;
        let elements = OFFSETS[OFFSETS.len() - 1] + LEN + TAIL;
        let buffer = device.allocate(Bytes(elements * 8), None)?;
        let counter = device.allocate(Bytes(8), None)?;
        Ok(Bench {
            device,
            kernels,
            buffer,
            counter,
        })
    }

    /// What is different from the description; `None` where all is as it says.
    fn difference(&self, key: &DataKey, region: &Region) -> anyhow::Result<Option<String>> {
        let size = key.dtype.size();
        let bytes = |elements: u64| (elements * size) as usize;
        let (begin, end) = (bytes(region.offset), bytes(region.offset + region.len));
        ensure!(
            end as u64 + TAIL * size <= self.buffer.bytes().0,
            "the buffer of the self-check is too small"
        );

        let mut want = vec![UNTOUCHED; end + bytes(TAIL)];
        self.device.write(&self.buffer, 0, &want)?;
        self.kernels
            .fill(self.device.stream(), self.buffer.address(), key, region)?;
        self.device.wait(|| Ok(()))?;
        let mut got = vec![0; want.len()];
        self.device.read(&self.buffer, 0, &mut got)?;
        data::write(key, &region.content, &mut want[begin..end]);
        if let Some(at) = (0..want.len()).find(|&at| want[at] != got[at]) {
            let element = at as i64 / size as i64 - region.offset as i64;
            return Ok(Some(format!(
                "element {element} has {:02x}, not {:02x}, in byte {at}",
                got[at], want[at]
            )));
        }

        let clean = self.count(key, region)?;
        let at = (begin + (end - begin) / 2) / size as usize * size as usize;
        let planted = [want[at] ^ data::fault_in(key, &region.content)];
        self.device.write(&self.buffer, at as u64, &planted)?;
        let faulty = self.count(key, region)?;
        let told = (clean, faulty) != (0, 1);
        Ok(told.then(|| format!("the check counts {clean} wrong of 0, and {faulty} of 1")))
    }

    fn count(&self, key: &DataKey, region: &Region) -> anyhow::Result<u64> {
        self.device.zero(&self.counter)?;
        self.kernels.check(
            self.device.stream(),
            self.buffer.address(),
            key,
            region,
            self.counter.address(),
        )?;
        self.device.wait(|| Ok(()))?;
        let mut count = [0; 8];
        self.device.read(&self.counter, 0, &mut count)?;
        Ok(u64::from_le_bytes(count))
    }

    fn close(self) -> anyhow::Result<()> {
        self.device.free(self.buffer)?;
        self.device.free(self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check of the check: the same steps on host memory, with the description's own counter.
    #[test]
    fn each_combination_is_sound() {
        let room = OFFSETS[OFFSETS.len() - 1] + LEN;
        let mut tried = 0;
        for (key, region) in combinations() {
            if let Content::Input { rank, chunk, .. } = region.content {
                assert!(
                    rank + (region.len - 1) / chunk < key.ranks,
                    "{key:?} {region:?}"
                );
            }
            assert!(
                region.len > 0 && region.offset + region.len <= room,
                "{key:?} {region:?}"
            );
            let size = key.dtype.size() as usize;
            let mut bytes = vec![0; region.len as usize * size];
            data::write(&key, &region.content, &mut bytes);
            assert_eq!(
                data::count_wrong(&key, &region.content, &bytes),
                0,
                "{key:?} {region:?}"
            );
            let at = bytes.len() / 2 / size * size;
            bytes[at] ^= data::fault_in(&key, &region.content);
            assert_eq!(
                data::count_wrong(&key, &region.content, &bytes),
                1,
                "{key:?} {region:?}"
            );
            tried += 1;
        }
        assert_eq!(
            tried,
            DType::ALL.len() * RANKS.len() * (6 + RedOp::ALL.len() * 9)
        );
    }
}
