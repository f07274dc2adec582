//! How operations are started and waited for, by nccl-tests' flags, and which GPUs a process drives.

use serde::{Deserialize, Serialize};

/// When the host waits while a case is timed: nccl-tests' `-z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocking {
    /// 0: only at the end.
    #[default]
    AtTheEnd,
    /// 1: after each operation, and for all ranks.
    OperationAndRanks,
    /// 2: after each operation.
    Operation,
    /// 3: after each iteration, and then for all ranks, which is not counted.
    Iteration,
}

impl Blocking {
    /// All, at their numbers.
    pub const ALL: [Blocking; 4] = [
        Blocking::AtTheEnd,
        Blocking::OperationAndRanks,
        Blocking::Operation,
        Blocking::Iteration,
    ];
}

/// How buffers are registered with the library: nccl-tests' `-R`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Registration {
    /// 0: nothing.
    #[default]
    None,
    /// 1: `ncclCommRegister`.
    Local,
    /// 2: symmetric windows, `ncclCommWindowRegister`.
    Symmetric,
}

impl Registration {
    /// All, at their numbers.
    pub const ALL: [Registration; 3] = [
        Registration::None,
        Registration::Local,
        Registration::Symmetric,
    ];
}

/// How operations are run. On host memory and in the model only the defaults mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOptions {
    /// Operations of an iteration, in one group (`-m`); 0 and 1 mean one without a group.
    pub aggregate: u32,
    /// When the host waits (`-z`).
    pub blocking: Blocking,
    /// Everything runs in the null stream (`-y`).
    pub null_stream: bool,
    /// A case is captured as a graph, which is launched this many times (`-G`); 0: no graph.
    pub replays: u32,
    /// Elements between an aligned address and the start of the buffers (`-u`).
    pub unalign: u64,
    /// What the library is told of the buffers (`-R`).
    pub registration: Registration,
    /// NCCL's `CTAPolicy` (`-x`); `None` leaves it to NCCL.
    pub cta_policy: Option<i32>,
    /// Each iteration is timed, by the GPU's clock (`-I`).
    pub iteration_times: bool,
}

impl ExecOptions {
    /// Operations of an iteration.
    pub fn operations(&self) -> u32 {
        self.aggregate.max(1)
    }

    /// How often a timed case runs its iterations.
    pub fn rounds(&self) -> u32 {
        self.replays.max(1)
    }
}

/// The GPUs of a process and the ranks that they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRanks {
    /// Rank of the first GPU; the others follow.
    pub first_rank: u32,
    /// All ranks of the communicator.
    pub ranks: u32,
    /// The GPUs, by their index in what the process sees, in the order of their ranks.
    pub gpus: Vec<usize>,
    /// Threads among which the GPUs are dealt out, in order; 0 and 1 mean no thread of its own.
    pub threads: u32,
    /// Each thread joins its GPUs to the communicator itself (`-p`).
    pub parallel_init: bool,
}

impl LocalRanks {
    /// A rank on one GPU.
    pub fn single(rank: u32, ranks: u32, gpu: usize) -> LocalRanks {
        LocalRanks {
            first_rank: rank,
            ranks,
            gpus: vec![gpu],
            threads: 1,
            parallel_init: false,
        }
    }

    /// Rank and GPU of each member, by thread.
    pub fn threads_ranks(&self) -> Vec<Vec<(u32, usize)>> {
        let each = self
            .gpus
            .len()
            .div_ceil(self.threads.max(1) as usize)
            .max(1);
        let devices: Vec<(u32, usize)> =
            (self.first_rank..).zip(self.gpus.iter().copied()).collect();
        devices.chunks(each).map(<[_]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_dealt_out_to_threads_in_the_order_of_ranks() {
        let local_ranks = LocalRanks {
            first_rank: 4,
            ranks: 8,
            gpus: vec![0, 1, 2, 3],
            threads: 2,
            parallel_init: false,
        };
        assert_eq!(
            local_ranks.threads_ranks(),
            [[(4, 0), (5, 1)], [(6, 2), (7, 3)]]
        );
        assert_eq!(
            LocalRanks {
                threads: 1,
                ..local_ranks.clone()
            }
            .threads_ranks(),
            [[(4, 0), (5, 1), (6, 2), (7, 3)]]
        );
        assert_eq!(
            LocalRanks {
                threads: 0,
                ..local_ranks
            }
            .threads_ranks()
            .len(),
            1
        );
        assert_eq!(LocalRanks::single(3, 4, 1).threads_ranks(), [[(3, 1)]]);
    }
}
