//! [`KeptRecords`]: which records of an earlier run count for the one that continues it.

use crate::{
    collective::{Case, Collective},
    record::{MeasuredOn, Record, Status, run_meta::differs},
    sweep::{EarlierRecords, measure::Measure, plan::Plan},
};

/// The records that need not be measured again.
#[derive(Default)]
pub(super) struct KeptRecords {
    pub(super) records: EarlierRecords,
    /// Hosts other than those of now on which some were measured.
    pub(super) other_hosts: Option<String>,
}

impl KeptRecords {
    /// Returns those of `earlier` that this run would measure in the same way, on machines like
    /// those of `now`.
    pub(super) fn of(
        earlier: Vec<Record>,
        plan: &Plan,
        measure: &Measure,
        now: &MeasuredOn,
    ) -> KeptRecords {
        let mut other_hosts = None;
        let mut kept = Vec::new();
        for record in earlier {
            let before = record.measured_on.clone().unwrap_or_default();
            if !is_as_asked(&record, plan, measure) || !before.is_alike(now) {
                continue;
            }
            if differs(&before.hosts, &now.hosts) {
                other_hosts = Some(before.hosts);
            }
            let case = record.case.with_traffic(plan.ask.traffic);
            kept.push(Record { case, ..record });
        }
        KeptRecords {
            records: kept.into_iter().collect(),
            other_hosts,
        }
    }

    /// Returns how many cases of `plan` are among them, and how many cases it has.
    pub(super) fn extent(&self, plan: &Plan) -> (usize, usize) {
        let cases: Vec<Case> = plan.cases().copied().collect();
        (self.records.count_of(&cases), cases.len())
    }
}

/// Returns whether an earlier record is what this run would measure. One that was measured with
/// other numbers of operations, sent other amounts, or was not checked, is not.
fn is_as_asked(record: &Record, plan: &Plan, measure: &Measure) -> bool {
    if record.blocks.is_some() != measure.precision.is_some() {
        return false;
    }
    let operations = measure
        .iters
        .saturating_mul(measure.operations.max(1))
        .saturating_mul(record.blocks.unwrap_or(1));
    let is_checked = record.wrong.is_some() || measure.checks == 0 || !record.case.is_checked();
    let is_alltoallv = record.case.collective == Collective::AllToAllV;
    if is_alltoallv && record.pattern != plan.ask.traffic.label() {
        return false;
    }
    match record.status {
        Status::Waived => false,
        Status::Computed => record.iters == operations,
        _ => record.iters == operations && is_checked,
    }
}
