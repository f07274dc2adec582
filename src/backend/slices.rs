//! What runs on slices of host memory: [`SliceOperation`] on [`Element`]s.

use half::{bf16, f16};

use crate::collective::{
    Collective,
    data::{DType, RedOp},
};

/// A collective, without its buffers.
#[derive(Clone, Copy, Debug)]
pub struct SliceOperation {
    /// The collective.
    pub collective: Collective,
    /// The reduction, if it reduces.
    pub redop: Option<RedOp>,
    /// The root, if it has one.
    pub root: Option<u32>,
}

impl SliceOperation {
    /// Returns a collective that neither reduces nor has a root.
    pub fn new(collective: Collective) -> SliceOperation {
        SliceOperation {
            collective,
            redop: None,
            root: None,
        }
    }

    /// Returns the same with a reduction.
    pub fn reducing(self, redop: RedOp) -> SliceOperation {
        SliceOperation {
            redop: Some(redop),
            ..self
        }
    }

    /// Returns the same with a root.
    pub fn with_root(self, root: u32) -> SliceOperation {
        SliceOperation {
            root: Some(root),
            ..self
        }
    }
}

/// A type whose slices can be sent and reduced. Any bits are a value of it, so what another rank
/// sends is valid.
pub trait Element: sealed::Sealed + Copy + 'static {
    /// The same type, by nccl-tests' name.
    const DTYPE: DType;
}

mod sealed {
    /// What keeps other crates from adding types that an MPI call could leave with an invalid
    /// value.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty => $dtype:ident,)*) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => Int8,
    u8 => Uint8,
    i32 => Int32,
    u32 => Uint32,
    i64 => Int64,
    u64 => Uint64,
    f16 => Half,
    bf16 => Bfloat16,
    f32 => Float,
    f64 => Double,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_as_long_as_its_dtype<T: Element>() -> bool {
        T::DTYPE.size() == size_of::<T>() as u64
    }

    #[test]
    fn an_element_is_as_long_as_mpi_takes_it_for() {
        assert!(is_as_long_as_its_dtype::<i8>() && is_as_long_as_its_dtype::<u8>());
        assert!(is_as_long_as_its_dtype::<i32>() && is_as_long_as_its_dtype::<u32>());
        assert!(is_as_long_as_its_dtype::<i64>() && is_as_long_as_its_dtype::<u64>());
        assert!(is_as_long_as_its_dtype::<f16>() && is_as_long_as_its_dtype::<bf16>());
        assert!(is_as_long_as_its_dtype::<f32>() && is_as_long_as_its_dtype::<f64>());
    }
}
