//! The backend that runs NCCL on GPUs: one rank, one GPU, one stream.
//!
//! [`comm`] has the communicator and the calls, [`device`] the GPU and its memory, [`kernels`] fills and checks data on
//! the GPU, [`selfcheck`] compares those kernels with their description. Nothing in here has a deadline: all waits ask
//! again and again, and who watches over them ends the process.

#![expect(unsafe_code, reason = "operations run on addresses of GPU memory")]

pub mod comm;
pub mod device;
pub mod kernels;
pub mod selfcheck;

use std::{collections::BTreeSet, mem, sync::Arc, thread, time::Instant};

use anyhow::Context;

pub use self::selfcheck::self_check;
use self::{
    comm::Comm,
    device::{Buffer, Device},
    kernels::Kernels,
};
use crate::{
    backend::{Backend, Timing, Waived, possible, rotation},
    collective::{
        Case, Collective, Layout, Placement,
        data::{DataKey, Kind, Region, fault_in},
    },
    native::nccl::{Nccl, Settings, UniqueId, Version},
    units::Bytes,
};

/// NCCL on this process's GPU.
pub struct NcclBackend {
    rank: u32,
    ranks: u32,
    /// Ranks that have this GPU.
    sharers: u32,
    float8: Float8,
    /// `None` once it is finished.
    live: Option<Live>,
}

/// What of floats of 8 bits works here, which came with NCCL 2.24 and compute capability 9.0.
#[derive(Clone, Copy, Debug)]
struct Float8 {
    nccl: Version,
    /// Can the GPUs of all ranks reduce them?
    reduced: bool,
}

impl Float8 {
    const SINCE: Version = Version(22400);

    fn supports(self, case: &Case) -> Result<(), Waived> {
        let name = case.dtype.name();
        if case.dtype.is_float8() && self.nccl < Self::SINCE {
            return Err(Waived(format!("NCCL {} has no {name}: it came with {}", self.nccl, Self::SINCE)));
        }
        if case.dtype.is_float8() && case.redop.is_some() && !self.reduced {
            let what = format!("NCCL reduces {name} only on GPUs of compute capability 9.0 and newer, and not all are");
            return Err(Waived(what));
        }
        Ok(())
    }
}

/// All that is held while the backend works.
struct Live {
    nccl: Arc<Nccl>,
    comm: Comm,
    device: Device,
    kernels: Kernels,
    counter: Buffer,
    buffers: Option<Buffers>,
}

struct Buffers {
    send: Buffer,
    recv: Buffer,
}

impl NcclBackend {
    /// Joins the communicator of `id` as `rank` of `ranks`, with this process's GPU number `gpu`. Waits for all ranks.
    ///
    /// `cases` are those to come, as far as they are known: what their data need is made ready meanwhile. Others can run
    /// too; the first of a kind then takes longer to fill.
    ///
    /// # Errors
    /// Where the GPU does not start or NCCL fails.
    pub fn open<'a>(
        nccl: Arc<Nccl>,
        id: UniqueId,
        rank: u32,
        ranks: u32,
        gpu: usize,
        cases: impl IntoIterator<Item = &'a Case>,
    ) -> anyhow::Result<NcclBackend> {
        let cases: Vec<&Case> = cases.into_iter().collect();
        // A ring of sends and receives has two peers, and NCCL 2.30 needs less for them if it is told, as by nccl-tests.
        let is_ring = !cases.is_empty() && cases.iter().all(|case| case.collective == Collective::SendRecv);
        let settings = Settings { max_p2p_peers: is_ring.then_some(2) };
        let device = Device::open(gpu)?;
        let counter = device.allocate(Bytes(mem::size_of::<u64>() as u64), None)?;
        // The driver compiles the kernels while NCCL connects the ranks.
        let kinds: BTreeSet<Kind> = cases.iter().map(|case| Kind::of(case.dtype, case.redop)).collect();
        let kernels = Kernels::new(device.context())?;
        let kernels = thread::spawn(move || kernels.prepare(kinds).map(|()| kernels));
        let joining = || format!("while rank {rank} of {ranks} joined the communicator with GPU {gpu}");
        let comm = Comm::init(Arc::clone(&nccl), &id, rank, ranks, settings).with_context(joining)?;
        let kernels = kernels.join().map_err(|_| anyhow::anyhow!("loading the kernels panicked"))??;
        let float8 = Float8 { nccl: nccl.version(), reduced: false };
        let live = Live { nccl, comm, device, kernels, counter, buffers: None };
        Ok(NcclBackend { rank, ranks, sharers: 1, float8, live: Some(live) })
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
        self.live.as_ref().context("the NCCL backend is used after its end")
    }
}

impl Drop for NcclBackend {
    /// What [`Backend::finish`] did not end is left to the end of the process: unloading kernels and freeing memory
    /// wait for the GPU, which may be waiting for a rank that is gone.
    fn drop(&mut self) {
        mem::forget(self.live.take());
    }
}

impl Live {
    fn buffers(&self) -> anyhow::Result<&Buffers> {
        self.buffers.as_ref().context("the NCCL backend has no buffers yet")
    }

    fn wait(&self) -> anyhow::Result<()> {
        self.device.wait(|| self.comm.check())
    }

    /// Where `case` sends from and receives to in the first iteration.
    fn ends(&self, case: &Case, layout: &Layout) -> anyhow::Result<(u64, u64)> {
        let Buffers { send, recv } = self.buffers()?;
        let (size, fits) = (case.size(), send.bytes());
        anyhow::ensure!(size <= fits, "{case} does not fit into the buffers of {fits} bytes");
        let element = case.dtype.size();
        let send = match case.placement {
            Placement::OutOfPlace => send.address(),
            Placement::InPlace => recv.address() + layout.send_offset * element,
        };
        Ok((send, recv.address() + layout.recv_offset * element))
    }

    fn fill(&self, case: &Case, layout: &Layout, key: &DataKey) -> anyhow::Result<()> {
        let Buffers { send, recv } = self.buffers()?;
        self.device.bind()?;
        for (buffer, regions) in [(send, &layout.send), (recv, &layout.recv)] {
            for region in regions {
                let address = whole_buffer_with(buffer, region, case)?;
                self.kernels.fill(self.device.stream(), address, key, region)?;
            }
        }
        self.wait()
    }

    fn run(&self, case: &Case, layout: &Layout, times: u32) -> anyhow::Result<Timing> {
        let (send, recv) = self.ends(case, layout)?;
        let (size, largest) = (case.size(), self.buffers()?.recv.bytes());
        let (call, stream) = (self.comm.call(case)?, self.device.raw_stream());
        self.device.bind()?;
        let start = Instant::now();
        for iteration in 0..times {
            let shift = rotation(size, largest, iteration);
            // SAFETY: the case fits into the buffers at every offset that `rotation` gives, and they and the stream
            // outlive the wait below.
            unsafe { self.comm.enqueue(&call, send + shift, recv + shift, stream)? };
        }
        self.wait()?;
        Ok(Timing { elapsed: start.elapsed(), computed: false })
    }

    fn count_wrong(&self, case: &Case, layout: &Layout, key: &DataKey) -> anyhow::Result<u64> {
        let recv = &self.buffers()?.recv;
        self.device.zero(&self.counter)?;
        for region in &layout.expected {
            let address = whole_buffer_with(recv, region, case)?;
            self.kernels.check(self.device.stream(), address, key, region, self.counter.address())?;
        }
        self.wait()?;
        let mut wrong = [0; mem::size_of::<u64>()];
        self.device.read(&self.counter, 0, &mut wrong)?;
        Ok(u64::from_le_bytes(wrong))
    }

    fn corrupt(&self, case: &Case, layout: &Layout) -> anyhow::Result<bool> {
        let Some(region) = layout.expected.iter().rev().find(|region| region.len > 0) else { return Ok(false) };
        let (recv, at) = (&self.buffers()?.recv, (region.offset + region.len - 1) * case.dtype.size());
        let mut byte = [0];
        self.device.read(recv, at, &mut byte)?;
        byte[0] ^= fault_in(&case.data(0), &region.content);
        self.device.write(recv, at, &byte)?;
        Ok(true)
    }

    fn finish(self) -> anyhow::Result<()> {
        self.wait()?;
        self.device.bind()?;
        self.comm.close()?;
        let Buffers { send, recv } = match self.buffers {
            Some(buffers) => buffers,
            None => return self.device.free(self.counter),
        };
        self.device.free(send)?;
        self.device.free(recv)?;
        self.device.free(self.counter)
    }
}

/// The address of `buffer`, in which `region` of `case` lies: kernels take it with the region.
fn whole_buffer_with(buffer: &Buffer, region: &Region, case: &Case) -> anyhow::Result<u64> {
    let element = case.dtype.size();
    buffer.part(region.offset * element, region.len * element).with_context(|| case.to_string())?;
    Ok(buffer.address())
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
        match case.root {
            Some(root) if root >= self.ranks => Err(Waived(format!("there is no rank {root} among {}", self.ranks))),
            _ => Ok(()),
        }
    }

    fn capacity(&self) -> anyhow::Result<Option<Bytes>> {
        let (free, total) = self.live()?.device.memory()?;
        Ok(Some(largest_buffer(free, total, self.sharers)))
    }

    fn allocate(&mut self, largest: Bytes) -> anyhow::Result<()> {
        let live = self.live.as_mut().context("the NCCL backend is used after its end")?;
        let buffer = || live.device.allocate(largest, Some(Arc::clone(&live.nccl)));
        live.buffers = Some(Buffers { send: buffer()?, recv: buffer()? });
        Ok(())
    }

    fn fill(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let filled = self.live()?.fill(case, &case.layout(self.rank.into()), &case.data(seed));
        filled.with_context(|| format!("while filling the buffers of {case}"))
    }

    fn run(&mut self, case: &Case, times: u32) -> anyhow::Result<Timing> {
        let run = self.live()?.run(case, &case.layout(self.rank.into()), times);
        run.with_context(|| format!("while running {case}"))
    }

    fn count_wrong(&mut self, case: &Case, seed: u64) -> anyhow::Result<u64> {
        let counted = self.live()?.count_wrong(case, &case.layout(self.rank.into()), &case.data(seed));
        counted.with_context(|| format!("while checking {case}"))
    }

    fn corrupt(&mut self, case: &Case) -> anyhow::Result<bool> {
        let corrupted = self.live()?.corrupt(case, &case.layout(self.rank.into()));
        corrupted.with_context(|| format!("while planting an error in {case}"))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let ended = self.live.take().map_or(Ok(()), Live::finish);
        ended.context("while ending the communicator")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{
        Collective,
        data::{DType, RedOp},
    };

    const GIB: f64 = (1_u64 << 30) as f64;

    #[test]
    fn larger_messages_fit_than_in_nccl_tests() {
        let gib = |value: f64| Bytes((value * GIB) as u64);
        // Total memory, what is free beside a context and a communicator, and the largest message of nccl-tests.
        for (total, free, theirs) in [(79.1, 77.5, 24.7), (139.8, 138.0, 44.9), (39.4, 38.4, 11.8), (23.7, 23.0, 6.9)] {
            let ours = largest_buffer(gib(free), gib(total), 1).0 as f64 / GIB;
            assert!(ours >= 1.4 * theirs, "{ours} GiB of {total}");
            assert!(free - 2.0 * ours >= 7.0_f64.min(total / 11.0), "{ours} GiB of {total}");
        }
        assert_eq!(largest_buffer(Bytes(1 << 30), gib(8.0), 1), Bytes(0));
        let (alone, shared) = (largest_buffer(gib(78.0), gib(79.1), 1), largest_buffer(gib(78.0), gib(79.1), 2));
        assert!(shared.0 < alone.0 / 2);
    }

    #[test]
    fn floats_of_8_bits_need_a_library_and_to_be_reduced_a_gpu() {
        let why = |collective: Collective, dtype: DType, nccl: i32, reduced: bool| {
            let redop = collective.spec().reduces.then_some(RedOp::Sum);
            let case = Case::new(collective, Bytes(64), dtype, redop, None, Placement::InPlace, 2);
            Float8 { nccl: Version(nccl), reduced }.supports(&case).err().map(|why| why.0)
        };
        let old = Some("NCCL 2.23.4 has no f8e4m3: it came with 2.24.0".to_owned());
        assert_eq!(why(Collective::AllGather, DType::F8e4m3, 22304, true), old);
        assert_eq!(why(Collective::AllGather, DType::F8e4m3, 22403, false), None);
        let gpu = why(Collective::AllReduce, DType::F8e5m2, 22403, false);
        assert!(gpu.is_some_and(|why| why.contains("f8e5m2") && why.contains("9.0")));
        assert_eq!(why(Collective::AllReduce, DType::F8e5m2, 22403, true), None);
        assert_eq!(why(Collective::AllReduce, DType::Half, 22304, false), None);
    }

    #[test]
    fn a_finished_backend_says_so() {
        let float8 = Float8 { nccl: Version(22803), reduced: false };
        let mut backend = NcclBackend { rank: 0, ranks: 2, sharers: 1, float8, live: None };
        let case =
            Case::new(Collective::Reduce, Bytes(64), DType::Float, Some(RedOp::Sum), Some(2), Placement::InPlace, 2);
        assert_eq!(backend.supports(&case), Err(Waived("there is no rank 2 among 2".into())));
        assert!(backend.run(&case, 1).is_err() && backend.allocate(Bytes(8)).is_err() && backend.finish().is_ok());
    }
}
