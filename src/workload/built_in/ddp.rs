//! Data parallelism as PyTorch's `DistributedDataParallel` does it: gradients are reduced in buckets while the backward pass goes on.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::WorkloadOptions,
};
use crate::{
    collective::{Collective, data::DType},
    units::Micros,
    workload::operation::Workload,
};

/// The only stream of collectives: PyTorch has one per process group.
const STREAM: &str = "gradients";

/// A parameter of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) elements: u64,
    /// How much of the computation is with it, in any unit.
    pub(super) work: f64,
}

/// A model in float32 with its computation.
pub(super) struct DdpModel {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Its parameters in the order in which they are registered.
    pub(super) parameters: Vec<Parameter>,
    /// Buffers that rank 0 broadcasts before each step: elements and type.
    pub(super) buffers: Vec<(u64, DType)>,
    /// Computation of the forward pass; the backward pass takes twice as long.
    pub(super) forward: Micros,
    /// The part of the computation that is before the gradient of any parameter in the backward pass.
    pub(super) before_gradients: f64,
}

/// A bucket of gradients.
struct GradientBucket {
    bytes: u64,
    work: f64,
}

impl DdpModel {
    pub(super) fn workload(&self, options: &WorkloadOptions) -> Workload {
        let mut builder = WorkloadBuilder::new(options);
        builder.dimension("data", None);
        let mut buffers = Vec::new();
        for (at, (elements, dtype)) in self.buffers.iter().enumerate() {
            let call = BuiltInCall {
                collective: Collective::Broadcast,
                bytes: elements * dtype.size(),
                dtype: *dtype,
                group: &["data"],
            };
            let name = format!("buffers {}", at + 1);
            buffers.push(builder.collective(name, STREAM, &call, &[]));
        }
        builder.compute("forward".to_owned(), self.forward, &buffers);
        let buckets = self.buckets(options);
        let all_work: f64 = buckets.iter().map(|bucket| bucket.work).sum();
        let backward = Micros(2.0 * self.forward.0);
        let mut reduced = Vec::new();
        for (bucket, number) in buckets.iter().zip(1..) {
            let mut part = bucket.work / all_work * (1.0 - self.before_gradients);
            if number == 1 {
                part += self.before_gradients;
            }
            let time = Micros(backward.0 * part);
            let ready = builder.compute(format!("backward {number}"), time, &[]);
            let call = BuiltInCall {
                collective: Collective::AllReduce,
                bytes: bucket.bytes,
                dtype: DType::Float,
                group: &["data"],
            };
            let name = format!("bucket {number}");
            reduced.push(builder.collective(name, STREAM, &call, &[ready]));
        }
        builder.compute("optimizer".to_owned(), self.optimizer(), &reduced);
        builder.finish(self.name, self.about)
    }

    /// Returns the time in which the optimizer reads parameters and gradients and writes parameters at 4 TB/s.
    fn optimizer(&self) -> Micros {
        let elements: u64 = self.parameters.iter().map(|it| it.elements).sum();
        Micros((3 * 4 * elements) as f64 / 4e12 * 1e6)
    }

    /// Divides the parameters into buckets, the last parameter first. A bucket is closed by the parameter with which it reaches
    /// the limit.
    fn buckets(&self, options: &WorkloadOptions) -> Vec<GradientBucket> {
        let mebibytes = |number: f64| (number * f64::from(1 << 20)) as u64;
        let usual = mebibytes(options.bucket_mb);
        let mut limit = options.first_bucket_mb.map_or(usual, mebibytes);
        let mut buckets = Vec::new();
        let mut bucket = GradientBucket {
            bytes: 0,
            work: 0.0,
        };
        for parameter in self.parameters.iter().rev() {
            bucket.bytes += parameter.elements * DType::Float.size();
            bucket.work += parameter.work;
            if bucket.bytes >= limit {
                buckets.push(bucket);
                limit = usual;
                bucket = GradientBucket {
                    bytes: 0,
                    work: 0.0,
                };
            }
        }
        if bucket.bytes > 0 {
            buckets.push(bucket);
        }
        buckets
    }
}
