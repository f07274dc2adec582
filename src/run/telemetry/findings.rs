//! [`TelemetryFindings`]: what is known of the GPUs so far, from the samples of all processes.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    native::nvml::slowing_names,
    output::telemetry::TelemetryRow,
    record::{Record, TelemetryMeta},
    slurm::hosts,
    telemetry::{Origin, Sample, SampledGpu, Summary},
    units::counted,
};

/// GPUs that a note on a case names.
const MOST_NAMED: usize = 4;

/// What one process samples.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TelemetrySource {
    pub(super) host: String,
    pub(super) node: u32,
    pub(super) gpus: Vec<SampledGpu>,
    /// What it cannot sample, and why.
    pub(super) remarks: Vec<String>,
}

/// A part of what a process has sampled since the last time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TelemetryPiece {
    pub(super) samples: Vec<Sample>,
    /// Beginning and end of the case, as the sampler counts seconds.
    pub(super) case: Option<(f64, f64)>,
    pub(super) unknown: Vec<String>,
    pub(super) dropped: u64,
}

/// What slowed a GPU down during a case.
#[derive(Default)]
pub(super) struct Slowed {
    mask: u64,
    /// Samples in which something did.
    samples: usize,
    of: usize,
}

/// What slowed GPUs down during a case, by process and number of the GPU.
pub(super) type SlowedGpus = BTreeMap<(usize, usize), Slowed>;

/// What is known of the GPUs so far.
#[derive(Default)]
pub(super) struct TelemetryFindings {
    /// What each process samples; empty if there is no telemetry.
    sources: Vec<TelemetrySource>,
    /// The samples so far, for each GPU of each process.
    summaries: Vec<Vec<Summary>>,
    /// What is not known, and the hosts for which that was said.
    unknown: BTreeMap<String, Vec<String>>,
    /// Samples that each process had no room for.
    dropped: Vec<u64>,
}

impl TelemetryFindings {
    /// Returns that nothing was sampled yet by the processes that are `sources`.
    pub(super) fn of(sources: Vec<TelemetrySource>) -> TelemetryFindings {
        TelemetryFindings {
            summaries: sources
                .iter()
                .map(|source| vec![Summary::default(); source.gpus.len()])
                .collect(),
            unknown: BTreeMap::new(),
            dropped: vec![0; sources.len()],
            sources,
        }
    }

    /// Returns whether nothing is sampled.
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Adds what process `process` sent.
    pub(super) fn add(&mut self, process: usize, piece: &TelemetryPiece, slowed: &mut SlowedGpus) {
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

    /// Returns the rows of what process `process` sent, during the case of `record` or between
    /// cases.
    pub(super) fn rows<'a>(
        &'a self,
        process: usize,
        piece: &'a TelemetryPiece,
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

    /// Returns the sentences on what is not known, with the hosts for which they hold.
    pub(super) fn gaps(&self) -> Vec<String> {
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

    /// Returns the telemetry in short, if samples were taken at this interval.
    pub(super) fn meta(&self, interval: Duration) -> TelemetryMeta {
        let mut gpus = Vec::new();
        for (source, summaries) in self.sources.iter().zip(&self.summaries) {
            for (gpu, summary) in source.gpus.iter().zip(summaries) {
                gpus.push(summary.of(&source.host, source.node, gpu));
            }
        }
        TelemetryMeta {
            interval_s: interval.as_secs_f64(),
            dropped: self.dropped.iter().sum(),
            unknown: self.gaps(),
            gpus,
        }
    }

    /// Returns a note on the GPUs that were slowed down, with their hosts and what did it.
    pub(super) fn note(&self, slowed: &SlowedGpus) -> Option<String> {
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

#[cfg(test)]
#[cfg(test)]
mod tests {
    use super::*;

    fn found(gpus: u32) -> TelemetryFindings {
        let gpus: Vec<SampledGpu> = (0..gpus)
            .map(|index| SampledGpu {
                index,
                ..SampledGpu::default()
            })
            .collect();
        TelemetryFindings::of(vec![TelemetrySource {
            host: "n1".into(),
            gpus,
            ..TelemetrySource::default()
        }])
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
        let mut found = found(2);
        let piece = TelemetryPiece {
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
            ..TelemetryPiece::default()
        };
        let mut slowed = SlowedGpus::new();
        found.add(0, &piece, &mut slowed);
        assert_eq!(
            found.note(&slowed).as_deref(),
            Some(
                "throttled while it ran: GPU 0 on n1 (power cap+thermal slowdown, 2 of 3 samples)"
            )
        );
        let limited = found.meta(Duration::from_secs(1)).gpus[0]
            .limited
            .clone()
            .expect("known");
        assert_eq!(limited["hardware thermal slowdown"], 0.25);
    }

    #[test]
    fn a_note_names_some_gpus_and_counts_the_others() {
        let mut found = found(6);
        let piece = TelemetryPiece {
            samples: (0..6).map(|gpu| sample(1.0, gpu, Some(0x4))).collect(),
            case: Some((0.0, 2.0)),
            ..TelemetryPiece::default()
        };
        let mut slowed = SlowedGpus::new();
        found.add(0, &piece, &mut slowed);
        let note = found.note(&slowed).expect("a note");
        assert!(
            note.ends_with("GPU 3 on n1 (power cap, 1 of 1 sample) and 2 other GPUs"),
            "{note}"
        );
        assert_eq!(found.note(&SlowedGpus::new()), None);
    }
}
