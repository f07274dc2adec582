//! [`TableTotals`]: the sums below a table.

use super::case_record::{Record, Status};

/// Sums over the cases of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableTotals {
    busbw: f64,
    ran: u32,
    /// Cases that ran without being timed.
    pub untimed: u32,
    /// Checked cases.
    pub checked: u32,
    /// Failed checks.
    pub failed_checks: u64,
}

impl TableTotals {
    /// Adds a case, or its result in each of several communicators. A case that did not run adds
    /// nothing.
    pub fn add(&mut self, record: &Record) {
        if !record.groups.is_empty() {
            for of_group in record.kept() {
                self.add(&of_group);
            }
            return;
        }
        if record.status == Status::Waived {
            return;
        }
        match record.bandwidth() {
            Some((_, busbw)) => self.busbw += busbw.0,
            None => self.untimed += 1,
        }
        self.ran += 1;
        self.checked += u32::from(record.wrong.is_some());
        self.failed_checks += record.failed_checks;
    }

    /// Returns nccl-tests' `Avg bus bandwidth`: the mean over both buffer modes and all rows, in
    /// GB/s; `None` if nothing ran. A case that was not timed counts as 0.
    pub fn average(&self) -> Option<f64> {
        (self.ran > 0).then(|| self.busbw / f64::from(self.ran))
    }

    /// Returns whether the mean is at least nine tenths of `threshold`, as for nccl-tests'
    /// `NCCL_TESTS_MIN_BW`; false if nothing ran.
    pub fn reaches(&self, threshold: f64) -> bool {
        self.average()
            .is_some_and(|average| average >= threshold * 0.9)
    }
}
