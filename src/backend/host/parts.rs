//! [`Parts`]: the counts and offsets of an alltoallv.

use std::ffi::c_int;

use crate::collective::Case;

/// What an alltoallv sends to and receives from each rank, in the form that MPI needs; empty for
/// every other collective.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) sent: Vec<c_int>,
    pub(super) send_offsets: Vec<c_int>,
    pub(super) received: Vec<c_int>,
    pub(super) recv_offsets: Vec<c_int>,
}

impl Parts {
    /// Returns the parts of rank `rank` in `case`.
    pub(super) fn new(case: &Case, rank: u64) -> Parts {
        let mut parts = Parts::default();
        for flow in case.flows(rank) {
            parts.sent.push(flow.send as c_int);
            parts.send_offsets.push(flow.send_offset as c_int);
            parts.received.push(flow.recv as c_int);
            parts.recv_offsets.push(flow.recv_offset as c_int);
        }
        parts
    }

    /// Returns parts of these lengths, in rank order, which follow one another without a gap.
    pub(super) fn one_after_another(sent: &[usize], received: &[usize]) -> Parts {
        let (sent, send_offsets) = with_offsets(sent);
        let (received, recv_offsets) = with_offsets(received);
        Parts {
            sent,
            send_offsets,
            received,
            recv_offsets,
        }
    }

    /// Returns the number of elements from the first that is sent to the last.
    pub(super) fn sent_elements(&self) -> usize {
        let ends = self.sent.iter().zip(&self.send_offsets);
        let last = ends.map(|(count, offset)| count + offset).max();
        last.unwrap_or(0) as usize
    }
}

/// Returns the lengths of parts, and where each begins.
fn with_offsets(lengths: &[usize]) -> (Vec<c_int>, Vec<c_int>) {
    let mut counts = Vec::with_capacity(lengths.len());
    let mut offsets = Vec::with_capacity(lengths.len());
    let mut end = 0;
    for &length in lengths {
        counts.push(length as c_int);
        offsets.push(end);
        end += length as c_int;
    }
    (counts, offsets)
}
