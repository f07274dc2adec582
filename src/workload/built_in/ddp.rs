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
    /// Its part of the computation, in any unit.
    pub(super) work: f64,
}

/// A model whose gradients are in float32, with the time of its computation.
pub(super) struct DdpModel {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The parameters in the order in which PyTorch registers them.
    pub(super) parameters: Vec<Parameter>,
    /// The number of elements and the type of the buffers that rank 0 broadcasts before each step.
    pub(super) buffers: Vec<(u64, DType)>,
    /// The time of the forward pass; the backward pass takes twice as long.
    pub(super) forward: Micros,
    /// The part of the backward pass, from 0 to 1, before the first gradient of a parameter is complete.
    pub(super) before_gradients: f64,
}

/// Returns the time in which an optimizer reads parameters and gradients and writes parameters, each of 4 bytes, at 4 TB/s: somewhat
/// less than the memory bandwidth of an H200.
pub(super) fn optimizer_time(parameters: u64) -> Micros {
    Micros((3 * 4 * parameters) as f64 / 4e12 * 1e6)
}

/// A bucket of gradients.
#[derive(Default)]
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

    fn optimizer(&self) -> Micros {
        optimizer_time(self.parameters.iter().map(|it| it.elements).sum())
    }

    /// Divides the parameters into buckets, the last parameter first. A bucket is full with the parameter that makes it reach its
    /// limit.
    fn buckets(&self, options: &WorkloadOptions) -> Vec<GradientBucket> {
        let mebibytes = |number: f64| (number * f64::from(1 << 20)) as u64;
        let usual = mebibytes(options.bucket_mb);
        let mut limit = options.first_bucket_mb.map_or(usual, mebibytes);
        let mut buckets = Vec::new();
        let mut bucket = GradientBucket::default();
        for parameter in self.parameters.iter().rev() {
            bucket.bytes += parameter.elements * DType::Float.size();
            bucket.work += parameter.work;
            if bucket.bytes >= limit {
                buckets.push(std::mem::take(&mut bucket));
                limit = usual;
            }
        }
        if bucket.bytes > 0 {
            buckets.push(bucket);
        }
        buckets
    }
}
