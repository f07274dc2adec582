//! `tensor-70b`: matrices are divided among the ranks of a node, as in Megatron-LM, with or without
//! sequence parallelism.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::WorkloadOptions,
    shapes::{self, DecoderShape, LLAMA_70B},
};
use crate::{
    collective::{Collective, data::DType},
    units::Micros,
    workload::operation::Workload,
};

/// The stream of the collectives between ranks that share matrices.
const STREAM: &str = "tensor";

/// The number of ranks unless another one is chosen: the GPUs of a node.
pub(super) const RANKS: u64 = 8;

pub(super) const ABOUT: &str = "Llama 2 70B with tensor parallelism as in Megatron-LM, bfloat16, a sequence of 4096 tokens: \
     with sequence parallelism an all_gather and a reduce_scatter around attention and MLP, \
     without it an all_reduce behind each, computation by operations at 400 TFLOP/s";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let mut builder = WorkloadBuilder::new(options);
    builder.dimension("tensor", Some(options.tensor.unwrap_or(RANKS)));
    builder.dimension("data", None);
    let layers = options.layers.unwrap_or(LLAMA_70B.layers);
    let mut layer = TensorLayers::new(&LLAMA_70B, options);
    for number in 1..=layers {
        layer.forward(&mut builder, &number.to_string());
    }
    for number in (1..=layers).rev() {
        layer.backward(&mut builder, &number.to_string());
    }
    builder.finish("tensor-70b", ABOUT)
}

/// Layers whose matrices are divided, which are added one after another.
pub(super) struct TensorLayers {
    /// The name and the forward time on each rank of the two parts of a layer.
    parts: [(&'static str, Micros); 2],
    /// The size of each collective: the activations of a micro-batch.
    bytes: u64,
    sequence_parallel: bool,
    /// The operations for which the next one waits, besides the one before it in its stream.
    pub(super) before: Vec<usize>,
}

impl TensorLayers {
    pub(super) fn new(shape: &DecoderShape, options: &WorkloadOptions) -> TensorLayers {
        let ranks = options.tensor.unwrap_or(RANKS) as f64;
        let share = |flops: f64| shapes::time(flops / ranks);
        TensorLayers {
            parts: [
                ("attention", share(shape.attention_flops())),
                ("mlp", share(shape.mlp_flops(shape.sequence))),
            ],
            bytes: shape.activations(),
            sequence_parallel: options.sequence_parallel,
            before: Vec::new(),
        }
    }

    /// Adds the forward pass of a layer. Each part needs all activations, and the results of all
    /// ranks are added up.
    pub(super) fn forward(&mut self, builder: &mut WorkloadBuilder, layer: &str) {
        for (part, time) in self.parts {
            let name = format!("{part} {layer}");
            if self.sequence_parallel {
                let gathered = self.gather(builder, format!("gather {name}"));
                self.before = vec![gathered];
            }
            let computed = builder.compute(format!("forward {name}"), time, &self.before);
            self.before = vec![self.add_up(builder, format!("reduce {name}"), computed)];
        }
    }

    /// Adds the backward pass of a layer. For each part, a rank first computes the gradients of the
    /// input. While these are added up over the ranks, it computes the gradients of the weights,
    /// which takes as long.
    pub(super) fn backward(&mut self, builder: &mut WorkloadBuilder, layer: &str) {
        for (part, time) in self.parts.into_iter().rev() {
            let name = format!("{part} {layer}");
            let mut input = None;
            if self.sequence_parallel {
                let gathered = self.gather(builder, format!("gather gradient {name}"));
                // Only the gradients of the weights need the input.
                input = Some(self.gather(builder, format!("gather input {name}")));
                self.before = vec![gathered];
            }
            let computed = builder.compute(format!("backward {name}"), time, &self.before);
            let added = self.add_up(builder, format!("reduce gradient {name}"), computed);
            let input: Vec<usize> = input.into_iter().collect();
            let weights = builder.compute(format!("weights {name}"), time, &input);
            self.before = vec![added, weights];
        }
    }

    fn gather(&self, builder: &mut WorkloadBuilder, name: String) -> usize {
        self.collective(builder, name, Collective::AllGather, &self.before)
    }

    fn add_up(&self, builder: &mut WorkloadBuilder, name: String, computed: usize) -> usize {
        let collective = if self.sequence_parallel {
            Collective::ReduceScatter
        } else {
            Collective::AllReduce
        };
        self.collective(builder, name, collective, &[computed])
    }

    fn collective(
        &self,
        builder: &mut WorkloadBuilder,
        name: String,
        collective: Collective,
        after: &[usize],
    ) -> usize {
        let call = BuiltInCall {
            collective,
            bytes: self.bytes,
            dtype: DType::Bfloat16,
            group: &["tensor"],
        };
        builder.collective(name, STREAM, &call, after)
    }
}
