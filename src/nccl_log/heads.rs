//! What heads of lines that were read before say, by the text before the header.

use super::limits::{hashed, is_too_long};

/// Beginnings that are kept; processes that log at the same time seldom are more.
const SLOTS: usize = 1 << 12;

/// The beginning of a line, and what it says.
#[derive(Clone, Debug, Default)]
struct Slot<T> {
    head: Vec<u8>,
    value: Option<T>,
}

/// Beginnings of lines that were read before. To find one takes less time than to read it.
#[derive(Debug, Default)]
pub(super) struct HeadCache<T> {
    slots: Vec<Slot<T>>,
    last: usize,
}

impl<T: Copy + Default> HeadCache<T> {
    /// Returns what `head` says if it is known.
    pub(super) fn get(&mut self, head: &[u8]) -> Option<T> {
        let is_last = self
            .slots
            .get(self.last)
            .is_some_and(|slot| slot.head == head);
        if !is_last {
            self.last = slot_of(head);
        }
        let slot = self.slots.get(self.last)?;
        slot.value.filter(|_| slot.head == head)
    }

    /// Keeps `head` in the place of another.
    pub(super) fn insert(&mut self, head: &[u8], value: T) {
        if is_too_long(head) {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Slot::default());
        }
        let slot = &mut self.slots[slot_of(head)];
        slot.head.clear();
        slot.head.extend_from_slice(head);
        slot.value = Some(value);
    }
}

fn slot_of(head: &[u8]) -> usize {
    (hashed(head) % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_found_again_until_another_takes_its_place() {
        let mut cache = HeadCache::default();
        assert_eq!(cache.get(b"h:1:1 [0] "), None);
        cache.insert(b"h:1:1 [0] ", 7);
        cache.insert(b"h:2:2 [0] ", 8);
        assert_eq!(cache.get(b"h:1:1 [0] "), Some(7));
        assert_eq!(cache.get(b"h:2:2 [0] "), Some(8));
        assert_eq!(cache.get(b"h:2:2 [1] "), None);
        for number in 0..3 * SLOTS {
            let head = format!("h:{number}:9 [0] ");
            cache.insert(head.as_bytes(), number);
            assert_eq!(cache.get(head.as_bytes()), Some(number));
        }
    }
}
