//! JSON with the keys of nccl-tests 2.19.6 (`-J`, version 3), for scripts that read it.
//!
//! With several communicators each has rows of its own, with their `group`.
//!
//! Each field has nccl-tests' type: `root` is text padded to six columns, `nwrong` is a number with
//! a fraction, truth values are words, and a mean of nothing is the word `nan`. Half a row that did
//! not run is null.
//!
//! Differences from nccl-tests: every GPU is listed instead of only the first of each process,
//! `env` contains the recorded variables and no secrets, strings are not cut, and there are a few
//! more keys.

use serde_json::{Map, Value, json};

use super::{
    format::{Content, OutputFormat},
    table,
};
use crate::{
    collective::{BufferMode, Case},
    record::{IterationStats, NcclEvidence, ProcessMeta, Record, RunMeta, Status, TableTotals},
};

/// nccl-tests' `JSON_FILE_VERSION`.
const VERSION: u32 = 3;

/// The format of nccl-tests' JSON.
pub(super) const FORMAT: OutputFormat = OutputFormat {
    path: |paths| paths.nccl_tests_json.clone(),
    follows_links: true,
    content: Content::Whole(text),
};

/// Returns the file's text.
fn text(run: &RunMeta, records: &[Record]) -> String {
    let mut totals = TableTotals::default();
    for record in records {
        totals.add(record);
    }
    let environment: Vec<String> = run
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let results: Vec<Value> = rows(records).iter().map(|row| row.json(run)).collect();
    let mut all = json!({
        "version": VERSION,
        "start_time": format_time(run.started_at),
        "args": run.command,
        "env": environment,
        "nccl_version": table::nccl_library(run).unwrap_or(0),
        "config": config(run),
        "results": results,
        "out_of_bounds": { "count": totals.failed_checks, "okay": word(totals.failed_checks == 0) },
        "average_bus_bandwidth": { "bandwidth": average(&totals), "okay": reached(run, &totals) },
        "errors": errors(run),
    });
    if let Some(ended) = run.ended_at {
        all["end_time"] = format_time(ended).into();
    }
    all.to_string() + "\n"
}

fn format_time(time: chrono::DateTime<chrono::FixedOffset>) -> String {
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

fn word(is_true: bool) -> &'static str {
    if is_true { "true" } else { "false" }
}

fn reached(run: &RunMeta, totals: &TableTotals) -> &'static str {
    match run.sweep.least_busbw {
        Some(least) => word(totals.reaches(least)),
        None => "unchecked",
    }
}

/// Returns the mean busbw; the word `nan` if nothing ran.
fn average(totals: &TableTotals) -> Value {
    match totals.average() {
        Some(average) => average.into(),
        None => "nan".into(),
    }
}

fn errors(run: &RunMeta) -> Vec<&str> {
    run.end
        .iter()
        .map(|end| end.message.as_str())
        .filter(|message| !message.is_empty())
        .collect()
}

fn config(run: &RunMeta) -> Value {
    let sweep = run.sweep.as_run_by(run.backend);
    let devices: Vec<Value> = run.processes.iter().map(device).collect();
    let mut config = json!({
        "nthreads": sweep.threads,
        "ngpus": sweep.gpus,
        "minimum_bytes": sweep.begin.0,
        "maximum_bytes": sweep.end.0,
        "warmup_iters": sweep.warmup,
        "iterations": sweep.iters,
        "aggregated_iterations": sweep.aggregate,
        "validation": sweep.checks,
        "graph": sweep.graph,
        "blocking_collectives": word(sweep.blocking > 0),
        "per_iter_timing": word(sweep.per_iter),
        "per_iter_skip": sweep.per_iter_skip,
        "parallel_init": word(sweep.parallel_init),
        "devices": devices,
    });
    let step = if sweep.step_is_factor {
        "step_factor"
    } else {
        "step_bytes"
    };
    config[step] = sweep.step.into();
    config["tuning"] = word(sweep.tuning && run.backend.runs_nccl()).into();
    config["backend"] = run.backend.name().into();
    if let Some(reduced) = sweep.reduced_to {
        config["reduced_maximum_bytes"] = reduced.0.into();
    }
    config
}

fn device(rank: &ProcessMeta) -> Value {
    json!({
        "rank": rank.rank,
        "group": rank.group,
        "pid": rank.pid,
        "hostname": rank.host,
        "device": rank.device.index,
        "device_hex": rank.device.bus,
        "device_info": rank.device.name,
    })
}

/// The records of a row of the table.
struct Row<'a> {
    out_of_place: Option<&'a Record>,
    in_place: Option<&'a Record>,
}

/// Joins the records that share a row.
fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for record in records {
        if record.status == Status::Waived {
            continue;
        }
        if record.case.buffer_mode == BufferMode::OutOfPlace {
            rows.push(Row {
                out_of_place: Some(record),
                in_place: None,
            });
            continue;
        }
        // The rows of other communicators may stand between the two halves.
        let mut latest_first = rows.iter_mut().rev();
        match latest_first.find(|row| row.lacks(record)) {
            Some(row) => row.in_place = Some(record),
            None => rows.push(Row {
                out_of_place: None,
                in_place: Some(record),
            }),
        }
    }
    rows
}

impl Row<'_> {
    /// Returns whether `record`, which is in place, is the missing half of this row.
    fn lacks(&self, record: &Record) -> bool {
        let (Some(out_of_place), None) = (self.out_of_place, self.in_place) else {
            return false;
        };
        let same_case = Case {
            buffer_mode: BufferMode::OutOfPlace,
            ..record.case
        };
        same_case == out_of_place.case
            && out_of_place.cycle == record.cycle
            && out_of_place.group == record.group
    }

    fn json(&self, run: &RunMeta) -> Value {
        let Some(any_half) = self.out_of_place.or(self.in_place) else {
            return Value::Null;
        };
        let case = &any_half.case;
        let mut row = Map::new();
        row.insert("size".into(), case.size().0.into());
        row.insert("count".into(), case.counts.param.into());
        row.insert("type".into(), case.dtype.name().into());
        row.insert("redop".into(), case.redop_name().into());
        row.insert("root".into(), format!("{:6}", case.root_number()).into());
        if let Some(group) = any_half.group {
            row.insert("group".into(), group.into());
        }
        for (key, record) in [
            ("out_of_place", self.out_of_place),
            ("in_place", self.in_place),
        ] {
            let half = record.map_or(Value::Null, |record| half(run, record));
            row.insert(key.into(), half);
            if let Some(stats) = record.and_then(|record| record.iteration_times.as_ref()) {
                row.insert(format!("{key}_per_iter"), per_iter(stats));
            }
            if let Some(record) = record.filter(|_| run.sweep.tuning) {
                row.insert(format!("{key}_tuning"), tuning(&record.seen));
            }
        }
        if any_half.status == Status::Computed {
            row.insert("computed".into(), word(true).into());
        }
        row.insert("actual_iterations".into(), run.sweep.iters.into());
        row.insert("experiment_name".into(), case.collective.name().into());
        Value::Object(row)
    }
}

fn half(run: &RunMeta, record: &Record) -> Value {
    // What ran untimed has zeros, as in the table.
    let (algbw, busbw) = record.bandwidth().unwrap_or_default();
    let (key, time) = if run.sweep.reports_issue {
        ("cpu_time", record.issue)
    } else {
        ("time", record.time)
    };
    let mut half = json!({
        "alg_bw": algbw.0,
        "bus_bw": busbw.0,
        "nwrong": record.wrong.map(|wrong| wrong as f64),
    });
    half[key] = time.unwrap_or_default().0.into();
    half
}

/// Returns how NCCL ran a case; null for what is unknown.
fn tuning(seen: &NcclEvidence) -> Value {
    let known = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    json!({
        "algo": known(&seen.algo),
        "proto": known(&seen.proto),
        "nchannels": seen.operation_channels,
    })
}

fn per_iter(stats: &IterationStats) -> Value {
    let times: Vec<f64> = stats.times.iter().map(|time| time.0).collect();
    json!({
        "skipped_iterations": stats.skipped,
        "min_us": stats.min.0,
        "max_us": stats.max.0,
        "avg_us": stats.mean.0,
        "p50_us": stats.p50.0,
        "p95_us": stats.p95.0,
        "p99_us": stats.p99.0,
        "stdev_us": stats.deviation.0,
        "cv_pct": stats.variation(),
        "times_us": times,
    })
}
