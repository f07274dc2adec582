//! What stands in for NCCL in a binary that is built without it: a library that cannot be loaded.

use std::path::Path;

use super::{
    Backend,
    options::{ExecOptions, NcclSetup},
    step::{StepBackend, StepSetup},
};
use crate::{
    collective::Case,
    exit::{Code, Failure},
    world::World,
};

/// A libnccl that does not exist.
pub enum NcclLibrary {}

fn not_built_in() -> anyhow::Error {
    let what = "this binary is built without the feature nccl. Build it with the default features";
    Failure::on_all_ranks(Code::Usage, what)
}

impl NcclLibrary {
    /// Fails on every rank alike.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn load(_: Option<&Path>) -> anyhow::Result<NcclLibrary> {
        Err(not_built_in())
    }

    /// Fails on every rank alike.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn load_on_all_ranks(_: Option<&Path>, _: &dyn World) -> anyhow::Result<NcclLibrary> {
        Err(not_built_in())
    }

    /// Never called.
    pub fn path(&self) -> &Path {
        match *self {}
    }

    /// Never called.
    pub fn version(&self) -> String {
        match *self {}
    }

    /// Never called.
    pub fn version_code(&self) -> i32 {
        match *self {}
    }

    /// Never called.
    pub fn limit_options(&self, _: ExecOptions) -> (ExecOptions, Vec<String>) {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn unique_id(&self) -> anyhow::Result<Vec<u8>> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn share_unique_id(&self, _: u32, _: &dyn World) -> anyhow::Result<Vec<u8>> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn open<'a>(
        self,
        _: Vec<u8>,
        _: &NcclSetup,
        _: impl IntoIterator<Item = &'a Case>,
    ) -> anyhow::Result<Box<dyn Backend>> {
        match self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn open_steps(
        self,
        _: &StepSetup<'_>,
        _: usize,
        _: &dyn World,
    ) -> anyhow::Result<Box<dyn StepBackend>> {
        match self {}
    }
}

/// Fails on every rank alike.
///
/// # Errors
/// Always returns an error.
pub fn self_check(
    _: usize,
    _: &mut dyn FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    Err(not_built_in())
}
