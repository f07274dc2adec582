//! [`TuneGrid`]: the candidates of a tuning.

use crate::experiment::variants::{BucketSizes, PresetNames, Variants, VariedSettings};

/// The level of a step that is not tuned, with which NCCL decides.
const DEFAULT_LEVEL: &str = "default";

/// The resources of a step that is not tuned.
const DEFAULT_RESOURCES: &str = "none";

/// The levels that are tried if none are named. The other levels differ from `aggressive` in sends
/// and receives only.
const USUAL_LEVELS: [&str; 3] = [DEFAULT_LEVEL, "off", "aggressive"];

/// The bucket sizes in MiB that are tried besides the default if none are named.
const USUAL_BUCKETS: [f64; 3] = [10.0, 50.0, 100.0];

/// The lists of the command line from which candidates are made; `None` for one that is left out.
#[derive(Clone, Debug, Default)]
pub struct TuneGrid {
    /// PXN levels.
    pub levels: Option<PresetNames>,
    /// Resources.
    pub resources: Option<PresetNames>,
    /// Bucket sizes.
    pub buckets: Option<BucketSizes>,
    /// The default bucket size of the workload in MiB; `None` if `--bucket-mb` does not apply to
    /// it.
    pub default_bucket_mb: Option<f64>,
    /// Whether NCCL may run; otherwise levels make no difference.
    pub may_use_nccl: bool,
}

impl TuneGrid {
    /// Returns all candidates. The first is the default, which is a candidate even if the lists do
    /// not name it.
    ///
    /// # Errors
    ///
    /// Returns a sentence if there is nothing to choose from, or too much.
    pub fn variants(&self) -> Result<Variants, String> {
        if self.buckets.is_some() && self.default_bucket_mb.is_none() {
            return Err(
                "only training steps of data parallelism that are built in have buckets, such as \
                 ddp-resnet50. Leave out --bucket-mb"
                    .into(),
            );
        }
        let settings = VariedSettings {
            levels: PresetNames(self.levels()),
            resources: PresetNames(self.resources()),
            buckets: BucketSizes(self.buckets()),
            ..VariedSettings::default()
        };
        if !settings.varies() {
            return Err(self.nothing_to_choose());
        }
        Variants::of(&settings)
    }

    fn nothing_to_choose(&self) -> String {
        let is_named = self.buckets.is_some() || self.levels.is_some() || self.resources.is_some();
        let why = if is_named {
            "only the default is named"
        } else {
            "the workload has no buckets, and no NCCL runs that levels and resources could change"
        };
        format!(
            "there is nothing to choose from: {why}. Name candidates with --levels, --resources \
             or --bucket-mb"
        )
    }

    fn levels(&self) -> Vec<String> {
        match &self.levels {
            Some(named) => with_first(DEFAULT_LEVEL.to_owned(), &named.0),
            None if self.may_use_nccl => USUAL_LEVELS.map(str::to_owned).into(),
            None => Vec::new(),
        }
    }

    fn resources(&self) -> Vec<String> {
        match &self.resources {
            Some(named) => with_first(DEFAULT_RESOURCES.to_owned(), &named.0),
            None => Vec::new(),
        }
    }

    fn buckets(&self) -> Vec<f64> {
        let Some(default) = self.default_bucket_mb else {
            return Vec::new();
        };
        match &self.buckets {
            Some(named) => with_first(default, &named.0),
            None => with_first(default, &USUAL_BUCKETS),
        }
    }
}

/// Returns `values`, each once, with `first` before them.
fn with_first<T: Clone + PartialEq>(first: T, values: &[T]) -> Vec<T> {
    let mut all = vec![first];
    for value in values {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(grid: &TuneGrid) -> Vec<String> {
        let variants = grid.variants().expect("variants");
        let all = variants.all().iter();
        all.map(|variant| variant.label.clone()).collect()
    }

    #[test]
    fn the_default_is_a_candidate_whatever_is_named() {
        let grid = TuneGrid {
            buckets: Some(BucketSizes(vec![50.0, 100.0])),
            default_bucket_mb: Some(25.0),
            ..TuneGrid::default()
        };
        assert_eq!(labels(&grid), ["25MiB", "25MiB-again", "50MiB", "100MiB"]);
        let grid = TuneGrid {
            levels: Some(PresetNames(vec!["off".into()])),
            may_use_nccl: true,
            ..TuneGrid::default()
        };
        assert_eq!(labels(&grid), ["default", "default-again", "off"]);
    }

    #[test]
    fn without_names_the_usual_candidates_are_tried() {
        let grid = TuneGrid {
            default_bucket_mb: Some(25.0),
            may_use_nccl: true,
            ..TuneGrid::default()
        };
        let labels = labels(&grid);
        assert_eq!(labels.len(), 3 * 4 + 1);
        assert_eq!(labels[0], "default+25MiB");
        let host = TuneGrid {
            may_use_nccl: false,
            ..grid
        };
        assert_eq!(self::labels(&host).len(), 4 + 1);
    }

    #[test]
    fn nothing_to_choose_from_is_refused() {
        let nothing = TuneGrid::default().variants().expect_err("nothing");
        assert!(nothing.contains("nothing to choose from"), "{nothing}");
        let default = TuneGrid {
            buckets: Some(BucketSizes(vec![25.0])),
            default_bucket_mb: Some(25.0),
            ..TuneGrid::default()
        };
        let refused = default.variants().expect_err("only the default");
        assert!(refused.contains("only the default is named"), "{refused}");
        let grid = TuneGrid {
            buckets: Some(BucketSizes(vec![1.0])),
            ..TuneGrid::default()
        };
        let refused = grid.variants().expect_err("no buckets");
        assert!(refused.contains("Leave out --bucket-mb"), "{refused}");
    }
}
