//! `pipeline`: layers are divided among ranks, two parts of the model per rank, in the interleaved
//! 1F1B schedule.
//!
//! All ranks of a workload run the same operations. So every rank runs the schedule of a rank in
//! the middle of the pipeline, without a bubble, and sends each result to the next rank of a ring.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::{STAGES, WorkloadOptions},
    shapes::{self, LLAMA_7B},
};
use crate::{
    collective::{Collective, data::DType},
    units::Micros,
    workload::operation::Workload,
};

/// The parts of the model on each rank.
const PARTS: u64 = 2;

pub(super) const ABOUT: &str = "Llama 2 7B divided among pipeline stages, two parts per rank, \
                                interleaved 1F1B, bfloat16, micro-batches of a sequence of 4096 \
                                tokens: a sendrecv in a ring per part and pass, computation by \
                                operations at 400 TFLOP/s, the bubble left out";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let ranks = options.pipeline.unwrap_or(STAGES);
    let mut builder = WorkloadBuilder::new(options);
    builder.dimension("pipeline", Some(ranks));
    builder.dimension("data", None);
    let layers = options.layers.unwrap_or(LLAMA_7B.layers);
    let slots = u64::from(options.micro_batches) * PARTS;
    // The mean over the ranks of Megatron-LM's 2 (ranks - 1 - rank) + (parts - 1) ranks forward
    // passes before the first backward one.
    let warm_up = ((ranks - 1) + (PARTS - 1) * ranks).min(slots);
    let flops = LLAMA_7B.layer_flops() * f64::from(layers) / (ranks * PARTS) as f64;
    let mut schedule = PipelineSchedule {
        builder: &mut builder,
        forward: shapes::time(flops),
        received: [None, None],
        done: [0, 0],
    };
    for _ in 0..warm_up {
        schedule.slot(Direction::Forward);
    }
    for _ in warm_up..slots {
        schedule.slot(Direction::Forward);
        schedule.slot(Direction::Backward);
    }
    for _ in 0..warm_up {
        schedule.slot(Direction::Backward);
    }
    builder.finish("pipeline", ABOUT)
}

/// A pass over a part of the model.
#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

/// The passes of a step, which are added in the order in which a rank runs them.
struct PipelineSchedule<'a, 'b> {
    builder: &'a mut WorkloadBuilder<'b>,
    /// The time of a forward pass; a backward pass takes twice as long.
    forward: Micros,
    /// The last sendrecv of each [`Direction`], if there was one.
    received: [Option<usize>; 2],
    /// The number of passes so far in each [`Direction`].
    done: [u64; 2],
}

impl PipelineSchedule<'_, '_> {
    /// Adds a pass over a part: computation that needs what was received last in this direction,
    /// and the sendrecv of its result.
    fn slot(&mut self, direction: Direction) {
        let (name, factor) = match direction {
            Direction::Forward => ("forward", 1.0),
            Direction::Backward => ("backward", 2.0),
        };
        let at = direction as usize;
        self.done[at] += 1;
        let number = self.done[at];
        let after: Vec<usize> = self.received[at].into_iter().collect();
        let time = Micros(self.forward.0 * factor);
        let computed = self
            .builder
            .compute(format!("{name} {number}"), time, &after);
        let call = BuiltInCall {
            collective: Collective::SendRecv,
            bytes: LLAMA_7B.activations(),
            dtype: DType::Bfloat16,
            group: &["pipeline"],
        };
        let name = format!("send {name} {number}");
        let sent = self.builder.collective(name, "stages", &call, &[computed]);
        self.received[at] = Some(sent);
    }
}
