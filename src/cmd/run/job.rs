//! The job that a sweep runs in: what every process said of itself, and what follows from it.

use std::collections::BTreeMap;

use super::{
    args::{self, Args},
    settings,
    split::{self, Split},
};
use crate::{
    cmd::choose::{self, BackendKind},
    env,
    exit::{Code, Failure},
    facts,
    record::{self, Device, FORMAT, ProcessMeta, RunMeta},
    slurm,
    sweep::plan::SweepSpec,
    world::{self, World, abort, deadline, placement},
};

/// Ranks that measure different things would end in wrong data or hang.
fn refuse_differing_arguments(args: &Args, world: &dyn World) -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mine = (env!("CARGO_PKG_VERSION").to_owned(), args.identity(), words);
    let all = world::all_gather(world, &mine)?;
    let (version, identity, words) = &all[0];
    let Some(rank) = all
        .iter()
        .position(|other| (&other.0, &other.1) != (version, identity))
    else {
        return Ok(());
    };
    let what = match &all[rank] {
        (other, ..) if other != version => {
            format!(
                "rank 0 is pxnbench {version} and rank {rank} is pxnbench {other}: start one program on all ranks"
            )
        }
        (.., other) => format!(
            "ranks 0 and {rank} were started with different arguments{}: start all ranks with the same",
            difference(words, other)
        ),
    };
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// The words in which two command lines differ; empty where they do not.
fn difference(a: &[String], b: &[String]) -> String {
    let before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let after = a[before..]
        .iter()
        .rev()
        .zip(b[before..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    if (before + after, before + after) == (a.len(), b.len()) {
        return String::new();
    }
    // A value is shown with its flag.
    let from = before - usize::from(before > 0 && a[before - 1].starts_with('-'));
    let shown = |words: &[String]| match words[from..words.len() - after].join(" ") {
        none if none.is_empty() => "nothing".to_owned(),
        some => format!("`{some}`"),
    };
    format!(" ({} and {})", shown(a), shown(b))
}

/// What this run runs on: what every process said, and what follows from it.
pub(super) struct RunContext {
    pub(super) kind: BackendKind,
    why: String,
    pub(super) processes: Vec<facts::Process>,
    pub(super) places: Vec<placement::RankPlacement>,
    /// The GPUs of each process, as indices into what it sees; empty on host memory.
    gpus: Vec<Vec<usize>>,
    /// The communicator of each process, where there are several.
    groups: Option<Vec<u32>>,
    /// First rank and number of ranks of each process's communicator.
    seats: Vec<(u32, u32)>,
    settled: settings::EffectiveSettings,
}

impl RunContext {
    pub(super) fn gather(args: &Args, world: &dyn World) -> anyhow::Result<RunContext> {
        let may_use_gpus = matches!(
            args.backend,
            choose::BackendChoice::Auto | choose::BackendChoice::Nccl
        );
        let _guard = deadline::watch("asking every rank what it runs on", args.timeout());
        refuse_differing_arguments(args, world)?;
        let processes = world::all_gather(world, &facts::process(&env::var, may_use_gpus))?;
        let (kind, why) =
            choose::choose(args.backend, &processes, env::var("SLURM_JOB_ID").is_some())?;
        let peers: Vec<placement::ProcessIdentity> = processes
            .iter()
            .map(|process| process.peer.clone())
            .collect();
        let places = placement::places(&peers);
        let gpus = match kind {
            BackendKind::Nccl => {
                let may_share = processes.iter().all(|process| process.may_share_gpu);
                placement::gpus(&peers, &places, args.gpus_per_process(), may_share)?
            }
            BackendKind::Host | BackendKind::Model => Vec::new(),
        };
        // Variables that one rank alone may have wrong.
        world::agree(world, args::least_busbw().map(|_| ()))?;
        let groups = split::groups(world::agree(world, Split::from(&env::var))?, world)?;
        let each = if kind == BackendKind::Nccl {
            args.gpus_per_process()
        } else {
            1
        };
        let seats = match (&groups, args.planned_ranks()) {
            (None, Some(ranks)) => vec![(0, ranks); world.size() as usize],
            (groups, _) => split::seats(
                groups.as_deref().unwrap_or(&vec![0; world.size() as usize]),
                each,
            ),
        };
        if each > 1 {
            abort::set_several();
        }
        let settled = settings::settle(args, kind, placement::node_count(&places), &processes)?;
        if world.rank() == 0 {
            say!("pxnbench: backend {kind}: {why}");
            if seats[0].1 == 1 && groups.is_none() && kind != BackendKind::Model {
                let more = if kind == BackendKind::Nccl {
                    ", or use -g N"
                } else {
                    ""
                };
                say!(
                    "pxnbench: one rank sends nothing: start several ranks with mpirun -np N or srun{more}"
                );
            }
            let ignored = args.for_gpus_only();
            if kind != BackendKind::Nccl && !ignored.is_empty() {
                say!(
                    "pxnbench: no effect, since NCCL runs on no GPU here: {}",
                    ignored.join(" ")
                );
            }
            settled
                .remarks
                .iter()
                .for_each(|sentence| say!("pxnbench: {sentence}"));
        }
        Ok(RunContext {
            kind,
            why,
            processes,
            places,
            gpus,
            groups,
            seats,
            settled,
        })
    }

    /// The ranks of this process's communicator.
    pub(super) fn ranks(&self, process: u32) -> u64 {
        self.seats[process as usize].1.into()
    }

    /// The first rank of this process in its communicator.
    #[cfg(feature = "mpi")]
    pub(super) fn first_rank(&self, process: u32) -> u32 {
        self.seats[process as usize].0
    }

    /// The communicator of this process, where there are several.
    pub(super) fn group(&self, process: u32) -> Option<u32> {
        self.groups.as_ref().map(|groups| groups[process as usize])
    }

    /// The first process of this process's communicator.
    #[cfg(feature = "nccl")]
    pub(super) fn leader(&self, process: u32) -> u32 {
        let Some(groups) = &self.groups else { return 0 };
        groups
            .iter()
            .position(|group| *group == groups[process as usize])
            .unwrap_or(0) as u32
    }

    /// The ranks and GPUs of this process.
    #[cfg(feature = "nccl")]
    pub(super) fn local_ranks(
        &self,
        process: u32,
        args: &Args,
    ) -> crate::backend::options::LocalRanks {
        let (first_rank, ranks) = self.seats[process as usize];
        let gpus = self.gpus.get(process as usize).cloned().unwrap_or_default();
        crate::backend::options::LocalRanks {
            first_rank,
            ranks,
            gpus,
            threads: args.threads(),
            parallel_init: args.parallel_init(),
        }
    }

    /// How many ranks this rank's node has.
    #[cfg(feature = "mpi")]
    pub(super) fn ranks_here(&self, rank: u32) -> u32 {
        let node = self.places[rank as usize].node;
        self.places
            .iter()
            .filter(|place| place.node == node)
            .count() as u32
    }

    /// How many processes of this process's machine have a GPU of its own: more than one where nodes are virtual, or where
    /// NCCL is told to let ranks share.
    #[cfg(feature = "nccl")]
    pub(super) fn sharers(&self, process: usize) -> u32 {
        let uuids = |process: usize| {
            self.gpus[process]
                .iter()
                .map(move |&gpu| &self.processes[process].peer.gpus[gpu])
        };
        let sharers = |uuid| {
            (0..self.gpus.len())
                .filter(|&other| uuids(other).any(|one| one == uuid))
                .count()
        };
        uuids(process).map(sharers).max().unwrap_or(1) as u32
    }

    /// Can the GPUs of all ranks reduce floats of 8 bits? Every rank has the same answer.
    #[cfg(feature = "nccl")]
    pub(super) fn reduces_float8(&self) -> bool {
        let can = |(process, gpus): (&facts::Process, &Vec<usize>)| {
            gpus.iter().all(|&gpu| {
                process
                    .capabilities
                    .get(gpu)
                    .is_some_and(|of| *of >= (9, 0))
            })
        };
        self.processes.iter().zip(&self.gpus).all(can)
    }

    /// What is known of the run before its first case.
    pub(super) fn meta(&self, args: &Args, ask: &SweepSpec, world: &dyn World) -> RunMeta {
        let (mut environment, mut environment_files) = (facts::environment(), BTreeMap::new());
        for (name, setting) in facts::settings().iter() {
            if let Some(file) = &setting.file {
                environment.insert(name.to_owned(), setting.value.clone());
                environment_files.insert(name.to_owned(), file.clone());
            }
        }
        // A job that cannot be read is none: the run does not depend on it.
        let job = slurm::SlurmJob::from(&env::var).ok().flatten();
        RunMeta {
            format: FORMAT,
            pxnbench: env!("CARGO_PKG_VERSION").into(),
            run_id: String::new(),
            started_at: record::now(),
            ended_at: None,
            end: None,
            command: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            backend: self.kind.to_string(),
            backend_why: self.why.clone(),
            level: self.settled.level.clone(),
            network: self.settled.network.clone(),
            resources: self.settled.resources.clone(),
            step: job.as_ref().and_then(|job| job.step),
            job,
            repeat: 0,
            nodes: placement::node_count(&self.places),
            ranks: self.total_ranks(),
            gpus_per_process: if self.kind == BackendKind::Nccl {
                args.gpus_per_process()
            } else {
                0
            },
            sweep: args.sweep(ask),
            memory: None,
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
            BackendKind::Nccl => self.processes[0].versions.clone(),
            BackendKind::Host | BackendKind::Model => BTreeMap::new(),
        };
        let library = world.library();
        if !library.is_empty() {
            versions.insert("mpi".into(), library);
        }
        versions
    }

    /// All ranks, of all communicators.
    fn total_ranks(&self) -> u64 {
        let each = |process: usize| self.gpus.get(process).map_or(1, |gpus| gpus.len() as u64);
        match self.kind {
            BackendKind::Model => self.seats[0].1.into(),
            BackendKind::Host | BackendKind::Nccl => (0..self.processes.len()).map(each).sum(),
        }
    }

    pub(super) fn process_metas(&self) -> Vec<ProcessMeta> {
        let of = |process: usize| {
            let meta = |device| {
                let (facts, place) = (&self.processes[process], self.places[process]);
                ProcessMeta {
                    rank: 0,
                    group: self.group(process as u32).unwrap_or(0),
                    host: facts.peer.host.clone(),
                    node: place.node,
                    local_rank: place.local_rank,
                    pid: facts.peer.pid,
                    device,
                }
            };
            self.devices(process)
                .into_iter()
                .map(meta)
                .collect::<Vec<ProcessMeta>>()
        };
        let all = (0..self.processes.len()).flat_map(of).zip(0..);
        all.map(|(meta, rank)| ProcessMeta { rank, ..meta })
            .collect()
    }

    /// What each rank of a process drives.
    fn devices(&self, process: usize) -> Vec<Device> {
        let facts = &self.processes[process];
        match self.gpus.get(process) {
            Some(gpus) => gpus.iter().map(|&gpu| facts.gpus[gpu].clone()).collect(),
            None => vec![Device {
                index: self.places[process].local_rank,
                bus: if self.kind == BackendKind::Model {
                    "computed"
                } else {
                    "host memory"
                }
                .into(),
                name: facts.processor.clone(),
                uuid: String::new(),
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_differ_are_shown() {
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for (a, b, shown) in [
            (
                "all_reduce -b 8 -e 64",
                "all_reduce -b 16 -e 64",
                " (`-b 8` and `-b 16`)",
            ),
            (
                "all_reduce -b 8 -d half",
                "all_reduce -b 8",
                " (`-d half` and nothing)",
            ),
            (
                "all_reduce -b 8",
                "all_reduce -n 2 -b 8",
                " (nothing and `-n 2`)",
            ),
            (
                "all_reduce -b 8",
                "alltoall -b 8",
                " (`all_reduce` and `alltoall`)",
            ),
            (
                "all_reduce -n 2 -n 2",
                "all_reduce -n 2",
                " (`-n 2` and nothing)",
            ),
            ("all_reduce", "all_reduce", ""),
        ] {
            assert_eq!(difference(&words(a), &words(b)), shown, "{a} | {b}");
        }
    }
}
