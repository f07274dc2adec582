//! `fsdp-7b` and `fsdp-70b`: parameters divided among all ranks, as PyTorch's fully sharded data parallelism does it with a unit
//! per layer and one for the rest.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::WorkloadOptions,
    shapes::{self, BF16, DecoderShape, LLAMA_7B, LLAMA_70B},
};
use crate::{
    collective::{Collective, data::DType},
    units::Micros,
    workload::operation::Workload,
};

/// The only stream of collectives: both kinds are in one process group.
const STREAM: &str = "shards";

pub(super) const ABOUT_7B: &str = "Llama 2 7B in PyTorch's FSDP, bfloat16, a sequence of 4096 tokens per rank: an all_gather per layer forward \
     and backward, a reduce_scatter backward, computation by operations at 400 TFLOP/s";

pub(super) const ABOUT_70B: &str = "Llama 2 70B in PyTorch's FSDP, bfloat16, a sequence of 4096 tokens per rank: an all_gather per layer \
     forward and backward, a reduce_scatter backward, computation by operations at 400 TFLOP/s";

pub(super) fn workload_7b(options: &WorkloadOptions) -> Workload {
    workload(&LLAMA_7B, options).finish("fsdp-7b", ABOUT_7B)
}

pub(super) fn workload_70b(options: &WorkloadOptions) -> Workload {
    workload(&LLAMA_70B, options).finish("fsdp-70b", ABOUT_70B)
}

fn workload<'a>(shape: &DecoderShape, options: &'a WorkloadOptions) -> WorkloadBuilder<'a> {
    let layers = options.layers.unwrap_or(shape.layers) as usize;
    let mut builder = WorkloadBuilder::new(options);
    builder.dimension("data", None);
    let mut pass = FsdpPass {
        builder: &mut builder,
        shape,
        prefetch: options.prefetch as usize,
    };
    let outside = pass.gather("outside", "forward", shape.outside(), &[]);
    let forward = shapes::time(shape.layer_flops());
    let order: Vec<usize> = (1..=layers).collect();
    let ended = pass.layers("forward", &order, (forward, outside));
    let output = shapes::time(3.0 * shape.output_flops());
    let output = pass.builder.compute("output".to_owned(), output, &ended);
    let order: Vec<usize> = (1..=layers).rev().collect();
    let ended = pass.layers("backward", &order, (Micros(2.0 * forward.0), output));
    pass.scatter("outside", shape.outside(), &ended);
    builder
}

/// A pass over the layers that gathers each before it computes.
struct FsdpPass<'a, 'b> {
    builder: &'a mut WorkloadBuilder<'b>,
    shape: &'a DecoderShape,
    prefetch: usize,
}

impl FsdpPass<'_, '_> {
    /// Adds the layers in `order`, each of which takes `time`, after `before`. Returns the computation of the last one.
    fn layers(
        &mut self,
        pass: &str,
        order: &[usize],
        (time, before): (Micros, usize),
    ) -> Vec<usize> {
        let mut gathered: Vec<usize> = Vec::new();
        let mut computed: Vec<usize> = Vec::new();
        for (at, layer) in order.iter().enumerate() {
            // What is gathered ahead is issued before this layer's gradients are reduced.
            let ahead = order.len().min(at + self.prefetch + 1);
            while gathered.len() < ahead {
                let next = gathered.len();
                // There is memory for so many layers besides the one that computes.
                let free = next.checked_sub(self.prefetch + 1);
                let free = free.map_or(before, |freed| computed[freed]);
                let name = format!("layer {}", order[next]);
                let gather = self.gather(&name, pass, self.shape.layer(), &[free]);
                gathered.push(gather);
            }
            let after = [gathered[at], before];
            let name = format!("{pass} {layer}");
            let compute = self.builder.compute(name, time, &after);
            computed.push(compute);
            if pass == "backward" {
                let name = format!("layer {layer}");
                self.scatter(&name, self.shape.layer(), &[compute]);
            }
        }
        computed.last().copied().into_iter().collect()
    }

    fn gather(&mut self, unit: &str, pass: &str, parameters: u64, after: &[usize]) -> usize {
        let name = format!("gather {unit} {pass}");
        self.collective(name, Collective::AllGather, parameters, after)
    }

    fn scatter(&mut self, unit: &str, parameters: u64, after: &[usize]) -> usize {
        let name = format!("reduce {unit}");
        self.collective(name, Collective::ReduceScatter, parameters, after)
    }

    fn collective(
        &mut self,
        name: String,
        collective: Collective,
        parameters: u64,
        after: &[usize],
    ) -> usize {
        let call = BuiltInCall {
            collective,
            bytes: parameters * BF16,
            dtype: DType::Bfloat16,
            group: &["data"],
        };
        self.builder.collective(name, STREAM, &call, after)
    }
}
