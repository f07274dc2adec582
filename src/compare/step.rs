//! [`Step`]: the rows of one step of a comparison, and what its `run.json` says of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::steps;
use crate::{
    exit::Code,
    levels::{self, Axis, table::variables},
    output::earlier::{SWEEP_FLAGS, nccl_settings, shown},
    record::{
        MeasuredOn,
        read::{self, CsvRow, RowReader},
    },
};

/// What stands between two flags or settings.
pub(super) const SEPARATOR: &str = ", ";

/// A step of a comparison.
pub struct Step {
    /// Its folder.
    folder: PathBuf,
    /// The name of its folder.
    pub(super) name: String,
    /// Its rows.
    pub rows: Vec<CsvRow>,
    /// Its `run.json`; `None` if there is none, or if it cannot be read.
    run: Option<Value>,
    /// What it was measured on, according to `run.json`.
    pub(super) measured_on: MeasuredOn,
    /// The flags that change what a time means, as words.
    pub(super) flags: String,
    /// NCCL's settings, as words.
    pub(super) settings: String,
}

impl Step {
    /// Reads the step in `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if its `results.csv` cannot be read.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Step> {
        let csv = folder.join("results.csv");
        let rows = read_rows(&csv).map_err(|error| steps::cannot("read", &csv, &error))?;
        let run_json = folder.join("run.json");
        let measured_on = read::read_run(&run_json).map(|run| run.measured_on());
        let run = read::read_run_json(&run_json);
        let of_run = run.as_ref().unwrap_or(&Value::Null);
        let name = folder.file_name().unwrap_or_default();
        Ok(Step {
            name: name.to_string_lossy().into_owned(),
            measured_on: measured_on.unwrap_or_default(),
            flags: flags(of_run),
            settings: settings(of_run),
            folder: folder.to_owned(),
            rows,
            run,
        })
    }

    /// Returns a step of which only the rows are known.
    #[cfg(test)]
    pub(super) fn of_rows(name: &str, rows: Vec<CsvRow>) -> Step {
        Step {
            folder: PathBuf::new(),
            name: name.to_owned(),
            rows,
            run: None,
            measured_on: MeasuredOn::default(),
            flags: String::new(),
            settings: String::new(),
        }
    }

    /// Returns a sentence if the step did not end well, or if that is not known.
    pub(super) fn unfinished(&self) -> Option<String> {
        let name = &self.name;
        let path = self.folder.join("run.json");
        let Some(run) = &self.run else {
            let why = if path.exists() {
                "its run.json cannot be read"
            } else {
                "it has no run.json"
            };
            return Some(format!(
                "step {name}: {why}, so whether it finished is not known"
            ));
        };
        let end = &run["end"];
        let message = end["message"].as_str().unwrap_or_default();
        match end["code"].as_u64() {
            None => Some(format!(
                "step {name} did not finish: its rows are the cases it completed"
            )),
            Some(0) => None,
            Some(code) if code == Code::Usage as u64 => {
                Some(format!("Waived step {name}: {message}"))
            }
            Some(code) => Some(format!(
                "step {name} ended with exit code {code}: {message}"
            )),
        }
    }
}

fn read_rows(csv: &Path) -> Result<Vec<CsvRow>, csv::Error> {
    let mut reader = RowReader::open(csv)?;
    let mut rows = Vec::new();
    while let Some(row) = reader.read_row()? {
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the flags of a run that change what a time means.
fn flags(run: &Value) -> String {
    let mut words = Vec::new();
    for (key, flag) in SWEEP_FLAGS {
        if let Some(value) = run["sweep"].get(key) {
            words.push(format!("{flag} {}", shown(value)));
        }
    }
    words.join(SEPARATOR)
}

/// Returns NCCL's settings of a run that its level and its resources do not tell.
fn settings(run: &Value) -> String {
    let mut told = Vec::new();
    for (key, axis) in [("level", Axis::Level), ("resources", Axis::Resources)] {
        if run[key] != levels::CUSTOM {
            told.extend(variables(axis));
        }
    }
    let mut words = Vec::new();
    for (name, value) in nccl_settings(run) {
        if !told.contains(&name.as_str()) {
            words.push(format!("{name}={value}"));
        }
    }
    words.join(SEPARATOR)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns rows of an alltoall of a kibibyte, read as from a file: level, repetition and time.
    pub(in crate::compare) fn rows(
        backend: &str,
        nodes: u32,
        cells: &[(&str, u32, f64)],
    ) -> Vec<CsvRow> {
        let mut text = String::from(
            "run_id,started_at,collective,backend,level,network,resources,step,repeat,nodes,ranks,gpus_per_process,\
             size_bytes,count,type,redop,root,in_place,iters,time_us,busbw_GBps,wrong,status,note,channels,group,issue_us,\
             iter_min_us,iter_max_us,iter_mean_us,iter_p50_us,iter_p95_us,iter_p99_us,iter_cv_pct\n",
        );
        for (level, repeat, time) in cells {
            text += &format!(
                "r,2026-01-01T00:00:00+00:00,alltoall,{backend},{level},auto,none,,{repeat},{nodes},4,0,1024,256,float,none,\
                 -1,0,20,{time},1.0,0,ok,,,,,,,,,,,\n"
            );
        }
        let rows = read::parse_rows(&text).into_iter();
        rows.map(|row| row.expect("a row")).collect()
    }

    /// Returns one step per cell, named by its number.
    pub(in crate::compare) fn steps(
        backend: &str,
        nodes: u32,
        cells: &[(&str, u32, f64)],
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, cell) in cells.iter().enumerate() {
            steps.push(Step::of_rows(
                &number.to_string(),
                rows(backend, nodes, &[*cell]),
            ));
        }
        steps
    }
}
