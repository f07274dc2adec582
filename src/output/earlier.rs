//! What an earlier run left in the files that this one is to go on with, and whether the two measure the same.
//!
//! A file of results has one head for all its rows: which backend, which level, which flags. Rows that were measured in
//! another way would be told under a head that is not theirs, so a run that differs in such a thing is refused. What
//! differs case by case (iterations, checks, the pattern of an alltoallv) does not count here: such a case is measured again.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;

use super::{csv::Csv, target::OutputError};
use crate::{
    collective::traffic::Traffic,
    record::{Record, RunMeta, columns::COLUMNS, file},
};

/// Columns that are the same in all rows of a file.
const OF_THE_RUN: [&str; 6] = [
    "backend",
    "level",
    "network",
    "resources",
    "nodes",
    "gpus_per_process",
];

/// Keys of `sweep` in run.json that change what a time means, and their flags.
const OF_THE_SWEEP: [(&str, &str); 12] = [
    ("threads", "-t"),
    ("gpus", "-g"),
    ("aggregate", "-m"),
    ("graph", "-G"),
    ("unalign", "-u"),
    ("blocking", "-z"),
    ("per_iter", "-I"),
    ("per_iter_skip", "-K"),
    ("average", "-a"),
    ("null_stream", "-y"),
    ("registration", "-R"),
    ("cta_policy", "-x"),
];

/// An earlier run.
pub struct EarlierRun {
    /// The CSV, open behind its last whole row.
    pub csv: Csv,
    /// Its rows.
    pub records: Vec<Record>,
    /// Its name, which this run takes over; `None` where it has no row yet.
    pub run_id: Option<String>,
}

impl EarlierRun {
    /// Opens the CSV at `path` for `run` to go on with. `run_json` is the earlier run's, where there is one. `traffic` is what
    /// an alltoallv of this run sends where.
    ///
    /// # Errors
    /// Where a file cannot be used, or is that of a run which measured something else.
    pub fn open(
        path: &Path,
        run_json: Option<&Path>,
        run: &RunMeta,
        traffic: &'static Traffic,
    ) -> Result<EarlierRun, OutputError> {
        let io = |error| OutputError::Io(path.to_owned(), error);
        let other = |why| OutputError::Other(path.to_owned(), why);
        let text = fs::read_to_string(path).map_err(io)?;
        let whole = file::whole_lines(&text);
        if !file::is_ours(whole) {
            return Err(other("is not a CSV of this program".into()));
        }
        let (records, unread) = file::read_csv(whole, traffic);
        unread
            .iter()
            .for_each(|line| say!("pxnbench: {}: {line}; it is measured again", path.display()));
        let rows: Vec<HashMap<String, String>> = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(whole.as_bytes())
            .deserialize()
            .flatten()
            .collect();
        if let Some(any) = records.first() {
            rows.iter()
                .try_for_each(|row| same_run(row, run, any))
                .map_err(other)?;
            let before =
                run_json.and_then(|path| serde_json::from_slice(&fs::read(path).ok()?).ok());
            before
                .map_or(Ok(()), |before| same_sweep(&before, run))
                .map_err(other)?;
        }
        let run_id = rows.first().and_then(|row| row.get("run_id")).cloned();
        Ok(EarlierRun {
            csv: Csv::go_on(path, whole).map_err(io)?,
            records,
            run_id,
        })
    }
}

/// Has `row` what `run` would write there? `any` stands for the record, which these columns do not look at.
fn same_run(row: &HashMap<String, String>, run: &RunMeta, any: &Record) -> Result<(), String> {
    let columns = COLUMNS
        .iter()
        .filter(|column| OF_THE_RUN.contains(&column.name));
    columns
        .filter_map(|column| Some((column, row.get(column.name)?)))
        .try_for_each(|(column, before)| {
            let now = (column.get)(run, any).csv();
            if *before == now {
                Ok(())
            } else {
                Err(differs(column.name, before, &now))
            }
        })
}

/// Were the rows beside `before`, a run.json, measured with the flags and the settings of NCCL that `run` has? A key that
/// an earlier version did not write is not asked for.
fn same_sweep(before: &Value, run: &RunMeta) -> Result<(), String> {
    let now = serde_json::to_value(run).unwrap_or_default();
    for (key, flag) in OF_THE_SWEEP {
        if let Some(was) = before["sweep"].get(key)
            && *was != now["sweep"][key]
        {
            return Err(differs(flag, &shown(was), &shown(&now["sweep"][key])));
        }
    }
    let settings = |of: &Value| -> HashMap<String, String> {
        let all = of["environment"].as_object().cloned().unwrap_or_default();
        // Where NCCL logs, and how much, does not change what is measured.
        let counts = |name: &str| name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG");
        all.into_iter()
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name, shown(&value)))
            .collect()
    };
    let (was, is) = (settings(before), settings(&now));
    let mut names: Vec<&String> = was.keys().chain(is.keys()).collect();
    names.sort();
    let unset = || "unset".to_owned();
    names
        .into_iter()
        .try_for_each(|name| match (was.get(name), is.get(name)) {
            (was, is) if was == is => Ok(()),
            (was, is) => {
                let [was, is] = [was, is].map(|value| value.cloned().unwrap_or_else(unset));
                Err(differs(name, &was, &is))
            }
        })
}

/// A value as it stands in a sentence.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Bool(is_on) => u8::from(*is_on).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What differs, as the rest of a sentence that begins with the name of the CSV.
fn differs(what: &str, before: &str, now: &str) -> String {
    let [before, now] = [before, now].map(|value| if value.is_empty() { "none" } else { value });
    format!("was measured with {what} {before}, and this run has {what} {now}")
}
