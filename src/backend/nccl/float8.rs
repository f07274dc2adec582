//! Which cases with 8-bit floats can run: they came with NCCL 2.24 and compute capability 9.0.

use crate::{backend::Waived, collective::Case, native::nccl::NcclVersion};

/// The support for 8-bit floats, the same on every rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Float8Support {
    pub(super) nccl: NcclVersion,
    /// Whether the GPUs of all ranks can reduce them.
    pub(super) is_reduced: bool,
}

impl Float8Support {
    const SINCE: NcclVersion = NcclVersion(22400);

    /// Returns the reason if the type of `case` does not work here.
    pub(super) fn check(self, case: &Case) -> Result<(), Waived> {
        if !case.dtype.is_float8() {
            return Ok(());
        }
        let name = case.dtype.name();
        if self.nccl < Self::SINCE {
            return Err(Waived(format!(
                "NCCL {} does not support {name}, which came with {}",
                self.nccl,
                Self::SINCE
            )));
        }
        if case.redop.is_some() && !self.is_reduced {
            return Err(Waived(format!(
                "NCCL reduces {name} only on GPUs of compute capability 9.0 and newer, and not \
                 all are"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{
            BufferMode, CaseShape, Collective,
            data::{DType, RedOp},
        },
        units::Bytes,
    };

    fn why_waived(
        collective: Collective,
        dtype: DType,
        nccl: i32,
        is_reduced: bool,
    ) -> Option<String> {
        let redop = collective.spec().reduces.then_some(RedOp::Sum);
        let mode = BufferMode::InPlace;
        let case = CaseShape {
            collective,
            dtype,
            redop,
            root: None,
            buffer_mode: mode,
            ranks: 2,
        }
        .nearest(Bytes(64));
        let support = Float8Support {
            nccl: NcclVersion(nccl),
            is_reduced,
        };
        support.check(&case).err().map(|why| why.0)
    }

    #[test]
    fn floats_of_8_bits_need_a_library_and_to_be_reduced_a_gpu() {
        assert_eq!(
            why_waived(Collective::AllGather, DType::F8e4m3, 22304, true),
            Some("NCCL 2.23.4 does not support f8e4m3, which came with 2.24.0".to_owned())
        );
        assert_eq!(
            why_waived(Collective::AllGather, DType::F8e4m3, 22403, false),
            None
        );
        let gpu = why_waived(Collective::AllReduce, DType::F8e5m2, 22403, false);
        assert!(gpu.is_some_and(|why| why.contains("f8e5m2") && why.contains("9.0")));
        assert_eq!(
            why_waived(Collective::AllReduce, DType::F8e5m2, 22403, true),
            None
        );
        assert_eq!(
            why_waived(Collective::AllReduce, DType::Half, 22304, false),
            None
        );
    }
}
