//! [`Average`]: which time is reported.

use crate::world::World;

/// The average of the times of all processes and threads: nccl-tests' `-a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Average {
    /// 0: the time of process 0.
    First,
    /// 1: the mean.
    #[default]
    Mean,
    /// 2: the shortest.
    Shortest,
    /// 3: the longest.
    Longest,
}

impl Average {
    /// All, in the order of their numbers.
    pub const ALL: [Average; 4] = [
        Average::First,
        Average::Mean,
        Average::Shortest,
        Average::Longest,
    ];

    /// Returns one value from those of the threads of this process.
    pub(super) fn over_threads(self, times: &[f64]) -> f64 {
        match self {
            Average::First => times.first().copied().unwrap_or(0.0),
            Average::Mean => times.iter().sum::<f64>() / times.len().max(1) as f64,
            Average::Shortest => times.iter().copied().fold(f64::INFINITY, f64::min),
            Average::Longest => times.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns one value from those of all processes; `mine` is the value of this one.
    pub(super) fn over_processes(self, mine: f64, world: &dyn World) -> f64 {
        if self == Average::Mean {
            return world.mean(mine);
        }
        let mut all = Vec::new();
        for bytes in world.all_gather(&mine.to_ne_bytes()) {
            if let Ok(bytes) = bytes[..].try_into() {
                all.push(f64::from_ne_bytes(bytes));
            }
        }
        self.over_threads(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process among three, which measured these times.
    struct OfThree([f64; 3]);

    impl World for OfThree {
        fn rank(&self) -> u32 {
            0
        }

        fn size(&self) -> u32 {
            3
        }

        fn barrier(&self) {}

        fn broadcast(&self, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }

        fn all_gather(&self, _: &[u8]) -> Vec<Vec<u8>> {
            self.0
                .iter()
                .map(|time| time.to_ne_bytes().to_vec())
                .collect()
        }

        fn all_reduce_sum(&self, value: u64) -> u64 {
            value
        }

        fn mean(&self, _: f64) -> f64 {
            self.0.iter().sum::<f64>() / 3.0
        }

        fn library(&self) -> String {
            String::new()
        }

        fn finish(self: Box<Self>) {}
    }

    #[test]
    fn each_average_is_what_it_says() {
        for (average, expected) in Average::ALL.into_iter().zip([4.0, 3.0, 1.0, 5.0]) {
            assert_eq!(average.over_threads(&[4.0, 2.0, 1.0, 5.0]), expected);
            assert_eq!(
                average.over_processes(4.0, &OfThree([4.0, 1.0, 5.0])),
                [4.0, 10.0 / 3.0, 1.0, 5.0][average as usize]
            );
        }
    }
}
