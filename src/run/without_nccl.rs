//! What a binary without the feature `nccl` says in place of what needs NCCL.

use crate::exit::{Code, Failure};

fn no_nccl<T>() -> anyhow::Result<T> {
    let what = "this binary is built without the feature nccl. Build it with the default features";
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// In place of the check of the presets against libnccl.
pub mod preset_check {
    use std::path::Path;

    use crate::{exit::Code, levels::Preset};

    /// Returns the error that this binary has no NCCL.
    ///
    /// # Errors
    ///
    /// Always returns an error.
    pub fn check(_: Option<&'static Preset>, _: Option<&Path>) -> anyhow::Result<(String, Code)> {
        super::no_nccl()
    }
}

/// In place of the self-test of `proof`.
pub mod self_test {
    use std::path::Path;

    use crate::exit::Code;

    /// Returns the error that this binary has no NCCL.
    ///
    /// # Errors
    ///
    /// Always returns an error.
    pub fn run(_: Option<&Path>, _: Option<bool>) -> anyhow::Result<Code> {
        super::no_nccl()
    }
}
