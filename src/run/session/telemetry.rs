//! [`SessionTelemetry`]: the file of the GPUs' telemetry, and the samples that it does not have
//! yet.

use std::{path::Path, sync::Arc};

use crate::{
    output::{
        error::OutputError,
        telemetry::{TelemetryCsv, TelemetryRow},
    },
    record::RunMeta,
    telemetry::{Origin, Sample, Sampler},
};

/// The telemetry of a run, as far as this process keeps it.
#[derive(Default)]
pub(super) struct SessionTelemetry {
    /// The file; only process 0 has it, unless the job is ended.
    file: Option<TelemetryCsv>,
    /// The samples of this node that are not gathered yet, if this process takes them.
    pub(super) sampler: Option<NodeSampler>,
}

/// The samples of a node.
pub(in crate::run) struct NodeSampler {
    pub(in crate::run) sampler: Arc<Sampler>,
    pub(in crate::run) host: String,
    pub(in crate::run) node: u32,
}

impl SessionTelemetry {
    /// Makes `telemetry.csv` in the run's folder.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub(super) fn open(&mut self, folder: &Path) -> Result<(), OutputError> {
        self.file = Some(TelemetryCsv::create(folder, "telemetry.csv")?);
        Ok(())
    }

    /// Adds rows, and returns what to say of the file.
    pub(super) fn add(&mut self, run: &RunMeta, rows: &[TelemetryRow]) -> Vec<String> {
        match &mut self.file {
            Some(file) => file.append(run, rows),
            None => Vec::new(),
        }
    }

    /// Writes the samples that wait to be gathered. A process without a file makes one of its own
    /// for them in `folder`. Returns what to say of the file.
    pub(super) fn keep_waiting_samples(
        &mut self,
        run: &RunMeta,
        folder: Option<&Path>,
    ) -> Vec<String> {
        let Some(node) = &self.sampler else {
            return Vec::new();
        };
        let samples = node.sampler.take();
        let rows: Vec<TelemetryRow> = samples.iter().map(|sample| node.row(sample)).collect();
        if let Some(folder) = folder
            && self.file.is_none()
            && !rows.is_empty()
        {
            let name = format!("telemetry.{}.csv", node.host);
            match TelemetryCsv::create(folder, &name) {
                Ok(file) => self.file = Some(file),
                Err(error) => return vec![error.to_string()],
            }
        }
        match &mut self.file {
            Some(file) => file.append(run, &rows),
            None => Vec::new(),
        }
    }

    /// Writes the rows that could not be written so far, and adds to `said` what to say of that.
    /// Returns a sentence if the file lacks rows.
    pub(super) fn finish(&mut self, said: &mut Vec<String>) -> Option<String> {
        let file = self.file.as_mut()?;
        said.extend(file.finish());
        file.missing()
    }
}

impl NodeSampler {
    fn row<'a>(&'a self, sample: &'a Sample) -> TelemetryRow<'a> {
        let origin = Origin {
            host: &self.host,
            node: Some(self.node),
            gpu: &self.sampler.gpus()[sample.gpu],
        };
        TelemetryRow {
            origin,
            sample,
            case: None,
        }
    }
}
