//! The order of the steps of an experiment.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// The order in which the steps of each block run.
///
/// What ran before a step affects it: the machine warms up, a cache fills, a clock drops. So in a
/// cycle of blocks every step comes equally often at each position, and equally often after each
/// other step. This is the design of E. J. Williams, "Experimental designs balanced for the
/// estimation of residual effects of treatments" (1949). For n steps, a cycle has n blocks if n is
/// even and 2n if it is odd. The blocks of each cycle are shuffled.
pub struct BlockOrder {
    square: Vec<Vec<usize>>,
    random: ChaCha8Rng,
    /// The blocks of this cycle that have not run, last first.
    pending: Vec<Vec<usize>>,
}

impl BlockOrder {
    /// Makes the order of blocks of `steps` steps. The same seed gives the same order everywhere.
    pub fn new(steps: usize, seed: u64) -> BlockOrder {
        BlockOrder {
            square: williams_square(steps),
            random: ChaCha8Rng::seed_from_u64(seed),
            pending: Vec::new(),
        }
    }

    /// Returns the number of blocks of a cycle, after which the order is balanced.
    pub fn cycle(&self) -> usize {
        self.square.len()
    }

    /// Returns the order of the steps in the next block, as indices below the number of steps.
    pub fn next_block(&mut self) -> Vec<usize> {
        if self.pending.is_empty() {
            self.pending = self.square.clone();
            shuffle(&mut self.pending, &mut self.random);
        }
        self.pending.pop().unwrap_or_default()
    }
}

/// Returns the blocks of one balanced cycle.
fn williams_square(steps: usize) -> Vec<Vec<usize>> {
    let first = zigzag(steps);
    let mut square = Vec::new();
    for shift in 0..steps {
        let block: Vec<usize> = first.iter().map(|step| (step + shift) % steps).collect();
        if !steps.is_multiple_of(2) {
            let reversed = block.iter().rev().copied().collect();
            square.push(reversed);
        }
        square.push(block);
    }
    square
}

/// Returns 0, 1, n-1, 2, n-2, …: the differences of its neighbours are all different modulo n.
fn zigzag(steps: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(steps);
    for position in 0..steps {
        let half = position.div_ceil(2);
        let step = if position.is_multiple_of(2) {
            (steps - half) % steps
        } else {
            half
        };
        order.push(step);
    }
    order
}

/// Shuffles by the method of Fisher and Yates.
fn shuffle<T>(items: &mut [T], random: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        // The remainder prefers small indices, by less than one in 2⁵⁰ for so few items.
        let chosen = random.next_u64() % (last as u64 + 1);
        items.swap(last, chosen as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn cycle(steps: usize, seed: u64) -> Vec<Vec<usize>> {
        let mut order = BlockOrder::new(steps, seed);
        let blocks = order.cycle();
        (0..blocks).map(|_| order.next_block()).collect()
    }

    #[test]
    fn each_step_comes_equally_often_at_each_position_and_after_each_other() {
        for steps in 2..9 {
            let mut at_position = BTreeMap::<(usize, usize), usize>::new();
            let mut after = BTreeMap::<(usize, usize), usize>::new();
            for block in cycle(steps, 7) {
                for (position, step) in block.iter().enumerate() {
                    *at_position.entry((position, *step)).or_default() += 1;
                }
                for neighbours in block.windows(2) {
                    *after.entry((neighbours[0], neighbours[1])).or_default() += 1;
                }
            }
            assert_eq!(at_position.len(), steps * steps, "{steps} steps");
            assert_eq!(after.len(), steps * (steps - 1), "{steps} steps");
            for counts in [at_position, after] {
                let first = counts.values().next();
                assert!(
                    counts.values().all(|count| Some(count) == first),
                    "{counts:?}"
                );
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_order_on_every_machine() {
        assert_eq!(cycle(4, 1), cycle(4, 1));
        assert_ne!(cycle(6, 1), cycle(6, 2));
        let expected = [[1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1], [0, 1, 3, 2]];
        assert_eq!(cycle(4, 1), expected);
    }

    #[test]
    fn one_step_and_no_step_have_an_order_too() {
        assert_eq!(cycle(1, 0), [[0], [0]]);
        assert!(BlockOrder::new(0, 0).next_block().is_empty());
    }
}
