//! What an earlier run left in the files that this one continues, and whether both measure the
//! same.
//!
//! A file of results has one head for all its rows: backend, level, flags. Rows that were measured
//! in another way would be reported under a head that is not theirs, so a run that differs in any
//! of this is refused. What differs from case to case (iterations, checks, the pattern of an
//! alltoallv) does not count here: such a case is measured again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use super::{csv::Csv, target::OutputError};
use crate::{
    collective::traffic::Traffic,
    record::{
        Record, RunMeta,
        read::{self, CsvRow},
        run_meta::SWEEP_FLAGS,
    },
};

/// An earlier run.
pub struct EarlierRun {
    /// The CSV, open behind its last complete row.
    pub csv: Csv,
    /// Its complete lines.
    pub text: String,
    /// Its records.
    pub records: Vec<Record>,
    /// Its name, which this run takes over; `None` if it has no row yet.
    pub run_id: Option<String>,
}

impl EarlierRun {
    /// Opens the CSV at `path` so that `run` can append to it. `run_json` is the path of the
    /// earlier run's `run.json`, if it has one. `traffic` is the traffic of an alltoallv in this
    /// run.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used, or belongs to a run that measured something else.
    pub fn open(
        path: &Path,
        run_json: Option<&Path>,
        run: &RunMeta,
        traffic: &'static Traffic,
    ) -> Result<EarlierRun, OutputError> {
        let io_error = |error| OutputError::Io(path.to_owned(), error);
        let mismatch = |why| OutputError::Other(path.to_owned(), why);
        let text = fs::read_to_string(path).map_err(io_error)?;
        let whole = read::whole_lines(&text);
        if !read::has_own_header(whole) {
            return Err(mismatch("is not a CSV of this program".into()));
        }
        let mut rows = Vec::new();
        let mut records = Vec::new();
        for (row, number) in read::parse_rows(whole).into_iter().zip(1..) {
            let record = row.as_ref().ok().and_then(|row| row.to_record(traffic));
            if record.is_none() {
                note!(
                    "pxnbench: {}: row {number} is incomplete; it is measured again",
                    path.display()
                );
            }
            records.extend(record);
            rows.extend(row);
        }
        if !records.is_empty() {
            for row in &rows {
                check_same_run(row, run).map_err(mismatch)?;
            }
            if let Some(before) = run_json.and_then(read::read_run_json) {
                check_same_sweep(&before, run).map_err(mismatch)?;
            }
        }
        Ok(EarlierRun {
            csv: Csv::resume(path, whole).map_err(io_error)?,
            text: whole.to_owned(),
            records,
            run_id: rows.first().map(|row| row.run_id.clone()),
        })
    }
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
