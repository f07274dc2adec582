//! The MPI call for each collective.

use std::ffi::c_int;

use super::{functions, operation::Operation};
use crate::{
    collective::{
        BufferMode, Case, Collective, Layout,
        data::{Content, Region},
    },
    exit::{Code, Failure},
};

/// The MPI call that runs a collective.
pub(super) struct MpiCall {
    /// The name of the function, out of place and in place, for messages.
    pub(super) names: [&'static str; 2],
    /// Runs it once, and returns MPI's return code.
    ///
    /// # Safety
    /// The pointers of the operation are valid for what the collective sends and receives.
    pub(super) run: unsafe fn(&Operation<'_>) -> c_int,
    /// Adapts the layout of a case on a rank, if MPI leaves another result than the collective's
    /// layout says.
    pub(super) adapt: fn(&Case, u64, Layout) -> Layout,
}

impl MpiCall {
    /// Returns the call of a function that leaves what the layout says.
    fn new(name: &'static str, run: unsafe fn(&Operation<'_>) -> c_int) -> MpiCall {
        MpiCall {
            names: [name; 2],
            run,
            adapt: unchanged,
        }
    }
}

/// Returns the MPI call of `collective`. The comments tell which buffers it uses on the root and on
/// the others, and which elements are checked.
///
/// Waived for every collective: more than 2³¹-1 elements (MPI's counts are `int`), reductions of
/// 8-bit floats (MPI has no such types), and avg and mulsum of integers (MPI has no such
/// operations). In place, alltoall, alltoallv and sendrecv are timed but not checked, as with NCCL.
pub(super) fn call_for(collective: Collective) -> MpiCall {
    match collective {
        // Out of place send -> recv; in place MPI_IN_PLACE -> recv, on every rank. All of recv is
        // checked.
        Collective::AllReduce => MpiCall::new("MPI_Allreduce", functions::all_reduce),
        // Out of place send -> recv; in place the input of each rank is at its chunk of recv. All
        // of recv is checked.
        Collective::AllGather => MpiCall::new("MPI_Allgather", functions::all_gather),
        // In place MPI reads the input from recv and leaves the result at its start, not at the
        // rank's chunk as NCCL does. MPI may overwrite the rest, so only the result is checked.
        Collective::ReduceScatter => MpiCall {
            names: ["MPI_Reduce_scatter_block"; 2],
            run: functions::reduce_scatter,
            adapt: result_at_the_start,
        },
        // MPI has one buffer: out of place the root sends from send, and its recv must stay
        // untouched, while the others receive into recv. All of recv is checked.
        Collective::Broadcast => MpiCall {
            names: ["MPI_Bcast"; 2],
            run: functions::broadcast,
            adapt: root_receives_nothing,
        },
        // On the root send -> recv, in place MPI_IN_PLACE -> recv; the others only send, in place
        // from recv, which must not change. All of recv is checked.
        Collective::Reduce => MpiCall::new("MPI_Reduce", functions::reduce),
        // Out of place send -> recv, all of recv is checked; in place MPI_IN_PLACE -> recv, timed
        // only.
        Collective::AllToAll => MpiCall::new("MPI_Alltoall", functions::alltoall),
        // On the root send -> recv, in place its input is at its chunk of recv; the others only
        // send, in place from their chunk of recv. All of recv is checked.
        Collective::Gather => MpiCall::new("MPI_Gather", functions::gather),
        // On the root send -> recv, in place its chunk stays where it is; the others receive, in
        // place into their chunk of recv. All of recv is checked.
        Collective::Scatter => MpiCall::new("MPI_Scatter", functions::scatter),
        // A ring: to the next rank, from the previous one. Out of place all of recv is checked; in
        // place timed only.
        Collective::SendRecv => MpiCall {
            names: ["MPI_Sendrecv", "MPI_Sendrecv_replace"],
            run: functions::sendrecv,
            adapt: unchanged,
        },
        // A round for each bit of a rank's number, in recv, which has the rank's input at its
        // chunk: in place it is there already, out of place it is copied first. All of recv is
        // checked.
        Collective::HyperCube => MpiCall::new("MPI_Sendrecv", functions::hyper_cube),
        // Out of place send -> recv; all of recv is checked, including what lies behind the last
        // part. With MPI_IN_PLACE, MPI requires that any two ranks send each other the same amount,
        // so in place what is sent is copied from recv first; timed only.
        Collective::AllToAllV => MpiCall::new("MPI_Alltoallv", functions::alltoallv),
    }
}

fn unchanged(_: &Case, _: u64, layout: Layout) -> Layout {
    layout
}

/// Returns the layout of MPI_Reduce_scatter_block, which in place leaves the result at the start of
/// the buffer.
fn result_at_the_start(case: &Case, rank: u64, layout: Layout) -> Layout {
    if case.buffer_mode == BufferMode::OutOfPlace {
        return layout;
    }
    let share = case.counts.param;
    if share == 0 {
        return Layout {
            expected: Vec::new(),
            ..layout
        };
    }
    let result = Region {
        offset: 0,
        len: share,
        content: Content::Reduced {
            first: rank * share,
        },
    };
    Layout {
        expected: vec![result],
        recv_offset: 0,
        ..layout
    }
}

/// Returns the layout of MPI_Bcast, which out of place leaves the receive buffer of the root alone.
fn root_receives_nothing(case: &Case, rank: u64, layout: Layout) -> Layout {
    let is_root = case.root.map(u64::from) == Some(rank);
    if case.buffer_mode == BufferMode::InPlace || !is_root {
        return layout;
    }
    Layout {
        expected: layout.recv.clone(),
        ..layout
    }
}

/// Turns MPI's return code into an error. By default MPI ends the job itself.
pub(super) fn check_code(name: &str, code: c_int, case: &Case) -> anyhow::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(failure(name, code, case)),
    }
}

/// Returns the error for a return code of MPI.
pub(super) fn failure(name: &str, code: c_int, case: &Case) -> anyhow::Error {
    let what = format!("{name} failed with code {code} in {case}");
    Failure::on_this_rank(Code::Launch, what)
}
