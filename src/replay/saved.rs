//! [`SavedReplay`]: a replay as it is read from its files.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    exposure::RESOLUTION,
    files::{REPLAY_JSON, STEPS_CSV},
    quartiles::median,
};
use crate::{
    backend::step::StepMode,
    exit::Failure,
    input::{self, InputKind},
    record::{RowError, RowReader, RunMeta},
    stats::geometric_mean,
    units::significant,
};

/// A time of a training step that is compared between replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReplayQuantity {
    /// The time of the overlapped step.
    Step,
    /// The communication in it that computation does not hide.
    Exposed,
    /// The time of its computation alone.
    Computation,
}

impl ReplayQuantity {
    /// All quantities, in the order of tables.
    pub const ALL: [ReplayQuantity; 3] = [
        ReplayQuantity::Step,
        ReplayQuantity::Exposed,
        ReplayQuantity::Computation,
    ];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            ReplayQuantity::Step => "step",
            ReplayQuantity::Exposed => "exposed",
            ReplayQuantity::Computation => "computation",
        }
    }
}

/// A replay as it is read from its files: all of its blocks, or those before it was stopped.
#[derive(Clone, Debug)]
pub struct SavedReplay {
    /// The workload's name.
    pub workload: String,
    /// Identifies the workload apart from the size of its buckets.
    pub shape: String,
    /// The size of its buckets in MiB, if `--bucket-mb` chooses it.
    pub bucket_mb: Option<f64>,
    /// The options that say how computation was imitated.
    pub computation: String,
    /// The run that it was measured in.
    pub run: RunMeta,
    /// The run as the JSON in the file, with keys that this version does not know.
    pub run_json: Value,
    /// The times of each block in which the step and its computation were timed.
    pub blocks: Vec<BlockTimes>,
}

/// The median times of the steps of a block, in us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockTimes {
    /// The number of the block.
    pub block: u32,
    /// The time of the overlapped step.
    pub step: f64,
    /// The time of its computation alone.
    pub computation: f64,
}

impl BlockTimes {
    /// Returns the time of `quantity` in us, at least [`RESOLUTION`] for exposed communication.
    pub fn of(&self, quantity: ReplayQuantity) -> f64 {
        match quantity {
            ReplayQuantity::Step => self.step,
            ReplayQuantity::Exposed => (self.step - self.computation).max(RESOLUTION),
            ReplayQuantity::Computation => self.computation,
        }
    }
}

/// What is read of `replay.json`.
#[derive(Deserialize)]
struct Summary {
    workload: String,
    // Files of earlier versions have neither `shape` nor `bucket_mb`.
    #[serde(default)]
    shape: String,
    bucket_mb: Option<f64>,
    compute: Compute,
    run: Value,
}

#[derive(Deserialize)]
struct Compute {
    multiprocessors: f64,
    kernel_us: f64,
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compute {
            multiprocessors,
            kernel_us,
        } = self;
        let percent = significant(100.0 * multiprocessors, 6);
        write!(f, "--multiprocessors {percent}, --kernel-us {kernel_us}")
    }
}

/// What is read of a row of `steps.csv`.
#[derive(Deserialize)]
struct StepRow<'a> {
    mode: &'a str,
    block: u32,
    time_us: Option<f64>,
}

impl SavedReplay {
    /// Returns whether `folder` has the files of a replay.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(REPLAY_JSON).is_file() && folder.join(STEPS_CSV).is_file()
    }

    /// Returns the file with the steps of a replay in `folder`.
    pub fn steps_in(folder: &Path) -> PathBuf {
        folder.join(STEPS_CSV)
    }

    /// Reads the replay in `folder`.
    ///
    /// # Errors
    /// Returns an error if one of its files cannot be read.
    pub fn read(folder: &Path) -> anyhow::Result<SavedReplay> {
        let path = folder.join(REPLAY_JSON);
        let cannot = |why: &dyn fmt::Display| Failure::of_file("read", &path, why);
        let bytes = input::read(&path, InputKind::Json).map_err(|error| cannot(&error))?;
        let summary: Summary =
            serde_json::from_slice(&bytes).map_err(|error| cannot(&input::why_no_json(&error)))?;
        let run = RunMeta::deserialize(&summary.run)
            .map_err(|error| cannot(&input::why_no_json(&error)))?;
        let steps = SavedReplay::steps_in(folder);
        let blocks =
            read_blocks(&steps).map_err(|error| Failure::of_file("read", &steps, &error))?;
        Ok(SavedReplay {
            workload: summary.workload,
            shape: summary.shape,
            bucket_mb: summary.bucket_mb,
            computation: summary.compute.to_string(),
            run,
            run_json: summary.run,
            blocks,
        })
    }

    /// Returns the geometric mean of `quantity` over its blocks, in us; `None` if it has none.
    pub fn time(&self, quantity: ReplayQuantity) -> Option<f64> {
        let times: Vec<f64> = self.blocks.iter().map(|block| block.of(quantity)).collect();
        geometric_mean(&times)
    }
}

/// The times of steps by mode and block, in us.
pub type TimesOfSteps = BTreeMap<(StepMode, u32), Vec<f64>>;

/// Reads all times above zero in a `steps.csv`. The second value is a remark if the last line of
/// the file is cut short.
///
/// # Errors
/// Returns an error if the file or a row of it cannot be read.
pub fn read_steps(path: &Path) -> Result<(TimesOfSteps, Option<String>), RowError> {
    let mut reader = RowReader::open(path)?;
    let mut times = TimesOfSteps::new();
    while let Some(row) = reader.read_row::<StepRow>()? {
        let mode = StepMode::ALL
            .into_iter()
            .find(|mode| mode.name() == row.mode);
        let time = row.time_us.filter(|time| time.is_finite() && *time > 0.0);
        if let (Some(mode), Some(time)) = (mode, time) {
            times.entry((mode, row.block)).or_default().push(time);
        }
    }
    Ok((times, reader.torn_line()))
}

/// Reads the times of the blocks in which both the overlapped step and its computation alone were
/// timed.
fn read_blocks(path: &Path) -> Result<Vec<BlockTimes>, RowError> {
    let (times, _) = read_steps(path)?;
    let of_mode = |mode, block| median(times.get(&(mode, block)).cloned().unwrap_or_default());
    let mut blocks = Vec::new();
    for &(mode, block) in times.keys() {
        if mode == StepMode::Overlapped
            && let Some(step) = of_mode(mode, block)
            && let Some(computation) = of_mode(StepMode::Computation, block)
        {
            blocks.push(BlockTimes {
                block,
                step,
                computation,
            });
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_block_counts_if_it_has_both_modes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(STEPS_CSV);
        let rows = "workload,level,mode,block,step,time_us\n\
                    w,off,computation,0,0,100\nw,off,overlapped,0,0,110\nw,off,overlapped,0,1,130\n\
                    w,off,serial,0,0,500\nw,off,overlapped,0,2,120\nw,off,overlapped,1,0,90\n\
                    w,off,computation,2,0,100\nw,off,overlapped,2,0,99\nw,off,overlapped,2,1,0\n";
        fs::write(&path, rows).expect("written");
        let blocks = read_blocks(&path).expect("read");
        let expected =
            [(0, 120.0, 100.0), (2, 99.0, 100.0)].map(|(block, step, computation)| BlockTimes {
                block,
                step,
                computation,
            });
        assert_eq!(blocks, expected);
        assert_eq!(blocks[0].of(ReplayQuantity::Exposed), 20.0);
        // Nothing is exposed as far as the clock can tell.
        assert_eq!(blocks[1].of(ReplayQuantity::Exposed), RESOLUTION);
    }
}
