//! Reductions: MPI's own operations, operations on 16-bit floats, which MPI does not have, and avg
//! and mulsum of floats, which are sums of inputs that each rank multiplies first, as NCCL does.

#![expect(
    unsafe_code,
    reason = "rsmpi has no reductions on untyped memory, and its operations borrow a closure"
)]

use std::{
    ffi::{c_int, c_void},
    ptr, slice,
};

use half::{bf16, f16, slice::HalfFloatSliceExt};
use mpi::ffi;

use crate::{
    backend::Element,
    collective::{
        Case,
        data::{DType, RedOp},
    },
};

/// Elements that are converted at a time.
const CHUNK: usize = 256;

/// Returns why MPI cannot reduce elements of `dtype` by `redop`; `None` if it can.
pub(super) fn unsupported(dtype: DType, redop: RedOp) -> Option<String> {
    if redop.is_scaled() && !dtype.is_float() {
        return Some(format!("MPI has no {}", redop.name()));
    }
    dtype
        .is_float8()
        .then(|| format!("MPI has no reductions of {}", dtype.name()))
}

/// Returns the factor by which rank `rank` multiplies its input in `case`; `None` if it does not.
pub(super) fn factor(case: &Case, rank: u64) -> Option<f64> {
    match case.redop? {
        RedOp::Avg => Some(1.0 / case.ranks as f64),
        RedOp::MulSum => Some((1 + rank % 2) as f64),
        _ => None,
    }
}

/// Multiplies the floats of type `dtype` in `from` by `factor`, each rounded to that type, as is
/// the factor.
pub(super) fn scale(dtype: DType, factor: f64, from: &[u8], to: &mut [u8]) {
    let float = factor as f32;
    match dtype {
        DType::Half => {
            let factor = f16::from_f32(float).to_f32();
            each(from, to, |bytes| {
                f16::from_f32(f16::from_ne_bytes(bytes).to_f32() * factor).to_ne_bytes()
            });
        }
        DType::Bfloat16 => {
            let factor = bf16::from_f32(float).to_f32();
            each(from, to, |bytes| {
                bf16::from_f32(bf16::from_ne_bytes(bytes).to_f32() * factor).to_ne_bytes()
            });
        }
        DType::Float => each(from, to, |bytes| {
            (f32::from_ne_bytes(bytes) * float).to_ne_bytes()
        }),
        _ => each(from, to, |bytes| {
            (f64::from_ne_bytes(bytes) * factor).to_ne_bytes()
        }),
    }
}

/// Returns the floats of `from`, multiplied as [`scale`] does.
pub(super) fn scaled<T: Element>(from: &[T], factor: f64) -> Vec<T> {
    let mut scaled = from.to_vec();
    scale(T::DTYPE, factor, bytes(from), bytes_mut(&mut scaled));
    scaled
}

fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an element has no padding, and bytes need no alignment.
    unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

fn bytes_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes`, and any bits are a valid element.
    unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// Stores what `value` returns for each element of N bytes in `from`.
fn each<const N: usize>(from: &[u8], to: &mut [u8], value: impl Fn([u8; N]) -> [u8; N]) {
    let (from, _) = from.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<N>();
    for (from, to) in from.iter().zip(to) {
        *to = value(*from);
    }
}

/// The operations that this program gives MPI.
#[derive(Default)]
pub(super) struct Reductions(Vec<Created>);

/// An operation that MPI was given.
struct Created {
    dtype: DType,
    redop: RedOp,
    handle: ffi::MPI_Op,
}

impl Reductions {
    /// Returns the operation of `case`, or any one if it does not reduce: MPI ignores it then.
    pub(super) fn of(&mut self, case: &Case) -> ffi::MPI_Op {
        let redop = match case.redop {
            // What is left of these is a sum.
            None | Some(RedOp::Avg | RedOp::MulSum) => RedOp::Sum,
            Some(redop) => redop,
        };
        match function(case.dtype, redop) {
            Some(function) if case.redop.is_some() => self.created(case.dtype, redop, function),
            _ => built_in(redop),
        }
    }

    /// Returns the operation that calls `function`, which is created at its first use.
    fn created(&mut self, dtype: DType, redop: RedOp, function: Function) -> ffi::MPI_Op {
        for known in &self.0 {
            if (known.dtype, known.redop) == (dtype, redop) {
                return known.handle;
            }
        }
        let mut handle = built_in(RedOp::Sum);
        let commutes = 1;
        // SAFETY: MPI is running, `function` has the signature that MPI calls, and the call writes
        // one handle.
        unsafe { ffi::MPI_Op_create(Some(function), commutes, &mut handle) };
        self.0.push(Created {
            dtype,
            redop,
            handle,
        });
        handle
    }

    /// Frees all operations. To be called while MPI is running.
    pub(super) fn free(&mut self) {
        for mut created in self.0.drain(..) {
            // SAFETY: the handle is from MPI_Op_create; MPI keeps it for an operation in progress.
            unsafe { ffi::MPI_Op_free(&mut created.handle) };
        }
    }
}

/// Returns MPI's operation; its sum for those that it does not have.
fn built_in(redop: RedOp) -> ffi::MPI_Op {
    // SAFETY: C constants, set when the library is loaded.
    unsafe {
        match redop {
            RedOp::Sum | RedOp::Avg | RedOp::MulSum => ffi::RSMPI_SUM,
            RedOp::Prod => ffi::RSMPI_PROD,
            RedOp::Max => ffi::RSMPI_MAX,
            RedOp::Min => ffi::RSMPI_MIN,
        }
    }
}

/// A function as MPI calls it: input, input and result, number of elements, type.
type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut ffi::MPI_Datatype);

/// Returns the function for elements that MPI has no type for; `None` for all others.
fn function(dtype: DType, redop: RedOp) -> Option<Function> {
    let function: Function = match (dtype, redop) {
        (DType::Half, RedOp::Sum) => reduce::<f16, Sum>,
        (DType::Half, RedOp::Prod) => reduce::<f16, Prod>,
        (DType::Half, RedOp::Max) => reduce::<f16, Max>,
        (DType::Half, RedOp::Min) => reduce::<f16, Min>,
        (DType::Bfloat16, RedOp::Sum) => reduce::<bf16, Sum>,
        (DType::Bfloat16, RedOp::Prod) => reduce::<bf16, Prod>,
        (DType::Bfloat16, RedOp::Max) => reduce::<bf16, Max>,
        (DType::Bfloat16, RedOp::Min) => reduce::<bf16, Min>,
        _ => return None,
    };
    Some(function)
}

/// A reduction of two numbers.
trait Reduce {
    fn apply(a: f32, b: f32) -> f32;
}

struct Sum;
struct Prod;
struct Max;
struct Min;

impl Reduce for Sum {
    fn apply(a: f32, b: f32) -> f32 {
        a + b
    }
}

impl Reduce for Prod {
    fn apply(a: f32, b: f32) -> f32 {
        a * b
    }
}

impl Reduce for Max {
    fn apply(a: f32, b: f32) -> f32 {
        a.max(b)
    }
}

impl Reduce for Min {
    fn apply(a: f32, b: f32) -> f32 {
        a.min(b)
    }
}

/// A float of 16 bits.
trait Float16: Copy + Default {
    fn to_f32s(from: &[Self], to: &mut [f32]);
    fn from_f32s(from: &[f32], to: &mut [Self]);
}

impl Float16 for f16 {
    fn to_f32s(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn from_f32s(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

impl Float16 for bf16 {
    fn to_f32s(from: &[bf16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn from_f32s(from: &[f32], to: &mut [bf16]) {
        to.convert_from_f32_slice(from);
    }
}

/// Reduces `count` elements of `inputs` into `results`. A sum or product of two 16-bit floats that
/// is rounded to float first and then to 16 bits is the one that is rounded once: float has more
/// than twice the digits.
///
/// # Safety
/// Both buffers have `count` elements of type T, and do not overlap.
unsafe extern "C" fn reduce<T: Float16, R: Reduce>(
    inputs: *mut c_void,
    results: *mut c_void,
    count: *mut c_int,
    _: *mut ffi::MPI_Datatype,
) {
    // SAFETY: MPI passes the number of elements by address.
    let count = unsafe { ptr::read(count) };
    if count <= 0 {
        return;
    }
    // SAFETY: by this function's contract. Every offset into the buffers is a multiple of an
    // element.
    let (inputs, results) = unsafe {
        (
            slice::from_raw_parts(inputs.cast::<T>(), count as usize),
            slice::from_raw_parts_mut(results.cast::<T>(), count as usize),
        )
    };
    reduce_slices::<T, R>(inputs, results);
}

fn reduce_slices<T: Float16, R: Reduce>(inputs: &[T], results: &mut [T]) {
    let (mut a, mut b) = ([0.0; CHUNK], [0.0; CHUNK]);
    for (inputs, results) in inputs.chunks(CHUNK).zip(results.chunks_mut(CHUNK)) {
        let (a, b) = (&mut a[..inputs.len()], &mut b[..inputs.len()]);
        T::to_f32s(inputs, a);
        T::to_f32s(results, b);
        for (a, b) in a.iter().zip(b.iter_mut()) {
            *b = R::apply(*a, *b);
        }
        T::from_f32s(b, results);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bit_floats_are_reduced_and_rounded_to_nearest() {
        let numbers = |values: &[f32]| values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
        let mut results = numbers(&[2048.0, -1.0, 1.5, 65504.0]);
        reduce_slices::<f16, Sum>(&numbers(&[1.0, 3.0, 0.25, 65504.0]), &mut results);
        assert_eq!(results, numbers(&[2048.0, 2.0, 1.75, f32::INFINITY]));
        let mut results = numbers(&[3.0, -2.0]);
        reduce_slices::<f16, Prod>(&numbers(&[0.5, 4.0]), &mut results);
        assert_eq!(results, numbers(&[1.5, -8.0]));
        let all: Vec<bf16> = (0..1000).map(|i| bf16::from_f32(i as f32)).collect();
        let mut most = vec![bf16::from_f32(500.0); 1000];
        reduce_slices::<bf16, Max>(&all, &mut most);
        assert!(most.iter().all(|value| value.to_f32() >= 500.0));
        assert_eq!(most[999], all[999]);
        let mut least = most;
        reduce_slices::<bf16, Min>(&all, &mut least);
        assert_eq!(least[..500], all[..500]);
    }
}
