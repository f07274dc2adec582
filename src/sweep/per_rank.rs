//! The times of the single ranks, gathered once after the timed operations.

use std::collections::BTreeMap;

use crate::{
    record::{RankTime, RankTimes},
    units::Micros,
    world::World,
};

/// Returns the time of each rank, in order, if each process passes the times of its `threads`, each
/// of which drives `ranks_per_thread` ranks.
///
/// The times travel as bytes: with 10,000 ranks a process receives 80 kB.
pub(super) fn gather(threads: &[f64], ranks_per_thread: u32, world: &dyn World) -> Vec<RankTime> {
    let mut mine = Vec::new();
    for time in threads {
        mine.extend(time.to_ne_bytes());
    }
    let mut ranks = Vec::new();
    for bytes in world.all_gather(&mine) {
        for time in bytes.as_chunks().0 {
            for _ in 0..ranks_per_thread {
                ranks.push(RankTime {
                    rank: ranks.len() as u32,
                    time: Micros(f64::from_ne_bytes(*time)),
                    iterations: None,
                });
            }
        }
    }
    ranks
}

/// Returns how many ranks each of `processes` processes has. All have equally many.
pub(super) fn per_process(ranks: &[RankTime], processes: u32) -> usize {
    let processes = processes.max(1) as usize;
    (ranks.len() / processes).max(1)
}

/// Returns the ranks of each communicator, if process `i` belongs to `groups[i]`.
pub(super) fn by_group(all: Option<&RankTimes>, groups: &[u32]) -> BTreeMap<u32, Vec<RankTime>> {
    let mut by_group: BTreeMap<u32, Vec<RankTime>> = BTreeMap::new();
    let Some(all) = all else {
        return by_group;
    };
    let per_process = per_process(&all.ranks, groups.len() as u32);
    for (ranks, group) in all.ranks.chunks(per_process).zip(groups) {
        by_group.entry(*group).or_default().extend_from_slice(ranks);
    }
    by_group
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One process among many, each of which measured the times that `times` gives for its number.
    struct Many {
        processes: u32,
        times: fn(u32) -> Vec<f64>,
    }

    impl World for Many {
        fn rank(&self) -> u32 {
            0
        }

        fn size(&self) -> u32 {
            self.processes
        }

        fn barrier(&self) {}

        fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }

        fn all_gather(&self, _: &[u8]) -> Vec<Vec<u8>> {
            let mut all = Vec::new();
            for process in 0..self.processes {
                let times = (self.times)(process);
                all.push(times.iter().flat_map(|time| time.to_ne_bytes()).collect());
            }
            all
        }

        fn all_reduce_sum(&self, value: u64) -> u64 {
            value
        }

        fn mean(&self, value: f64) -> f64 {
            value
        }

        fn library(&self) -> String {
            String::new()
        }

        fn finish(self: Box<Self>) {}
    }

    #[test]
    fn ten_thousand_ranks_keep_their_order() {
        let world = Many {
            processes: 10_000,
            times: |process| vec![f64::from(process)],
        };
        let ranks = gather(&[0.0], 1, &world);
        assert_eq!(ranks.len(), 10_000);
        for (at, rank) in ranks.iter().enumerate() {
            assert_eq!((rank.rank, rank.time), (at as u32, Micros(at as f64)));
        }
        let all = RankTimes::new(ranks).expect("ranks");
        assert_eq!((all.p50, all.p99), (Micros(4999.0), Micros(9899.0)));
    }

    #[test]
    fn the_ranks_of_a_thread_share_its_time_and_those_of_a_communicator_are_together() {
        let world = Many {
            processes: 3,
            times: |process| vec![f64::from(process), 10.0 + f64::from(process)],
        };
        let ranks = gather(&[0.0, 10.0], 2, &world);
        let times: Vec<f64> = ranks.iter().map(|rank| rank.time.0).collect();
        assert_eq!(
            times,
            [
                0.0, 0.0, 10.0, 10.0, 1.0, 1.0, 11.0, 11.0, 2.0, 2.0, 12.0, 12.0
            ]
        );
        assert_eq!(per_process(&ranks, 3), 4);
        let all = RankTimes::new(ranks);
        let groups = by_group(all.as_ref(), &[7, 5, 7]);
        let numbers = |group| -> Vec<u32> {
            let ranks: &Vec<RankTime> = &groups[&group];
            ranks.iter().map(|rank| rank.rank).collect()
        };
        assert_eq!(numbers(7), [0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(numbers(5), [4, 5, 6, 7]);
    }
}
