//! [`Record`]: one case and its result.

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Serialize};

use super::{
    iteration_stats::IterationStats, rank_times::RankTimes, run_meta::MeasuredOn, timestamp,
};
use crate::{
    collective::Case,
    nccl_log::Connections,
    units::{GBps, Micros},
};

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Measured, and every element was right.
    Ok,
    /// Measured, and elements were wrong.
    Wrong,
    /// Measured but not checked: checks are off, or not defined for this case.
    Unchecked,
    /// The time was computed by a model, not measured.
    Computed,
    /// Could not run here; the note has the reason.
    Waived,
}

impl Status {
    /// Returns the word used in the files.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Wrong => "wrong",
            Status::Unchecked => "unchecked",
            Status::Computed => "computed",
            Status::Waived => "waived",
        }
    }
}

/// One case and its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The case.
    pub case: Case,
    /// Number of the cycle over all sizes, from 0.
    pub cycle: u32,
    /// Start of the case.
    pub started_at: DateTime<FixedOffset>,
    /// Timed operations.
    pub iters: u32,
    /// Time of one operation, by default the mean over ranks; `None` if it did not run or was not
    /// timed.
    pub time: Option<Micros>,
    /// Time in which process 0 issued one operation to the device; `None` unless requested.
    pub issue: Option<Micros>,
    /// Statistics of single iterations; `None` if they were not timed.
    pub iteration_times: Option<IterationStats>,
    /// The distribution of the time over the ranks; `None` if fewer than two were timed.
    #[serde(default)]
    pub rank_times: Option<RankTimes>,
    /// Half width of the 95 % interval of the mean time, relative to it; `None` unless a precision
    /// was requested.
    #[serde(default)]
    pub precision: Option<f64>,
    /// Blocks of timed operations; `None` unless a precision was requested.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// Wrong elements over all ranks, and elements that changed where nothing may; `None` if
    /// nothing was checked.
    pub wrong: Option<u64>,
    /// Those of them that are not in the receive buffer but beside the buffers, or in the send
    /// buffer.
    #[serde(default)]
    pub wrong_outside: u64,
    /// Processes that found wrong elements: what nccl-tests counts, per thread, as
    /// `# Out of bounds values`.
    pub failed_checks: u64,
    /// The outcome.
    pub status: Status,
    /// The reason for the outcome, if it needs one.
    pub note: String,
    /// What NCCL's log shows for the case.
    #[serde(default)]
    pub seen: NcclEvidence,
    /// The traffic of an alltoallv as [`Case::pattern`] gives it; empty for other collectives.
    #[serde(default)]
    pub pattern: String,
    /// The most busbw that the links of the job allow; `None` if it is unknown.
    #[serde(default)]
    pub peak: Option<GBps>,
    /// Time of one operation that NCCL's model predicts; `None` if it was not asked or has none.
    #[serde(default)]
    pub predicted: Option<Micros>,
    /// What an earlier run measured it on; `None` if the current run measures it.
    #[serde(default)]
    pub measured_on: Option<MeasuredOn>,
    /// The communicator, if there are several and this is the record of one.
    #[serde(default)]
    pub group: Option<u32>,
    /// The results of each communicator, if there are several and this is the record of all.
    #[serde(default)]
    pub groups: Vec<GroupResult>,
}

/// What NCCL's log shows about the connections of a case and how NCCL ran it; empty if there is no
/// log or it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclEvidence {
    /// Whether a connection of the case's kind leaves through the NIC of another GPU.
    pub pxn: Option<bool>,
    /// Transports, joined by `+`.
    pub transport: String,
    /// Channels of the communicator for the case's kind.
    pub channels: Option<u32>,
    /// Algorithm, by NCCL's name.
    pub algo: String,
    /// Protocol, by NCCL's name.
    pub proto: String,
    /// Channels of the operation, for nccl-tests' table.
    #[serde(default)]
    pub operation_channels: Option<u32>,
}

impl NcclEvidence {
    /// Returns what `all` shows of the connections that a case uses: those for send/recv if it
    /// `is_pairwise`, otherwise those for collectives. How NCCL ran the case is left empty.
    pub fn of_connections(all: &Connections, is_pairwise: bool) -> NcclEvidence {
        let channels = all.channels.map(|channels| match is_pairwise {
            true => channels.send_recv,
            false => channels.collective,
        });
        let transports = all.transports(is_pairwise);
        NcclEvidence {
            pxn: (!transports.is_empty()).then_some(all.sends_of(is_pairwise).relayed > 0),
            transport: transports.join("+"),
            channels: channels.and_then(|count| count.try_into().ok()),
            ..NcclEvidence::default()
        }
    }
}

/// The result of one of several communicators, all of which run the case at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// nccl-tests' group: the value that its ranks share.
    pub group: u32,
    /// The case, with the number of ranks of this communicator.
    pub case: Case,
    /// Time of one operation, over its ranks; `None` if it was not timed.
    pub time: Option<Micros>,
    /// Time in which its first process issued one operation to the device; `None` unless requested.
    pub issue: Option<Micros>,
    /// Statistics of its single iterations; `None` if they were not timed.
    pub iteration_times: Option<IterationStats>,
    /// The distribution of the time over its ranks; `None` if fewer than two were timed.
    pub rank_times: Option<RankTimes>,
    /// Wrong elements over its ranks; `None` if nothing was checked.
    pub wrong: Option<u64>,
    /// Its processes that found wrong elements.
    pub failed_checks: u64,
}

impl Record {
    /// Returns the record of a case that starts now and of which nothing but the outcome is known.
    pub fn new(case: Case, status: Status) -> Record {
        Record {
            case,
            cycle: 0,
            started_at: timestamp::now(),
            iters: 0,
            time: None,
            issue: None,
            iteration_times: None,
            rank_times: None,
            precision: None,
            blocks: None,
            wrong: None,
            wrong_outside: 0,
            failed_checks: 0,
            status,
            note: String::new(),
            seen: NcclEvidence::default(),
            pattern: case.pattern(),
            peak: None,
            predicted: None,
            measured_on: None,
            group: None,
            groups: Vec::new(),
        }
    }

    /// Adds a sentence to the note.
    pub fn add_note(&mut self, sentence: &str) {
        if !self.note.is_empty() {
            self.note += "; ";
        }
        self.note += sentence;
    }

    /// Returns algorithm and bus bandwidth; `None` if the case did not run.
    pub fn bandwidth(&self) -> Option<(GBps, GBps)> {
        self.time.map(|time| self.case.bandwidth(time))
    }

    /// Returns busbw in percent of the peak; `None` if one of them is unknown.
    pub fn percent_of_peak(&self) -> Option<f64> {
        let (_, busbw) = self.bandwidth()?;
        Some(100.0 * busbw.0 / self.peak?.0)
    }

    /// Returns the records as files keep them: one per communicator if there are several, else a
    /// copy of this one.
    pub fn kept(&self) -> Vec<Record> {
        if self.groups.is_empty() {
            return vec![self.clone()];
        }
        self.groups
            .iter()
            .map(|result| self.of_group(result))
            .collect()
    }

    /// Returns the record of one communicator.
    fn of_group(&self, result: &GroupResult) -> Record {
        let status = match result.wrong {
            Some(0) => Status::Ok,
            Some(_) => Status::Wrong,
            None => self.status,
        };
        Record {
            case: result.case,
            time: result.time,
            issue: result.issue,
            iteration_times: result.iteration_times.clone(),
            rank_times: result.rank_times.clone(),
            wrong: result.wrong,
            failed_checks: result.failed_checks,
            status,
            group: Some(result.group),
            groups: Vec::new(),
            ..self.clone()
        }
    }
}
