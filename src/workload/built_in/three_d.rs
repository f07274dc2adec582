//! `3d`: tensor, pipeline and data parallelism together, as Megatron-LM trains Llama 2 70B.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::{STAGES, WorkloadOptions},
    shapes::{BF16, LLAMA_70B},
    tensor::{self, TensorLayers},
};
use crate::{
    collective::{Collective, data::DType},
    units::Micros,
    workload::operation::Workload,
};

pub(super) const ABOUT: &str = "Llama 2 70B with tensor, pipeline and data parallelism as in Megatron-LM, bfloat16, \
     micro-batches of a sequence of 4096 tokens: the collectives of tensor-70b in each layer, a \
     sendrecv per micro-batch and pass, a reduce_scatter of gradients and an all_gather of \
     parameters per layer, computation by operations at 400 TFLOP/s, the bubble left out";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let tensor = options.tensor.unwrap_or(tensor::RANKS);
    let stages = options.pipeline.unwrap_or(STAGES);
    let mut builder = WorkloadBuilder::new(options);
    builder.dimension("tensor", Some(tensor));
    builder.dimension("pipeline", Some(stages));
    builder.dimension("data", None);
    let layers = u64::from(options.layers.unwrap_or(LLAMA_70B.layers));
    let mut stage = PipelineStage {
        builder: &mut builder,
        layers: (layers / stages).max(1),
        tensor: TensorLayers::new(&LLAMA_70B, options),
        shard: LLAMA_70B.layer() / tensor * BF16,
        sent: if options.sequence_parallel {
            LLAMA_70B.activations() / tensor
        } else {
            LLAMA_70B.activations()
        },
        received: [None, None],
        reduced: Vec::new(),
    };
    let micro_batches = u64::from(options.micro_batches);
    // The mean over the stages of the 1F1B schedule's stages - 1 - stage forward passes before the
    // first backward one.
    let warm_up = ((stages - 1) / 2).min(micro_batches);
    for number in 1..=warm_up {
        stage.forward(number);
    }
    for number in warm_up + 1..=micro_batches {
        stage.forward(number);
        stage.backward(number - warm_up, micro_batches);
    }
    for number in micro_batches - warm_up + 1..=micro_batches {
        stage.backward(number, micro_batches);
    }
    stage.update();
    builder.finish("3d", ABOUT)
}

/// The operations of one stage of the pipeline, which are added in the order in which its ranks run
/// them.
struct PipelineStage<'a, 'b> {
    builder: &'a mut WorkloadBuilder<'b>,
    layers: u64,
    tensor: TensorLayers,
    /// Bytes of a layer's parameters on one rank.
    shard: u64,
    /// Bytes that a rank sends to the next stage. Without sequence parallelism each rank has all
    /// activations, and Megatron-LM sends them all.
    sent: u64,
    /// The last sendrecv forward and backward, if there was one.
    received: [Option<usize>; 2],
    /// The reductions of gradients.
    reduced: Vec<usize>,
}

impl PipelineStage<'_, '_> {
    fn forward(&mut self, micro_batch: u64) {
        self.receive(0);
        for layer in 1..=self.layers {
            let name = format!("{layer} of {micro_batch}");
            self.tensor.forward(self.builder, &name);
        }
        self.send(0, format!("send forward {micro_batch}"));
    }

    /// Adds the backward pass of a micro-batch. In that of the last one, the gradients of each
    /// layer are complete and reduced.
    fn backward(&mut self, micro_batch: u64, last: u64) {
        self.receive(1);
        for layer in (1..=self.layers).rev() {
            let name = format!("{layer} of {micro_batch}");
            self.tensor.backward(self.builder, &name);
            if micro_batch == last {
                let after = self.tensor.before.clone();
                let name = format!("gradients {layer}");
                let reduced = self.data(name, Collective::ReduceScatter, &after);
                self.reduced.push(reduced);
            }
        }
        self.send(1, format!("send backward {micro_batch}"));
    }

    /// Adds the optimizer, after which each rank gathers the parameters that the others have
    /// updated.
    fn update(&mut self) {
        let mut after = std::mem::take(&mut self.reduced);
        after.extend(self.received.into_iter().flatten());
        let optimizer = self
            .builder
            .compute("optimizer".to_owned(), Micros(0.0), &after);
        for layer in 1..=self.layers {
            let name = format!("parameters {layer}");
            self.data(name, Collective::AllGather, &[optimizer]);
        }
    }

    fn data(&mut self, name: String, collective: Collective, after: &[usize]) -> usize {
        let call = BuiltInCall {
            collective,
            bytes: self.shard,
            dtype: DType::Bfloat16,
            group: &["data"],
        };
        self.builder.collective(name, "data", &call, after)
    }

    fn receive(&mut self, direction: usize) {
        self.tensor.before = self.received[direction].into_iter().collect();
    }

    fn send(&mut self, direction: usize, name: String) {
        let call = BuiltInCall {
            collective: Collective::SendRecv,
            bytes: self.sent,
            dtype: DType::Bfloat16,
            group: &["pipeline"],
        };
        let sent = self
            .builder
            .collective(name, "pipeline", &call, &self.tensor.before);
        self.received[direction] = Some(sent);
    }
}
