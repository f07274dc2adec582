//! [`first_wrong`]: the search for a wrong element, where only counting is fast.

use super::content::{Content, Region};

/// Returns the first wrong element of `regions`, which lie in the order of their offsets, by
/// repeated calls of `count`, which counts those of a part; `None` if there is none.
///
/// # Errors
/// Returns an error if `count` fails.
pub fn first_wrong(
    regions: &[Region],
    mut count: impl FnMut(&Region) -> anyhow::Result<u64>,
) -> anyhow::Result<Option<u64>> {
    for region in regions {
        if count(region)? == 0 {
            continue;
        }
        let mut rest = *region;
        while rest.len > 1 {
            let (first, second) = split(&rest, rest.len / 2);
            rest = if count(&first)? > 0 { first } else { second };
        }
        return Ok(Some(rest.offset));
    }
    Ok(None)
}

/// Divides a region that is longer than `first`, which is not 0, after that many elements. One that
/// has several chunks is divided after whole ones.
pub fn split(region: &Region, first: u64) -> (Region, Region) {
    let (first, rest) = match region.content {
        Content::Input {
            rank,
            chunk,
            first: begin,
        } if region.len > chunk => {
            let chunks = (first / chunk).max(1);
            let rest = Content::Input {
                rank: rank + chunks,
                chunk,
                first: begin,
            };
            (chunks * chunk, rest)
        }
        Content::Input {
            rank, first: begin, ..
        } => (
            first,
            Content::input(rank, begin + first, region.len - first),
        ),
        Content::Reduced { first: begin } => {
            let rest = Content::Reduced {
                first: begin + first,
            };
            (first, rest)
        }
        Content::Sentinel => (first, Content::Sentinel),
    };
    let before = Region {
        len: first,
        ..*region
    };
    let after = Region {
        offset: region.offset + first,
        len: region.len - first,
        content: rest,
    };
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::data::{self, DType, DataKey};

    #[test]
    fn the_first_wrong_element_is_found_in_every_content() {
        let key = DataKey {
            dtype: DType::Half,
            redop: None,
            ranks: 4,
            seed: 3,
        };
        let contents = [
            (1, Content::Sentinel),
            (7, Content::input(2, 5, 7)),
            (
                50,
                Content::Input {
                    rank: 1,
                    chunk: 8,
                    first: 3,
                },
            ),
            (33, Content::Reduced { first: 9 }),
        ];
        let mut regions = Vec::new();
        let mut buffer = Vec::new();
        for (len, content) in contents {
            let offset = buffer.len() as u64 / 2;
            let mut bytes = vec![0; 2 * len as usize];
            data::write(&key, &content, &mut bytes);
            buffer.extend(bytes);
            regions.push(Region {
                offset,
                len,
                content,
            });
        }
        let first = |buffer: &[u8]| {
            let found = first_wrong(&regions, |part| {
                let bytes = 2 * part.offset as usize..2 * (part.offset + part.len) as usize;
                Ok(data::count_wrong(&key, &part.content, &buffer[bytes]))
            });
            found.expect("no error")
        };
        assert_eq!(first(&buffer), None);
        let last = buffer.len() / 2 - 1;
        for element in 0..=last {
            let mut changed = buffer.clone();
            changed[2 * element] ^= 1;
            changed[2 * last] ^= 1;
            let expected = if element == last {
                None
            } else {
                Some(element as u64)
            };
            assert_eq!(first(&changed), expected);
        }
    }
}
