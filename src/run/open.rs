//! Opens what a sweep runs on: the world of its ranks, and the backend.

use std::path::Path;

use super::{
    backend::BackendChoice, context::RunContext, request::Request, session::Session, settings,
};
use crate::{
    backend::{self, Backend, Waived, model::Model, nccl::NcclLibrary, options::NcclSetup},
    collective::Case,
    facts,
    record::{BackendKind, RunMeta},
    sweep::plan::Plan,
    units::Bytes,
    world::{self, World, open::WaitLimits, scratch},
};

/// Opens MPI if the run needs ranks or a launcher started several; otherwise a world of one.
///
/// # Errors
///
/// Returns an error if the launcher and MPI do not fit together.
pub(super) fn world(request: &Request) -> anyhow::Result<Box<dyn World>> {
    let needs_ranks = request.backend != BackendChoice::Model && !request.list;
    world::open::world("a sweep", needs_ranks, WaitLimits::all(request.timeout))
}

/// Opens the backend of the job on this rank. All ranks fail alike, except for a GPU that does not
/// start and for NCCL itself.
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
        BackendKind::Model => Ok(Box::new(Model::new(context.exec()))),
        BackendKind::Host => host(context),
        BackendKind::Nccl => nccl(context, plan, session),
    }
}

/// Returns why computed times leave `case` out.
pub(super) fn waived_by_model(case: &Case) -> Option<Waived> {
    Model::default().supports(case).err()
}

/// Returns why MPI on host memory leaves `case` out.
pub(super) fn waived_on_host(case: &Case) -> Option<Waived> {
    backend::host::supports(case).err()
}

/// Opens MPI on host memory.
fn host(context: &RunContext) -> anyhow::Result<Box<dyn Backend>> {
    let capacity = facts::memory::available(Path::new("/")).map(|available| {
        // A tenth is left for MPI's own buffers and for what else runs here.
        let usable = available.0 / 10 * 9;
        // These need a third buffer.
        let mut redops = context.request.spec.redops.iter();
        let scales = redops.any(|redop| redop.is_scaled());
        let buffers = if scales { 3 } else { 2 };
        Bytes(usable / buffers / u64::from(context.processes_here()))
    });
    let group = context.group();
    let rank = match group {
        None => context.world.rank(),
        Some(_) => context.own_ranks().first,
    };
    backend::host::open(rank.into(), group, capacity, context.exec())
}

/// Loads NCCL on every rank, and notes its version.
///
/// # Errors
///
/// Returns an error if NCCL cannot be loaded on a rank, or differs between ranks.
pub(super) fn library(context: &RunContext, run: &mut RunMeta) -> anyhow::Result<NcclLibrary> {
    let world = context.world;
    world::agree(world, scratch::check())?;
    let library = NcclLibrary::load_on_all_ranks(context.request.nccl_lib.as_deref(), world)?;
    set_versions(run, &library);
    Ok(library)
}

/// Notes which NCCL is loaded.
fn set_versions(run: &mut RunMeta, library: &NcclLibrary) {
    let path = library.path().display().to_string();
    run.versions.insert("nccl".into(), library.version());
    run.versions.insert("nccl_library".into(), path);
}

/// Opens NCCL on this process's GPUs.
fn nccl(context: &RunContext, plan: &Plan, session: &Session) -> anyhow::Result<Box<dyn Backend>> {
    let world = context.world;
    world::agree(world, scratch::check())?;
    let nccl_lib = context.request.nccl_lib.as_deref();
    let library = NcclLibrary::load_on_all_ranks(nccl_lib, world)?;
    session.change_run(|run| set_versions(run, &library));
    let conflicts = settings::conflicts(
        &context.request.presets,
        context.nodes(),
        &context.processes,
        library.version_code(),
    )?;
    report(conflicts, context, session);
    let id = library.share_unique_id(context.leader(), world)?;
    let (exec_options, unsupported) = library.limit_options(context.exec());
    report(unsupported, context, session);
    let setup = NcclSetup {
        local_ranks: context.local_ranks(),
        exec_options,
        gpu_sharers: context.gpu_sharers(),
        reduces_float8: context.reduces_float8(),
    };
    library.open(id, &setup, plan.cases())
}

/// Prints remarks on rank 0, and keeps them in the record of the run.
fn report(remarks: Vec<String>, context: &RunContext, session: &Session) {
    if context.world.rank() == 0 {
        for sentence in &remarks {
            say!("pxnbench: {sentence}");
        }
    }
    session.add_remarks(remarks);
}
