//! [`MemoryWatch`]: the memory that this process uses while a sweep repeats.

use std::time::{Duration, Instant};

use crate::{backend::Backend, facts};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// A quantity in bytes at its first look, its last, and its most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// At the first look.
    pub first: u64,
    /// At the last.
    pub last: u64,
    /// The most.
    pub most: u64,
}

/// The memory of this process since the first pass.
#[derive(Clone, Debug, Default)]
pub struct MemoryWatch {
    /// Resident memory; `None` if it is not known.
    pub resident: Option<Observed>,
    /// Memory of its GPUs that is not free; `None` if the backend does not know.
    pub gpu: Option<Observed>,
    last_look: Option<Instant>,
}

impl MemoryWatch {
    /// Looks at the memory, unless it did so less than a second ago.
    ///
    /// # Errors
    /// Returns an error if the backend cannot query the memory of its GPUs.
    pub(super) fn look(&mut self, backend: &dyn Backend) -> anyhow::Result<()> {
        if self.last_look.is_some_and(|last| last.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.last_look = Some(Instant::now());
        observe(&mut self.resident, facts::resident_memory());
        observe(&mut self.gpu, backend.used_memory()?);
        Ok(())
    }
}

fn observe(observed: &mut Option<Observed>, now: Option<u64>) {
    let Some(now) = now else { return };
    let observed = observed.get_or_insert(Observed {
        first: now,
        ..Observed::default()
    });
    observed.last = now;
    observed.most = observed.most.max(now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_the_last_and_the_most_are_kept() {
        let mut observed = None;
        for now in [Some(5), None, Some(9), Some(7)] {
            observe(&mut observed, now);
        }
        let expected = Observed {
            first: 5,
            last: 7,
            most: 9,
        };
        assert_eq!(observed, Some(expected));
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        let mut watch = MemoryWatch::default();
        let backend = crate::backend::model::Model::default();
        watch.look(&backend).expect("no GPU fails");
        let resident = watch.resident.expect("Linux tells");
        assert!(resident.first > 1 << 20, "{resident:?}");
        assert_eq!(watch.gpu, None);
    }
}
