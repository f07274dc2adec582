//! The job that a run takes place in: what every process said of itself, and what follows from it.

use std::collections::HashSet;

use super::{
    backend,
    outcome::least_busbw,
    request::Request,
    settings::{self, EffectiveSettings},
    split::{self, CommRanks, MASK, SPLIT, Split},
};
use crate::{
    backend::options::ExecOptions,
    env,
    exit::{Code, Failure},
    facts,
    levels::audit::names,
    record::{BackendKind, Device},
    units::counted,
    world::{
        self, World, abort, deadline, launch,
        placement::{self, ProcessIdentity, RankPlacement},
    },
};

/// What a run runs on. Everything but [`RunContext::world`] is the same on every process.
pub(super) struct RunContext<'a> {
    pub(super) request: &'a Request,
    pub(super) world: &'a dyn World,
    pub(super) backend: BackendKind,
    /// Why this backend was chosen.
    pub(super) backend_why: String,
    pub(super) processes: Vec<facts::Process>,
    pub(super) placements: Vec<RankPlacement>,
    /// The GPUs of each process, as indices into what it sees; empty on host memory.
    pub(super) gpus: Vec<Vec<usize>>,
    /// The communicator of each process, if there are several.
    groups: Option<Vec<u32>>,
    /// The ranks of each process in its communicator.
    comm_ranks: Vec<CommRanks>,
    pub(super) settings: EffectiveSettings,
}

impl<'a> RunContext<'a> {
    /// Gathers what every process says of itself, and decides what follows.
    ///
    /// # Errors
    ///
    /// Returns an error if the processes do not fit together, or the request does not fit them. All
    /// have the same error.
    pub(super) fn gather(request: &'a Request, world: &'a dyn World) -> anyhow::Result<Self> {
        let _guard = deadline::limit("asking every rank what it runs on", request.timeout);
        refuse_differing_arguments(request, world)?;
        let own = facts::process(&env::var, request.backend.may_use_gpus());
        let processes = world::all_gather(world, &own)?;
        let in_job = env::var("SLURM_JOB_ID").is_some();
        let (backend, backend_why) = backend::choose(
            request.backend,
            &processes,
            in_job,
            launch::bootstrap(&env::var),
        )?;
        let peers: Vec<ProcessIdentity> = processes.iter().map(|p| p.peer.clone()).collect();
        let placements = placement::place_ranks(&peers);
        let gpus = if backend.uses_gpus() {
            let may_share = processes.iter().all(|process| process.may_share_gpu);
            placement::assign_gpus(&peers, &placements, request.process.gpus(), may_share)?
        } else {
            Vec::new()
        };
        // One rank alone may have a wrong value.
        world::agree(world, least_busbw().map(drop))?;
        let groups = split::groups(world::agree(world, Split::from_env(&env::var))?, world)?;
        let comm_ranks = comm_ranks(request, backend, groups.as_deref(), world.size());
        if backend.uses_gpus() && request.process.gpus() > 1 {
            abort::set_several_ranks();
        }
        let nodes = placement::node_count(&placements);
        let mut settings = settings::resolve(&request.presets, backend, nodes, &processes)?;
        settings.remarks.extend(misspelt_names());
        Ok(RunContext {
            request,
            world,
            backend,
            backend_why,
            processes,
            placements,
            gpus,
            groups,
            comm_ranks,
            settings,
        })
    }

    /// Prints, on process 0, which backend was chosen and the remarks on the settings.
    pub(super) fn announce(&self) {
        if self.world.rank() != 0 {
            return;
        }
        note!("pxnbench: backend {}: {}", self.backend, self.backend_why);
        if let Some(warning) = self.lone_ranks() {
            note!("pxnbench: {warning}");
            if self.request.timing.cycles != 1 && self.groups.is_none() {
                note!(
                    "pxnbench: -N repeats the sweep. The number of nodes is an option of srun: \
                     srun -N 2 pxnbench ..."
                );
            }
        }
        let ignored = self.request.flags_for_gpus();
        if !self.backend.uses_gpus() && !ignored.is_empty() {
            note!(
                "pxnbench: ignored, because NCCL does not run on GPUs here: {}",
                ignored.join(" ")
            );
        }
        for remark in &self.settings.remarks {
            note!("pxnbench: {remark}");
        }
    }

    /// Returns a warning if communicators have only one rank; `None` if none has, or if times are
    /// computed.
    fn lone_ranks(&self) -> Option<String> {
        if !self.backend.measures() {
            return None;
        }
        // A communicator of one rank has one process.
        let alone = self.comm_ranks.iter().filter(|ranks| ranks.total == 1);
        let alone = alone.count();
        let Some(groups) = &self.groups else {
            let or_gpus = if self.backend.uses_gpus() {
                ", or use -g N"
            } else {
                ""
            };
            return (alone > 0).then(|| {
                format!(
                    "only one rank, so no data is transferred. Start several ranks with mpirun \
                     -np N or srun{or_gpus}"
                )
            });
        };
        let all = groups.iter().collect::<HashSet<_>>().len();
        (alone > 0).then(|| {
            format!(
                "{alone} of {} {} only one rank, so no data is transferred there. Split the ranks \
                 differently with {SPLIT} or {MASK}",
                counted(all, "communicator"),
                if alone == 1 { "has" } else { "have" },
            )
        })
    }

    /// Returns how operations are run here.
    pub(super) fn exec(&self) -> ExecOptions {
        self.request.exec_on(self.backend)
    }

    /// Returns the number of ranks of this process's communicator.
    pub(super) fn ranks(&self) -> u64 {
        self.own_ranks().total.into()
    }

    /// Returns the number of ranks of the largest communicator.
    pub(super) fn most_ranks(&self) -> u64 {
        let totals = self.comm_ranks.iter().map(|ranks| ranks.total);
        totals.max().unwrap_or(0).into()
    }

    /// Returns this process's ranks in its communicator.
    pub(super) fn own_ranks(&self) -> CommRanks {
        self.comm_ranks[self.world.rank() as usize]
    }

    /// Returns the communicator of this process, if there are several.
    pub(super) fn group(&self) -> Option<u32> {
        self.group_of(self.world.rank())
    }

    /// Returns the communicator of process `process`, if there are several.
    pub(super) fn group_of(&self, process: u32) -> Option<u32> {
        let groups = self.groups.as_ref()?;
        Some(groups[process as usize])
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> u32 {
        placement::node_count(&self.placements)
    }

    /// Returns the host of each process.
    pub(super) fn hosts(&self) -> Vec<&str> {
        self.processes
            .iter()
            .map(|process| process.peer.host.as_str())
            .collect()
    }

    /// Returns the number of processes on this process's node.
    pub(super) fn processes_here(&self) -> u32 {
        let node = self.placements[self.world.rank() as usize].node;
        let here = self.placements.iter().filter(|place| place.node == node);
        here.count() as u32
    }

    /// Returns the GPUs that the processes of node `node` use, each once.
    pub(super) fn gpus_of_node(&self, node: u32) -> Vec<&Device> {
        let mut used: Vec<&Device> = Vec::new();
        for (process, gpus) in self.gpus.iter().enumerate() {
            if self.placements[process].node != node {
                continue;
            }
            for &gpu in gpus {
                let device = &self.processes[process].gpus[gpu];
                if !used.iter().any(|known| known.uuid == device.uuid) {
                    used.push(device);
                }
            }
        }
        used
    }

    /// Returns the number of ranks of all communicators.
    pub(super) fn total_ranks(&self) -> u64 {
        match self.backend {
            BackendKind::Model => self.comm_ranks[0].total.into(),
            BackendKind::Host => self.processes.len() as u64,
            BackendKind::Nccl => self.gpus.iter().map(|gpus| gpus.len() as u64).sum(),
        }
    }
}

/// Returns a remark on each variable of this process that was meant for nccl-tests, but is read by
/// nobody.
fn misspelt_names() -> Vec<String> {
    let found = names::findings_on_nccl_tests(&facts::settings());
    let remarks = found
        .iter()
        .map(|finding| format!("{}; {}", finding.sentence, finding.remedy));
    remarks.collect()
}

/// What only the NCCL backend asks.
impl RunContext<'_> {
    /// Returns the first process of this process's communicator.
    pub(super) fn leader(&self) -> u32 {
        let Some(groups) = &self.groups else { return 0 };
        let own = groups[self.world.rank() as usize];
        let first = groups.iter().position(|group| *group == own);
        first.unwrap_or(0) as u32
    }

    /// Returns the ranks and GPUs of this process.
    pub(super) fn local_ranks(&self) -> crate::backend::options::LocalRanks {
        let process = self.world.rank() as usize;
        let CommRanks { first, total } = self.own_ranks();
        crate::backend::options::LocalRanks {
            first_rank: first,
            ranks: total,
            gpus: self.gpus.get(process).cloned().unwrap_or_default(),
            threads: self.request.process.threads,
            parallel_init: self.request.process.parallel_init,
        }
    }

    /// Returns how many processes use the most shared of this process's GPUs: more than one if
    /// nodes are virtual, or if NCCL is told to let ranks share.
    pub(super) fn gpu_sharers(&self) -> u32 {
        let mut most = 1;
        for own in self.uuids(self.world.rank() as usize) {
            let shares = |process: &usize| self.uuids(*process).contains(&own);
            let sharers = (0..self.gpus.len()).filter(shares).count();
            most = most.max(sharers as u32);
        }
        most
    }

    fn uuids(&self, process: usize) -> Vec<&str> {
        let seen = &self.processes[process].peer.gpus;
        let used = self.gpus[process].iter();
        used.map(|&gpu| seen[gpu].as_str()).collect()
    }

    /// Returns whether the GPUs of all ranks can reduce 8-bit floats. Every rank has the same
    /// answer.
    pub(super) fn reduces_float8(&self) -> bool {
        let of_process = |(process, gpus): (&facts::Process, &Vec<usize>)| {
            gpus.iter().all(|&gpu| {
                let capability = process.capabilities.get(gpu);
                capability.is_some_and(|capability| *capability >= (9, 0))
            })
        };
        self.processes.iter().zip(&self.gpus).all(of_process)
    }
}

/// Returns the ranks of each process in its communicator.
fn comm_ranks(
    request: &Request,
    backend: BackendKind,
    groups: Option<&[u32]>,
    processes: u32,
) -> Vec<CommRanks> {
    let ranks_per_process = if backend.uses_gpus() {
        request.process.gpus()
    } else {
        1
    };
    match (groups, request.planned_ranks) {
        (Some(groups), _) => split::comm_ranks(groups, ranks_per_process),
        (None, None) => split::comm_ranks(&vec![0; processes as usize], ranks_per_process),
        (None, Some(total)) => vec![CommRanks { first: 0, total }; processes as usize],
    }
}

/// Refuses ranks that would measure different things: they would end in wrong data or hang.
fn refuse_differing_arguments(request: &Request, world: &dyn World) -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let own = (placement::host_name(), request.identity(), words);
    let all = world::all_gather(world, &own)?;
    let (host, identity, words) = &all[0];
    let mut others = all.iter().enumerate();
    let different = others.find(|(_, (_, other, _))| other != identity);
    let Some((rank, (other_host, _, other_words))) = different else {
        return Ok(());
    };
    let what = format!(
        "rank 0 on {host} and rank {rank} on {other_host} were started with different \
         arguments{}. Start all ranks with the same arguments",
        difference(words, other_words)
    );
    Err(Failure::on_all_ranks(Code::Usage, what))
}

/// Returns the words in which two command lines differ, in parentheses; empty if they do not.
fn difference(a: &[String], b: &[String]) -> String {
    let same_before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_of_a, rest_of_b) = (&a[same_before..], &b[same_before..]);
    let same_after = rest_of_a
        .iter()
        .rev()
        .zip(rest_of_b.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    if rest_of_a.len() == same_after && rest_of_b.len() == same_after {
        return String::new();
    }
    // A value is shown with its flag.
    let follows_flag = same_before > 0 && a[same_before - 1].starts_with('-');
    let from = same_before - usize::from(follows_flag);
    let shown_a = quoted(&a[from..a.len() - same_after]);
    let shown_b = quoted(&b[from..b.len() - same_after]);
    format!(" ({shown_a} and {shown_b})")
}

fn quoted(words: &[String]) -> String {
    if words.is_empty() {
        return "nothing".into();
    }
    format!("`{}`", words.join(" "))
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
