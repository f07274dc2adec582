//! `moe-8x7b`: Mixtral 8x7B with its experts divided among ranks. Tokens are sent to their experts
//! (dispatch), and the results are sent back (combine).

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::WorkloadOptions,
    shapes::{self, BF16, DecoderShape, MIXTRAL},
};
use crate::{
    collective::{Collective, data::DType},
    workload::operation::Workload,
};

/// The experts of a layer.
const EXPERTS: u64 = 8;

/// The experts to which each token is sent.
const EXPERTS_PER_TOKEN: u64 = 2;

pub(super) const ABOUT: &str = "Mixtral 8x7B with expert parallelism, bfloat16, a sequence of 4096 tokens per rank, each to \
     2 of 8 experts: an alltoallv to the experts and one back per layer and pass, an all_reduce \
     of the other gradients per layer, computation by operations at 400 TFLOP/s";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let mut builder = WorkloadBuilder::new(options);
    builder.dimension("expert", options.expert);
    if options.expert.is_some() {
        builder.dimension("data", None);
    }
    let layers = options.layers.unwrap_or(MIXTRAL.layers);
    let mut pass = MoePass {
        builder: &mut builder,
        shape: &MIXTRAL,
        before: Vec::new(),
        reduced: Vec::new(),
    };
    for layer in 1..=layers {
        pass.forward(layer);
    }
    pass.output();
    for layer in (1..=layers).rev() {
        pass.backward(layer, options.expert);
    }
    pass.reduce_outside(options.expert);
    builder.finish("moe-8x7b", ABOUT)
}

/// The operations of a step with experts, which are added one after another.
struct MoePass<'a, 'b> {
    builder: &'a mut WorkloadBuilder<'b>,
    shape: &'a DecoderShape,
    /// The operations for which the next one waits.
    before: Vec<usize>,
    /// The reductions of gradients, for which the optimizer waits.
    reduced: Vec<usize>,
}

impl MoePass<'_, '_> {
    fn forward(&mut self, layer: u32) {
        self.compute(format!("attention {layer}"), self.shape.attention_flops());
        self.exchange(format!("dispatch {layer}"));
        self.compute(format!("experts {layer}"), self.expert_flops());
        self.exchange(format!("combine {layer}"));
    }

    fn output(&mut self) {
        self.compute("output".to_owned(), 3.0 * self.shape.output_flops());
    }

    /// Adds the backward pass of a layer, in which gradients are sent to where tokens came from.
    fn backward(&mut self, layer: u32, expert: Option<u64>) {
        self.exchange(format!("combine gradient {layer}"));
        self.compute(
            format!("experts backward {layer}"),
            2.0 * self.expert_flops(),
        );
        if let Some(ranks) = expert {
            let own = EXPERTS.div_ceil(ranks);
            let parameters = own * self.shape.mlp();
            self.reduce(format!("experts gradient {layer}"), parameters, &["data"]);
        }
        self.exchange(format!("dispatch gradient {layer}"));
        let flops = 2.0 * self.shape.attention_flops();
        self.compute(format!("attention backward {layer}"), flops);
        let router = self.shape.hidden * EXPERTS;
        let parameters = self.shape.attention() + self.shape.norms() + router;
        let name = format!("attention gradient {layer}");
        self.reduce(name, parameters, replicas(expert));
    }

    fn reduce_outside(&mut self, expert: Option<u64>) {
        let name = "outside gradient".to_owned();
        self.reduce(name, self.shape.outside(), replicas(expert));
        let reduced = std::mem::take(&mut self.reduced);
        self.before.extend(reduced);
        self.compute("optimizer".to_owned(), 0.0);
    }

    /// Returns the floating-point operations of the forward pass of the experts of a rank, if all
    /// experts get equally many tokens.
    fn expert_flops(&self) -> f64 {
        self.shape
            .mlp_flops(EXPERTS_PER_TOKEN * self.shape.sequence)
    }

    fn compute(&mut self, name: String, flops: f64) {
        let computed = self
            .builder
            .compute(name, shapes::time(flops), &self.before);
        self.before = vec![computed];
    }

    fn exchange(&mut self, name: String) {
        let call = BuiltInCall {
            collective: Collective::AllToAllV,
            bytes: EXPERTS_PER_TOKEN * self.shape.activations(),
            dtype: DType::Bfloat16,
            group: &["expert"],
        };
        let exchanged = self.builder.collective(name, "tokens", &call, &self.before);
        self.before = vec![exchanged];
    }

    fn reduce(&mut self, name: String, parameters: u64, group: &'static [&'static str]) {
        let call = BuiltInCall {
            collective: Collective::AllReduce,
            bytes: parameters * BF16,
            dtype: DType::Bfloat16,
            group,
        };
        let reduced = self
            .builder
            .collective(name, "gradients", &call, &self.before);
        self.reduced.push(reduced);
    }
}

/// Returns the dimensions over which all parameters but those of experts are replicated.
fn replicas(expert: Option<u64>) -> &'static [&'static str] {
    match expert {
        Some(_) => &["expert", "data"],
        None => &["expert"],
    }
}
