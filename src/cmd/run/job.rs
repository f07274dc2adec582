//! The job that a sweep runs in: what every process said of itself, and what follows from it.

use std::collections::BTreeMap;

use super::{args::Args, settings};
use crate::{
    cmd::choose::{self, Kind},
    exit::{Code, Failure},
    facts,
    record::{self, Device, FORMAT, ProcessMeta, RunMeta},
    slurm,
    world::{self, World, deadline, place},
};

/// Ranks that measure different things would end in wrong data or hang.
fn refuse_differing_arguments(args: &Args, world: &dyn World) -> anyhow::Result<()> {
    let mine = (env!("CARGO_PKG_VERSION").to_owned(), args.identity());
    let all = world::gather(world, &mine)?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let what =
                format!("ranks 0 and {rank} were started with other arguments or another version of this program");
            Err(Failure::everywhere(Code::Usage, what))
        }
    }
}

/// What this run runs on: what every process said, and what follows from it.
pub(super) struct Job {
    pub(super) kind: Kind,
    why: String,
    pub(super) processes: Vec<facts::Process>,
    pub(super) places: Vec<place::Place>,
    /// The GPU of each process, as an index into what it sees; empty on host memory.
    pub(super) gpus: Vec<usize>,
    settled: settings::Settled,
}

impl Job {
    pub(super) fn gather(args: &Args, world: &dyn World) -> anyhow::Result<Job> {
        let env = |name: &str| std::env::var(name).ok();
        let may_use_gpus = matches!(args.backend, choose::Asked::Auto | choose::Asked::Nccl);
        let _guard = deadline::watch("asking every rank what it runs on", args.timeout());
        refuse_differing_arguments(args, world)?;
        let processes = world::gather(world, &facts::process(&env, may_use_gpus))?;
        let (kind, why) = choose::choose(args.backend, &processes)?;
        let peers: Vec<place::Peer> = processes.iter().map(|process| process.peer.clone()).collect();
        let places = place::places(&peers);
        let gpus = match kind {
            Kind::Nccl => place::gpus(&peers, &places, processes.iter().all(|process| process.may_share_gpu))?,
            Kind::Host | Kind::Model => Vec::new(),
        };
        let settled = settings::settle(args, kind, place::node_count(&places), &processes)?;
        if world.rank() == 0 {
            say!("pxnbench: backend {kind}: {why}");
            if world.size() == 1 && kind != Kind::Model {
                say!("pxnbench: one rank sends nothing: start several with mpirun -np N or srun");
            }
            settled.remarks.iter().for_each(|sentence| say!("pxnbench: {sentence}"));
        }
        Ok(Job { kind, why, processes, places, gpus, settled })
    }

    /// How many ranks this rank's node has.
    #[cfg(feature = "mpi")]
    pub(super) fn ranks_here(&self, rank: u32) -> u32 {
        let node = self.places[rank as usize].node;
        self.places.iter().filter(|place| place.node == node).count() as u32
    }

    /// How many processes of this process's machine have its GPU: more than one where nodes are virtual, or where NCCL is
    /// told to let ranks share.
    #[cfg(feature = "nccl")]
    pub(super) fn sharers(&self, rank: usize) -> u32 {
        let gpu = |rank: usize| Some(&self.processes[rank].peer.gpus[*self.gpus.get(rank)?]);
        (0..self.gpus.len()).filter(|&other| gpu(other) == gpu(rank)).count() as u32
    }

    /// Can the GPUs of all ranks reduce floats of 8 bits? Every rank has the same answer.
    #[cfg(feature = "nccl")]
    pub(super) fn reduces_float8(&self) -> bool {
        let can =
            |(process, gpu): (&facts::Process, &usize)| process.capabilities.get(*gpu).is_some_and(|of| *of >= (9, 0));
        self.processes.iter().zip(&self.gpus).all(can)
    }

    /// What is known of the run before its first case.
    pub(super) fn meta(&self, ranks: u64, world: &dyn World) -> RunMeta {
        let env = |name: &str| std::env::var(name).ok();
        let gpus_per_process = u32::from(self.kind == Kind::Nccl);
        let (mut environment, mut environment_files) = (facts::environment(), BTreeMap::new());
        for (name, setting) in facts::settings().iter() {
            if let Some(file) = &setting.file {
                environment.insert(name.to_owned(), setting.value.clone());
                environment_files.insert(name.to_owned(), file.clone());
            }
        }
        // A job that cannot be read is none: the run does not depend on it.
        let job = slurm::Job::from(&env).ok().flatten();
        RunMeta {
            format: FORMAT,
            pxnbench: env!("CARGO_PKG_VERSION").into(),
            run_id: String::new(),
            started_at: record::now(),
            ended_at: None,
            end: None,
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            backend: self.kind.to_string(),
            backend_why: self.why.clone(),
            level: self.settled.level.clone(),
            network: self.settled.network.clone(),
            resources: self.settled.resources.clone(),
            step: job.as_ref().and_then(|job| job.step),
            job,
            repeat: 0,
            nodes: place::node_count(&self.places),
            ranks,
            gpus_per_process,
            versions: self.versions(world),
            environment,
            environment_files,
            remarks: self.settled.remarks.clone(),
            processes: self.process_metas(),
            startup_s: None,
            phases: Vec::new(),
        }
    }

    pub(super) fn versions(&self, world: &dyn World) -> BTreeMap<String, String> {
        let mut versions = match self.kind {
            Kind::Nccl => self.processes[0].versions.clone(),
            Kind::Host | Kind::Model => BTreeMap::new(),
        };
        let library = world.library();
        if !library.is_empty() {
            versions.insert("mpi".into(), library);
        }
        versions
    }

    pub(super) fn process_metas(&self) -> Vec<ProcessMeta> {
        let meta = |(rank, (process, place)): (usize, (&facts::Process, &place::Place))| ProcessMeta {
            rank: rank as u32,
            host: process.peer.host.clone(),
            node: place.node,
            local_rank: place.local_rank,
            pid: process.peer.pid,
            device: self.gpus.get(rank).map_or_else(
                || Device {
                    index: place.local_rank,
                    bus: if self.kind == Kind::Model { "computed" } else { "host memory" }.into(),
                    name: process.processor.clone(),
                    uuid: String::new(),
                },
                |&gpu| process.gpus[gpu].clone(),
            ),
        };
        self.processes.iter().zip(&self.places).enumerate().map(meta).collect()
    }
}
