//! [`TableTotals`]: what stands below a table, over its rows.

use super::Record;

/// Sums over the cases of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableTotals {
    busbw: f64,
    measured: u32,
    /// Cases that were checked.
    pub checked: u32,
    /// Checks that failed.
    pub failed_checks: u64,
}

impl TableTotals {
    /// Adds a case, of several communicators each one's; one that did not run adds nothing.
    pub fn add(&mut self, record: &Record) {
        if !record.groups.is_empty() {
            return record.kept().iter().for_each(|one| self.add(one));
        }
        let Some((_, busbw)) = record.bandwidth() else {
            return;
        };
        self.busbw += busbw.0;
        self.measured += 1;
        self.checked += u32::from(record.wrong.is_some());
        self.failed_checks += record.failed_checks;
    }

    /// nccl-tests' `Avg bus bandwidth`: the mean over both placements and all rows, in GB/s; `None` where nothing ran.
    pub fn average(&self) -> Option<f64> {
        (self.measured > 0).then(|| self.busbw / f64::from(self.measured))
    }

    /// Is the mean at least nine tenths of `threshold`? nccl-tests' `NCCL_TESTS_MIN_BW`; where nothing ran it is not.
    pub fn reaches(&self, threshold: f64) -> bool {
        self.average()
            .is_some_and(|average| average >= threshold * 0.9)
    }
}
