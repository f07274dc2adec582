//! [`Replayed`]: the result of a replay as CSV and JSON.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    exposure::Exposure, kind::CollectiveKind, parts::CommunicationParts, proof::ReplayProof,
    quartiles::Quartiles, result::ReplayResult,
};
use crate::{
    backend::step::{ComputeOptions, StepMode},
    record::RunMeta,
    units::{Micros, significant},
    workload::Step,
};

/// The name of the file with the workload, the conditions and the summary.
pub const REPLAY_JSON: &str = "replay.json";

/// The name of the file with every timed step.
pub const STEPS_CSV: &str = "steps.csv";

/// The version of the files' format.
const FORMAT: u32 = 1;

/// The name of the file that shows when the operations of a step ran, as a Chrome trace.
pub const TIMELINE_JSON: &str = "timeline.json";

/// A row of `steps.csv`.
#[derive(Serialize)]
struct StepRow<'a> {
    workload: &'a str,
    level: &'a str,
    mode: &'static str,
    block: u32,
    step: u32,
    time_us: f64,
}

/// A row of `collectives.csv`, and an entry of `collectives` in `replay.json`.
#[derive(Serialize)]
struct CollectiveRow<'a> {
    workload: &'a str,
    level: &'a str,
    collective: &'static str,
    size_bytes: u64,
    r#type: &'static str,
    redop: &'static str,
    group: String,
    ranks: u64,
    stream: String,
    count: usize,
    alone_us: Option<f64>,
    #[serde(rename = "alone_busbw_GBps")]
    alone_busbw: Option<f64>,
    in_step_us: Option<f64>,
    #[serde(rename = "in_step_busbw_GBps")]
    in_step_busbw: Option<f64>,
    /// Whether a connection leaves through the NIC of another GPU. Like the next three, only with
    /// `--proof`.
    pxn: Option<&'static str>,
    transport: Option<String>,
    /// The connections that send over a network.
    sends: Option<u64>,
    /// The sends that leave through the NIC of another GPU.
    relayed_sends: Option<u64>,
}

/// A replayed workload, and the conditions of the replay.
#[derive(Clone, Debug)]
pub struct Replayed<'a> {
    /// The workload's name.
    pub name: &'a str,
    /// What it stands for.
    pub about: &'a str,
    /// The workload as a file.
    pub toml: &'a str,
    /// Identifies the workload apart from the size of its buckets.
    pub shape: &'a str,
    /// The size of its buckets in MiB, if `--bucket-mb` chooses it.
    pub bucket_mb: Option<f64>,
    /// Its step on these ranks.
    pub step: &'a Step,
    /// How computation was imitated.
    pub compute: ComputeOptions,
    /// The run that it was measured in.
    pub run: RunMeta,
    /// What NCCL's logs show of its connections, with `--proof`.
    pub proof: Option<ReplayProof>,
}

impl Replayed<'_> {
    fn level(&self) -> &str {
        &self.run.level
    }

    /// Returns `steps.csv`: each timed step.
    ///
    /// # Errors
    /// Returns an error if a row cannot be written, which would be a bug.
    pub fn steps_csv(&self, result: &ReplayResult) -> anyhow::Result<String> {
        let mut rows = Vec::new();
        for sample in &result.samples {
            rows.push(StepRow {
                workload: self.name,
                level: self.level(),
                mode: sample.mode.name(),
                block: sample.block,
                step: sample.step,
                time_us: rounded(sample.time.0),
            });
        }
        csv_of(&rows)
    }

    /// Returns `collectives.csv`: each kind of collective, alone and in the step.
    ///
    /// # Errors
    /// Returns an error if a row cannot be written, which would be a bug.
    pub fn collectives_csv(&self, result: &ReplayResult) -> anyhow::Result<String> {
        csv_of(&self.collectives(result))
    }

    /// Returns each kind of collective, alone and in the step.
    fn collectives(&self, result: &ReplayResult) -> Vec<CollectiveRow<'_>> {
        let mut rows = Vec::new();
        for kind in CollectiveKind::of_step(self.step, result) {
            let proof = self.proof.as_ref().map(|proof| proof.of(self.step, &kind));
            let sends = proof.as_ref().and_then(|proof| proof.sends);
            rows.push(CollectiveRow {
                workload: self.name,
                level: self.level(),
                collective: kind.case.collective.name(),
                size_bytes: kind.case.size().0,
                r#type: kind.case.dtype.name(),
                redop: kind.case.redop.map_or("none", |redop| redop.name()),
                group: kind.group.clone(),
                ranks: kind.case.ranks,
                stream: kind.stream.clone(),
                count: kind.operations.len(),
                alone_us: time(kind.alone),
                alone_busbw: kind.busbw(kind.alone).map(|busbw| rounded(busbw.0)),
                in_step_us: time(kind.in_step),
                in_step_busbw: kind.busbw(kind.in_step).map(|busbw| rounded(busbw.0)),
                pxn: proof.as_ref().map(|proof| proof.pxn.label()),
                transport: proof.map(|proof| proof.transport),
                sends: sends.map(|sends| sends.sends),
                relayed_sends: sends.map(|sends| sends.relayed),
            });
        }
        rows
    }

    /// Returns `replay.json`: the workload, the conditions, and the times of each mode.
    pub fn json(&self, result: &ReplayResult) -> Value {
        let mut modes = serde_json::Map::new();
        for mode in StepMode::ALL {
            let times: Option<Quartiles> = result.times(mode);
            modes.insert(mode.name().into(), json!(times));
        }
        json!({
            "format": FORMAT,
            "workload": self.name,
            "about": self.about,
            "toml": self.toml,
            "shape": self.shape,
            "bucket_mb": self.bucket_mb,
            "compute": {
                "multiprocessors": self.compute.multiprocessors,
                "kernel_us": self.compute.kernel.0,
            },
            "modes": modes,
            "exposed": Exposure::of(result),
            "communication": CommunicationParts::of(self.step, result),
            "collectives": self.collectives(result),
            "checked": result.checked,
            "wrong": result.wrong,
            "wrong_operations": result.wrong_operations,
            "stopped": result.is_stopped,
            "run": &self.run,
        })
    }
}

fn csv_of<Row: Serialize>(rows: &[Row]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn time(time: Option<Micros>) -> Option<f64> {
    time.map(|time| rounded(time.0))
}

fn rounded(value: f64) -> f64 {
    significant(value, 6)
}
