//! What stands in for host memory in a binary that is built without MPI.

use std::{convert::Infallible, marker::PhantomData};

use super::{
    Backend, Element, SliceOperation, Waived,
    options::ExecOptions,
    step::{StepBackend, StepSetup},
};
use crate::{
    collective::{Case, data::RedOp},
    exit::{Code, Failure},
    units::Bytes,
};

const NEEDS_MPI: &str = "host memory needs MPI, and this binary is built without it";

/// Fails on every rank alike.
///
/// # Errors
/// Always returns an error.
pub fn open(
    _: u64,
    _: Option<u32>,
    _: Option<Bytes>,
    _: ExecOptions,
) -> anyhow::Result<Box<dyn Backend>> {
    let what = format!("{NEEDS_MPI}. Build it with the feature mpi, or use --backend model");
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Fails on every rank alike.
///
/// # Errors
/// Always returns an error.
pub fn open_steps(_: &StepSetup<'_>) -> anyhow::Result<Box<dyn StepBackend>> {
    let what = format!("{NEEDS_MPI}. Build it with the feature mpi");
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Waives every case.
///
/// # Errors
/// Always returns the reason.
pub fn supports(_: &Case) -> Result<(), Waived> {
    Err(Waived(NEEDS_MPI.into()))
}

/// A communicator that does not exist.
pub enum Communicator {}

impl Communicator {
    /// Fails on every rank alike.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn open() -> anyhow::Result<Communicator> {
        let what = format!("{NEEDS_MPI}. Build it with the feature mpi");
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn run<T: Element>(&self, _: SliceOperation, _: &[T], _: &mut [T]) -> anyhow::Result<()> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn run_in_place<T: Element>(&self, _: SliceOperation, _: &mut [T]) -> anyhow::Result<()> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn alltoallv<T: Element>(
        &self,
        _: &[T],
        _: &[usize],
        _: &mut [T],
        _: &[usize],
    ) -> anyhow::Result<()> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn start_all_reduce<T: Element>(
        &self,
        _: Vec<T>,
        _: RedOp,
    ) -> anyhow::Result<StartedOperation<'_, T>> {
        match *self {}
    }

    /// Never called.
    pub fn close(self) {
        match self {}
    }
}

/// An operation that cannot be started.
pub struct StartedOperation<'a, T: Element> {
    never: Infallible,
    _communicator: PhantomData<&'a T>,
}

impl<T: Element> StartedOperation<'_, T> {
    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        match self.never {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn wait(self) -> anyhow::Result<Vec<T>> {
        match self.never {}
    }
}
