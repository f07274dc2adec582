//! [`Operation`]: the pointers and counts of a call of MPI.

#![expect(unsafe_code, reason = "rsmpi has no MPI_IN_PLACE")]

use std::ffi::{c_int, c_void};

use mpi::ffi;

use super::parts::Parts;

unsafe extern "C" {
    /// MPI_IN_PLACE, from `world/mpi_macros.c`.
    static pxnbench_mpi_in_place: *mut c_void;
}

/// Returns MPI_IN_PLACE.
pub(super) fn in_place_argument() -> *mut c_void {
    // SAFETY: the C constant is initialised before main and never written.
    unsafe { pxnbench_mpi_in_place }
}

/// The pointers and counts of one operation. `send` and `recv` are those of the layout; in place
/// both lie in the same buffer, `base`.
pub(super) struct Operation<'a> {
    pub(super) in_place: bool,
    /// Start of the receive buffer.
    pub(super) base: *mut c_void,
    pub(super) send: *const c_void,
    pub(super) recv: *mut c_void,
    /// The send buffer, which in place has room for a copy.
    pub(super) copy: *mut c_void,
    pub(super) count: c_int,
    /// Bytes of an element.
    pub(super) element: usize,
    pub(super) dtype: ffi::MPI_Datatype,
    pub(super) redop: ffi::MPI_Op,
    pub(super) rank: c_int,
    pub(super) ranks: c_int,
    pub(super) root: c_int,
    /// All processes, or those of one of several communicators.
    pub(super) comm: ffi::MPI_Comm,
    pub(super) parts: &'a Parts,
}

impl Operation<'_> {
    /// Returns the send argument of a call that accepts MPI_IN_PLACE.
    pub(super) fn send_or_in_place(&self) -> *const c_void {
        if self.in_place {
            in_place_argument()
        } else {
            self.send
        }
    }

    fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// Returns the only buffer of a broadcast, which MPI only reads on the root.
    pub(super) fn broadcast_buffer(&self) -> *mut c_void {
        if self.is_root() {
            self.send.cast_mut()
        } else {
            self.recv
        }
    }

    /// Returns the send argument of a call in which only the root may pass MPI_IN_PLACE; the others
    /// send from their own buffer.
    pub(super) fn send_to_root(&self) -> *const c_void {
        if self.is_root() {
            self.send_or_in_place()
        } else {
            self.send
        }
    }

    /// Returns `recv` on the root, which alone receives.
    pub(super) fn recv_on_root(&self, recv: *mut c_void) -> *mut c_void {
        if self.is_root() {
            recv
        } else {
            std::ptr::null_mut()
        }
    }

    /// Returns the send and the receive argument of a scatter.
    pub(super) fn scatter_buffers(&self) -> (*const c_void, *mut c_void) {
        let recv = if self.is_root() && self.in_place {
            in_place_argument()
        } else {
            self.recv
        };
        let send = if self.is_root() {
            self.send
        } else {
            std::ptr::null()
        };
        (send, recv)
    }

    /// Returns the next and the previous rank of a ring.
    pub(super) fn neighbours(&self) -> (c_int, c_int) {
        let next = (self.rank + 1) % self.ranks;
        let previous = (self.rank + self.ranks - 1) % self.ranks;
        (next, previous)
    }

    /// Copies the first `elements` of what is sent in place to the other buffer, and returns it;
    /// out of place, returns the send buffer.
    ///
    /// # Safety
    /// The pointers are valid for that many elements.
    pub(super) unsafe fn separate_send(&self, elements: usize) -> *const c_void {
        if !self.in_place {
            return self.send;
        }
        let bytes = elements * self.element;
        // SAFETY: by this function's contract; the two buffers are separate.
        unsafe { std::ptr::copy_nonoverlapping(self.send.cast::<u8>(), self.copy.cast(), bytes) };
        self.copy.cast_const()
    }

    /// Returns the start of the chunk of rank `rank` in the receive buffer.
    pub(super) fn chunk(&self, rank: u64) -> *mut c_void {
        let bytes = self.count as usize * self.element;
        let base = self.base.cast::<u8>();
        base.wrapping_add(rank as usize * bytes).cast()
    }
}
