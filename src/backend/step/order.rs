//! What an operation of a step waits for in each mode.

use std::collections::{BTreeMap, BTreeSet};

use super::mode::StepMode;
use crate::workload::Step;

/// For each operation of `step`, the operations that end before it begins in `mode`, which are
/// among those before it; `None` for those that the mode leaves out. The one before it in its
/// stream is among them. Of several in one stream only the last is, because the others end before
/// it. An operation that is left out ends, as the others see it, when those have ended that it
/// waits for.
pub fn waits(step: &Step, mode: StepMode) -> Vec<Option<BTreeSet<usize>>> {
    let mut waits = Vec::with_capacity(step.operations.len());
    // For each operation, those by whose end it has ended: itself, if it runs.
    let mut ends: Vec<BTreeSet<usize>> = Vec::with_capacity(step.operations.len());
    let mut last_in_stream: Vec<Option<usize>> = vec![None; step.streams.len()];
    let mut last = None;
    for (index, operation) in step.operations.iter().enumerate() {
        let in_stream = &mut last_in_stream[operation.stream];
        let before = if mode == StepMode::Serial {
            last
        } else {
            *in_stream
        };
        let after = operation.after.iter().copied().chain(before);
        let mut last_waited: BTreeMap<usize, usize> = BTreeMap::new();
        for &earlier in after.flat_map(|earlier| &ends[earlier]) {
            let of_stream = last_waited
                .entry(step.operations[earlier].stream)
                .or_default();
            *of_stream = earlier.max(*of_stream);
        }
        let waited: BTreeSet<usize> = last_waited.into_values().collect();
        if mode.runs(&operation.work) {
            ends.push(BTreeSet::from([index]));
            waits.push(Some(waited));
        } else {
            ends.push(waited);
            waits.push(None);
        }
        *in_stream = Some(index);
        last = Some(index);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        units::{Bytes, Micros},
        workload::{StepOperation, StepWork},
    };

    /// Returns a step of two streams: computation in the first, collectives in the second.
    fn step(operations: &[(usize, &[usize])]) -> Step {
        let shape = CaseShape {
            collective: Collective::AllGather,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 2,
        };
        let mut step = Step {
            streams: vec!["compute".into(), "communicate".into()],
            communicators: Vec::new(),
            operations: Vec::new(),
        };
        for (index, &(stream, after)) in operations.iter().enumerate() {
            let work = match stream {
                0 => StepWork::Compute(Micros(1.0)),
                _ => StepWork::Collective {
                    communicator: 0,
                    case: shape.nearest(Bytes(64)),
                },
            };
            step.operations.push(StepOperation {
                name: index.to_string(),
                stream,
                after: after.to_vec(),
                work,
            });
        }
        step
    }

    fn waited(step: &Step, mode: StepMode) -> Vec<Option<Vec<usize>>> {
        let sets = waits(step, mode).into_iter();
        sets.map(|set| set.map(Vec::from_iter)).collect()
    }

    #[test]
    fn what_waits_for_something_left_out_waits_for_what_that_waits_for() {
        let step = step(&[(1, &[]), (0, &[0]), (0, &[]), (1, &[2]), (0, &[])]);
        let overlapped = waited(&step, StepMode::Overlapped);
        let expected = [vec![], vec![0], vec![1], vec![0, 2], vec![2]];
        assert_eq!(overlapped, expected.map(Some));
        let serial = waited(&step, StepMode::Serial);
        let expected = [vec![], vec![0], vec![1], vec![2], vec![3]];
        assert_eq!(serial, expected.map(Some));
        let computation = waited(&step, StepMode::Computation);
        let expected = [None, Some(vec![]), Some(vec![1]), None, Some(vec![2])];
        assert_eq!(computation, expected);
        let communication = waited(&step, StepMode::Communication);
        let expected = [Some(vec![]), None, None, Some(vec![0]), None];
        assert_eq!(communication, expected);
    }

    /// A long chain of operations that are left out has no longer and longer list of what it waits
    /// for.
    #[test]
    fn of_each_stream_only_the_last_is_waited_for() {
        let mut chain: Vec<(usize, Vec<usize>)> = Vec::new();
        for index in 0..20_000_usize {
            chain.push(match index % 2 {
                0 => (0, Vec::new()),
                _ => (1, vec![index - 1]),
            });
        }
        chain.push((0, vec![1, 19_999]));
        let operations: Vec<(usize, &[usize])> = chain
            .iter()
            .map(|(stream, after)| (*stream, after.as_slice()))
            .collect();
        let step = step(&operations);
        let computation = waited(&step, StepMode::Computation);
        assert_eq!(computation[20_000], Some(vec![19_998]));
        let overlapped = waited(&step, StepMode::Overlapped);
        assert_eq!(overlapped[20_000], Some(vec![19_998, 19_999]));
    }
}
