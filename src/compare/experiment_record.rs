//! What an experiment ran, in which order: `experiment.json`.

use std::{
    io::{
        ErrorKind::{NotADirectory, NotFound},
        Write,
    },
    path::Path,
};

use chrono::{DateTime, FixedOffset};
use serde::{Deserialize, Serialize};

use crate::{
    exit::Code,
    input::{self, InputKind},
    output::whole_file::write_whole,
    visible::excerpt,
};

/// The name of the file, in the folder of the experiment.
pub const FILE: &str = "experiment.json";

/// More blocks than an experiment has.
const MOST_BLOCKS: u32 = 1_000_000;

/// More seconds than a step takes: thirty years.
const MOST_SECONDS: f64 = 1e9;

/// An experiment: variants of one sweep, each run once per block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// When it began.
    pub started_at: DateTime<FixedOffset>,
    /// The arguments of the sweep, the same in every step.
    pub arguments: Vec<String>,
    /// What the order of the blocks is derived from.
    pub seed: u64,
    /// The variants, in the order of the table's columns.
    pub variants: Vec<Variant>,
    /// The label of the variant that the others are compared with.
    pub reference: String,
    /// The label of the second copy of the reference.
    pub control: String,
    /// The steps that ended, in the order in which they ran.
    pub steps: Vec<StepRecord>,
    /// The variants that are not run any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eliminated: Vec<EliminatedVariant>,
    /// Why no further block ran; absent while the experiment runs.
    pub end: Option<String>,
}

/// A variant that is not run any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EliminatedVariant {
    /// Its label.
    pub label: String,
    /// Why, such as that another one is faster.
    pub why: String,
    /// The blocks after which that was known.
    pub blocks: u32,
}

/// What differs between the steps of a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name in the table.
    pub label: String,
    /// The PXN level; empty if none is chosen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub level: String,
    /// The network, if one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The resources, if they are chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<String>,
    /// MiB of a bucket of a training step, if that is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_mb: Option<f64>,
}

/// Returns a number of MiB as labels have it.
pub fn bucket_label(bucket_mb: f64) -> String {
    format!("{bucket_mb}MiB")
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its folder, below that of the experiment.
    pub folder: String,
    /// The label of its variant.
    pub label: String,
    /// The block, from 0; none for a warm-up step, whose times do not count.
    pub block: Option<u32>,
    /// How long it took, with its start.
    pub seconds: f64,
    /// Its exit code, by name.
    pub code: Code,
}

impl ExperimentRecord {
    /// Reads the record of the experiment in `folder`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if there is one that cannot be read.
    pub fn read(folder: &Path) -> Result<Option<ExperimentRecord>, String> {
        let path = folder.join(FILE);
        let unreadable =
            |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", path.display());
        match input::read(&path, InputKind::Json) {
            Ok(bytes) => {
                let record: ExperimentRecord = serde_json::from_slice(&bytes)
                    .map_err(|error| unreadable(&input::why_no_json(&error)))?;
                record.refuse_impossible().map_err(|why| unreadable(&why))?;
                Ok(Some(record))
            }
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Refuses what no experiment writes, and what would take time without bound to continue.
    fn refuse_impossible(&self) -> Result<(), String> {
        for step in &self.steps {
            let StepRecord { folder, block, .. } = step;
            if let Some(block) = block.filter(|block| *block >= MOST_BLOCKS) {
                return Err(format!("step '{}' has block {block}", excerpt(folder)));
            }
            if !(0.0..=MOST_SECONDS).contains(&step.seconds) {
                return Err(format!(
                    "step '{}' took {:e} s",
                    excerpt(folder),
                    step.seconds
                ));
            }
        }
        Ok(())
    }

    /// Writes the record into `folder`, so that a reader sees it whole or not at all.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(FILE);
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|bytes| write_whole(&path, |file| file.write_all(&bytes)));
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    /// Returns the step in `folder`.
    pub fn step(&self, folder: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|step| step.folder == folder)
    }

    /// Returns whether the times of the step in `folder` count: those of a warm-up do not, nor
    /// those of a step that is not recorded because it was still running.
    pub fn counts(&self, folder: &Path) -> bool {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        self.step(&name).is_some_and(|step| step.block.is_some())
    }

    /// Returns the number of blocks that began.
    pub fn blocks(&self) -> u32 {
        let blocks = self.steps.iter().filter_map(|step| step.block);
        blocks.max().map_or(0, |last| last + 1)
    }
}
