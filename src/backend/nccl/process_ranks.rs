//! The ranks of this process, divided among its threads.

use std::{
    collections::BTreeSet,
    sync::{Arc, Barrier},
    thread,
};

use anyhow::Context;

use super::{
    comm::Comm,
    device::DeviceStream,
    memory::FreeMemory,
    rank_device::{ClosedDevice, OpenedDevice, RankDevice},
    thread_ranks::{ThreadBarrier, ThreadRanks},
    threads,
};
use crate::{
    backend::options::{ExecOptions, LocalRanks, NcclSetup, RankGpu, Registration},
    collective::{Case, Collective, data::ElementEncoding},
    native::nccl::{CommConfig, Nccl, NcclVersion, UniqueId},
    units::{Bytes, Micros},
};

/// The ranks of this process, with the library that they call.
pub(super) struct ProcessRanks {
    nccl: Arc<Nccl>,
    /// The ranks of each thread; the first thread is the calling one.
    threads: Vec<ThreadRanks>,
    pub(super) free: FreeMemory,
}

impl ProcessRanks {
    /// Starts the GPUs and joins the communicator of `id`. Waits for all ranks.
    ///
    /// # Errors
    /// Returns an error if a GPU does not start or if NCCL fails.
    pub(super) fn open(
        nccl: Arc<Nccl>,
        id: UniqueId,
        setup: &NcclSetup,
        cases: &[&Case],
    ) -> anyhow::Result<ProcessRanks> {
        let NcclSetup {
            local_ranks,
            exec_options,
            ..
        } = setup;
        let ranks_by_thread = local_ranks.ranks_by_thread();
        let stream = match exec_options.null_stream {
            true => DeviceStream::Null,
            false => DeviceStream::NonBlocking,
        };
        let opened = threads::for_each(ranks_by_thread.concat(), |rank| {
            OpenedDevice::open(rank.gpu, stream)
        })?;
        let before_init = opened.iter().map(|one| Ok(one.device.memory()?.free.0));
        let before_init: Vec<u64> = before_init.collect::<anyhow::Result<_>>()?;
        let config = CommConfig {
            max_p2p_peers: max_peers(cases),
            cta_policy: exec_options.cta_policy,
        };
        let encodings = cases.iter();
        let encodings = encodings.map(|case| ElementEncoding::new(case.dtype, case.redop));
        let encodings: BTreeSet<ElementEncoding> = encodings.collect();
        let comms = while_kernels_compile(&opened, &encodings, || {
            join_communicator(&nccl, &id, local_ranks, config, &opened)
        })?;
        let ranks = opened.into_iter().zip(comms);
        let mut ranks = ranks.map(|(one, comm)| one.join(comm));
        let threads = ranks_by_thread.iter().map(|of_thread| ThreadRanks {
            nccl: Arc::clone(&nccl),
            ranks: ranks.by_ref().take(of_thread.len()).collect(),
        });
        let threads: Vec<ThreadRanks> = threads.collect();
        let mut process = ProcessRanks {
            nccl,
            threads,
            free: FreeMemory {
                before_init,
                before_buffers: Vec::new(),
                after_buffers: Vec::new(),
            },
        };
        process.free.before_buffers = process.free_memory()?;
        Comm::let_watch_ask(process.ranks().map(|rank| &rank.comm));
        Ok(process)
    }

    /// Returns the version of the library.
    pub(super) fn nccl_version(&self) -> NcclVersion {
        self.nccl.version()
    }

    /// Returns the ranks in order.
    pub(super) fn ranks(&self) -> impl Iterator<Item = &RankDevice> {
        self.threads.iter().flat_map(|thread| &thread.ranks)
    }

    fn ranks_mut(&mut self) -> Vec<&mut RankDevice> {
        self.threads
            .iter_mut()
            .flat_map(|thread| &mut thread.ranks)
            .collect()
    }

    /// Returns the free memory of each GPU.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn free_memory(&self) -> anyhow::Result<Vec<u64>> {
        self.ranks()
            .map(|rank| Ok(rank.device.memory()?.free.0))
            .collect()
    }

    /// Calls `step` on each thread with its ranks, and returns the results in order. `doing` names
    /// the step in errors. The first thread is the calling one, and the only one that meets the
    /// other processes, through `process_barrier`.
    ///
    /// # Errors
    /// Returns an error if the step fails on the only thread; if it fails on one of several, the
    /// job ends here.
    pub(super) fn on_each_thread<R: Send>(
        &mut self,
        doing: &(dyn Fn() -> String + Sync),
        process_barrier: &dyn Fn(),
        step: impl Fn(&ThreadRanks, &ThreadBarrier) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        let threads = Barrier::new(self.threads.len());
        // Mutable, because a communicator belongs to one thread at a time.
        let Some((first, others)) = self.threads.split_first_mut() else {
            return Ok(Vec::new());
        };
        let barrier = ThreadBarrier {
            threads: &threads,
            processes: Some(process_barrier),
        };
        if others.is_empty() {
            return Ok(vec![step(first, &barrier).with_context(doing)?]);
        }
        // The message names the process already, so only the ranks of the thread are added.
        let step_or_end = |ranks: &ThreadRanks, barrier: &ThreadBarrier| {
            step(ranks, barrier)
                .with_context(|| format!("{}, as {ranks}", doing()))
                .unwrap_or_else(|error| threads::end_job(&error))
        };
        let (step_or_end, threads) = (&step_or_end, &threads);
        thread::scope(|scope| {
            let mut handles = Vec::with_capacity(others.len());
            for ranks in others {
                handles.push(scope.spawn(move || {
                    let barrier = ThreadBarrier {
                        threads,
                        processes: None,
                    };
                    step_or_end(ranks, &barrier)
                }));
            }
            let mut results = vec![step_or_end(first, &barrier)];
            for handle in handles {
                results.push(threads::join(handle)?);
            }
            Ok(results)
        })
    }

    /// Returns whether the library predicts times.
    pub(super) fn has_predictions(&self) -> bool {
        self.nccl.has_simulation()
    }

    /// Returns the id of a new communicator.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub(super) fn prediction_id(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.nccl.unique_id()?.to_vec())
    }

    /// Returns the time that NCCL predicts for `case`, on a communicator of `ranks` ranks of its
    /// own: a communicator keeps what was simulated on it, and would run it with the next
    /// operation.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub(super) fn predict(
        &self,
        case: &Case,
        id: &UniqueId,
        ranks: u32,
    ) -> anyhow::Result<Option<Micros>> {
        let own: Vec<&RankDevice> = self.ranks().collect();
        let numbers: Vec<u32> = own.iter().map(|rank| rank.comm.rank()).collect();
        let select_gpu = |index: usize| own[index].device.bind();
        let config = CommConfig::default();
        let comms = Comm::init(&self.nccl, id, &numbers, ranks, config, &select_gpu)?;
        let predicted = self.nccl.simulate(|| {
            for (rank, comm) in own.iter().zip(&comms) {
                rank.device.bind()?;
                rank.start_on(comm, case)?;
            }
            Ok(())
        })?;
        comms.into_iter().try_for_each(Comm::close)?;
        Ok(predicted)
    }

    /// Allocates the buffers of all ranks.
    ///
    /// # Errors
    /// Returns an error if a GPU does not have enough memory.
    pub(super) fn allocate(
        &mut self,
        largest: Bytes,
        exec_options: &ExecOptions,
    ) -> anyhow::Result<()> {
        let nccl = Arc::clone(&self.nccl);
        for rank in self.ranks_mut() {
            rank.allocate(&nccl, largest, exec_options.unalign)?;
        }
        self.free.after_buffers = self.free_memory()?;
        Ok(())
    }

    /// Registers the buffers of all ranks, as one group if there are several.
    ///
    /// # Errors
    /// Returns an error if NCCL fails.
    pub(super) fn register(&mut self, registration: Registration) -> anyhow::Result<()> {
        let nccl = Arc::clone(&self.nccl);
        let mut ranks = self.ranks_mut();
        let has_several = ranks.len() > 1;
        nccl.grouped(has_several, || {
            ranks
                .iter_mut()
                .try_for_each(|rank| rank.register(&nccl, registration))
        })
    }

    /// Waits for the GPUs, leaves the communicator and frees the memory.
    ///
    /// # Errors
    /// Returns an error if a GPU or NCCL fails.
    pub(super) fn finish(mut self, exec_options: &ExecOptions) -> anyhow::Result<()> {
        self.on_each_thread(
            &|| "while the GPUs end their work".into(),
            &|| {},
            |ranks, _| ranks.wait(),
        )?;
        let ProcessRanks { nccl, threads, .. } = self;
        let mut ranks: Vec<RankDevice> = threads
            .into_iter()
            .flat_map(|thread| thread.ranks)
            .collect();
        for rank in &mut ranks {
            rank.deregister(&nccl, exec_options.registration)?;
        }
        // All ranks leave the communicator first: freeing memory waits for the GPU.
        let closed = ranks
            .into_iter()
            .map(RankDevice::close)
            .collect::<anyhow::Result<Vec<ClosedDevice>>>()?;
        closed.into_iter().try_for_each(ClosedDevice::free)
    }
}

/// Returns the number of peers that NCCL has to prepare for, if it is less than all of them. A ring
/// of sends and receives has two, and NCCL 2.30 needs less for them if it is told, as nccl-tests
/// does.
fn max_peers(cases: &[&Case]) -> Option<i32> {
    let is_ring = !cases.is_empty()
        && cases
            .iter()
            .all(|case| case.collective == Collective::SendRecv);
    is_ring.then_some(2)
}

/// The ranks that one thread joins to the communicator, with their GPUs.
struct JoiningRanks<'a> {
    ranks: &'a [RankGpu],
    opened: &'a [OpenedDevice],
}

/// Does `work` while the driver compiles the kernels for `encodings` on other threads.
fn while_kernels_compile<T>(
    opened: &[OpenedDevice],
    encodings: &BTreeSet<ElementEncoding>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let compilers: Vec<_> = opened
            .iter()
            .map(|one| scope.spawn(|| one.kernels().prepare(encodings)))
            .collect();
        let done = work()?;
        for compiler in compilers {
            compiler
                .join()
                .map_err(|_| anyhow::anyhow!("loading the kernels panicked"))??;
        }
        Ok(done)
    })
}

/// Joins the communicator: the calling thread joins all ranks as one group, or with `parallel_init`
/// each thread its own.
fn join_communicator(
    nccl: &Arc<Nccl>,
    id: &UniqueId,
    local_ranks: &LocalRanks,
    config: CommConfig,
    opened: &[OpenedDevice],
) -> anyhow::Result<Vec<Comm>> {
    let ranks_by_thread = local_ranks.ranks_by_thread();
    let all_ranks = ranks_by_thread.concat();
    let mut groups = Vec::new();
    if local_ranks.parallel_init {
        let mut rest = opened;
        for ranks in &ranks_by_thread {
            let (own, others) = rest.split_at(ranks.len());
            groups.push(JoiningRanks { ranks, opened: own });
            rest = others;
        }
    } else {
        groups.push(JoiningRanks {
            ranks: &all_ranks,
            opened,
        });
    }
    let comms = threads::for_each(groups, |group| {
        let ranks: Vec<u32> = group.ranks.iter().map(|rank| rank.rank).collect();
        let select_gpu = |index: usize| group.opened[index].device.bind();
        Comm::init(nccl, id, &ranks, local_ranks.ranks, config, &select_gpu).with_context(|| {
            format!(
                "while rank {} of {} joined the communicator",
                ranks[0], local_ranks.ranks
            )
        })
    })?;
    Ok(comms.into_iter().flatten().collect())
}
