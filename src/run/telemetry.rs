//! Telemetry of the GPUs that a run uses. One process per node samples them, between the cases all send what they have, and
//! process 0 keeps it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    context::RunContext,
    session::{NodeSampler, Session},
};
use crate::{
    native::nvml::{PcieQuery, slowing_names},
    output::telemetry::TelemetryRow,
    record::{Device, Record, TelemetryMeta},
    slurm::hosts,
    telemetry::{Origin, Probe, Sample, SampledGpu, Sampler, Summary},
    units::counted,
    world::{self, World},
};

/// Samples that a process sends at once.
const PIECE: usize = 1_000;

/// GPUs that a note on a case names.
const MOST_NAMED: usize = 4;

/// The telemetry of a run.
pub(super) struct RunTelemetry {
    interval: Duration,
    /// The samples of this node, if this process takes them.
    sampler: Option<Arc<Sampler>>,
    /// When the current case began, as the sampler counts seconds.
    began: f64,
    /// What each process samples; empty if there is no telemetry.
    sources: Vec<Source>,
    /// The samples so far, for each GPU of each process.
    summaries: Vec<Vec<Summary>>,
    /// What is not known, and the hosts for which that was said.
    unknown: BTreeMap<String, Vec<String>>,
    dropped: Vec<u64>,
}

/// What one process samples.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Source {
    host: String,
    node: u32,
    gpus: Vec<SampledGpu>,
    /// What it cannot sample, and why.
    remarks: Vec<String>,
}

/// A part of what a process has sampled since the last time.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Piece {
    samples: Vec<Sample>,
    /// Beginning and end of the case, as the sampler counts seconds.
    case: Option<(f64, f64)>,
    unknown: Vec<String>,
    dropped: u64,
}

/// What slowed a GPU down during a case.
#[derive(Default)]
struct Slowed {
    mask: u64,
    /// Samples in which something did.
    samples: usize,
    of: usize,
}

impl RunTelemetry {
    /// Starts it, if it is requested. Returns remarks on what cannot be sampled.
    ///
    /// # Errors
    ///
    /// Returns an error if the processes cannot exchange what they sample, or if process 0 cannot write the file.
    pub(super) fn start(
        context: &RunContext,
        session: &Session,
    ) -> anyhow::Result<(RunTelemetry, Vec<String>)> {
        let mut telemetry = RunTelemetry {
            interval: Duration::ZERO,
            sampler: None,
            began: 0.0,
            sources: Vec::new(),
            summaries: Vec::new(),
            unknown: BTreeMap::new(),
            dropped: Vec::new(),
        };
        let Some(interval) = context.request.telemetry else {
            return Ok((telemetry, Vec::new()));
        };
        if !context.backend.uses_gpus() {
            let remark = "--telemetry has no effect: this run uses no GPU".into();
            return Ok((telemetry, vec![remark]));
        }
        telemetry.interval = interval;
        let own = telemetry.start_here(context);
        let sources: Vec<Source> = world::all_gather(context.world, &own)?;
        let mut remarks = remarks(&sources);
        if sources.iter().all(|source| source.gpus.is_empty()) {
            return Ok((telemetry, remarks));
        }
        remarks.extend(session.open_telemetry(context.world)?);
        if let Some(sampler) = &telemetry.sampler {
            session.set_sampler(Some(NodeSampler {
                sampler: Arc::clone(sampler),
                host: own.host,
                node: own.node,
            }));
        }
        telemetry.summaries = sources
            .iter()
            .map(|source| vec![Summary::default(); source.gpus.len()])
            .collect();
        telemetry.dropped = vec![0; sources.len()];
        telemetry.sources = sources;
        Ok((telemetry, remarks))
    }

    /// Starts to sample the GPUs of this node, if this is its first process.
    fn start_here(&mut self, context: &RunContext) -> Source {
        let rank = context.world.rank() as usize;
        let place = context.placements[rank];
        let mut source = Source {
            host: context.processes[rank].peer.host.clone(),
            node: place.node,
            ..Source::default()
        };
        if place.local_rank != 0 {
            return source;
        }
        let used = context.gpus_of_node(place.node);
        match start_sampler(&used, self.interval) {
            Ok((sampler, missing)) => {
                source.gpus = sampler.gpus().to_vec();
                source.remarks.extend(missing);
                self.sampler = Some(Arc::new(sampler));
            }
            Err(why) => source.remarks.push(format!("no telemetry: {why}")),
        }
        source
    }

    /// Notes that a case begins.
    pub(super) fn case_begins(&mut self) {
        if let Some(sampler) = &self.sampler {
            self.began = sampler.seconds();
        }
    }

    /// Gathers the samples since the last time, and notes on process 0 if GPUs were slowed down during the case of `record`,
    /// which has just ended. Every process calls it alike.
    ///
    /// # Errors
    ///
    /// Returns an error if the samples cannot be exchanged, or if process 0 cannot write them.
    pub(super) fn case_ended(
        &mut self,
        record: &mut Record,
        world: &dyn World,
        session: &Session,
    ) -> anyhow::Result<()> {
        let case = self
            .sampler
            .as_ref()
            .map(|sampler| (self.began, sampler.seconds()));
        let slowed = self.gather(case, Some(record), world, session)?;
        if let Some(note) = self.note(&slowed) {
            record.add_note(&note);
        }
        Ok(())
    }

    /// Ends the sampling, and gathers the last samples. Returns what is not known, and why.
    ///
    /// # Errors
    ///
    /// Returns an error as [`RunTelemetry::case_ended`] does.
    pub(super) fn end(
        &mut self,
        world: &dyn World,
        session: &Session,
    ) -> anyhow::Result<Vec<String>> {
        if let Some(sampler) = &self.sampler {
            sampler.end();
        }
        self.gather(None, None, world, session)?;
        session.set_sampler(None);
        self.sampler = None;
        Ok(self.gaps())
    }

    /// Gathers what was sampled since the last time. Returns, on process 0, what slowed each GPU down during the case.
    fn gather(
        &mut self,
        case: Option<(f64, f64)>,
        record: Option<&Record>,
        world: &dyn World,
        session: &Session,
    ) -> anyhow::Result<BTreeMap<(usize, usize), Slowed>> {
        let mut slowed = BTreeMap::new();
        if self.sources.is_empty() {
            return Ok(slowed);
        }
        let mut own: VecDeque<Piece> = self.pieces(case).into();
        loop {
            let piece = own.pop_front().unwrap_or_default();
            // The first byte says whether more comes. The rest is for process 0 alone, and the others do not read it.
            let mut bytes = vec![u8::from(!own.is_empty())];
            serde_json::to_writer(&mut bytes, &piece)?;
            let all = world.all_gather(&bytes);
            let has_more = all.iter().any(|bytes| bytes.first() == Some(&1));
            if world.rank() == 0 {
                for (process, bytes) in all.iter().enumerate() {
                    let piece: Piece = serde_json::from_slice(bytes.get(1..).unwrap_or_default())?;
                    self.add(process, &piece, &mut slowed);
                    session.add_telemetry(&self.rows(process, &piece, record));
                }
            }
            if !has_more {
                break;
            }
        }
        if world.rank() == 0 {
            let meta = self.meta();
            session.change_run(|run| run.telemetry = Some(meta));
        }
        Ok(slowed)
    }

    /// Returns what this process has to send: nothing, or one piece at least.
    fn pieces(&self, case: Option<(f64, f64)>) -> Vec<Piece> {
        let Some(sampler) = &self.sampler else {
            return Vec::new();
        };
        let samples = sampler.take();
        let piece = |samples: &[Sample]| Piece {
            samples: samples.to_vec(),
            case,
            unknown: sampler.gaps().sentences(),
            dropped: sampler.dropped(),
        };
        if samples.is_empty() {
            return vec![piece(&[])];
        }
        samples.chunks(PIECE).map(piece).collect()
    }

    /// Adds what process `process` sent.
    fn add(
        &mut self,
        process: usize,
        piece: &Piece,
        slowed: &mut BTreeMap<(usize, usize), Slowed>,
    ) {
        let host = &self.sources[process].host;
        for sentence in &piece.unknown {
            let hosts = self.unknown.entry(sentence.clone()).or_default();
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        self.dropped[process] = self.dropped[process].max(piece.dropped);
        for sample in &piece.samples {
            if let Some(summary) = self.summaries[process].get_mut(sample.gpu) {
                summary.add(&sample.values);
            }
            if let Some(mask) = sample
                .values
                .throttle
                .filter(|_| is_within(sample, piece.case))
            {
                let slowed = slowed.entry((process, sample.gpu)).or_default();
                slowed.of += 1;
                if !slowing_names(mask).is_empty() {
                    slowed.samples += 1;
                    slowed.mask |= mask;
                }
            }
        }
    }

    fn rows<'a>(
        &'a self,
        process: usize,
        piece: &'a Piece,
        record: Option<&'a Record>,
    ) -> Vec<TelemetryRow<'a>> {
        let source = &self.sources[process];
        let mut rows = Vec::new();
        for sample in &piece.samples {
            let Some(gpu) = source.gpus.get(sample.gpu) else {
                continue;
            };
            rows.push(TelemetryRow {
                origin: Origin {
                    host: &source.host,
                    node: Some(source.node),
                    gpu,
                },
                sample,
                case: record.filter(|_| is_within(sample, piece.case)),
            });
        }
        rows
    }
}

impl RunTelemetry {
    /// Returns the sentences on what is not known, with the hosts for which they hold.
    fn gaps(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (sentence, hosts_of_it) in &self.unknown {
            let names: Vec<&str> = hosts_of_it.iter().map(String::as_str).collect();
            sentences.push(format!(
                "telemetry on {}: {sentence}",
                hosts::compress(&names)
            ));
        }
        sentences
    }

    fn meta(&self) -> TelemetryMeta {
        let mut gpus = Vec::new();
        for (source, summaries) in self.sources.iter().zip(&self.summaries) {
            for (gpu, summary) in source.gpus.iter().zip(summaries) {
                gpus.push(summary.of(&source.host, source.node, gpu));
            }
        }
        TelemetryMeta {
            interval_s: self.interval.as_secs_f64(),
            dropped: self.dropped.iter().sum(),
            unknown: self.gaps(),
            gpus,
        }
    }

    /// Returns a note on the GPUs that were slowed down, with their hosts and what did it.
    fn note(&self, slowed: &BTreeMap<(usize, usize), Slowed>) -> Option<String> {
        let slowed = slowed.iter().filter(|(_, slowed)| slowed.samples > 0);
        let mut named = Vec::new();
        for (&(process, gpu), slowed) in slowed {
            let source = &self.sources[process];
            let index = source.gpus.get(gpu).map_or(0, |gpu| gpu.index);
            named.push(format!(
                "GPU {index} on {} ({}, {} of {})",
                source.host,
                slowing_names(slowed.mask).join("+"),
                slowed.samples,
                counted(slowed.of as u64, "sample")
            ));
        }
        if named.is_empty() {
            return None;
        }
        let others = named.len().saturating_sub(MOST_NAMED);
        named.truncate(MOST_NAMED);
        let mut note = format!("throttled while it ran: {}", named.join(", "));
        if others > 0 {
            note += &format!(" and {}", counted(others as u64, "other GPU"));
        }
        Some(note)
    }
}

/// Returns whether a sample was taken during a case.
fn is_within(sample: &Sample, case: Option<(f64, f64)>) -> bool {
    case.is_some_and(|(began, ended)| (began..=ended).contains(&sample.seconds))
}

/// Starts to sample the GPUs that are used. Returns remarks on those that NVML does not show.
fn start_sampler(used: &[&Device], interval: Duration) -> Result<(Sampler, Vec<String>), String> {
    let mut probe = Probe::open(PcieQuery::CountersOnly)?;
    probe.keep(|gpu| used.iter().any(|device| is_same(gpu, device)));
    let missing = used
        .iter()
        .filter(|device| !probe.gpus().iter().any(|gpu| is_same(gpu, device)));
    let missing: Vec<&str> = missing.map(|device| device.bus.as_str()).collect();
    if probe.gpus().is_empty() {
        return Err(format!(
            "NVML shows none of the GPUs in use ({})",
            missing.join(", ")
        ));
    }
    let remarks = if missing.is_empty() {
        Vec::new()
    } else {
        let missing = missing.join(", ");
        vec![format!(
            "no telemetry of {missing}: NVML does not show it to the first process of the node"
        )]
    };
    let sampler = Sampler::start(probe, interval)
        .map_err(|error| format!("the system starts no thread: {error}"))?;
    Ok((sampler, remarks))
}

/// Returns whether CUDA's device is NVML's GPU.
fn is_same(gpu: &SampledGpu, device: &Device) -> bool {
    let has_same_uuid = !gpu.uuid.is_empty() && gpu.uuid == device.uuid;
    // CUDA's address has no function: `0000:18:00`.
    has_same_uuid || (!device.bus.is_empty() && gpu.bus_id.starts_with(&format!("{}.", device.bus)))
}

/// Returns the remarks of all processes, each once with its hosts.
fn remarks(sources: &[Source]) -> Vec<String> {
    let mut by_remark: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for remark in &source.remarks {
            by_remark.entry(remark).or_default().push(&source.host);
        }
    }
    let mut remarks = Vec::new();
    for (remark, hosts_of_it) in by_remark {
        remarks.push(format!("{remark} (on {})", hosts::compress(&hosts_of_it)));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telemetry(gpus: u32) -> RunTelemetry {
        let gpus: Vec<SampledGpu> = (0..gpus)
            .map(|index| SampledGpu {
                index,
                ..SampledGpu::default()
            })
            .collect();
        RunTelemetry {
            interval: Duration::from_secs(1),
            sampler: None,
            began: 0.0,
            summaries: vec![vec![Summary::default(); gpus.len()]],
            sources: vec![Source {
                host: "n1".into(),
                gpus,
                ..Source::default()
            }],
            unknown: BTreeMap::new(),
            dropped: vec![0],
        }
    }

    fn sample(seconds: f64, gpu: usize, throttle: Option<u64>) -> Sample {
        Sample {
            time: crate::record::exact_now(),
            seconds,
            gpu,
            values: crate::telemetry::Values {
                throttle,
                ..Default::default()
            },
        }
    }

    #[test]
    fn only_samples_of_the_case_and_only_what_slows_a_gpu_down_count() {
        let mut telemetry = telemetry(2);
        let piece = Piece {
            samples: vec![
                sample(0.9, 0, Some(0x40)),
                sample(1.0, 0, Some(0x4)),
                sample(1.5, 0, Some(0x1)),
                sample(2.0, 0, Some(0x20)),
                sample(1.5, 1, Some(0x3)),
                sample(1.6, 1, None),
                sample(2.1, 1, Some(0x4)),
            ],
            case: Some((1.0, 2.0)),
            ..Piece::default()
        };
        let mut slowed = BTreeMap::new();
        telemetry.add(0, &piece, &mut slowed);
        assert_eq!(
            telemetry.note(&slowed).as_deref(),
            Some(
                "throttled while it ran: GPU 0 on n1 (power cap+thermal slowdown, 2 of 3 samples)"
            )
        );
        let limited = telemetry.meta().gpus[0].limited.clone().expect("known");
        assert_eq!(limited["hardware thermal slowdown"], 0.25);
    }

    #[test]
    fn a_note_names_some_gpus_and_counts_the_others() {
        let mut telemetry = telemetry(6);
        let piece = Piece {
            samples: (0..6).map(|gpu| sample(1.0, gpu, Some(0x4))).collect(),
            case: Some((0.0, 2.0)),
            ..Piece::default()
        };
        let mut slowed = BTreeMap::new();
        telemetry.add(0, &piece, &mut slowed);
        let note = telemetry.note(&slowed).expect("a note");
        assert!(
            note.ends_with("GPU 3 on n1 (power cap, 1 of 1 sample) and 2 other GPUs"),
            "{note}"
        );
        assert_eq!(telemetry.note(&BTreeMap::new()), None);
    }

    #[test]
    fn cudas_device_is_found_by_uuid_or_address() {
        let gpu = SampledGpu {
            index: 0,
            uuid: "GPU-1".into(),
            bus_id: "0000:18:00.0".into(),
            name: String::new(),
        };
        let device = |uuid: &str, bus: &str| Device {
            uuid: uuid.into(),
            bus: bus.into(),
            ..Device::default()
        };
        assert!(is_same(&gpu, &device("GPU-1", "")));
        assert!(is_same(&gpu, &device("MIG-7", "0000:18:00")));
        assert!(!is_same(&gpu, &device("GPU-2", "0000:19:00")));
        assert!(!is_same(&SampledGpu::default(), &device("", "")));
    }
}
