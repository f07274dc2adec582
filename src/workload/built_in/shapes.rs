//! [`DecoderShape`]: published shapes of language models, their parameters and their floating-point
//! operations.

use crate::units::Micros;

/// The assumed rate of computation in floating-point operations per second: 400 TFLOP/s, about 40 %
/// of the dense bfloat16 peak of an H100 or H200 (989 TFLOP/s).
pub(super) const RATE: f64 = 400e12;

/// Bytes of a parameter, a gradient or an activation in bfloat16.
pub(super) const BF16: u64 = 2;

/// A decoder such as Llama 2 or Mixtral: attention with grouped keys and values, an MLP of three
/// matrices, norms without bias.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecoderShape {
    pub(super) layers: u32,
    pub(super) hidden: u64,
    /// The width of the keys, and of the values, of all heads together.
    pub(super) key_value: u64,
    pub(super) intermediate: u64,
    pub(super) vocabulary: u64,
    /// Tokens of a sequence; a micro-batch is one sequence.
    pub(super) sequence: u64,
}

/// Llama 2 7B.
pub(super) const LLAMA_7B: DecoderShape = DecoderShape {
    layers: 32,
    hidden: 4096,
    key_value: 4096,
    intermediate: 11008,
    vocabulary: 32000,
    sequence: 4096,
};

/// Llama 2 70B.
pub(super) const LLAMA_70B: DecoderShape = DecoderShape {
    layers: 80,
    hidden: 8192,
    key_value: 1024,
    intermediate: 28672,
    vocabulary: 32000,
    sequence: 4096,
};

/// Mixtral 8x7B; its MLP is that of one expert.
pub(super) const MIXTRAL: DecoderShape = DecoderShape {
    layers: 32,
    hidden: 4096,
    key_value: 1024,
    intermediate: 14336,
    vocabulary: 32000,
    sequence: 4096,
};

impl DecoderShape {
    /// Returns the parameters of the attention of a layer.
    pub(super) fn attention(&self) -> u64 {
        2 * self.hidden * self.hidden + 2 * self.hidden * self.key_value
    }

    /// Returns the parameters of an MLP.
    pub(super) fn mlp(&self) -> u64 {
        3 * self.hidden * self.intermediate
    }

    /// Returns the parameters of the two norms of a layer.
    pub(super) fn norms(&self) -> u64 {
        2 * self.hidden
    }

    /// Returns the parameters of a layer.
    pub(super) fn layer(&self) -> u64 {
        self.attention() + self.mlp() + self.norms()
    }

    /// Returns the parameters outside layers: embedding, output, and the last norm.
    pub(super) fn outside(&self) -> u64 {
        2 * self.vocabulary * self.hidden + self.hidden
    }

    /// Returns the bytes of the activations of a micro-batch between layers.
    pub(super) fn activations(&self) -> u64 {
        self.sequence * self.hidden * BF16
    }

    /// Returns the floating-point operations of the forward pass of attention, for a micro-batch.
    pub(super) fn attention_flops(&self) -> f64 {
        let matrices = 2 * self.attention() * self.sequence;
        // Queries times keys, and scores times values: 2·s²·h each, of which causal masking leaves
        // half.
        let scores = 2 * self.sequence * self.sequence * self.hidden;
        (matrices + scores) as f64
    }

    /// Returns the floating-point operations of the forward pass of an MLP for a number of tokens.
    pub(super) fn mlp_flops(&self, tokens: u64) -> f64 {
        (2 * self.mlp() * tokens) as f64
    }

    /// Returns the floating-point operations of the forward pass of a layer, for a micro-batch.
    pub(super) fn layer_flops(&self) -> f64 {
        self.attention_flops() + self.mlp_flops(self.sequence)
    }

    /// Returns the floating-point operations of the forward pass of the output, for a micro-batch.
    pub(super) fn output_flops(&self) -> f64 {
        (2 * self.vocabulary * self.hidden * self.sequence) as f64
    }
}

/// Returns the time of floating-point operations at [`RATE`].
pub(super) fn time(flops: f64) -> Micros {
    Micros(flops / RATE * 1e6)
}
