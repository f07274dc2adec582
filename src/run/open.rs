//! Opens what a sweep runs on: the world of its ranks, and the backend.

use super::{backend::BackendChoice, context::RunContext, request::Request, session::Session};
use crate::{
    backend::{Backend, Waived, model::Model},
    collective::Case,
    record::BackendKind,
    sweep::plan::Plan,
    world::{self, World},
};

/// Opens MPI if the run needs ranks or a launcher started several; otherwise a world of one.
///
/// # Errors
///
/// Returns an error if the launcher and MPI do not fit together.
pub(super) fn world(request: &Request) -> anyhow::Result<Box<dyn World>> {
    let needs_ranks = request.backend != BackendChoice::Model && !request.list;
    world::open::world(needs_ranks, request.timeout)
}

/// Opens the backend of the job on this rank. All ranks fail alike, except for a GPU that does not start and for NCCL
/// itself.
///
/// # Errors
///
/// Returns an error if the backend cannot be opened.
pub(super) fn backend(
    context: &RunContext,
    plan: &Plan,
    session: &Session,
) -> anyhow::Result<Box<dyn Backend>> {
    match context.backend {
        BackendKind::Model => Ok(Box::new(Model)),
        BackendKind::Host => host(context),
        BackendKind::Nccl => nccl(context, plan, session),
    }
}

/// Returns why computed times leave `case` out.
pub(super) fn waived_by_model(case: &Case) -> Option<Waived> {
    Model.supports(case).err()
}

#[cfg(feature = "mpi")]
use self::with_mpi::host;
#[cfg(feature = "mpi")]
pub(super) use self::with_mpi::waived_on_host;

#[cfg(feature = "mpi")]
mod with_mpi {
    use std::path::Path;

    use super::*;
    use crate::{backend::host::Host, facts, units::Bytes};

    /// Opens MPI on host memory.
    pub(super) fn host(context: &RunContext) -> anyhow::Result<Box<dyn Backend>> {
        let capacity = facts::memory::available(Path::new("/")).map(|available| {
            // A tenth is left for MPI's own buffers and for what else runs here.
            let usable = available.0 / 10 * 9;
            Bytes(usable / 2 / u64::from(context.processes_here()))
        });
        Ok(Box::new(match context.group() {
            None => Host::new(context.world.rank().into(), capacity),
            Some(group) => Host::in_group(context.own_ranks().first.into(), group, capacity),
        }))
    }

    /// Returns why MPI on host memory leaves `case` out.
    pub(in crate::run) fn waived_on_host(case: &Case) -> Option<Waived> {
        Host::new(0, None).supports(case).err()
    }
}

#[cfg(not(feature = "mpi"))]
use self::without_mpi::host;
#[cfg(not(feature = "mpi"))]
pub(super) use self::without_mpi::waived_on_host;

#[cfg(not(feature = "mpi"))]
mod without_mpi {
    use super::*;
    use crate::exit::{Code, Failure};

    const WHY: &str = "host memory needs MPI, and this binary is built without it";

    /// Says that this binary has no MPI.
    pub(super) fn host(_: &RunContext) -> anyhow::Result<Box<dyn Backend>> {
        let what = format!("{WHY}: build it with feature mpi, or use --backend model");
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    /// Returns why this binary leaves every case out.
    pub(in crate::run) fn waived_on_host(_: &Case) -> Option<Waived> {
        Some(Waived(WHY.into()))
    }
}

#[cfg(feature = "nccl")]
use self::with_nccl::nccl;

#[cfg(feature = "nccl")]
mod with_nccl {
    use super::*;
    use crate::{
        backend::nccl::NcclBackend,
        exit::{Code, Failure},
        native::nccl::{Nccl, UniqueId},
        run::settings,
        world::scratch,
    };

    /// Opens NCCL on this process's GPUs.
    pub(super) fn nccl(
        context: &RunContext,
        plan: &Plan,
        session: &Session,
    ) -> anyhow::Result<Box<dyn Backend>> {
        world::agree(context.world, scratch::check())?;
        let library = load(context, session)?;
        let conflicts = settings::conflicts(
            &context.request.presets,
            context.nodes(),
            &context.processes,
            library.version().0,
        )?;
        report(conflicts, context, session);
        let id = exchange_id(&library, context)?;
        let (exec, lacking) = context.request.exec.with(&library);
        report(lacking, context, session);
        let local_ranks = context.local_ranks();
        let mut backend = NcclBackend::open(library, id, &local_ranks, exec, plan.cases())?;
        backend.share_gpu(context.gpu_sharers());
        backend.reduce_float8(context.reduces_float8());
        Ok(Box::new(backend))
    }

    /// Loads libnccl, which must be of the same version on all ranks.
    fn load(context: &RunContext, session: &Session) -> anyhow::Result<std::sync::Arc<Nccl>> {
        let world = context.world;
        let library = world::agree(world, Nccl::load(context.request.nccl_lib.as_deref()))?;
        let versions = world::all_gather(world, &library.version().to_string())?;
        if let Some(other) = versions.iter().position(|version| *version != versions[0]) {
            let what = format!(
                "rank 0 has NCCL {} and rank {other} has NCCL {}: all ranks need the same; see NCCL_HOME and LD_LIBRARY_PATH there",
                versions[0], versions[other]
            );
            return Err(Failure::on_all_ranks(Code::Nccl, what));
        }
        session.set_version("nccl", library.version().to_string());
        session.set_version("nccl_library", library.path().display().to_string());
        Ok(library)
    }

    /// Gives the unique id of the first process of a communicator to its others.
    fn exchange_id(library: &Nccl, context: &RunContext) -> anyhow::Result<UniqueId> {
        let (world, leader) = (context.world, context.leader());
        let own = if world.rank() == leader {
            library.unique_id().map(|id| id.to_vec())
        } else {
            Ok(Vec::new())
        };
        let mut ids = world.all_gather(&world::agree(world, own)?);
        let id = ids.swap_remove(leader as usize);
        id.try_into()
            .map_err(|_| Failure::on_all_ranks(Code::Internal, "the unique id has a wrong length"))
    }

    fn report(remarks: Vec<String>, context: &RunContext, session: &Session) {
        if context.world.rank() == 0 {
            for sentence in &remarks {
                say!("pxnbench: {sentence}");
            }
        }
        session.add_remarks(remarks);
    }
}

#[cfg(not(feature = "nccl"))]
fn nccl(_: &RunContext, _: &Plan, _: &Session) -> anyhow::Result<Box<dyn Backend>> {
    let what = "this binary is built without the feature nccl";
    Err(crate::exit::Failure::on_all_ranks(
        crate::exit::Code::Usage,
        what,
    ))
}
