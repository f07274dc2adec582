//! The results for Prometheus, in the text format that node_exporter's text-file collector reads:
//! base units, one family per quantity. Words of a run that change each time are labels of one
//! metric only, so that the number of series stays that of the cases.

use prometheus::{
    Encoder, Error, Gauge, GaugeVec, IntCounter, IntCounterVec, Opts, Registry, TextEncoder,
};

use super::{
    content::Content,
    line_conditions::CONDITIONS,
    panel::{Line, Panel, Point},
    replays::{ModeTimes, ReplayedStep},
    source::Source,
    stragglers::{LateRank, Stragglers},
};

/// The labels that tell a case. Those of [`CONDITIONS`] follow.
const CASE: [&str; 8] = [
    "collective",
    "type",
    "redop",
    "root",
    "pattern",
    "placement",
    "size_bytes",
    "level",
];

/// The labels of `pxnbench_run_info`.
const RUN: [&str; 5] = ["run_id", "version", "started_at", "job_id", "hosts"];

/// The labels of `pxnbench_straggler_late_seconds`.
const STRAGGLER: [&str; 6] = ["rank", "host", "device", "late", "collective", "size_bytes"];

/// The labels that tell a training step. The times have its mode as well.
const STEP: [&str; 4] = ["workload", "level", "ranks", "mode"];

/// A quantity of a case.
struct Family {
    name: &'static str,
    help: &'static str,
    of: fn(&Point) -> Option<f64>,
}

const FAMILIES: [Family; 8] = [
    Family {
        name: "pxnbench_time_seconds",
        help: "Time of one operation, geometric mean over repetitions.",
        of: |point| Some(point.time.value * 1e-6),
    },
    Family {
        name: "pxnbench_time_low_seconds",
        help: "Lower end of the 95 % interval of the time.",
        of: |point| Some(point.time.interval?.0 * 1e-6),
    },
    Family {
        name: "pxnbench_time_high_seconds",
        help: "Upper end of the 95 % interval of the time.",
        of: |point| Some(point.time.interval?.1 * 1e-6),
    },
    Family {
        name: "pxnbench_bus_bandwidth_bytes_per_second",
        help: "Bus bandwidth by nccl-tests' factors, geometric mean over repetitions.",
        of: |point| Some(point.busbw?.value * 1e9),
    },
    Family {
        name: "pxnbench_peak_bus_bandwidth_bytes_per_second",
        help: "The most bus bandwidth that the links of the job allow.",
        of: |point| Some(point.peak? * 1e9),
    },
    Family {
        name: "pxnbench_peak_ratio",
        help: "Bus bandwidth divided by its peak.",
        of: |point| Some(point.busbw?.value / point.peak.filter(|peak| *peak > 0.0)?),
    },
    Family {
        name: "pxnbench_repetitions",
        help: "Repetitions that the means are over.",
        of: |point| Some(f64::from(point.time.count)),
    },
    Family {
        name: "pxnbench_wrong_elements",
        help: "Wrong elements over all ranks and repetitions; absent if no data were checked.",
        of: |point| Some(point.wrong? as f64),
    },
];

/// Renders all metrics.
///
/// # Errors
///
/// Returns an error if the library does; that would be a bug.
pub(super) fn render(content: &Content) -> anyhow::Result<Vec<u8>> {
    let registry = Registry::new();
    register_cases(&registry, content)?;
    register_rows(&registry, content)?;
    register_stragglers(&registry, &content.stragglers)?;
    register_steps(&registry, &content.replays)?;
    register_runs(&registry, &content.sources)?;
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(text)
}

fn register_cases(registry: &Registry, content: &Content) -> Result<(), Error> {
    let labels: Vec<&str> = CASE.into_iter().chain(CONDITIONS).collect();
    for family in &FAMILIES {
        let gauges = GaugeVec::new(Opts::new(family.name, family.help), &labels)?;
        for panel in &content.results.panels {
            for line in &panel.lines {
                set_line(&gauges, family, panel, line)?;
            }
        }
        registry.register(Box::new(gauges))?;
    }
    Ok(())
}

fn set_line(gauges: &GaugeVec, family: &Family, panel: &Panel, line: &Line) -> Result<(), Error> {
    let case = &panel.case;
    let root = case.root.to_string();
    for point in &line.points {
        let Some(value) = (family.of)(point) else {
            continue;
        };
        let size = point.size.to_string();
        let mut labels = vec![
            case.collective,
            &case.dtype,
            &case.redop,
            &root,
            &case.pattern,
            case.placement(),
            &size,
            &line.variant,
        ];
        labels.extend(line.conditions.iter().map(String::as_str));
        gauges.get_metric_with_label_values(&labels)?.set(value);
    }
    Ok(())
}

fn register_rows(registry: &Registry, content: &Content) -> Result<(), Error> {
    let counts = content.results.counts;
    let help = "Rows by their outcome.";
    let rows = IntCounterVec::new(Opts::new("pxnbench_rows_total", help), &["status"])?;
    for (status, count) in [
        ("ok", counts.ok),
        ("wrong", counts.wrong),
        ("unchecked", counts.unchecked),
        ("computed", counts.computed),
        ("waived", counts.waived),
    ] {
        rows.get_metric_with_label_values(&[status])?.inc_by(count);
    }
    registry.register(Box::new(rows))?;
    let help = "Wrong elements over all rows.";
    let wrong = IntCounter::new("pxnbench_wrong_elements_found_total", help)?;
    wrong.inc_by(counts.wrong_elements);
    registry.register(Box::new(wrong))
}

/// Registers the training steps; nothing if none was replayed. Of several runs of one, the latest
/// counts.
fn register_steps(registry: &Registry, replays: &[ReplayedStep]) -> Result<(), Error> {
    if replays.is_empty() {
        return Ok(());
    }
    let gauges = |name: &str, help: &str, labels: &[&str]| {
        let gauges = GaugeVec::new(Opts::new(name, help), labels)?;
        registry.register(Box::new(gauges.clone()))?;
        Ok::<GaugeVec, Error>(gauges)
    };
    let times = gauges(
        "pxnbench_step_time_seconds",
        "Time of a training step, geometric mean over blocks.",
        &STEP,
    )?;
    let exposed = gauges(
        "pxnbench_step_exposed_ratio",
        "Exposed communication divided by the time of the training step.",
        &STEP[..3],
    )?;
    let wrong = gauges(
        "pxnbench_step_wrong_elements",
        "Wrong elements in the collectives of a training step; absent if no data were checked.",
        &STEP[..3],
    )?;
    for replay in replays {
        let ranks = replay.ranks.to_string();
        let step = [&*replay.summary.workload, &replay.label, &ranks];
        for ModeTimes { mode, estimate, .. } in &replay.modes {
            let labels = [step[0], step[1], step[2], mode.name()];
            times
                .get_metric_with_label_values(&labels)?
                .set(estimate.value * 1e-6);
        }
        if let Some(communication) = &replay.summary.exposed {
            exposed
                .get_metric_with_label_values(&step)?
                .set(communication.share);
        }
        if replay.summary.checked > 0 {
            wrong
                .get_metric_with_label_values(&step)?
                .set(replay.summary.wrong as f64);
        }
    }
    Ok(())
}

/// Registers which ranks are late, and by how much; nothing if nobody looked.
fn register_stragglers(registry: &Registry, stragglers: &Stragglers) -> Result<(), Error> {
    if stragglers.searches == 0 {
        return Ok(());
    }
    let help = "Late ranks, each once per way of being late.";
    let count = Gauge::new("pxnbench_stragglers", help)?;
    count.set(stragglers.late.len() as f64);
    registry.register(Box::new(count))?;
    let help = "Median lateness of a late rank in its worst case.";
    let late = GaugeVec::new(
        Opts::new("pxnbench_straggler_late_seconds", help),
        &STRAGGLER,
    )?;
    for LateRank { straggler, .. } in &stragglers.late {
        let (rank, size) = (straggler.rank.to_string(), straggler.size.0.to_string());
        let labels = [
            rank.as_str(),
            &straggler.host,
            &straggler.device,
            straggler.late.name(),
            straggler.collective.name(),
            &size,
        ];
        // Of several runs the latest.
        late.get_metric_with_label_values(&labels)?
            .set(straggler.late_us * 1e-6);
    }
    registry.register(Box::new(late))
}

/// Registers the runs: each by name, and when and how the latest one ended.
fn register_runs(registry: &Registry, sources: &[Source]) -> Result<(), Error> {
    let help = "A run of the report; the value is 1.";
    let info = GaugeVec::new(Opts::new("pxnbench_run_info", help), &RUN)?;
    let mut runs: Vec<_> = sources
        .iter()
        .filter_map(|source| source.run.as_ref())
        .collect();
    for run in &runs {
        let started = run.started_at.to_rfc3339();
        let job = run
            .job
            .as_ref()
            .map(|job| job.id.to_string())
            .unwrap_or_default();
        let hosts = run.measured_on().hosts;
        let labels = [&run.run_id, &run.pxnbench, &started, &job, &hosts];
        info.get_metric_with_label_values(&labels)?.set(1.0);
    }
    registry.register(Box::new(info))?;
    runs.sort_by_key(|run| run.ended_at);
    let Some(latest) = runs.last() else {
        return Ok(());
    };
    if let Some(at) = latest.ended_at {
        let help = "When the latest run ended, as seconds since 1970.";
        let gauge = Gauge::new("pxnbench_last_end_timestamp_seconds", help)?;
        gauge.set(at.timestamp_millis() as f64 / 1e3);
        registry.register(Box::new(gauge))?;
    }
    if let Some(end) = &latest.end {
        let gauge = Gauge::new("pxnbench_last_exit_code", "Exit code of the latest run.")?;
        gauge.set(f64::from(end.code));
        registry.register(Box::new(gauge))?;
    }
    Ok(())
}
