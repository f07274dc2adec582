//! The world of MPI_COMM_WORLD, through rsmpi.
//!
//! A failing rank must never unwind past rsmpi's `Universe`: its `Drop` calls `MPI_Finalize`, which
//! waits forever for the other ranks (seen under srun and mpirun). A failure ends the job through
//! [`abort::job`], which calls `abort_mpi`.

#![expect(
    unsafe_code,
    reason = "MPI_Abort and MPI_Finalized are called from threads that hold no rsmpi object; a \
              version is a C string"
)]

use std::{
    ffi::{CStr, c_char},
    os::raw::c_int,
};

use mpi::{
    collective::SystemOperation, environment::Universe, ffi, topology::SimpleCommunicator,
    traits::*,
};

use super::{World, abort};
use crate::exit::{Code, Failure};

/// Starts MPI, and returns the processes that the launcher started. Errors inside MPI end the job
/// by MPI's default, MPI_ERRORS_ARE_FATAL.
///
/// # Errors
/// Returns an error if MPI was already started in this process.
pub fn start() -> anyhow::Result<Box<dyn World>> {
    // Registered first, since MPI_Init may hang too.
    abort::set_aborter(abort_mpi, abort::OthersEnd::Killed);
    // Only the main thread calls MPI while all is well; the others only abort.
    let (universe, _) =
        mpi::initialize_with_threading(mpi::Threading::Funneled).ok_or_else(|| {
            Failure::on_this_rank(Code::Launch, "MPI was already started in this process")
        })?;
    Ok(Box::new(Mpi {
        world: universe.world(),
        _universe: universe,
    }))
}

/// The processes of MPI_COMM_WORLD.
struct Mpi {
    world: SimpleCommunicator,
    /// Dropping it calls MPI_Finalize, so it is the last field.
    _universe: Universe,
}

impl World for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank() as u32
    }

    fn size(&self) -> u32 {
        self.world.size() as u32
    }

    fn barrier(&self) {
        self.world.barrier();
    }

    fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
        let root = self.world.process_at_rank(0);
        let mut len = bytes.len() as u64;
        root.broadcast_into(&mut len);
        let mut all = if self.rank() == 0 {
            bytes.to_vec()
        } else {
            vec![0; len as usize]
        };
        root.broadcast_into(&mut all[..]);
        all
    }

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut sizes = vec![0_u64; self.size() as usize];
        self.world
            .all_gather_into(&(bytes.len() as u64), &mut sizes[..]);
        if sizes.iter().sum::<u64>() > i32::MAX as u64 {
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let what = format!(
                "a rank sends {largest} bytes to all ranks, and MPI can gather at most 2 GiB from \
                 all of them. This is a bug of pxnbench: please report it"
            );
            abort::job(Code::Internal, &what);
        }
        let lengths: Vec<i32> = sizes.into_iter().map(|size| size as i32).collect();
        let mut starts = Vec::with_capacity(lengths.len());
        let mut total = 0;
        for length in &lengths {
            starts.push(total);
            total += length;
        }
        let mut all = vec![0_u8; total as usize];
        let mut parts = mpi::datatype::PartitionMut::new(&mut all[..], &lengths[..], &starts[..]);
        self.world.all_gather_varcount_into(bytes, &mut parts);
        let mut rest = &all[..];
        let mut parts = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (part, others) = rest.split_at(length as usize);
            parts.push(part.to_vec());
            rest = others;
        }
        parts
    }

    fn all_reduce_sum(&self, value: u64) -> u64 {
        let mut total = 0;
        self.world
            .all_reduce_into(&value, &mut total, SystemOperation::sum());
        total
    }

    fn mean(&self, value: f64) -> f64 {
        let mut total = 0.0;
        self.world
            .all_reduce_into(&value, &mut total, SystemOperation::sum());
        total / f64::from(self.size())
    }

    fn library(&self) -> String {
        loaded()
    }

    fn finish(self: Box<Self>) {
        self.barrier();
    }
}

unsafe extern "C" {
    /// Name and version in `mpi.h`, from `mpi_macros.c`.
    static pxnbench_mpi_built_with: *const c_char;
}

/// Returns the MPI that this program is built with, such as `Open MPI 4.1.4`; empty if its header
/// does not say.
pub fn built_with() -> &'static str {
    // SAFETY: the C constant is initialised before main, never written, and a string that ends in a
    // zero byte.
    let name = unsafe { CStr::from_ptr(pxnbench_mpi_built_with) };
    name.to_str().unwrap_or_default()
}

/// Returns the MPI that was loaded, such as `Open MPI v4.1.4`. It may be called before MPI starts.
pub fn loaded() -> String {
    let version = mpi::environment::library_version().unwrap_or_default();
    // The name ends at the first comma in Open MPI, and at the first line in MPICH; then comes how
    // it was built.
    let name = version.split(['\n', ',']).next().unwrap_or_default();
    name.trim().to_owned()
}

/// Returns whether MPI is running and this is the thread that started it, which is the only one
/// that may call it.
pub fn is_running_in_this_thread() -> bool {
    let mut is_main = 0;
    if is_running() {
        // SAFETY: MPI is running; the call writes one int, and any thread may make it.
        unsafe { ffi::MPI_Is_thread_main(&mut is_main) };
    }
    is_main != 0
}

/// Returns whether MPI has been started and not ended.
fn is_running() -> bool {
    let (mut started, mut ended) = (0, 0);
    // SAFETY: both calls are allowed at any time from any thread, and write one int each.
    unsafe {
        ffi::MPI_Initialized(&mut started);
        ffi::MPI_Finalized(&mut ended);
    }
    started != 0 && ended == 0
}

/// Ends every rank of the job with `code` if MPI is running, and returns if it is not. Any thread
/// may call it.
fn abort_mpi(code: Code, _: &str) {
    if is_running() {
        // SAFETY: MPI is running; the call takes no memory of ours and does not return. MPI allows
        // calls from the main thread only; that another thread ends the job while the main thread
        // hangs in MPI is deliberate, and a timer of `world::abort` ends the process if this hangs
        // too.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code as c_int) };
    }
}
