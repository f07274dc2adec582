//! [`WorkloadBuilder`]: a built-in workload to which operations are added.

use super::options::WorkloadOptions;
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::{Bytes, Micros},
    workload::{
        group::{Dimension, DimensionSize},
        memory_copies::MemoryCopies,
        operation::{CollectiveCall, Operation, Work, Workload},
    },
};

/// The stream in which built-in workloads compute.
const COMPUTE: &str = "compute";

/// A built-in workload to which operations are added.
pub(super) struct WorkloadBuilder<'a> {
    pub(super) options: &'a WorkloadOptions,
    dimensions: Vec<Dimension>,
    operations: Vec<Operation>,
}

/// A collective to add. Its size is not yet multiplied by the factor of the options.
pub(super) struct BuiltInCall {
    pub(super) collective: Collective,
    pub(super) bytes: u64,
    pub(super) dtype: DType,
    pub(super) group: &'static [&'static str],
}

impl<'a> WorkloadBuilder<'a> {
    pub(super) fn new(options: &'a WorkloadOptions) -> WorkloadBuilder<'a> {
        WorkloadBuilder {
            options,
            dimensions: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Adds a dimension with this number of ranks, or with the rest of the ranks.
    pub(super) fn dimension(&mut self, name: &str, ranks: Option<u64>) {
        let size = ranks.map_or(DimensionSize::Rest, DimensionSize::Ranks);
        self.dimensions.push(Dimension {
            name: name.to_owned(),
            size,
        });
    }

    /// Adds computation and returns its index. `time` is multiplied by the factor of the options.
    pub(super) fn compute(&mut self, name: String, time: Micros, after: &[usize]) -> usize {
        let time = Micros(time.0 * self.options.time_scale);
        self.add(name, COMPUTE, after, Work::Compute(time))
    }

    /// Adds copies of elements of a type, whose bytes are not scaled yet, to the stream that
    /// computes, and returns their index.
    pub(super) fn copies(
        &mut self,
        name: String,
        copies: MemoryCopies,
        dtype: DType,
        after: &[usize],
    ) -> usize {
        let MemoryCopies { bytes, pieces } = copies;
        let least = u64::from(pieces) * dtype.size();
        let bytes = Bytes(self.scaled(bytes.0, dtype).0.max(least));
        let copies = MemoryCopies { bytes, pieces };
        self.add(name, COMPUTE, after, Work::Copies(copies))
    }

    /// Adds a collective and returns its index.
    pub(super) fn collective(
        &mut self,
        name: String,
        stream: &str,
        call: &BuiltInCall,
        after: &[usize],
    ) -> usize {
        let spec = call.collective.spec();
        let call = CollectiveCall {
            collective: call.collective,
            size: self.scaled(call.bytes, call.dtype),
            dtype: call.dtype,
            redop: spec.reduces.then_some(RedOp::Sum),
            root: spec.rooted.then_some(0),
            group: call.group.iter().map(|name| (*name).to_owned()).collect(),
            traffic: spec
                .uneven
                .then(|| Traffic::Spread(self.options.skew).keep()),
        };
        self.add(name, stream, after, Work::Collective(call))
    }

    pub(super) fn finish(self, name: &str, about: &str) -> Workload {
        Workload {
            name: name.to_owned(),
            about: about.to_owned(),
            dimensions: self.dimensions,
            operations: self.operations,
        }
    }

    fn add(&mut self, name: String, stream: &str, after: &[usize], work: Work) -> usize {
        let mut after = after.to_vec();
        after.sort_unstable();
        after.dedup();
        self.operations.push(Operation {
            name,
            stream: stream.to_owned(),
            after,
            work,
        });
        self.operations.len() - 1
    }

    /// Returns a size multiplied by the factor of the options, in whole elements and at least one.
    fn scaled(&self, bytes: u64, dtype: DType) -> Bytes {
        let element = dtype.size();
        let scaled = (bytes as f64 * self.options.size_scale) as u64;
        Bytes((scaled / element * element).max(element))
    }
}
