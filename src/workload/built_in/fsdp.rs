//! `fsdp-7b` and `fsdp-70b`: parameters are divided among all ranks, as in PyTorch's fully sharded
//! data parallelism with a unit per layer and one for the rest.

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

/// The only stream of collectives: all_gather and reduce_scatter use one process group.
const STREAM: &str = "shards";

pub(super) const ABOUT_7B: &str = "Llama 2 7B in PyTorch's FSDP, bfloat16, a sequence of 4096 \
                                   tokens per rank: an all_gather per layer forward and backward, \
                                   a reduce_scatter backward, computation by operations at 400 \
                                   TFLOP/s";

pub(super) const ABOUT_70B: &str = "Llama 2 70B in PyTorch's FSDP, bfloat16, a sequence of 4096 \
                                    tokens per rank: an all_gather per layer forward and \
                                    backward, a reduce_scatter backward, computation by \
                                    operations at 400 TFLOP/s";

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

/// A forward or backward pass, which gathers the parameters of each layer before the layer
/// computes.
struct FsdpPass<'a, 'b> {
    builder: &'a mut WorkloadBuilder<'b>,
    shape: &'a DecoderShape,
    prefetch: usize,
}

impl FsdpPass<'_, '_> {
    /// Adds the layers in `order`, each of which takes `time` and waits for `before`. Returns the
    /// computation of the last one; nothing if there is no layer.
    fn layers(
        &mut self,
        pass: &str,
        order: &[usize],
        (time, before): (Micros, usize),
    ) -> Vec<usize> {
        let mut gathered: Vec<usize> = Vec::new();
        let mut computed: Vec<usize> = Vec::new();
        for (at, layer) in order.iter().enumerate() {
            // The next layers are gathered before the gradients of this one are reduced, which
            // happens in the same stream.
            let ahead = order.len().min(at + self.prefetch + 1);
            while gathered.len() < ahead {
                let next = gathered.len();
                // Parameters of the layer that computes and of the prefetched ones are in memory;
                // the layer before those must be done.
                let done = next.checked_sub(self.prefetch + 1);
                let done = done.map_or(before, |layer| computed[layer]);
                let name = format!("layer {}", order[next]);
                let gather = self.gather(&name, pass, self.shape.layer(), &[done]);
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
