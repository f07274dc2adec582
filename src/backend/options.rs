//! How operations are started and waited for, in terms of the flags of nccl-tests, and which GPUs a
//! process drives.

use serde::{Deserialize, Serialize};

/// The point at which the host waits while a case is timed: `-z` of nccl-tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocking {
    /// 0: only at the end.
    #[default]
    AtTheEnd,
    /// 1: after each operation, then for all ranks.
    OperationAndRanks,
    /// 2: after each operation.
    Operation,
    /// 3: after each iteration, then for all ranks, which is not timed.
    Iteration,
}

impl Blocking {
    /// All of them, in the order of their numbers.
    pub const ALL: [Blocking; 4] = [
        Blocking::AtTheEnd,
        Blocking::OperationAndRanks,
        Blocking::Operation,
        Blocking::Iteration,
    ];
}

/// The way in which buffers are registered with the library: `-R` of nccl-tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Registration {
    /// 0: not at all.
    #[default]
    None,
    /// 1: `ncclCommRegister`.
    Local,
    /// 2: symmetric windows, `ncclCommWindowRegister`.
    Symmetric,
}

impl Registration {
    /// All of them, in the order of their numbers.
    pub const ALL: [Registration; 3] = [
        Registration::None,
        Registration::Local,
        Registration::Symmetric,
    ];
}

/// The options for running operations. Host memory and the model support only the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOptions {
    /// Operations per iteration, in one group (`-m`); 0 and 1 mean one operation without a group.
    pub aggregate: u32,
    /// When the host waits (`-z`).
    pub blocking: Blocking,
    /// Whether everything runs in the null stream (`-y`).
    pub null_stream: bool,
    /// Launches of the graph that a case is captured as (`-G`); 0 means no graph.
    pub replays: u32,
    /// Elements between an aligned address and the start of the buffers (`-u`).
    pub unalign: u64,
    /// How buffers are registered (`-R`).
    pub registration: Registration,
    /// The `CTAPolicy` of NCCL (`-x`); `None` leaves it to NCCL.
    pub cta_policy: Option<i32>,
    /// Whether each iteration is timed by the GPU's clock (`-I`).
    pub iteration_times: bool,
}

impl ExecOptions {
    /// Returns the number of operations per iteration.
    pub fn operations(&self) -> u32 {
        self.aggregate.max(1)
    }

    /// Returns the operations that a device gets at once if a case has `iters` iterations: those of
    /// a group, or of a graph.
    pub fn operations_at_once(&self, iters: u32) -> u32 {
        match self.replays {
            0 => self.operations(),
            _ => iters.saturating_mul(self.operations()),
        }
    }

    /// Returns how often a timed case runs its iterations.
    pub fn rounds(&self) -> u32 {
        self.replays.max(1)
    }
}

/// A rank and its GPU, by its index in what the process sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankGpu {
    /// The rank.
    pub rank: u32,
    /// The GPU.
    pub gpu: usize,
}

/// A process's contribution to an NCCL communicator.
#[derive(Clone, Debug)]
pub struct NcclSetup {
    /// Its ranks and GPUs.
    pub local_ranks: LocalRanks,
    /// How it runs operations.
    pub exec_options: ExecOptions,
    /// Processes of this machine that use the same GPU, each of which gets its share of the memory.
    pub gpu_sharers: u32,
    /// Whether the GPUs of all ranks can reduce 8-bit floats; the same on every rank.
    pub reduces_float8: bool,
}

/// The GPUs of a process, each of which is a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRanks {
    /// Rank of the first GPU; the others follow.
    pub first_rank: u32,
    /// The number of ranks in the communicator.
    pub ranks: u32,
    /// The GPUs by their index in what the process sees, in the order of their ranks.
    pub gpus: Vec<usize>,
    /// Threads among which the GPUs are divided, in order; 0 and 1 mean the calling thread only.
    pub threads: u32,
    /// Whether each thread joins its own GPUs to the communicator (`-p`).
    pub parallel_init: bool,
}

impl LocalRanks {
    /// Returns a process with one rank, on one GPU.
    pub fn single(rank: u32, ranks: u32, gpu: usize) -> LocalRanks {
        LocalRanks {
            first_rank: rank,
            ranks,
            gpus: vec![gpu],
            threads: 1,
            parallel_init: false,
        }
    }

    /// Returns the ranks of each thread.
    pub fn ranks_by_thread(&self) -> Vec<Vec<RankGpu>> {
        let threads = self.threads.max(1) as usize;
        let per_thread = self.gpus.len().div_ceil(threads).max(1);
        let ranks: Vec<RankGpu> = (self.first_rank..)
            .zip(&self.gpus)
            .map(|(rank, &gpu)| RankGpu { rank, gpu })
            .collect();
        ranks.chunks(per_thread).map(<[_]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks_by_thread(local_ranks: &LocalRanks) -> Vec<Vec<(u32, usize)>> {
        let threads = local_ranks.ranks_by_thread();
        threads
            .iter()
            .map(|ranks| ranks.iter().map(|rank| (rank.rank, rank.gpu)).collect())
            .collect()
    }

    #[test]
    fn gpus_are_dealt_out_to_threads_in_the_order_of_ranks() {
        let two_threads = LocalRanks {
            first_rank: 4,
            ranks: 8,
            gpus: vec![0, 1, 2, 3],
            threads: 2,
            parallel_init: false,
        };
        let one_thread = LocalRanks {
            threads: 1,
            ..two_threads.clone()
        };
        let no_thread = LocalRanks {
            threads: 0,
            ..two_threads.clone()
        };
        assert_eq!(
            ranks_by_thread(&two_threads),
            [[(4, 0), (5, 1)], [(6, 2), (7, 3)]]
        );
        assert_eq!(
            ranks_by_thread(&one_thread),
            [[(4, 0), (5, 1), (6, 2), (7, 3)]]
        );
        assert_eq!(ranks_by_thread(&no_thread).len(), 1);
        assert_eq!(ranks_by_thread(&LocalRanks::single(3, 4, 1)), [[(3, 1)]]);
    }
}
