//! Loads NCCL, agrees on it among the ranks, and opens the backend.

use std::{path::Path, sync::Arc};

use super::{backend::NcclBackend, step};
use crate::{
    backend::{
        Backend,
        options::{ExecOptions, NcclSetup, Registration},
        step::{StepBackend, StepSetup},
    },
    collective::Case,
    exit::{Code, Failure},
    native::nccl::{Nccl, NcclVersion},
    world::{self, World},
};

/// The libnccl of this process.
pub struct NcclLibrary {
    nccl: Arc<Nccl>,
}

impl NcclLibrary {
    /// Loads libnccl: the file `explicit` if given, else the first that is found.
    ///
    /// # Errors
    /// Returns an error if there is no usable libnccl.
    pub fn load(explicit: Option<&Path>) -> anyhow::Result<NcclLibrary> {
        Ok(NcclLibrary {
            nccl: Nccl::load(explicit)?,
        })
    }

    /// Loads libnccl on every rank.
    ///
    /// # Errors
    /// Returns an error on every rank if one of them has no usable libnccl, or if their versions
    /// differ.
    pub fn load_on_all_ranks(
        explicit: Option<&Path>,
        world: &dyn World,
    ) -> anyhow::Result<NcclLibrary> {
        let library = world::agree(world, NcclLibrary::load(explicit))?;
        let versions = world::all_gather(world, &library.version())?;
        let first = &versions[0];
        if let Some(rank) = versions.iter().position(|version| version != first) {
            let what = format!(
                "rank 0 has NCCL {first} and rank {rank} has NCCL {}, but all ranks need the \
                 same. Check NCCL_HOME and LD_LIBRARY_PATH there",
                versions[rank]
            );
            return Err(Failure::on_all_ranks(Code::Nccl, what));
        }
        Ok(library)
    }

    /// Returns the file that was loaded.
    pub fn path(&self) -> &Path {
        self.nccl.path()
    }

    /// Returns the version, such as `2.28.3`.
    pub fn version(&self) -> String {
        self.nccl.version().to_string()
    }

    /// Returns the version as the number that `ncclGetVersion` gives.
    pub fn version_code(&self) -> i32 {
        self.nccl.version().0
    }

    /// Returns what of `options` this NCCL supports, and one sentence for each option that it does
    /// not. As in nccl-tests, a symmetric window becomes a registered buffer, and an unknown policy
    /// is left to NCCL.
    pub fn limit_options(&self, options: ExecOptions) -> (ExecOptions, Vec<String>) {
        let mut limited = options;
        let mut remarks = Vec::new();
        let version = self.nccl.version();
        if limited.registration != Registration::None && !self.nccl.has_registration() {
            limited.registration = Registration::None;
            remarks.push(format!(
                "-R needs NCCL 2.19 or newer; with {version} buffers are not registered"
            ));
        }
        if limited.registration == Registration::Symmetric && !self.nccl.has_windows() {
            limited.registration = Registration::Local;
            remarks.push(format!(
                "-R 2 needs NCCL 2.27 or newer; with {version} buffers are registered as with -R 1"
            ));
        }
        if let Some(policy) = limited.cta_policy {
            let since = NcclVersion(if policy == 2 { 22800 } else { 22700 });
            if version < since {
                limited.cta_policy = None;
                remarks.push(format!(
                    "this -x needs NCCL {since} or newer; {version} uses its own policy"
                ));
            }
        }
        (limited, remarks)
    }

    /// Returns a new unique id, by which the ranks of a communicator find each other.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub fn unique_id(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.nccl.unique_id()?.to_vec())
    }

    /// Returns the unique id that process `leader` made, which is the first of this process's
    /// communicator. Every process of the job calls it.
    ///
    /// # Errors
    /// Returns an error on every process if NCCL fails on one of them.
    pub fn share_unique_id(&self, leader: u32, world: &dyn World) -> anyhow::Result<Vec<u8>> {
        let own = if world.rank() == leader {
            self.unique_id()
        } else {
            Ok(Vec::new())
        };
        let mut ids = world.all_gather(&world::agree(world, own)?);
        Ok(ids.swap_remove(leader as usize))
    }

    /// Joins the communicator of `unique_id` and returns its backend. Waits for all ranks. `cases`
    /// are those to come, as far as they are known: the kernels that they need are compiled in the
    /// meantime.
    ///
    /// # Errors
    /// Returns an error if a GPU does not start or if NCCL fails.
    pub fn open<'a>(
        self,
        unique_id: Vec<u8>,
        setup: &NcclSetup,
        cases: impl IntoIterator<Item = &'a Case>,
    ) -> anyhow::Result<Box<dyn Backend>> {
        let unique_id = unique_id.try_into().map_err(|_| {
            Failure::on_all_ranks(Code::Internal, "the unique id has the wrong length")
        })?;
        let cases: Vec<&Case> = cases.into_iter().collect();
        let backend = NcclBackend::open(self.nccl, unique_id, setup, &cases)?;
        Ok(Box::new(backend))
    }

    /// Opens the backend of training steps on GPU `gpu` of this process: a communicator of NCCL
    /// with a stream and two buffers for each communicator of the step, and computation whose
    /// kernels are timed here, while the GPU is idle. Every process calls it, and each has one GPU.
    ///
    /// # Errors
    /// Returns an error if NCCL cannot run one of the collectives, if the GPU does not start, or if
    /// NCCL fails.
    pub fn open_steps(
        self,
        setup: &StepSetup<'_>,
        gpu: usize,
        world: &dyn World,
    ) -> anyhow::Result<Box<dyn StepBackend>> {
        step::open(&self.nccl, setup, gpu, world)
    }
}
