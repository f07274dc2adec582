//! What was sampled over time: `telemetry.csv`, which has clocks, temperature, power and use of the
//! GPUs, and `samples.csv`, which has the throughput of a sweep that is repeated for a time.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    curve::{Curve, Quantity},
    side_file::each_row,
    source::Source,
};
use crate::{
    native::nvml::is_slowed,
    record::{RowError, RowReader, read::finite},
    units::{Bytes, GBps},
};

/// A value of a row.
type Value = fn(&Row) -> Option<f64>;

/// What is drawn of the columns of `telemetry.csv`.
const QUANTITIES: [(&str, Value); 4] = [
    ("SM clock (MHz)", |row| row.sm_clock),
    ("temperature (°C)", |row| row.temperature),
    ("power (W)", |row| row.power),
    ("utilization (%)", |row| row.utilization),
];

/// The columns of a row of `telemetry.csv` that a report shows.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(deserialize_with = "finite")]
    seconds: Option<f64>,
    host: &'a str,
    gpu: u32,
    #[serde(rename = "sm_clock_MHz", default, deserialize_with = "finite")]
    sm_clock: Option<f64>,
    #[serde(rename = "temperature_C", default, deserialize_with = "finite")]
    temperature: Option<f64>,
    #[serde(rename = "power_W", default, deserialize_with = "finite")]
    power: Option<f64>,
    #[serde(rename = "utilization_pct", default, deserialize_with = "finite")]
    utilization: Option<f64>,
    #[serde(borrow, default)]
    throttle: &'a str,
}

/// The columns of a row of `samples.csv` that a report shows.
#[derive(Deserialize)]
struct ThroughputRow<'a> {
    #[serde(deserialize_with = "finite")]
    elapsed_s: Option<f64>,
    collective: &'a str,
    size_bytes: u64,
    r#type: &'a str,
    redop: &'a str,
    in_place: u8,
    #[serde(rename = "busbw_GBps")]
    busbw: Option<GBps>,
}

/// What was sampled in one run.
pub(super) struct Telemetry {
    /// The folder of the run.
    pub(super) run: String,
    pub(super) quantities: Vec<Quantity>,
    /// Reasons that limited the clocks, with the number of samples.
    pub(super) throttled: Vec<(String, u64)>,
}

#[derive(Default)]
struct Collector {
    /// By case.
    throughput: BTreeMap<(String, u64, String), Curve>,
    /// By GPU: host and number.
    gpus: BTreeMap<(String, u32), [Option<Curve>; QUANTITIES.len()]>,
    throttled: BTreeMap<String, u64>,
}

/// Reads `samples.csv` and `telemetry.csv` of all sources that have one. What is wrong with a file
/// is added to `notes`.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> Vec<Telemetry> {
    let mut all = Vec::new();
    for source in sources {
        let mut collector = Collector::default();
        if let Some(path) = source.file("samples.csv") {
            each_row(&path, notes, |reader| collector.add_throughput(reader));
        }
        if let Some(path) = source.file("telemetry.csv") {
            each_row(&path, notes, |reader| collector.add_gpu(reader));
        }
        all.push(collector.telemetry(source.folder.display().to_string()));
    }
    all.retain(|telemetry| !telemetry.quantities.is_empty());
    all
}

impl Collector {
    /// Adds the next row of `samples.csv`, and returns whether there is one.
    fn add_throughput(&mut self, reader: &mut RowReader) -> Result<bool, RowError> {
        let Some(row) = reader.read_row::<ThroughputRow>()? else {
            return Ok(false);
        };
        if let (Some(seconds), Some(busbw)) = (row.elapsed_s, row.busbw) {
            let key = (row.collective.to_owned(), row.size_bytes, row.buffers());
            let curve = self.throughput.entry(key).or_insert_with(Curve::new);
            curve.add(seconds, busbw.0);
        }
        Ok(true)
    }

    /// Adds the next row of `telemetry.csv`, and returns whether there is one.
    fn add_gpu(&mut self, reader: &mut RowReader) -> Result<bool, RowError> {
        let Some(row) = reader.read_row::<Row>()? else {
            return Ok(false);
        };
        let curves = self.gpus.entry((row.host.to_owned(), row.gpu)).or_default();
        for (curve, (_, value)) in curves.iter_mut().zip(QUANTITIES) {
            if let (Some(seconds), Some(value)) = (row.seconds, value(&row)) {
                curve.get_or_insert_with(Curve::new).add(seconds, value);
            }
        }
        if is_slowed(row.throttle) {
            *self.throttled.entry(row.throttle.to_owned()).or_default() += 1;
        }
        Ok(true)
    }

    fn telemetry(self, run: String) -> Telemetry {
        let mut quantities = Vec::new();
        let throughput = self
            .throughput
            .iter()
            .map(|((collective, size, buffers), curve)| {
                (format!("{collective} {}, {buffers}", Bytes(*size)), curve)
            });
        quantities.extend(Quantity::new("bus bandwidth (GB/s)", "case", throughput));
        for (place, (name, _)) in QUANTITIES.iter().enumerate() {
            let gpus = self.gpus.iter().filter_map(|((host, gpu), curves)| {
                Some((format!("{host} GPU {gpu}"), curves[place].as_ref()?))
            });
            quantities.extend(Quantity::new(name, "GPU", gpus));
        }
        Telemetry {
            run,
            quantities,
            throttled: self.throttled.into_iter().collect(),
        }
    }
}

impl ThroughputRow<'_> {
    /// Returns what tells the case from others of its collective and size.
    fn buffers(&self) -> String {
        let place = match self.in_place {
            1 => "in place",
            _ => "out of place",
        };
        match self.redop {
            "none" => format!("{}, {place}", self.r#type),
            redop => format!("{}, {redop}, {place}", self.r#type),
        }
    }
}
