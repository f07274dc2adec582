//! [`StartedOperation`]: an all_reduce that runs while its rank computes.

#![expect(unsafe_code, reason = "what rsmpi starts borrows the buffer")]

use std::{
    ffi::c_int,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
};

use mpi::ffi;

use super::{call::check_code, datatype::datatype, operation::in_place_argument, reduction};
use crate::{backend::Element, collective::Case};

/// An operation that MPI has started, with its buffer. If it is dropped before it has ended, the
/// buffer stays MPI's.
#[must_use = "it ends only if it is waited for"]
pub struct StartedOperation<'a, T: Element> {
    buffer: ManuallyDrop<Vec<T>>,
    request: ffi::MPI_Request,
    case: Case,
    /// It ends before its communicator, and on the thread that calls MPI.
    _communicator: PhantomData<(&'a (), *const ())>,
}

impl<T: Element> StartedOperation<'_, T> {
    /// Starts the all_reduce of `case` in `buffer`, with its MPI operation `redop`.
    ///
    /// # Errors
    /// Returns an error if MPI fails; the buffer is then MPI's.
    pub(super) fn all_reduce(
        buffer: Vec<T>,
        case: Case,
        rank: u64,
        redop: ffi::MPI_Op,
    ) -> anyhow::Result<Self> {
        let input = match reduction::factor(&case, rank) {
            Some(factor) => reduction::scaled(&buffer, factor),
            None => buffer,
        };
        let mut buffer = ManuallyDrop::new(input);
        // SAFETY: MPI sets the handle at the start of an operation.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: the buffer has that many elements, and is neither moved nor freed before the
        // operation has ended.
        let code = unsafe {
            ffi::MPI_Iallreduce(
                in_place_argument(),
                buffer.as_mut_ptr().cast(),
                buffer.len() as c_int,
                datatype(T::DTYPE, true),
                redop,
                ffi::RSMPI_COMM_WORLD,
                &mut request,
            )
        };
        check_code("MPI_Iallreduce", code, &case)?;
        Ok(StartedOperation {
            buffer,
            request,
            case,
            _communicator: PhantomData,
        })
    }

    /// Returns whether the operation has ended. Most MPI libraries go on with it only in such a
    /// call.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        let mut has_ended = 0;
        // SAFETY: the request is of MPI_Iallreduce, or null after its end; no status is asked for.
        let code =
            unsafe { ffi::MPI_Test(&mut self.request, &mut has_ended, ffi::RSMPI_STATUS_IGNORE) };
        check_code("MPI_Test", code, &self.case)?;
        Ok(has_ended != 0)
    }

    /// Waits for the end, and returns the buffer with the result.
    ///
    /// # Errors
    /// Returns an error if MPI fails.
    pub fn wait(mut self) -> anyhow::Result<Vec<T>> {
        // SAFETY: as in `has_ended`.
        let code = unsafe { ffi::MPI_Wait(&mut self.request, ffi::RSMPI_STATUS_IGNORE) };
        check_code("MPI_Wait", code, &self.case)?;
        Ok(mem::take(&mut *self.buffer))
    }
}
