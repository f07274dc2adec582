//! What several ranks contribute, in one message: a rank, a length and as many bytes for each.

use std::io;

use super::frame::foreign;

/// The contribution of a rank.
pub(super) type Part = (u32, Vec<u8>);

/// Returns `parts` as one message.
pub(super) fn encode(parts: &[Part]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (rank, part) in parts {
        bytes.extend(rank.to_le_bytes());
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

/// Returns the parts in a message.
///
/// # Errors
/// Returns an error if it is not made of whole parts.
pub(super) fn decode(mut bytes: &[u8]) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let rank = u32::from_le_bytes(take(&mut bytes)?);
        let length = u64::from_le_bytes(take(&mut bytes)?);
        let length = usize::try_from(length).map_err(|_| foreign())?;
        let (part, rest) = bytes.split_at_checked(length).ok_or_else(foreign)?;
        parts.push((rank, part.to_vec()));
        bytes = rest;
    }
    Ok(parts)
}

fn take<const SIZE: usize>(bytes: &mut &[u8]) -> io::Result<[u8; SIZE]> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(foreign)?;
    *bytes = rest;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_come_back(
            parts in prop::collection::vec(
                (any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            )
        ) {
            let bytes = encode(&parts);
            prop_assert_eq!(decode(&bytes).expect("whole"), parts);
            if !bytes.is_empty() {
                // All but the last byte: the last part is not whole.
                prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
            }
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
