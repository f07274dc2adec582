//! Data parallelism as PyTorch's `DistributedDataParallel` does it: gradients are reduced in
//! buckets while the backward pass goes on.
//!
//! It launches a kernel per parameter before a bucket is reduced, and one behind it, which a step
//! without synchronization does not have; docs/WORKLOADS.md names the functions. All of them run in
//! the stream that computes.

use super::{
    builder::{BuiltInCall, WorkloadBuilder},
    options::WorkloadOptions,
};
use crate::{
    collective::{Collective, data::DType},
    units::{Bytes, Micros},
    workload::{
        memory_copies::{CopiesByLength, MEMORY_RATE, MemoryCopies},
        operation::Workload,
    },
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

/// Buffers of a module that have one type and are broadcast together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleBuffers {
    /// How many buffers there are.
    pub(super) count: u32,
    /// The elements of all of them.
    pub(super) elements: u64,
    pub(super) dtype: DType,
}

/// A model whose gradients are in float32, with the time of its computation.
pub(super) struct DdpModel {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The parameters in the order in which PyTorch registers them.
    pub(super) parameters: Vec<Parameter>,
    /// The buffers that rank 0 broadcasts before each step, by type.
    pub(super) buffers: Vec<ModuleBuffers>,
    /// The time of the forward pass; the backward pass takes twice as long.
    pub(super) forward: Micros,
    /// The part of the backward pass, from 0 to 1, before the first gradient of a parameter is
    /// complete.
    pub(super) before_gradients: f64,
}

/// Returns the time in which an optimizer reads parameters and gradients and writes parameters,
/// each of 4 bytes.
pub(super) fn optimizer_time(parameters: u64) -> Micros {
    Micros((3 * 4 * parameters) as f64 / MEMORY_RATE * 1e6)
}

/// A bucket of gradients.
#[derive(Clone, Copy, Debug, Default)]
struct GradientBucket {
    bytes: u64,
    /// The copies of its gradients, into it or out of it.
    copies: CopiesByLength,
    work: f64,
}

impl DdpModel {
    pub(super) fn workload(&self, options: &WorkloadOptions) -> Workload {
        let mut builder = WorkloadBuilder::new(options);
        builder.dimension("data", None);
        self.broadcast_buffers(&mut builder);
        builder.compute("forward".to_owned(), self.forward, &[]);
        let buckets = self.buckets(options);
        let reduced = self.backward(&mut builder, &buckets);
        if !options.gradient_as_bucket_view {
            copy_back(&mut builder, &buckets, &reduced);
        }
        let elements = self.parameters.iter().map(|it| it.elements).sum();
        builder.compute("optimizer".to_owned(), optimizer_time(elements), &reduced);
        builder.finish(self.name, self.about)
    }

    /// Adds the backward pass, which ends a bucket at a time, and returns the operations that
    /// reduce the buckets.
    fn backward(
        &self,
        builder: &mut WorkloadBuilder<'_>,
        buckets: &[GradientBucket],
    ) -> Vec<usize> {
        let all_work: f64 = buckets.iter().map(|bucket| bucket.work).sum();
        let backward = Micros(2.0 * self.forward.0);
        let mut reduced = Vec::new();
        for (bucket, number) in buckets.iter().zip(1_u32..) {
            let mut part = bucket.work / all_work * (1.0 - self.before_gradients);
            if number == 1 {
                part += self.before_gradients;
            }
            let time = Micros(backward.0 * part);
            builder.compute(format!("backward {number}"), time, &[]);
            let filled = fill(builder, number, bucket);
            let call = BuiltInCall {
                collective: Collective::AllReduce,
                bytes: bucket.bytes,
                dtype: DType::Float,
                group: &["data"],
            };
            let name = format!("bucket {number}");
            reduced.push(builder.collective(name, STREAM, &call, &filled));
        }
        reduced
    }

    /// Adds the broadcasts of all buffers. Those of a type are copied into one tensor first, and
    /// each of them out of it at the end.
    fn broadcast_buffers(&self, builder: &mut WorkloadBuilder<'_>) {
        let mut sent = Vec::new();
        for (buffers, number) in self.buffers.iter().zip(1_u32..) {
            let ModuleBuffers {
                elements, dtype, ..
            } = *buffers;
            let bytes = elements * dtype.size();
            let together = MemoryCopies {
                bytes: Bytes(bytes),
                pieces: 1,
            };
            let ready = builder.copies(format!("join buffers {number}"), together, dtype, &[]);
            let call = BuiltInCall {
                collective: Collective::Broadcast,
                bytes,
                dtype,
                group: &["data"],
            };
            let name = format!("buffers {number}");
            sent.push(builder.collective(name, STREAM, &call, &[ready]));
        }
        for ((buffers, number), sent) in self.buffers.iter().zip(1_u32..).zip(sent) {
            let copies = MemoryCopies {
                bytes: Bytes(buffers.elements * buffers.dtype.size()),
                pieces: buffers.count,
            };
            let name = format!("copy buffers {number}");
            builder.copies(name, copies, buffers.dtype, &[sent]);
        }
    }

    /// Divides the parameters into buckets, the last parameter first. A bucket is full with the
    /// parameter that makes it reach its limit.
    fn buckets(&self, options: &WorkloadOptions) -> Vec<GradientBucket> {
        let mebibytes = |number: f64| (number * f64::from(1 << 20)) as u64;
        let usual = mebibytes(options.bucket_mb);
        let mut limit = options.first_bucket_mb.map_or(usual, mebibytes);
        let mut buckets = Vec::new();
        let mut bucket = GradientBucket::default();
        for parameter in self.parameters.iter().rev() {
            let bytes = parameter.elements * DType::Float.size();
            bucket.bytes += bytes;
            bucket.copies.add(bytes);
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

/// Adds the division of the gradients of bucket `number`, which copies each into the bucket unless
/// it is a view of it. Returns the operations.
fn fill(builder: &mut WorkloadBuilder<'_>, number: u32, bucket: &GradientBucket) -> Vec<usize> {
    let name = match builder.options.gradient_as_bucket_view {
        true => format!("divide {number}"),
        false => format!("fill {number}"),
    };
    copy_gradients(builder, &name, bucket, &[])
}

/// Adds the copies of all gradients out of their buckets, each bucket after it is reduced.
fn copy_back(builder: &mut WorkloadBuilder<'_>, buckets: &[GradientBucket], reduced: &[usize]) {
    for ((bucket, reduced), number) in buckets.iter().zip(reduced).zip(1_u32..) {
        copy_gradients(builder, &format!("copy back {number}"), bucket, &[*reduced]);
    }
}

/// Adds the copies of a bucket's gradients, the large and the small ones each as an operation, and
/// returns these.
fn copy_gradients(
    builder: &mut WorkloadBuilder<'_>,
    name: &str,
    bucket: &GradientBucket,
    after: &[usize],
) -> Vec<usize> {
    let mut added = Vec::new();
    for (suffix, copies) in [
        ("", bucket.copies.long()),
        (" (small)", bucket.copies.short()),
    ] {
        let Some(copies) = copies else { continue };
        added.push(builder.copies(format!("{name}{suffix}"), copies, DType::Float, after));
    }
    added
}
