//! Compares the kernels on a GPU with [`crate::collective::data`], which describes the values that
//! they write and check.

use anyhow::ensure;

use super::{
    device::{Buffer, Device, DeviceStream},
    kernels::Kernels,
};
use crate::{
    collective::data::{self, Content, DType, DataKey, RedOp, Region},
    units::Bytes,
};

/// Sizes of communicators: one rank, powers of two and others, and the largest that is supported.
const RANKS: [u64; 6] = [1, 2, 3, 8, 9, 4096];

/// Elements before the region: none, and numbers after which no vector access is aligned.
const OFFSETS: [u64; 4] = [0, 1, 3, 17];

/// Elements of a region, unless it has several chunks; a prime, so that nothing divides it.
const LEN: u64 = 6151;

/// Elements of a chunk; also a prime.
const CHUNK: u64 = 1031;

/// The byte that fills the buffer where no kernel may write.
const UNTOUCHED: u8 = 0xa5;

/// Elements after the region.
const TAIL: u64 = 19;

/// Compares fill and check on GPU `gpu` with [`data::write`], byte for byte, for each type,
/// operation, number of ranks and content. Passes each difference to `report`, and returns the
/// number of combinations that have one.
///
/// # Errors
/// Returns an error if the GPU or `report` fails.
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
            report(format!("{}: {what}", described(&key, &region)))?;
        }
    }
    report(format!(
        "{tried} combinations of type, operation, ranks and content, {wrong} wrong"
    ))?;
    bench.close()?;
    Ok(wrong)
}

/// Returns a combination as a reader sees it.
fn described(key: &DataKey, region: &Region) -> String {
    let redop = key.redop.map_or("no operation", |redop| redop.name());
    let content = match region.content {
        Content::Input { rank, chunk, first } => {
            format!("input of rank {rank} from element {first} in chunks of {chunk}")
        }
        Content::Reduced { first } => format!("result from element {first}"),
        Content::Sentinel => "untouched elements".to_owned(),
    };
    format!(
        "{} {redop} on {} ranks, seed {}, {} elements at {}, {content}",
        key.dtype.name(),
        key.ranks,
        key.seed,
        region.len,
        region.offset
    )
}

/// Returns everything that is compared.
fn combinations() -> Vec<(DataKey, Region)> {
    let mut all = Vec::new();
    for (key_index, key) in keys().into_iter().enumerate() {
        for (index, Part { len, content }) in parts(&key).into_iter().enumerate() {
            let region = Region {
                offset: OFFSETS[(key_index + index) % OFFSETS.len()],
                len,
                content,
            };
            all.push((key, region));
        }
    }
    all
}

fn keys() -> Vec<DataKey> {
    let mut redops = vec![None];
    redops.extend(RedOp::ALL.map(Some));
    let mut keys = Vec::new();
    for dtype in DType::ALL {
        for &redop in &redops {
            keys.extend(RANKS.map(|ranks| DataKey {
                dtype,
                redop,
                ranks,
                seed: 7 * ranks + 1,
            }));
        }
    }
    keys
}

/// A content, and the number of its elements.
struct Part {
    len: u64,
    content: Content,
}

impl Part {
    fn input(len: u64, rank: u64, chunk: u64, first: u64) -> Part {
        Part {
            len,
            content: Content::Input { rank, chunk, first },
        }
    }
}

/// Returns the parts to try for `key`.
fn parts(key: &DataKey) -> Vec<Part> {
    let ranks = key.ranks;
    let chunks = ranks.min(5);
    let beyond_32_bits = 5_000_000_011;
    let mut parts = vec![
        Part::input(chunks * CHUNK, ranks - chunks, CHUNK, 0),
        Part::input(chunks * CHUNK, 0, CHUNK, 4093),
        Part::input(chunks, ranks - chunks, 1, 12_345),
        Part::input(LEN, ranks / 2, LEN, beyond_32_bits),
        Part::input(1, ranks - 1, 1, 5),
        Part {
            len: LEN,
            content: Content::Sentinel,
        },
    ];
    if key.redop.is_some() {
        parts.extend([0, 8191, beyond_32_bits].map(|first| Part {
            len: LEN,
            content: Content::Reduced { first },
        }));
    }
    parts
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
        let device = Device::open(gpu, DeviceStream::NonBlocking)?;
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

    /// Returns how the kernels differ from the description, or `None` if they do not.
    fn difference(&self, key: &DataKey, region: &Region) -> anyhow::Result<Option<String>> {
        let size = key.dtype.size() as usize;
        let begin = region.offset as usize * size;
        let end = begin + region.len as usize * size;
        let room = end + TAIL as usize * size;
        ensure!(
            room as u64 <= self.buffer.bytes().0,
            "the buffer of the self-check is too small"
        );

        let mut expected = vec![UNTOUCHED; room];
        self.device.write(&self.buffer, 0, &expected)?;
        self.kernels
            .fill(self.device.stream(), self.buffer.address(), key, region)?;
        self.device.wait(|| Ok(()))?;
        let mut found = vec![0; room];
        self.device.read(&self.buffer, 0, &mut found)?;
        data::write(key, &region.content, &mut expected[begin..end]);
        if let Some(at) = (0..room).find(|&at| expected[at] != found[at]) {
            let element = (at / size) as i64 - region.offset as i64;
            return Ok(Some(format!(
                "element {element} has {:02x}, not {:02x}, in byte {at}",
                found[at], expected[at]
            )));
        }

        let without_fault = self.count(key, region)?;
        let middle = (begin + (end - begin) / 2) / size * size;
        let fault = expected[middle] ^ data::fault_in(key, &region.content);
        self.device.write(&self.buffer, middle as u64, &[fault])?;
        let with_fault = self.count(key, region)?;
        if (without_fault, with_fault) == (0, 1) {
            return Ok(None);
        }
        Ok(Some(format!(
            "the check counts {without_fault} wrong of 0, and {with_fault} of 1"
        )))
    }

    /// Counts the wrong elements of `region` on the GPU.
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
