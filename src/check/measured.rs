//! [`Measured`]: the results of a run by case, with all repetitions together.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{reference::Setup, verdict::Miss};
use crate::{
    collective::{BufferMode, Case, traffic},
    exit::{Code, Failure},
    record::{
        MeasuredOn, Record, RowError, RowReader, RunMeta, Status, SweepMeta,
        read::{self, CsvRow},
    },
    stats::LogTimes,
    units::Micros,
};

/// The confidence of the interval that `--precision` records.
const CONFIDENCE: f64 = 0.95;

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Each case, in the order in which they were measured first.
    pub cases: Vec<CaseResult>,
    /// Nodes.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u64,
    /// Models of the GPUs or processors.
    pub device: String,
    /// What else a baseline may differ in: version of NCCL, level, network, resources, hosts.
    pub circumstances: Vec<(&'static str, String)>,
    /// The sweep as it was requested; `None` if that is unknown.
    pub sweep: Option<SweepMeta>,
    /// Results with wrong data.
    pub wrong_cases: u64,
    /// What is wrong with its file.
    pub remarks: Vec<String>,
    /// The place of each case in the list.
    places: HashMap<CaseKey, usize>,
}

/// What tells a case from others: the case, its communicator, and the traffic of an alltoallv.
type CaseKey = (Case, Option<u32>, String);

/// A case and its results.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// The communicator, if there are several.
    pub group: Option<u32>,
    /// The traffic of an alltoallv.
    pub pattern: String,
    /// The time of an operation in µs in each repetition.
    pub times: Vec<f64>,
    /// The peak of busbw in GB/s, if it is known.
    pub peak: Option<f64>,
    /// The time and its spread within a run, if they are known.
    within_run: Option<LogTimes>,
    /// Why there is no time; empty if there is one.
    pub why_unmeasured: String,
}

impl Measured {
    /// Returns the results of a run that has none yet.
    pub fn of_run(run: &RunMeta) -> Measured {
        let on = run.measured_on();
        Measured {
            nodes: run.nodes,
            ranks: run.ranks,
            circumstances: circumstances(
                [run.backend.name(), &run.level, &run.network, &run.resources],
                &on,
            ),
            device: on.device,
            sweep: Some(run.sweep.clone()),
            ..Measured::default()
        }
    }

    /// Adds the results of a case.
    pub fn add(&mut self, record: &Record) {
        for record in record.kept() {
            let operations = self.sweep.as_ref().map(|sweep| sweep.aggregate.max(1));
            self.add_one(&record, operations);
        }
    }

    fn add_one(&mut self, record: &Record, operations: Option<u32>) {
        self.wrong_cases += u64::from(record.status == Status::Wrong);
        let case = Case {
            traffic: None,
            ..record.case
        };
        let key = (case, record.group, record.pattern.clone());
        let next = self.cases.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.cases.push(CaseResult {
                case,
                group: record.group,
                pattern: record.pattern.clone(),
                times: Vec::new(),
                peak: None,
                within_run: None,
                why_unmeasured: String::new(),
            });
        }
        let result = &mut self.cases[place];
        result.peak = record.peak.map(|peak| peak.0);
        let is_measured = record.status != Status::Waived;
        match record.time {
            Some(time) if is_measured && time.0 > 0.0 && time.0.is_finite() => {
                result.times.push(time.0);
            }
            _ => result.why_unmeasured.clone_from(&record.note),
        }
        result.within_run = within_run(record, operations);
    }

    /// Returns what it was measured on.
    pub fn setup(&self) -> Setup {
        let mut collectives = Vec::new();
        for result in &self.cases {
            if !collectives.contains(&result.case.collective) {
                collectives.push(result.case.collective);
            }
        }
        Setup {
            device: self.device.clone(),
            ranks: self.ranks,
            nodes: self.nodes,
            collectives,
        }
    }

    /// Returns whether it has results of `case`, of any communicator.
    pub fn has(&self, case: &Case) -> bool {
        let case = Case {
            traffic: None,
            ..*case
        };
        self.cases.iter().any(|result| result.case == case)
    }

    /// Returns the results of the same case.
    pub fn same_case(&self, other: &CaseResult) -> Option<&CaseResult> {
        let key = (other.case, other.group, other.pattern.clone());
        self.places.get(&key).map(|place| &self.cases[*place])
    }

    /// Reads the results at `path`: a run's folder, or its `results.csv`.
    ///
    /// # Errors
    /// Returns an error if they cannot be read, or if there are none.
    pub fn read(path: &Path) -> anyhow::Result<Measured> {
        let csv = csv_of(path);
        let usage = |what: String| Failure::on_all_ranks(Code::Usage, what);
        let cannot = |error: RowError| Failure::of_file("read", &csv, &error);
        let mut rows = RowReader::open(&csv).map_err(cannot)?;
        let first: Option<CsvRow> = rows.read_row().map_err(cannot)?;
        let Some(first) = first else {
            let what = format!("{} has no rows: nothing to judge", csv.display());
            return Err(Failure::on_all_ranks(Code::NothingRan, what));
        };
        let run = read::read_run(&csv.with_file_name("run.json"));
        let mut measured = Measured {
            nodes: first.nodes,
            ranks: first.ranks,
            device: first.device.clone(),
            circumstances: circumstances(
                [
                    first.backend.name(),
                    &first.level,
                    &first.network,
                    &first.resources,
                ],
                &first.measured_on(),
            ),
            sweep: run.map(|run| run.sweep),
            ..Measured::default()
        };
        let mut next = Some(first.clone());
        while let Some(row) = next {
            if let Some(difference) = differs(&first, &row) {
                return Err(usage(format!(
                    "{} has rows of several {difference}. Check one run at a time",
                    csv.display()
                )));
            }
            let record = row.to_record(&traffic::DEFAULT);
            let record = record.ok_or_else(|| {
                usage(format!(
                    "{} has a row that this version does not write. Check it with the version \
                     that wrote it",
                    csv.display()
                ))
            })?;
            measured.add(&record);
            next = rows.read_row().map_err(cannot)?;
        }
        measured.remarks.extend(rows.torn_line());
        Ok(measured)
    }
}

/// Returns the time of a record and its spread: over blocks, or over iterations of `operations`
/// operations (`-m`). If that is unknown, so is how many iterations there were.
fn within_run(record: &Record, operations: Option<u32>) -> Option<LogTimes> {
    if let (Some(time), Some(precision), Some(blocks)) =
        (record.time, record.precision, record.blocks)
    {
        return LogTimes::of_interval(time.0, precision, CONFIDENCE, blocks);
    }
    let stats = record.iteration_times.as_ref()?;
    let count = (record.iters / operations?).saturating_sub(stats.skipped);
    LogTimes::of_moments(stats.mean.0, stats.variation() / 100.0, count)
}

/// Returns what tells the run of one row from that of another.
fn differs(a: &CsvRow, b: &CsvRow) -> Option<&'static str> {
    let parts = [
        ("levels", a.level != b.level),
        ("networks", a.network != b.network),
        ("backends", a.backend != b.backend),
        ("numbers of nodes", a.nodes != b.nodes),
        ("devices", a.device != b.device),
        ("numbers of ranks", a.group.is_none() && a.ranks != b.ranks),
    ];
    let mut parts = parts.into_iter();
    parts.find(|(_, is_other)| *is_other).map(|(what, _)| what)
}

/// Returns the rows of the run at `path`: its folder, or its `results.csv`.
pub fn csv_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join("results.csv")
    } else {
        path.to_owned()
    }
}

/// Returns backend, level, network and resources, and what was measured on, by name.
fn circumstances(
    [backend, level, network, resources]: [&str; 4],
    on: &MeasuredOn,
) -> Vec<(&'static str, String)> {
    vec![
        ("backend", backend.to_owned()),
        ("device", on.device.clone()),
        ("hosts", on.hosts.clone()),
        ("NCCL", on.nccl_version.clone()),
        ("MPI", on.mpi_version.clone()),
        ("level", level.to_owned()),
        ("network", network.to_owned()),
        ("resources", resources.to_owned()),
    ]
}

impl CaseResult {
    /// Returns the mean time of an operation in µs over all repetitions.
    pub fn time(&self) -> Option<f64> {
        let count = self.times.len();
        (count > 0).then(|| self.times.iter().sum::<f64>() / count as f64)
    }

    /// Returns busbw in GB/s, of the mean time.
    pub fn busbw(&self) -> Option<f64> {
        let (_, busbw) = self.case.bandwidth(Micros(self.time()?));
        Some(busbw.0)
    }

    /// Returns busbw in percent of the peak.
    pub fn percent_of_peak(&self) -> Option<f64> {
        Some(100.0 * self.busbw()? / self.peak?)
    }

    /// Returns the times of all repetitions; `None` if there are fewer than two.
    pub fn over_repetitions(&self) -> Option<LogTimes> {
        LogTimes::of(&self.times)
    }

    /// Returns the time and its spread within a run: over the blocks of `--precision`, or over
    /// iterations. `None` if neither is known.
    pub fn within_run(&self) -> Option<LogTimes> {
        self.within_run
    }

    /// Returns whether it was measured several times.
    pub fn is_repeated(&self) -> bool {
        self.times.len() > 1
    }

    /// Returns whether both differ in size only.
    pub fn is_of_series(&self, other: &CaseResult) -> bool {
        let (a, b) = (&self.case, &other.case);
        a.collective == b.collective
            && a.dtype == b.dtype
            && a.redop == b.redop
            && a.root == b.root
            && a.buffer_mode == b.buffer_mode
            && self.group == other.group
            && self.pattern == other.pattern
    }

    /// Returns a miss of this case, without what was found and required.
    pub fn miss(&self) -> Miss {
        Miss {
            case: self.text(),
            collective: self.case.collective.name().into(),
            size_bytes: self.case.size().0,
            placement: self.case.buffer_mode.to_string(),
            ..Miss::default()
        }
    }

    /// Returns the case as messages name it.
    pub fn text(&self) -> String {
        format!("{}{}", self.case, self.of_group())
    }

    /// Returns the series as messages name it.
    pub fn series_text(&self) -> String {
        let case = &self.case;
        let mut words = vec![case.collective.name(), case.dtype.name()];
        if case.redop.is_some() {
            words.push(case.redop_name());
        }
        words.push(match case.buffer_mode {
            BufferMode::InPlace => "in place",
            BufferMode::OutOfPlace => "out of place",
        });
        format!("{}, all sizes{}", words.join(" "), self.of_group())
    }

    fn of_group(&self) -> String {
        match self.group {
            Some(group) => format!(", communicator {group}"),
            None => String::new(),
        }
    }
}
