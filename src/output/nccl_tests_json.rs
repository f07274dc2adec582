//! JSON with the keys of nccl-tests 2.19.6 (`-J`, version 3), for what reads that.
//!
//! With several communicators each has its rows, which say their `group`.
//!
//! Differences, each for the better: numbers are numbers (`root`, and null where nothing was measured), every GPU is listed
//! and not the first of a process only, `env` holds the recorded variables and no secrets, strings are whole. `root` is the
//! number itself, not padded text; what was a word for a truth value stays one, for readers compare it with `"true"`.

use serde_json::{Map, Value, json};

use crate::{
    collective::BufferMode,
    record::{IterationStats, ProcessMeta, Record, RunMeta, Status, TableTotals},
};

/// nccl-tests' `JSON_FILE_VERSION`.
const VERSION: u32 = 3;

/// The file's text.
pub fn text(run: &RunMeta, records: &[Record]) -> String {
    let mut sums = TableTotals::default();
    records.iter().for_each(|record| sums.add(record));
    let mut all = json!({
        "version": VERSION,
        "start_time": time_of(run.started_at),
        "args": run.command,
        "env": run.environment.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        "nccl_version": nccl_version(run),
        "config": config(run),
        "results": rows(records).iter().map(|(out, inside)| row(run, *out, *inside)).collect::<Vec<_>>(),
        "out_of_bounds": { "count": sums.failed_checks, "okay": word(sums.failed_checks == 0) },
        "average_bus_bandwidth": { "bandwidth": sums.average(), "okay": reached(run, &sums) },
        "errors": errors(run),
    });
    if let Some(ended) = run.ended_at {
        all["end_time"] = time_of(ended).into();
    }
    let mut text = all.to_string();
    text.push('\n');
    text
}

fn time_of(time: chrono::DateTime<chrono::FixedOffset>) -> String {
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

fn word(is_true: bool) -> &'static str {
    if is_true { "true" } else { "false" }
}

fn reached(run: &RunMeta, sums: &TableTotals) -> &'static str {
    run.sweep
        .least_busbw
        .map_or("unchecked", |least| word(sums.reaches(least)))
}

/// NCCL's number of its version; null where no NCCL ran.
fn nccl_version(run: &RunMeta) -> Option<u32> {
    run.versions
        .get("nccl")
        .and_then(|version| super::table::nccl_code(version))
}

fn errors(run: &RunMeta) -> Vec<&str> {
    run.end
        .iter()
        .map(|end| end.message.as_str())
        .filter(|message| !message.is_empty())
        .collect()
}

fn config(run: &RunMeta) -> Value {
    let asked = &run.sweep;
    let mut config = json!({
        "nthreads": asked.threads,
        "ngpus": asked.gpus,
        "minimum_bytes": asked.begin.0,
        "maximum_bytes": asked.end.0,
        "warmup_iters": asked.warmup,
        "iterations": asked.iters,
        "aggregated_iterations": asked.aggregate,
        "validation": asked.checks,
        "graph": asked.graph,
        "blocking_collectives": word(asked.blocking > 0),
        "per_iter_timing": word(asked.per_iter),
        "per_iter_skip": asked.per_iter_skip,
        "parallel_init": word(asked.parallel_init),
        "devices": run.processes.iter().map(device).collect::<Vec<_>>(),
    });
    config[if asked.step_is_factor {
        "step_factor"
    } else {
        "step_bytes"
    }] = asked.step.into();
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

/// The records of each row: out of place and in place.
fn rows(records: &[Record]) -> Vec<(Option<&Record>, Option<&Record>)> {
    let mut rows: Vec<(Option<&Record>, Option<&Record>)> = Vec::new();
    for record in records
        .iter()
        .filter(|record| record.status != Status::Waived)
    {
        if record.case.buffer_mode == BufferMode::OutOfPlace {
            rows.push((Some(record), None));
            continue;
        }
        // The rows of other communicators may stand between the two halves.
        let is_half = |row: &&mut (Option<&Record>, Option<&Record>)| {
            row.1.is_none() && row.0.is_some_and(|out| is_other_half(out, record))
        };
        match rows.iter_mut().rev().find(is_half) {
            Some(row) => row.1 = Some(record),
            None => rows.push((None, Some(record))),
        }
    }
    rows
}

/// Do both stand in one row?
fn is_other_half(out: &Record, inside: &Record) -> bool {
    let placed = crate::collective::Case {
        buffer_mode: BufferMode::OutOfPlace,
        ..inside.case
    };
    placed == out.case && out.cycle == inside.cycle && out.group == inside.group
}

fn row(run: &RunMeta, out: Option<&Record>, inside: Option<&Record>) -> Value {
    let Some(one) = out.or(inside) else {
        return Value::Null;
    };
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("size", one.case.size().0.into());
    put("count", one.case.counts.param.into());
    put("type", one.case.dtype.name().into());
    put("redop", one.case.redop_name().into());
    put("root", one.case.root_number().into());
    if let Some(group) = one.group {
        put("group", group.into());
    }
    for (key, record) in [("out_of_place", out), ("in_place", inside)] {
        put(key, record.map_or(Value::Null, |record| half(run, record)));
        if let Some(iteration_times) = record.and_then(|record| record.iteration_times.as_ref()) {
            put(&format!("{key}_per_iter"), per_iter(iteration_times));
        }
    }
    put("actual_iterations", run.sweep.iters.into());
    put("experiment_name", one.case.collective.name().into());
    Value::Object(row)
}

fn half(run: &RunMeta, record: &Record) -> Value {
    let (time, bandwidth) = (
        if run.sweep.reports_issue {
            record.issue
        } else {
            record.time
        },
        record.bandwidth(),
    );
    let mut half = json!({
        "alg_bw": bandwidth.map(|(algbw, _)| algbw.0),
        "bus_bw": bandwidth.map(|(_, busbw)| busbw.0),
        "nwrong": record.wrong,
    });
    half[if run.sweep.reports_issue {
        "cpu_time"
    } else {
        "time"
    }] = time.map(|time| time.0).into();
    half
}

fn per_iter(iteration_times: &IterationStats) -> Value {
    json!({
        "skipped_iterations": iteration_times.skipped,
        "min_us": iteration_times.min.0,
        "max_us": iteration_times.max.0,
        "avg_us": iteration_times.mean.0,
        "p50_us": iteration_times.p50.0,
        "p95_us": iteration_times.p95.0,
        "p99_us": iteration_times.p99.0,
        "stdev_us": iteration_times.deviation.0,
        "cv_pct": iteration_times.variation(),
        "times_us": iteration_times.times.iter().map(|time| time.0).collect::<Vec<_>>(),
    })
}
