//! MPI's types.

#![expect(unsafe_code, reason = "they are C constants")]

use mpi::ffi;

use crate::collective::data::DType;

/// Returns MPI's type for elements that are reduced, or else for elements of the same size, which
/// are only moved.
pub(super) fn datatype(dtype: DType, reduced: bool) -> ffi::MPI_Datatype {
    // SAFETY: C constants, set when the library is loaded.
    unsafe {
        match (dtype, reduced) {
            (DType::Int8, _) => ffi::RSMPI_INT8_T,
            (DType::Uint8, _) => ffi::RSMPI_UINT8_T,
            (DType::Int32, _) => ffi::RSMPI_INT32_T,
            (DType::Uint32, _) => ffi::RSMPI_UINT32_T,
            (DType::Int64, _) => ffi::RSMPI_INT64_T,
            (DType::Uint64, _) => ffi::RSMPI_UINT64_T,
            (DType::Float, true) => ffi::RSMPI_FLOAT,
            (DType::Double, true) => ffi::RSMPI_DOUBLE,
            (DType::Float, false) => ffi::RSMPI_UINT32_T,
            (DType::Double, false) => ffi::RSMPI_UINT64_T,
            // What reduces these is not MPI's own.
            (DType::Half | DType::Bfloat16, _) => ffi::RSMPI_UINT16_T,
            // Reductions of these are waived, so they are only moved.
            (DType::F8e4m3 | DType::F8e5m2, _) => ffi::RSMPI_UINT8_T,
        }
    }
}
