//! Telemetry of the GPUs that a run uses. One process per node samples them, between the cases all
//! send what they have, and process 0 keeps it.

mod findings;
mod start;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::{
    findings::{SlowedGpus, TelemetryFindings, TelemetryPiece, TelemetrySource},
    start::start_sampler,
};
use super::{
    context::RunContext,
    session::{NodeSampler, Session},
};
use crate::{
    record::Record,
    slurm::hosts,
    telemetry::{Sample, Sampler},
    world::{self, World},
};

/// Samples that a process sends at once.
const PIECE: usize = 1_000;

/// The telemetry of a run.
pub(super) struct RunTelemetry {
    interval: Duration,
    /// The samples of this node, if this process takes them.
    sampler: Option<Arc<Sampler>>,
    /// When the current case began, as the sampler counts seconds.
    began: f64,
    /// What is known so far.
    found: TelemetryFindings,
}

impl RunTelemetry {
    /// Starts it, if it is requested. Returns remarks on what cannot be sampled.
    ///
    /// # Errors
    ///
    /// Returns an error if the processes cannot exchange what they sample, or if process 0 cannot
    /// write the file.
    pub(super) fn start(
        context: &RunContext,
        session: &Session,
    ) -> anyhow::Result<(RunTelemetry, Vec<String>)> {
        let mut telemetry = RunTelemetry {
            interval: Duration::ZERO,
            sampler: None,
            began: 0.0,
            found: TelemetryFindings::default(),
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
        let sources: Vec<TelemetrySource> = world::all_gather(context.world, &own)?;
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
        telemetry.found = TelemetryFindings::of(sources);
        Ok((telemetry, remarks))
    }

    /// Starts to sample the GPUs of this node, if this is its first process.
    fn start_here(&mut self, context: &RunContext) -> TelemetrySource {
        let rank = context.world.rank() as usize;
        let place = context.placements[rank];
        let mut source = TelemetrySource {
            host: context.processes[rank].peer.host.clone(),
            node: place.node,
            ..TelemetrySource::default()
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

    /// Gathers the samples since the last time, and notes on process 0 if GPUs were slowed down
    /// during the case of `record`, which has just ended. Every process calls it alike.
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
        if let Some(note) = self.found.note(&slowed) {
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
        Ok(self.found.gaps())
    }

    /// Gathers what was sampled since the last time. Returns, on process 0, what slowed each GPU
    /// down during the case.
    fn gather(
        &mut self,
        case: Option<(f64, f64)>,
        record: Option<&Record>,
        world: &dyn World,
        session: &Session,
    ) -> anyhow::Result<SlowedGpus> {
        let mut slowed = SlowedGpus::new();
        if self.found.is_empty() {
            return Ok(slowed);
        }
        let mut own: VecDeque<TelemetryPiece> = self.pieces(case).into();
        loop {
            let piece = own.pop_front().unwrap_or_default();
            // The first byte says whether more comes. The rest is for process 0 alone, and the
            // others do not read it.
            let mut bytes = vec![u8::from(!own.is_empty())];
            serde_json::to_writer(&mut bytes, &piece)?;
            let all = world.all_gather(&bytes);
            let has_more = all.iter().any(|bytes| bytes.first() == Some(&1));
            if world.rank() == 0 {
                for (process, bytes) in all.iter().enumerate() {
                    let piece: TelemetryPiece =
                        serde_json::from_slice(bytes.get(1..).unwrap_or_default())?;
                    self.found.add(process, &piece, &mut slowed);
                    session.add_telemetry(&self.found.rows(process, &piece, record));
                }
            }
            if !has_more {
                break;
            }
        }
        if world.rank() == 0 {
            let meta = self.found.meta(self.interval);
            session.change_run(|run| run.telemetry = Some(meta));
        }
        Ok(slowed)
    }

    /// Returns what this process has to send: nothing, or one piece at least.
    fn pieces(&self, case: Option<(f64, f64)>) -> Vec<TelemetryPiece> {
        let Some(sampler) = &self.sampler else {
            return Vec::new();
        };
        let samples = sampler.take();
        let piece = |samples: &[Sample]| TelemetryPiece {
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
}

/// Returns the remarks of all processes, each once with its hosts.
fn remarks(sources: &[TelemetrySource]) -> Vec<String> {
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
