//! Opens what a sweep runs on: the world of its ranks, and the backend.

use std::path::Path;

use super::{RunContext, Session, args::Args};
use crate::{
    backend::{Backend, Waived, model::Model},
    cmd::choose::{BackendChoice, BackendKind},
    collective::Case,
    env,
    exit::{Code, Failure},
    facts,
    sweep::plan::Plan,
    world::{World, abort, deadline, launch, solo::Solo},
};

/// MPI where the run needs ranks or a launcher started several; a world of one where times are computed or cases listed
/// by a process on its own.
///
/// # Errors
/// Where the launcher and MPI do not fit.
pub(super) fn world(args: &Args) -> anyhow::Result<Box<dyn World>> {
    let needs_ranks = args.backend != BackendChoice::Model && !args.list;
    let world: Box<dyn World> = match launch::size(&env::var) {
        None if !needs_ranks => Box::new(Solo),
        _ => {
            launch::check_before_mpi(&env::var)?;
            let _guard = deadline::watch("MPI_Init", args.timeout());
            mpi()?
        }
    };
    launch::check(world.size(), &env::var)?;
    abort::set_rank(world.rank());
    Ok(world)
}

/// The ranks that the launcher started.
///
/// # Errors
/// Where MPI does not start, or is not in this binary.
#[cfg(feature = "mpi")]
pub(in crate::cmd) fn mpi() -> anyhow::Result<Box<dyn World>> {
    Ok(Box::new(crate::world::mpi::Mpi::start()?))
}

/// This process, where no other one was started.
///
/// # Errors
/// Where others were, since MPI is not in this binary.
#[cfg(not(feature = "mpi"))]
pub(in crate::cmd) fn mpi() -> anyhow::Result<Box<dyn World>> {
    let size = launch::size(&env::var).map_or(1, |(size, _, _)| size);
    if size > 1 {
        let what = format!(
            "{size} processes were started, but this binary is built without MPI: build it with feature mpi"
        );
        return Err(Failure::on_this_rank(Code::Launch, what));
    }
    Ok(Box::new(Solo))
}

/// Opens the backend of the job on this rank. All ranks fail alike, but for a GPU that does not start and for NCCL itself.
pub(super) fn backend(
    args: &Args,
    plan: &Plan,
    job: &RunContext,
    world: &dyn World,
    output: &Session,
) -> anyhow::Result<Box<dyn Backend>> {
    match job.kind {
        BackendKind::Model => Ok(Box::new(Model)),
        BackendKind::Host => host(job, world),
        BackendKind::Nccl => nccl(args, plan, job, world, output),
    }
}

#[cfg(feature = "mpi")]
fn host(job: &RunContext, world: &dyn World) -> anyhow::Result<Box<dyn Backend>> {
    let capacity = facts::memory::available(Path::new("/")).map(|all| {
        // A tenth stays for MPI's own buffers and for what else runs here.
        crate::units::Bytes(all.0 / 10 * 9 / 2 / u64::from(job.ranks_here(world.rank())))
    });
    use crate::backend::host::Host;
    Ok(Box::new(match job.group(world.rank()) {
        None => Host::new(world.rank().into(), capacity),
        Some(group) => Host::in_group(job.first_rank(world.rank()).into(), group, capacity),
    }))
}

#[cfg(not(feature = "mpi"))]
fn host(_: &RunContext, _: &dyn World) -> anyhow::Result<Box<dyn Backend>> {
    Err(Failure::on_all_ranks(
        Code::Usage,
        "host memory needs MPI, and this binary is built without: build it with feature mpi, or say --backend model",
    ))
}

#[cfg(feature = "nccl")]
fn nccl(
    args: &Args,
    plan: &Plan,
    job: &RunContext,
    world: &dyn World,
    output: &Session,
) -> anyhow::Result<Box<dyn Backend>> {
    use super::settings;
    use crate::{
        backend::nccl::NcclBackend,
        native::nccl::Nccl,
        world::{self as ranks, placement},
    };

    let library = ranks::agree(world, Nccl::load(args.nccl_lib.as_deref()))?;
    let versions = ranks::all_gather(world, &library.version().to_string())?;
    if let Some(other) = versions.iter().position(|version| *version != versions[0]) {
        let what = format!(
            "rank 0 has NCCL {} and rank {other} has NCCL {}: all ranks need the same; see NCCL_HOME and LD_LIBRARY_PATH there",
            versions[0], versions[other]
        );
        return Err(Failure::on_all_ranks(Code::Nccl, what));
    }
    output.version("nccl", library.version().to_string());
    output.version("nccl_library", library.path().display().to_string());
    let remarks = settings::conflicts(
        args,
        placement::node_count(&job.places),
        &job.processes,
        library.version().0,
    )?;
    if world.rank() == 0 {
        remarks
            .iter()
            .for_each(|sentence| say!("pxnbench: {sentence}"));
    }
    output.remark(remarks);
    let (process, leader) = (world.rank(), job.leader(world.rank()));
    let mine = if process == leader {
        library.unique_id().map(|id| id.to_vec())
    } else {
        Ok(Vec::new())
    };
    let mut ids = world.all_gather(&ranks::agree(world, mine)?);
    let id = ids.swap_remove(leader as usize);
    let id = id
        .try_into()
        .map_err(|_| Failure::on_all_ranks(Code::Internal, "the unique id has a wrong length"))?;
    let local_ranks = job.local_ranks(process, args);
    let (exec_options, lacking) = args.exec_options().with(&library);
    output.remark(lacking.clone());
    if process == 0 {
        lacking
            .iter()
            .for_each(|sentence| say!("pxnbench: {sentence}"));
    }
    let mut backend = NcclBackend::open(library, id, &local_ranks, exec_options, plan.cases())?;
    backend.share_gpu(job.sharers(process as usize));
    backend.reduce_float8(job.reduces_float8());
    Ok(Box::new(backend))
}

#[cfg(not(feature = "nccl"))]
fn nccl(
    _: &Args,
    _: &Plan,
    _: &RunContext,
    _: &dyn World,
    _: &Session,
) -> anyhow::Result<Box<dyn Backend>> {
    Err(Failure::on_all_ranks(
        Code::Usage,
        "this binary is built without the feature nccl",
    ))
}

/// Why `case` will not run, as far as that is known before anything is opened.
pub(super) fn waived(args: &Args, case: &Case) -> Option<Waived> {
    let is_host = match args.backend {
        BackendChoice::Host => true,
        BackendChoice::Auto => facts::nvidia::evidence(Path::new("/"), &env::var).is_none(),
        BackendChoice::Nccl | BackendChoice::Model => false,
    };
    if is_host {
        waived_on_host(case)
    } else {
        Model.supports(case).err()
    }
}

#[cfg(feature = "mpi")]
fn waived_on_host(case: &Case) -> Option<Waived> {
    crate::backend::host::Host::new(0, None)
        .supports(case)
        .err()
}

#[cfg(not(feature = "mpi"))]
fn waived_on_host(_: &Case) -> Option<Waived> {
    Some(Waived(
        "host memory needs MPI, and this binary is built without".into(),
    ))
}
