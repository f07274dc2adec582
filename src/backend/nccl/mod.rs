//! The backend that runs NCCL on GPUs: each GPU of the process is a rank, with one stream.
//!
//! `device_rank` is one of them; `thread_ranks` those of a thread, which are started and waited for together.
//! [`comm`] has the communicator and the calls, [`device`] the GPU and its memory, [`kernels`] fills and
//! checks data on the GPU, [`selfcheck`] compares those kernels with their description. Nothing in here has a deadline:
//! all waits ask again and again, and who watches over them ends the process.

pub mod comm;
pub mod device;
pub mod kernels;
mod rank_device;
pub mod selfcheck;
mod thread_ranks;

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Barrier},
    thread,
};

use anyhow::Context;

pub use self::selfcheck::self_check;
use self::{
    comm::Comm,
    rank_device::{OpenedDevice, RankDevice},
    thread_ranks::{ThreadBarrier, ThreadRanks, ThreadTiming},
};
use crate::{
    backend::{
        Backend, Timing, Waived,
        options::{ExecOptions, LocalRanks, Registration},
        possible,
    },
    collective::{Case, Collective, data::ElementEncoding},
    exit,
    native::nccl::{CommConfig, Nccl, NcclVersion, UniqueId},
    record::MemoryUse,
    units::Bytes,
    world::abort,
};

/// NCCL on this process's GPUs.
pub struct NcclBackend {
    ranks: u32,
    /// Ranks that have a GPU of this process.
    sharers: u32,
    exec_options: ExecOptions,
    float8: Float8,
    /// `None` once it is finished.
    live: Option<Live>,
}

/// What of floats of 8 bits works here, which came with NCCL 2.24 and compute capability 9.0.
#[derive(Clone, Copy, Debug)]
struct Float8 {
    nccl: NcclVersion,
    /// Can the GPUs of all ranks reduce them?
    reduced: bool,
}

impl Float8 {
    const SINCE: NcclVersion = NcclVersion(22400);

    fn supports(self, case: &Case) -> Result<(), Waived> {
        let name = case.dtype.name();
        if case.dtype.is_float8() && self.nccl < Self::SINCE {
            return Err(Waived(format!(
                "NCCL {} does not support {name}, which came with {}",
                self.nccl,
                Self::SINCE
            )));
        }
        if case.dtype.is_float8() && case.redop.is_some() && !self.reduced {
            let what = format!(
                "NCCL reduces {name} only on GPUs of compute capability 9.0 and newer, and not all are"
            );
            return Err(Waived(what));
        }
        Ok(())
    }
}

impl ExecOptions {
    /// What of it this NCCL has, and a sentence for each thing that it lacks. As nccl-tests does, a symmetric window becomes a
    /// registered buffer, and a policy that is not known is left to NCCL.
    pub fn with(self, nccl: &Nccl) -> (ExecOptions, Vec<String>) {
        let (mut exec_options, mut lacking) = (self, Vec::new());
        let version = nccl.version();
        if exec_options.registration != Registration::None && !nccl.has_registration() {
            exec_options.registration = Registration::None;
            lacking.push(format!(
                "-R needs NCCL 2.19 or newer; with {version} buffers are not registered"
            ));
        }
        if exec_options.registration == Registration::Symmetric && !nccl.has_windows() {
            exec_options.registration = Registration::Local;
            lacking.push(format!(
                "-R 2 needs NCCL 2.27 or newer; with {version} buffers are registered as with -R 1"
            ));
        }
        let since = if exec_options.cta_policy == Some(2) {
            NcclVersion(22800)
        } else {
            NcclVersion(22700)
        };
        if exec_options.cta_policy.is_some() && version < since {
            exec_options.cta_policy = None;
            lacking.push(format!(
                "this -x needs NCCL {since} or newer; {version} uses its own policy"
            ));
        }
        (exec_options, lacking)
    }
}

/// All that is held while the backend works.
struct Live {
    nccl: Arc<Nccl>,
    /// The ranks of each thread; the first is the thread that calls.
    threads_ranks: Vec<ThreadRanks>,
    free: Free,
}

/// Free memory of each GPU at the points between which it is used for different things.
struct Free {
    before_init: Vec<u64>,
    before_buffers: Vec<u64>,
    after_buffers: Vec<u64>,
}

impl NcclBackend {
    /// Joins the communicator of `id` with the ranks and GPUs of `local_ranks`, to run operations as `exec_options` says. Waits for all
    /// ranks.
    ///
    /// `cases` are those to come, as far as they are known: what their data need is made ready meanwhile. Others can run
    /// too; the first of a kind then takes longer to fill.
    ///
    /// # Errors
    /// Where a GPU does not start or NCCL fails.
    pub fn open<'a>(
        nccl: Arc<Nccl>,
        id: UniqueId,
        local_ranks: &LocalRanks,
        exec_options: ExecOptions,
        cases: impl IntoIterator<Item = &'a Case>,
    ) -> anyhow::Result<NcclBackend> {
        let cases: Vec<&Case> = cases.into_iter().collect();
        // A ring of sends and receives has two peers, and NCCL 2.30 needs less for them if it is told, as by nccl-tests.
        let is_ring = !cases.is_empty()
            && cases
                .iter()
                .all(|case| case.collective == Collective::SendRecv);
        let settings = CommConfig {
            max_p2p_peers: is_ring.then_some(2),
            cta_policy: exec_options.cta_policy,
        };
        let threads_ranks = local_ranks.threads_ranks();
        let opened = at_once(threads_ranks.concat(), |(_, gpu)| {
            OpenedDevice::open(gpu, exec_options.null_stream)
        })?;
        let free = |one: &OpenedDevice| Ok(one.device.memory()?.0.0);
        let before_init = opened
            .iter()
            .map(free)
            .collect::<anyhow::Result<Vec<u64>>>()?;
        let kinds: BTreeSet<ElementEncoding> = cases
            .iter()
            .map(|case| ElementEncoding::of(case.dtype, case.redop))
            .collect();
        let comms = thread::scope(|scope| {
            // The driver compiles the kernels while NCCL connects the ranks.
            let kernels: Vec<_> = opened
                .iter()
                .map(|one| scope.spawn(|| one.kernels().prepare(kinds.iter().copied())))
                .collect();
            let comms = join(&nccl, &id, local_ranks, &threads_ranks, settings, &opened)?;
            for kernels in kernels {
                kernels
                    .join()
                    .map_err(|_| anyhow::anyhow!("loading the kernels panicked"))??;
            }
            anyhow::Ok(comms)
        })?;
        let mut devices = opened
            .into_iter()
            .zip(comms)
            .map(|(one, comm)| one.join(comm));
        let threads_ranks: Vec<ThreadRanks> = threads_ranks
            .iter()
            .map(|thread_ranks| ThreadRanks {
                nccl: Arc::clone(&nccl),
                devices: devices.by_ref().take(thread_ranks.len()).collect(),
            })
            .collect();
        let mut live = Live {
            nccl,
            threads_ranks,
            free: Free {
                before_init,
                before_buffers: Vec::new(),
                after_buffers: Vec::new(),
            },
        };
        live.free.before_buffers = live.free_memory()?;
        let float8 = Float8 {
            nccl: live.nccl.version(),
            reduced: false,
        };
        Ok(NcclBackend {
            ranks: local_ranks.ranks,
            sharers: 1,
            exec_options,
            float8,
            live: Some(live),
        })
    }

    /// Says that `ranks` ranks have this GPU, so that [`Backend::capacity`] leaves each its share.
    pub fn share_gpu(&mut self, ranks: u32) {
        self.sharers = ranks.max(1);
    }

    /// Says whether the GPUs of all ranks can reduce floats of 8 bits. Without a word none can: who says it must say the
    /// same on every rank.
    pub fn reduce_float8(&mut self, all_can: bool) {
        self.float8.reduced = all_can;
    }

    fn live(&self) -> anyhow::Result<&Live> {
        self.live
            .as_ref()
            .context("the NCCL backend is used after its end")
    }

    fn live_mut(&mut self) -> anyhow::Result<&mut Live> {
        self.live
            .as_mut()
            .context("the NCCL backend is used after its end")
    }
}

/// Joins the communicator: the thread that calls with all GPUs as one group, or each thread of `local_ranks` with its own.
fn join(
    nccl: &Arc<Nccl>,
    id: &UniqueId,
    local_ranks: &LocalRanks,
    threads_ranks: &[Vec<(u32, usize)>],
    settings: CommConfig,
    opened: &[OpenedDevice],
) -> anyhow::Result<Vec<Comm>> {
    let mut groups: Vec<(Vec<u32>, &[OpenedDevice])> = Vec::new();
    let mut rest = opened;
    for thread_ranks in threads_ranks {
        let (mine, others) = rest.split_at(thread_ranks.len());
        groups.push((thread_ranks.iter().map(|(rank, _)| *rank).collect(), mine));
        rest = others;
    }
    if !local_ranks.parallel_init {
        groups = vec![(
            groups.into_iter().flat_map(|(ranks, _)| ranks).collect(),
            opened,
        )];
    }
    let comms = at_once(groups, |(mine, opened)| {
        let joining = || {
            format!(
                "while rank {} of {} joined the communicator",
                mine[0], local_ranks.ranks
            )
        };
        let choose = |at: usize| opened[at].device.bind();
        Comm::init(nccl, id, &mine, local_ranks.ranks, settings, &choose).with_context(joining)
    })?;
    Ok(comms.into_iter().flatten().collect())
}

/// Does `step` for each of `all`, each on a thread of its own where there are several. The results are in their order.
fn at_once<T: Send, R: Send>(
    mut all: Vec<T>,
    step: impl Fn(T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    if all.len() == 1 {
        return all.pop().into_iter().map(step).collect();
    }
    thread::scope(|scope| {
        let step = &step;
        let watched = move |one| step(one).unwrap_or_else(|error| end_job(&error));
        let threads: Vec<_> = all
            .into_iter()
            .map(|one| scope.spawn(move || watched(one)))
            .collect();
        threads.into_iter().map(joined).collect()
    })
}

/// Ends the job with the error of a thread of several: the others may be inside a call of NCCL's that waits for this one, and
/// would never come back to tell.
fn end_job(error: &anyhow::Error) -> ! {
    abort::job(exit::code_of(error), &format!("{error:#}"));
}

/// What a thread came to. That it panicked has ended the job already.
fn joined<R>(thread: thread::ScopedJoinHandle<'_, R>) -> anyhow::Result<R> {
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))
}

impl Drop for NcclBackend {
    /// What [`Backend::finish`] did not end is left to the end of the process: unloading kernels and freeing memory
    /// wait for the GPU, which may be waiting for a rank that is gone.
    fn drop(&mut self) {
        mem::forget(self.live.take());
    }
}

impl Live {
    fn devices(&self) -> impl Iterator<Item = &RankDevice> {
        self.threads_ranks
            .iter()
            .flat_map(|thread_ranks| &thread_ranks.devices)
    }

    fn free_memory(&self) -> anyhow::Result<Vec<u64>> {
        self.devices()
            .map(|device_rank| Ok(device_rank.device.memory()?.0.0))
            .collect()
    }

    /// Does `step`, which is called `doing`, on each thread with its team; the first is this one, which alone has
    /// `processes`.
    fn each<R: Send>(
        &mut self,
        doing: &(dyn Fn() -> String + Sync),
        processes: &dyn Fn(),
        step: impl Fn(&ThreadRanks, &ThreadBarrier) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        let threads = Barrier::new(self.threads_ranks.len());
        let Some((first, others)) = self.threads_ranks.split_first_mut() else {
            return Ok(Vec::new());
        };
        if others.is_empty() {
            let meeting = ThreadBarrier {
                threads: &threads,
                processes: Some(processes),
            };
            return Ok(vec![step(first, &meeting).with_context(doing)?]);
        }
        // The process is named by who ends the job, its thread here.
        let where_it_was = |thread_ranks: &ThreadRanks| format!("{}, as {thread_ranks}", doing());
        let watched = |thread_ranks: &ThreadRanks, meeting: &ThreadBarrier| {
            step(thread_ranks, meeting)
                .with_context(|| where_it_was(thread_ranks))
                .unwrap_or_else(|error| end_job(&error))
        };
        thread::scope(|scope| {
            let (watched, threads) = (&watched, &threads);
            let others: Vec<_> = others
                .iter_mut()
                .map(|thread_ranks| {
                    scope.spawn(move || {
                        watched(
                            thread_ranks,
                            &ThreadBarrier {
                                threads,
                                processes: None,
                            },
                        )
                    })
                })
                .collect();
            let first = watched(
                first,
                &ThreadBarrier {
                    threads,
                    processes: Some(processes),
                },
            );
            [Ok(first)]
                .into_iter()
                .chain(others.into_iter().map(joined))
                .collect()
        })
    }

    fn members_mut(&mut self) -> Vec<&mut RankDevice> {
        self.threads_ranks
            .iter_mut()
            .flat_map(|thread_ranks| &mut thread_ranks.devices)
            .collect()
    }

    fn allocate(&mut self, largest: Bytes, exec_options: &ExecOptions) -> anyhow::Result<()> {
        let nccl = Arc::clone(&self.nccl);
        self.members_mut().into_iter().try_for_each(|device_rank| {
            device_rank.allocate(&nccl, largest, exec_options.unalign)
        })?;
        self.free.after_buffers = self.free_memory()?;
        Ok(())
    }

    fn register(&mut self, how: Registration) -> anyhow::Result<()> {
        let nccl = Arc::clone(&self.nccl);
        let mut devices = self.members_mut();
        let several = devices.len() > 1;
        nccl.grouped(several, || {
            devices
                .iter_mut()
                .try_for_each(|device_rank| device_rank.register(&nccl, how))
        })
    }

    fn finish(mut self, exec_options: &ExecOptions) -> anyhow::Result<()> {
        self.each(
            &|| "while the GPUs end their work".into(),
            &|| {},
            |thread_ranks, _| thread_ranks.wait(),
        )?;
        let nccl = Arc::clone(&self.nccl);
        let mut devices: Vec<RankDevice> = self
            .threads_ranks
            .into_iter()
            .flat_map(|thread_ranks| thread_ranks.devices)
            .collect();
        devices
            .iter_mut()
            .try_for_each(|device_rank| device_rank.deregister(&nccl, exec_options.registration))?;
        // All ends of the communicator first: freeing memory waits for the GPU.
        let ended = devices
            .into_iter()
            .map(|device_rank| device_rank.close())
            .collect::<anyhow::Result<Vec<_>>>()?;
        ended
            .into_iter()
            .try_for_each(rank_device::ClosedDevice::free)
    }
}

/// The largest buffer of which `sharers` ranks can have two each, where `free` bytes of `total` are free now.
///
/// NCCL connects ranks at the first operation that needs it, after this was asked, and its buffers then come from the
/// same memory: 9.2 MiB for each channel and peer that a rank receives from (4 for Simple, 4.7 for LL128, 0.5 for LL).
/// On a node of 8 GPUs with NVLink switches and 64 channels, the most there are, that is 1.7 GiB for a ring and a tree
/// with two neighbours, 4.0 GiB for sends and receives with 7 peers, and 0.5 to 1 GiB for NVLS (1 MiB a channel, GPU
/// and direction): 6.7 GiB; with 32 channels, which is what NCCL takes itself, half of it. So 7 GiB are left on GPUs of
/// 77 GiB and more. Smaller GPUs have fewer channels and no NVLS; there an eleventh is left, and 1 GiB at least. NCCL
/// 2.19 to 2.25 round what they allocate up to 512 MiB, which the half that is not needed by default has room for.
///
/// nccl-tests leaves 2 to 5 GiB of all memory and divides the rest by three when it checks, for it keeps the expected
/// values too. On an H100 of 80 GB that is 24.7 GiB; here it is 35 GiB.
fn largest_buffer(free: Bytes, total: Bytes, sharers: u32) -> Bytes {
    const LEAST: u64 = 1 << 30;
    const MOST: u64 = 7 << 30;
    let reserve = (total.0 / 11).clamp(LEAST, MOST);
    let mine = free.0 / u64::from(sharers.max(1));
    // Whole megabytes, so that every offset that follows from it is aligned.
    Bytes((mine.saturating_sub(reserve) / 2) & !((1 << 20) - 1))
}

impl Backend for NcclBackend {
    fn supports(&self, case: &Case) -> Result<(), Waived> {
        possible(case)?;
        // All other types and operations are in every NCCL that is accepted, and collectives that came later are made of
        // sends and receives.
        self.float8.supports(case)?;
        if case.collective == Collective::HyperCube && self.exec_options.operations() > 1 {
            let what = "-m makes one group of several operations, and each round of a hypercube is a group of its own";
            return Err(Waived(what.into()));
        }
        match case.root {
            Some(root) if root >= self.ranks => Err(Waived(format!(
                "rank {root} does not exist among {} ranks",
                self.ranks
            ))),
            _ => Ok(()),
        }
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        let mut least: Option<Bytes> = None;
        for device_rank in self.live()?.devices() {
            let (free, total) = device_rank.device.memory()?;
            let mine = largest_buffer(free, total, self.sharers);
            least = Some(least.map_or(mine, |other| other.min(mine)));
        }
        Ok(least)
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        let exec_options = self.exec_options;
        self.live_mut()?.allocate(largest, &exec_options)
    }

    fn register(&mut self) -> anyhow::Result<()> {
        match self.exec_options.registration {
            Registration::None => Ok(()),
            how => self
                .live_mut()?
                .register(how)
                .context("while registering the buffers with NCCL"),
        }
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let doing = || format!("while filling the buffers of {case}");
        self.live_mut()?
            .each(&doing, &|| {}, |thread_ranks, _| {
                thread_ranks.fill(case, seed)
            })
            .map(|_| ())
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let doing = || format!("while running {case}");
        let ran = self
            .live_mut()?
            .each(&doing, &|| {}, |thread_ranks, meeting| {
                thread_ranks.run(case, times, meeting)
            })?;
        Ok(timing(ran, times.into()))
    }

    fn once(&mut self, case: &Case) -> anyhow::Result<()> {
        let exec_options = self.exec_options;
        let doing = || format!("while running {case} to check it");
        self.live_mut()?
            .each(&doing, &|| {}, |thread_ranks, meeting| {
                thread_ranks.once(case, &exec_options, meeting)
            })
            .map(|_| ())
    }

    fn time(&mut self, case: &Case, iters: u32, barrier: &dyn Fn()) -> anyhow::Result<Timing> {
        let exec_options = self.exec_options;
        let doing = || format!("while timing {case}");
        let timed = self
            .live_mut()?
            .each(&doing, barrier, |thread_ranks, meeting| {
                thread_ranks.time(case, iters, &exec_options, meeting)
            })?;
        let operations = u64::from(iters)
            * u64::from(exec_options.operations())
            * u64::from(exec_options.rounds());
        Ok(timing(timed, operations))
    }

    fn memory_use(&self) -> anyhow::Result<Option<MemoryUse>> {
        let Live { free, .. } = self.live()?;
        let now = self.live()?.free_memory()?;
        let used = |from: &[u64], to: &[u64]| {
            from.iter()
                .zip(to)
                .map(|(from, to)| from.saturating_sub(*to))
                .max()
        };
        Ok(Some(MemoryUse {
            initialization: used(&free.before_init, &free.before_buffers).unwrap_or(0),
            buffers: used(&free.before_buffers, &free.after_buffers).unwrap_or(0),
            collectives: used(&free.after_buffers, &now).unwrap_or(0),
        }))
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let doing = || format!("while checking {case}");
        Ok(self
            .live_mut()?
            .each(&doing, &|| {}, |thread_ranks, _| {
                thread_ranks.count_wrong(case, seed)
            })?
            .into_iter()
            .sum())
    }

    fn corrupt(&mut self, case: &Case) -> anyhow::Result<bool> {
        for device_rank in self.live()?.devices() {
            if device_rank
                .corrupt(case)
                .with_context(|| format!("while planting an error in {case}"))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let exec_options = self.exec_options;
        let ended = self
            .live
            .take()
            .map_or(Ok(()), |live| live.finish(&exec_options));
        ended.context("while ending the communicator")
    }
}

/// What the threads measured, together.
fn timing(threads: Vec<ThreadTiming>, operations: u64) -> Timing {
    let issued = threads
        .first()
        .map_or_else(Default::default, |first| first.issued);
    let mut timing = Timing {
        issued,
        operations,
        ..Timing::default()
    };
    for thread in threads {
        timing.elapsed.push(thread.elapsed);
        timing.iteration_times.resize(
            timing
                .iteration_times
                .len()
                .max(thread.iteration_times.len()),
            Default::default(),
        );
        for (longest, lap) in timing
            .iteration_times
            .iter_mut()
            .zip(thread.iteration_times)
        {
            longest.0 = longest.0.max(lap.0);
        }
    }
    timing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{
        BufferMode, Collective,
        data::{DType, RedOp},
    };

    const GIB: f64 = (1_u64 << 30) as f64;

    #[test]
    fn larger_messages_fit_than_in_nccl_tests() {
        let gib = |value: f64| Bytes((value * GIB) as u64);
        // Total memory, what is free beside a context and a communicator, and the largest message of nccl-tests.
        for (total, free, theirs) in [
            (79.1, 77.5, 24.7),
            (139.8, 138.0, 44.9),
            (39.4, 38.4, 11.8),
            (23.7, 23.0, 6.9),
        ] {
            let ours = largest_buffer(gib(free), gib(total), 1).0 as f64 / GIB;
            assert!(ours >= 1.4 * theirs, "{ours} GiB of {total}");
            assert!(
                free - 2.0 * ours >= 7.0_f64.min(total / 11.0),
                "{ours} GiB of {total}"
            );
        }
        assert_eq!(largest_buffer(Bytes(1 << 30), gib(8.0), 1), Bytes(0));
        let (alone, shared) = (
            largest_buffer(gib(78.0), gib(79.1), 1),
            largest_buffer(gib(78.0), gib(79.1), 2),
        );
        assert!(shared.0 < alone.0 / 2);
    }

    #[test]
    fn floats_of_8_bits_need_a_library_and_to_be_reduced_a_gpu() {
        let why = |collective: Collective, dtype: DType, nccl: i32, reduced: bool| {
            let redop = collective.spec().reduces.then_some(RedOp::Sum);
            let case = Case::new(
                collective,
                Bytes(64),
                dtype,
                redop,
                None,
                BufferMode::InPlace,
                2,
            );
            Float8 {
                nccl: NcclVersion(nccl),
                reduced,
            }
            .supports(&case)
            .err()
            .map(|why| why.0)
        };
        let old = Some("NCCL 2.23.4 does not support f8e4m3, which came with 2.24.0".to_owned());
        assert_eq!(why(Collective::AllGather, DType::F8e4m3, 22304, true), old);
        assert_eq!(
            why(Collective::AllGather, DType::F8e4m3, 22403, false),
            None
        );
        let gpu = why(Collective::AllReduce, DType::F8e5m2, 22403, false);
        assert!(gpu.is_some_and(|why| why.contains("f8e5m2") && why.contains("9.0")));
        assert_eq!(why(Collective::AllReduce, DType::F8e5m2, 22403, true), None);
        assert_eq!(why(Collective::AllReduce, DType::Half, 22304, false), None);
    }

    #[test]
    fn a_finished_backend_says_so() {
        let float8 = Float8 {
            nccl: NcclVersion(22803),
            reduced: false,
        };
        let exec_options = ExecOptions::default();
        let mut backend = NcclBackend {
            ranks: 2,
            sharers: 1,
            exec_options,
            float8,
            live: None,
        };
        let case = Case::new(
            Collective::Reduce,
            Bytes(64),
            DType::Float,
            Some(RedOp::Sum),
            Some(2),
            BufferMode::InPlace,
            2,
        );
        assert_eq!(
            backend.supports(&case),
            Err(Waived("rank 2 does not exist among 2 ranks".into()))
        );
        assert!(
            backend.run(&case, 1).is_err()
                && backend.allocate(Bytes(8)).is_err()
                && backend.finish().is_ok()
        );
    }
}
