//! `telemetry.csv` over time: clocks, temperature, power and use of the GPUs.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use super::{
    line_plot::{MOST_LINES, PlotLine, PlotPoint},
    source::Source,
};
use crate::{exit::Failure, native::nvml::is_slowed, record::read::RowReader};

/// Points of a curve.
const MOST_BINS: usize = 240;

/// A value of a row.
type Value = fn(&Row) -> Option<f64>;

/// What is drawn of the file's columns.
const QUANTITIES: [(&str, Value); 4] = [
    ("SM clock (MHz)", |row| row.sm_clock),
    ("temperature (°C)", |row| row.temperature),
    ("power (W)", |row| row.power),
    ("utilization (%)", |row| row.utilization),
];

/// The columns of a row that a report shows.
#[derive(Deserialize)]
struct Row<'a> {
    seconds: f64,
    host: &'a str,
    gpu: u32,
    #[serde(rename = "sm_clock_MHz")]
    sm_clock: Option<f64>,
    #[serde(rename = "temperature_C")]
    temperature: Option<f64>,
    #[serde(rename = "power_W")]
    power: Option<f64>,
    #[serde(rename = "utilization_pct")]
    utilization: Option<f64>,
    #[serde(borrow, default)]
    throttle: &'a str,
}

/// The curves of one quantity in one run.
pub(super) struct Quantity {
    pub(super) name: &'static str,
    pub(super) lines: Vec<PlotLine>,
    /// By line: the least, the mean and the most of all samples.
    pub(super) extents: Vec<Summary>,
    /// What was left out; empty if nothing was.
    pub(super) thinned: String,
}

/// What a curve amounts to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) low: f64,
    pub(super) mean: f64,
    pub(super) high: f64,
    pub(super) samples: u64,
}

/// The telemetry of one run.
pub(super) struct Telemetry {
    /// The folder of the run.
    pub(super) run: String,
    pub(super) quantities: Vec<Quantity>,
    /// Reasons that limited the clocks, with the number of samples.
    pub(super) throttled: Vec<(String, u64)>,
}

/// Sums of samples over equal parts of the time. The parts grow with the time, so that memory does not.
struct Curve {
    width: f64,
    bins: Vec<(f64, u64)>,
    summary: Summary,
}

#[derive(Default)]
struct Collector {
    /// By GPU: host and number.
    curves: BTreeMap<(String, u32), [Option<Curve>; QUANTITIES.len()]>,
    throttled: BTreeMap<String, u64>,
}

/// Reads the `telemetry.csv` of all sources that have one.
///
/// # Errors
///
/// Returns an error if one cannot be read.
pub(super) fn read(sources: &[Source]) -> anyhow::Result<Vec<Telemetry>> {
    let mut all = Vec::new();
    for source in sources {
        let path = source.folder.join("telemetry.csv");
        if path.is_file() {
            let telemetry =
                read_one(&path).map_err(|error| Failure::of_file("read", &path, &error))?;
            all.push(Telemetry {
                run: source.folder.display().to_string(),
                ..telemetry
            });
        }
    }
    Ok(all)
}

fn read_one(path: &Path) -> Result<Telemetry, csv::Error> {
    let mut reader = RowReader::open(path)?;
    let mut collector = Collector::default();
    while let Some(row) = reader.read_row::<Row>()? {
        collector.add(&row);
    }
    Ok(collector.telemetry())
}

impl Collector {
    fn add(&mut self, row: &Row) {
        let curves = self
            .curves
            .entry((row.host.to_owned(), row.gpu))
            .or_default();
        for (curve, (_, value)) in curves.iter_mut().zip(QUANTITIES) {
            if let Some(value) = value(row) {
                curve.get_or_insert_with(Curve::new).add(row.seconds, value);
            }
        }
        if is_slowed(row.throttle) {
            *self.throttled.entry(row.throttle.to_owned()).or_default() += 1;
        }
    }

    fn telemetry(self) -> Telemetry {
        let mut quantities = Vec::new();
        for (place, (name, _)) in QUANTITIES.iter().enumerate() {
            let (mut lines, mut extents) = (Vec::new(), Vec::new());
            for ((host, gpu), curves) in &self.curves {
                let Some(curve) = &curves[place] else {
                    continue;
                };
                lines.push(curve.line(format!("{host} GPU {gpu}")));
                extents.push(curve.summary);
            }
            if !lines.is_empty() {
                quantities.push(Quantity {
                    name,
                    thinned: thinned(lines.len()),
                    lines,
                    extents,
                });
            }
        }
        Telemetry {
            run: String::new(),
            quantities,
            throttled: self.throttled.into_iter().collect(),
        }
    }
}

fn thinned(lines: usize) -> String {
    let mut sentence =
        format!("Each point is the mean of one of at most {MOST_BINS} equal parts of the time.");
    if lines > MOST_LINES {
        sentence += &format!(
            " {MOST_LINES} of {lines} GPUs are drawn: those with the lowest and the highest means."
        );
    }
    sentence
}

impl Quantity {
    /// Returns the curves that are drawn: all, or those with the lowest and the highest means.
    pub(super) fn drawn(&self) -> Vec<PlotLine> {
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        if order.len() > MOST_LINES {
            order.sort_by(|a, b| self.extents[*a].mean.total_cmp(&self.extents[*b].mean));
            let upper = order.len() - MOST_LINES / 2;
            order.drain(MOST_LINES / 2..upper);
        }
        order.into_iter().map(|at| self.lines[at].clone()).collect()
    }
}

impl Curve {
    fn new() -> Curve {
        Curve {
            width: 0.1,
            bins: Vec::new(),
            summary: Summary {
                low: f64::INFINITY,
                mean: 0.0,
                high: f64::NEG_INFINITY,
                samples: 0,
            },
        }
    }

    fn add(&mut self, seconds: f64, value: f64) {
        if !seconds.is_finite() || seconds < 0.0 {
            return;
        }
        while seconds / self.width >= MOST_BINS as f64 {
            self.width *= 2.0;
            let pairs = self.bins.chunks(2);
            let merge = |pair: &[(f64, u64)]| {
                pair.iter()
                    .fold((0.0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1))
            };
            self.bins = pairs.map(merge).collect();
        }
        let place = (seconds / self.width) as usize;
        if self.bins.len() <= place {
            self.bins.resize(place + 1, (0.0, 0));
        }
        self.bins[place].0 += value;
        self.bins[place].1 += 1;
        let summary = &mut self.summary;
        summary.samples += 1;
        summary.low = summary.low.min(value);
        summary.high = summary.high.max(value);
        summary.mean += (value - summary.mean) / summary.samples as f64;
    }

    fn line(&self, label: String) -> PlotLine {
        let mut points = Vec::new();
        for (place, (sum, count)) in self.bins.iter().enumerate() {
            if *count > 0 {
                points.push(PlotPoint {
                    x: (place as f64 + 0.5) * self.width,
                    y: sum / *count as f64,
                    interval: None,
                });
            }
        }
        PlotLine { label, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_has_no_more_points_and_the_same_mean() {
        let mut curve = Curve::new();
        for at in 0..100_000 {
            curve.add(f64::from(at), f64::from(at % 2));
        }
        let line = curve.line(String::new());
        assert!(line.points.len() <= MOST_BINS && line.points.len() > MOST_BINS / 4);
        assert!(line.points.iter().all(|point| (point.y - 0.5).abs() < 0.01));
        assert!((curve.summary.mean - 0.5).abs() < 1e-9);
        assert_eq!(curve.summary.samples, 100_000);
    }
}
