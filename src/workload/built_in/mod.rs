//! Built-in workloads, derived from published models. docs/WORKLOADS.md has the formulas and their
//! sources.

mod builder;
mod ddp;
mod fsdp;
mod gpt2;
mod moe;
mod options;
mod pipeline;
mod resnet50;
mod shapes;
mod tensor;
#[cfg(test)]
mod tests;
mod three_d;

use anyhow::{anyhow, ensure};

pub use options::WorkloadOptions;
use options::{
    BUCKET_MB, EXPERT, FIRST_BUCKET_MB, GRADIENT_AS_BUCKET_VIEW, LAYERS, MICRO_BATCHES,
    NO_SEQUENCE_PARALLEL, PIPELINE, PREFETCH, SIZE_SCALE, SKEW, TENSOR, TIME_SCALE,
};

use super::{limits::MOST_OPERATIONS, operation::Workload};
use crate::visible::excerpt;

/// A workload that is built in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInWorkload {
    /// Its name.
    pub name: &'static str,
    /// What it stands for, in a line.
    pub about: &'static str,
    /// The names of its options on the command line, besides `--size-scale` and `--time-scale`.
    options: &'static [&'static str],
    build: fn(&WorkloadOptions) -> Workload,
}

impl BuiltInWorkload {
    /// Returns whether `--bucket-mb` changes it.
    pub fn has_buckets(&self) -> bool {
        self.options.contains(&BUCKET_MB)
    }

    /// Returns the first option of `options` that this workload does not have.
    pub fn unknown_option(&self, options: &WorkloadOptions) -> Option<&'static str> {
        let is_known =
            |name: &&str| [SIZE_SCALE, TIME_SCALE].contains(name) || self.options.contains(name);
        options.chosen().into_iter().find(|name| !is_known(name))
    }
}

/// All workloads that are built in.
pub const BUILT_IN: [BuiltInWorkload; 8] = [
    BuiltInWorkload {
        name: "ddp-resnet50",
        about: "data parallelism (PyTorch DDP) of ResNet-50: an all_reduce per bucket, while the \
                backward pass goes on",
        options: &[BUCKET_MB, FIRST_BUCKET_MB, GRADIENT_AS_BUCKET_VIEW],
        build: resnet50::workload,
    },
    BuiltInWorkload {
        name: "ddp-gpt2",
        about: "data parallelism (PyTorch DDP) of GPT-2 with 124 million parameters",
        options: &[BUCKET_MB, FIRST_BUCKET_MB, GRADIENT_AS_BUCKET_VIEW, LAYERS],
        build: gpt2::workload,
    },
    BuiltInWorkload {
        name: "fsdp-7b",
        about: "sharded data parallelism (PyTorch FSDP) of Llama 2 7B: all_gather and \
                reduce_scatter per layer",
        options: &[PREFETCH, LAYERS],
        build: fsdp::workload_7b,
    },
    BuiltInWorkload {
        name: "fsdp-70b",
        about: "sharded data parallelism (PyTorch FSDP) of Llama 2 70B",
        options: &[PREFETCH, LAYERS],
        build: fsdp::workload_70b,
    },
    BuiltInWorkload {
        name: "tensor-70b",
        about: "tensor parallelism (Megatron-LM) of Llama 2 70B, with or without sequence \
                parallelism",
        options: &[TENSOR, NO_SEQUENCE_PARALLEL, LAYERS],
        build: tensor::workload,
    },
    BuiltInWorkload {
        name: "moe-8x7b",
        about: "expert parallelism of Mixtral 8x7B: an alltoallv to the experts and one back per \
                layer",
        options: &[SKEW, EXPERT, LAYERS],
        build: moe::workload,
    },
    BuiltInWorkload {
        name: "pipeline",
        about: "pipeline parallelism (interleaved 1F1B) of Llama 2 7B: a sendrecv per part and \
                micro-batch",
        options: &[PIPELINE, MICRO_BATCHES, LAYERS],
        build: pipeline::workload,
    },
    BuiltInWorkload {
        name: "3d",
        about: "tensor, pipeline and data parallelism (Megatron-LM) of Llama 2 70B together",
        options: &[
            TENSOR,
            PIPELINE,
            MICRO_BATCHES,
            NO_SEQUENCE_PARALLEL,
            LAYERS,
        ],
        build: three_d::workload,
    },
];

impl Workload {
    /// Returns the built-in workload of this name.
    ///
    /// # Errors
    /// Returns an error if there is none, or if an option has a value that is not possible.
    pub fn built_in(name: &str, options: &WorkloadOptions) -> anyhow::Result<Workload> {
        let found = BUILT_IN.iter().find(|workload| workload.name == name);
        let found = found.ok_or_else(|| {
            let names = BUILT_IN.map(|workload| workload.name);
            anyhow!(
                "there is no workload '{}'; there are {}",
                excerpt(name),
                names.join(", ")
            )
        })?;
        options.check()?;
        let workload = (found.build)(options);
        ensure!(
            workload.operations.len() <= MOST_OPERATIONS,
            "{name} would have {} operations, more than {MOST_OPERATIONS}; choose fewer layers or \
             micro-batches",
            workload.operations.len()
        );
        Ok(workload)
    }
}
