//! `ddp-gpt2`: GPT-2 of 124 million parameters, on 12 sequences of 1024 tokens per rank.

use super::{
    ddp::{DdpModel, Parameter},
    options::WorkloadOptions,
    shapes,
};
use crate::{units::Micros, workload::operation::Workload};

const LAYERS: u32 = 12;
const HIDDEN: u64 = 768;
const VOCABULARY: u64 = 50257;
const SEQUENCE: u64 = 1024;
const SEQUENCES: u64 = 12;

pub(super) const ABOUT: &str = "GPT-2 124M in PyTorch's DistributedDataParallel, gradients in \
                                float32, 12 sequences of 1024 tokens per rank: buckets and copies \
                                as PyTorch has them, computation by operations at 400 TFLOP/s";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let tokens = SEQUENCE * SEQUENCES;
    let matrix = |inputs: u64, outputs: u64| Parameter {
        elements: inputs * outputs,
        work: (2 * inputs * outputs * tokens) as f64,
    };
    let vector = |elements: u64| Parameter {
        elements,
        work: 0.0,
    };
    // Queries times keys, and scores times values: 2·s·h per token each, of which causal masking
    // leaves half.
    let scores = (2 * SEQUENCE * tokens * HIDDEN) as f64;
    let mut parameters = vec![vector(VOCABULARY * HIDDEN), vector(SEQUENCE * HIDDEN)];
    for _ in 0..options.layers.unwrap_or(LAYERS) {
        let mut queries = matrix(HIDDEN, 3 * HIDDEN);
        queries.work += scores;
        parameters.extend([vector(HIDDEN), vector(HIDDEN)]);
        parameters.extend([queries, vector(3 * HIDDEN)]);
        parameters.extend([matrix(HIDDEN, HIDDEN), vector(HIDDEN)]);
        parameters.extend([vector(HIDDEN), vector(HIDDEN)]);
        parameters.extend([matrix(HIDDEN, 4 * HIDDEN), vector(4 * HIDDEN)]);
        parameters.extend([matrix(4 * HIDDEN, HIDDEN), vector(HIDDEN)]);
    }
    parameters.extend([vector(HIDDEN), vector(HIDDEN)]);
    // The output shares the weights of the embedding, whose gradient is complete last.
    let output = (2 * VOCABULARY * HIDDEN * tokens) as f64;
    let layers: f64 = parameters.iter().map(|it| it.work).sum();
    let model = DdpModel {
        name: "ddp-gpt2",
        about: ABOUT,
        parameters,
        buffers: Vec::new(),
        forward: Micros(shapes::time(layers + output).0),
        before_gradients: output / (layers + output),
    };
    model.workload(options)
}
