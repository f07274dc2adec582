//! What an earlier run left in the files that this one continues, and whether both measure the
//! same.
//!
//! A file of results has one head for all its rows: backend, level, flags. Rows that were measured
//! in another way would be reported under a head that is not theirs, so a run that differs in any
//! of this is refused, also one with another driver, CUDA or version of this program. What a row
//! tells of its case (iterations, checks, the pattern of an alltoallv, the versions of NCCL and
//! MPI) does not count here: such a case is measured again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use chrono::{DateTime, FixedOffset};
use serde_json::Value;

use super::{csv, earlier_rows::EarlierRows, error::OutputError, row_file::RowFile};
use crate::{
    collective::traffic::Traffic,
    record::{
        Record, RunMeta,
        read::{self, CsvRow},
        run_meta::SWEEP_FLAGS,
        spreadsheet,
    },
};

/// An earlier run.
pub(super) struct EarlierRun {
    /// The CSV, open behind its last complete row.
    pub(super) csv: RowFile,
    /// Its complete lines.
    pub(super) text: String,
    /// Its records.
    pub(super) records: Vec<Record>,
    /// Its name, which this run takes over; `None` if it has no row yet.
    pub(super) run_id: Option<String>,
    /// When it began, and when it was continued, if its run.json says so.
    pub(super) times: Option<RunTimes>,
}

/// When a run began, and when it was continued.
pub(super) struct RunTimes {
    pub(super) started_at: DateTime<FixedOffset>,
    pub(super) continued_at: Vec<DateTime<FixedOffset>>,
}

impl EarlierRun {
    /// Opens the CSV at `path` so that `run` can append to it. `run_json` is the path of the
    /// earlier run's `run.json`, if it has one. `traffic` is the traffic of an alltoallv in this
    /// run. Lines that cannot be read are removed; the file with them is kept under another name.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used, or belongs to a run that measured something else.
    pub(super) fn open(
        path: &Path,
        run_json: Option<&Path>,
        run: &RunMeta,
        traffic: &'static Traffic,
    ) -> Result<EarlierRun, OutputError> {
        let mismatch = |why| OutputError::Other(path.to_owned(), why);
        let unreadable = |error| mismatch(format!("cannot be read: {error}"));
        let text = fs::read(path).map_err(unreadable)?;
        let is_own = str::from_utf8(first_line(&text)).is_ok_and(read::has_own_header);
        if !is_own {
            let why = match spreadsheet::saved_otherwise(first_line(&text)) {
                Some(how) => format!("{how}, so rows cannot be added to it"),
                None => "is not a CSV of this program".into(),
            };
            return Err(mismatch(why));
        }
        let found = EarlierRows::read(read::whole_lines(&text), traffic);
        let before = run_json.and_then(read::read_run_json);
        if !found.records.is_empty() {
            for row in &found.rows {
                check_same_run(row, run).map_err(mismatch)?;
            }
            if let Some(before) = &before {
                check_same_sweep(before, run).map_err(mismatch)?;
                check_same_versions(before, run).map_err(mismatch)?;
            }
        }
        let csv = found
            .make_readable(path)
            .and_then(|()| csv::resume(path, found.text.clone()))
            .map_err(|error| OutputError::Io(path.to_owned(), error))?;
        Ok(EarlierRun {
            csv,
            run_id: found.rows.first().map(|row| row.run_id.clone()),
            text: found.text,
            records: found.records,
            times: before.as_ref().and_then(run_times),
        })
    }
}

/// Returns the first line of a file, with its end if it has one.
fn first_line(text: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', text);
    end.map_or(text, |end| &text[..=end])
}

fn run_times(run: &Value) -> Option<RunTimes> {
    let time = |value: &Value| DateTime::parse_from_rfc3339(value.as_str()?).ok();
    let continued_at = run["continued_at"].as_array().into_iter().flatten();
    Some(RunTimes {
        started_at: time(&run["started_at"])?,
        continued_at: continued_at.filter_map(time).collect(),
    })
}

/// Compares the columns that are the same in all rows of a file with what `run` would write there.
///
/// # Errors
/// Returns an error if one differs.
fn check_same_run(row: &CsvRow, run: &RunMeta) -> Result<(), String> {
    check_same("backend", row.backend.name(), run.backend.name())?;
    check_same("level", &row.level, &run.level)?;
    check_same("network", &row.network, &run.network)?;
    check_same("resources", &row.resources, &run.resources)?;
    check_same("nodes", &row.nodes.to_string(), &run.nodes.to_string())?;
    check_same(
        "gpus_per_process",
        &row.gpus_per_process.to_string(),
        &run.gpus_per_process.to_string(),
    )
}

fn check_same(what: &str, before: &str, now: &str) -> Result<(), String> {
    if before == now {
        Ok(())
    } else {
        Err(differs(what, before, now))
    }
}

/// Compares the flags and the settings of NCCL in `before`, an earlier run.json, with those of
/// `run`. A key that an earlier version did not write is not compared.
///
/// # Errors
/// Returns an error if one differs.
fn check_same_sweep(before: &Value, run: &RunMeta) -> Result<(), String> {
    let now = serde_json::to_value(run).unwrap_or_default();
    for (key, flag) in SWEEP_FLAGS {
        let is = &now["sweep"][key];
        if let Some(was) = before["sweep"].get(key)
            && was != is
        {
            return Err(differs(flag, &shown(was), &shown(is)));
        }
    }
    let (was, is) = (nccl_settings(before), nccl_settings(&now));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        let was = was.get(name).map_or("unset", String::as_str);
        let is = is.get(name).map_or("unset", String::as_str);
        check_same(name, was, is)?;
    }
    Ok(())
}

/// Compares the versions of this program and of the libraries in `before`, an earlier run.json,
/// with those of `run`, except for NCCL and MPI: rows tell these, and those that were measured with
/// others are measured again. A version that is not known is not compared.
///
/// # Errors
/// Returns an error if one differs.
fn check_same_versions(before: &Value, run: &RunMeta) -> Result<(), String> {
    if let Some(was) = before["pxnbench"].as_str() {
        check_same("pxnbench", was, &run.pxnbench)?;
    }
    for (library, is) in &run.versions {
        let is_in_rows = ["nccl", "mpi"].contains(&library.as_str());
        if let Some(was) = before["versions"][library].as_str()
            && !is_in_rows
        {
            check_same(library, was, is)?;
        }
    }
    Ok(())
}

/// Returns the settings of NCCL in a run.json that change what is measured: where and how much NCCL
/// logs does not.
pub fn nccl_settings(run: &Value) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (name, value) in run["environment"].as_object().into_iter().flatten() {
        if name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG") {
            settings.insert(name.clone(), shown(value));
        }
    }
    settings
}

/// Returns a value as messages show it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Bool(is_on) => u8::from(*is_on).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the end of a message that begins with the path of the CSV: what differs.
fn differs(what: &str, before: &str, now: &str) -> String {
    let before = if before.is_empty() { "none" } else { before };
    let now = if now.is_empty() { "none" } else { now };
    format!("was measured with {what} {before}, but this run has {what} {now}")
}
