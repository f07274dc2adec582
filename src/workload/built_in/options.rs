//! [`WorkloadOptions`]: the options of built-in workloads.

use anyhow::ensure;

/// The options of built-in workloads. Each workload has some of them and ignores the others.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOptions {
    /// The size in MiB at which a bucket of gradients is full: `bucket_cap_mb` of PyTorch's DDP.
    pub bucket_mb: f64,
    /// The same for the first bucket, if it differs. In PyTorch it is 1 unless `bucket_cap_mb` is
    /// given.
    pub first_bucket_mb: Option<f64>,
    /// Whether gradients are views of their bucket, as `gradient_as_bucket_view` of PyTorch's DDP
    /// makes them: none is copied back.
    pub gradient_as_bucket_view: bool,
    /// The number of layers that are gathered ahead of the layer that computes.
    pub prefetch: u32,
    /// The number of micro-batches of a step.
    pub micro_batches: u32,
    /// The share of the tokens, from 0 to 1, that is not spread evenly over experts.
    pub skew: f64,
    /// Whether tensor parallelism includes sequence parallelism.
    pub sequence_parallel: bool,
    /// The ranks of the dimension `tensor`; `None` for the number of the workload.
    pub tensor: Option<u64>,
    /// The ranks of the dimension `pipeline`; `None` for the number of the workload.
    pub pipeline: Option<u64>,
    /// The ranks of the dimension `expert`; `None` for all ranks.
    pub expert: Option<u64>,
    /// The layers of the model; `None` for the published number.
    pub layers: Option<u32>,
    /// The factor of all sizes.
    pub size_scale: f64,
    /// The factor of all computation times.
    pub time_scale: f64,
}

impl Default for WorkloadOptions {
    fn default() -> WorkloadOptions {
        WorkloadOptions {
            bucket_mb: 25.0,
            first_bucket_mb: None,
            gradient_as_bucket_view: false,
            prefetch: 1,
            micro_batches: 8,
            skew: 0.5,
            sequence_parallel: true,
            tensor: None,
            pipeline: None,
            expert: None,
            layers: None,
            size_scale: 1.0,
            time_scale: 1.0,
        }
    }
}

/// The most ranks of a dimension within a node unless more are chosen: the GPUs of a node.
const NODE: u64 = 8;

pub(super) const BUCKET_MB: &str = "--bucket-mb";
pub(super) const FIRST_BUCKET_MB: &str = "--first-bucket-mb";
pub(super) const GRADIENT_AS_BUCKET_VIEW: &str = "--gradient-as-bucket-view";
pub(super) const PREFETCH: &str = "--prefetch";
pub(super) const MICRO_BATCHES: &str = "--micro-batches";
pub(super) const SKEW: &str = "--skew";
pub(super) const NO_SEQUENCE_PARALLEL: &str = "--no-sequence-parallel";
pub(super) const TENSOR: &str = "--tensor";
pub(super) const PIPELINE: &str = "--pipeline";
pub(super) const EXPERT: &str = "--expert";
pub(super) const LAYERS: &str = "--layers";
pub(super) const SIZE_SCALE: &str = "--size-scale";
pub(super) const TIME_SCALE: &str = "--time-scale";

/// The ranks of the dimension `pipeline` unless another number is chosen.
pub(super) const STAGES: u64 = 4;

/// The largest factor of sizes and times.
const MOST_SCALE: f64 = 1e3;

impl WorkloadOptions {
    /// Returns the options with sizes of the dimensions `tensor`, `pipeline` and `expert` that
    /// divide `ranks`. A size that is chosen stays; otherwise it is the workload's own if that
    /// divides the ranks, or a smaller one.
    pub fn for_ranks(self, name: &str, ranks: u64) -> WorkloadOptions {
        let tensor = match name {
            "3d" if !ranks.is_multiple_of(64) => divisor(ranks, 2),
            _ => divisor(ranks, NODE),
        };
        let tensor = self.tensor.unwrap_or(tensor);
        let stages = match name {
            "3d" if ranks.is_multiple_of(64) => STAGES,
            "3d" => divisor((ranks / tensor.max(1)).max(1), 2),
            _ => divisor(ranks, STAGES),
        };
        let experts = (ranks > NODE && ranks.is_multiple_of(NODE)).then_some(NODE);
        WorkloadOptions {
            tensor: Some(tensor),
            pipeline: Some(self.pipeline.unwrap_or(stages)),
            expert: self.expert.or(experts),
            ..self
        }
    }

    /// Returns the names on the command line of the options that differ from their defaults.
    pub fn chosen(&self) -> Vec<&'static str> {
        let chosen = self.chosen_values().into_iter();
        chosen.map(|(name, _)| name).collect()
    }

    /// Returns the options that differ from their defaults, with their values; the value of a
    /// switch is empty.
    pub fn chosen_values(&self) -> Vec<(&'static str, String)> {
        let mut chosen = Vec::new();
        let defaults = WorkloadOptions::default().texts();
        for ((name, value), (_, default)) in self.texts().into_iter().zip(defaults) {
            if value != default {
                chosen.push((name, value.unwrap_or_default()));
            }
        }
        chosen
    }

    /// Returns all options with their values on the command line; `None` for one that is left out.
    fn texts(&self) -> [(&'static str, Option<String>); 13] {
        fn number<T: ToString>(value: T) -> Option<String> {
            Some(value.to_string())
        }
        [
            (BUCKET_MB, number(self.bucket_mb)),
            (FIRST_BUCKET_MB, self.first_bucket_mb.and_then(number)),
            (
                GRADIENT_AS_BUCKET_VIEW,
                self.gradient_as_bucket_view.then(String::new),
            ),
            (PREFETCH, number(self.prefetch)),
            (MICRO_BATCHES, number(self.micro_batches)),
            (SKEW, number(self.skew)),
            (
                NO_SEQUENCE_PARALLEL,
                (!self.sequence_parallel).then(String::new),
            ),
            (TENSOR, self.tensor.and_then(number)),
            (PIPELINE, self.pipeline.and_then(number)),
            (EXPERT, self.expert.and_then(number)),
            (LAYERS, self.layers.and_then(number)),
            (SIZE_SCALE, number(self.size_scale)),
            (TIME_SCALE, number(self.time_scale)),
        ]
    }

    /// Checks the values.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let caps = [Some(self.bucket_mb), self.first_bucket_mb];
        for cap in caps.into_iter().flatten() {
            ensure!(
                cap > 0.0 && cap <= 1e6,
                "a bucket of {cap} MiB is not possible; choose a number above 0 and up to 1000000"
            );
        }
        ensure!(
            (0.0..=1.0).contains(&self.skew),
            "a skew of {} is not possible; choose a number from 0 to 1",
            self.skew
        );
        ensure!(
            self.size_scale > 0.0 && self.size_scale <= MOST_SCALE,
            "the size scale is not above 0 and up to {MOST_SCALE}; choose such a number"
        );
        ensure!(
            (0.0..=MOST_SCALE).contains(&self.time_scale),
            "the time scale is not from 0 to {MOST_SCALE}; choose such a number"
        );
        let numbers = [
            ("micro-batches", Some(u64::from(self.micro_batches)), 1024),
            ("layers", self.layers.map(u64::from), 1024),
            ("ranks of the dimension tensor", self.tensor, 1024),
            ("ranks of the dimension pipeline", self.pipeline, 1024),
            ("ranks of the dimension expert", self.expert, 1024),
        ];
        for (what, number, most) in numbers {
            let number = number.unwrap_or(1);
            ensure!(
                (1..=most).contains(&number),
                "{number} {what} are not possible; choose a number from 1 to {most}"
            );
        }
        Ok(())
    }
}

/// Returns the largest divisor of `number` that is at most `most`.
fn divisor(number: u64, most: u64) -> u64 {
    let divisors = (1..=most).rev().find(|part| number.is_multiple_of(*part));
    divisors.unwrap_or(1)
}
