//! [`KernelCost`]: what a kernel of computation takes, and the kernels that take a given time.

use crate::units::Micros;

/// About how long a block runs. The blocks of a collective wait for a block of computation to end
/// where there is no room.
pub(super) const BLOCK: Micros = Micros(6.0);

/// The part of a timed kernel that its iterations take is at least one in so many. On an idle GPU
/// it is nearly all.
const LEAST_SHARE: f64 = 4.0;

/// What kernels of computation take on the idle GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KernelCost {
    /// What the first of several kernels takes longer than the others, which the GPU prepares while
    /// it runs.
    pub(super) lead: f64,
    /// The kernel itself.
    pub(super) kernel: f64,
    /// Each wave of blocks.
    pub(super) wave: f64,
    /// Each iteration of a wave.
    pub(super) iteration: f64,
    /// Whether a kernel may have several waves. Those of a part of the GPU have one: another would
    /// run beside it.
    pub(super) has_waves: bool,
}

/// Kernels of computation that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelTrain {
    pub(super) kernels: u32,
    /// Waves of each kernel.
    pub(super) waves: u32,
    /// Iterations of each wave.
    pub(super) iterations: u32,
}

impl KernelCost {
    /// Returns the cost for kernels of `length` by the times of three kernels: of `few` waves of
    /// `iterations` iterations, of `many` such waves, and of `many` waves of half as many
    /// iterations.
    pub(super) fn fitted(
        length: Micros,
        iterations: u32,
        (few, time_of_few): (u32, Micros),
        (many, time_of_many): (u32, Micros),
        half: Micros,
    ) -> KernelCost {
        let (few, many) = (f64::from(few), f64::from(many));
        let count = f64::from(iterations);
        let of_each = (time_of_many.0 - time_of_few.0) / (many - few);
        let iteration = (time_of_many.0 - half.0) / (many * count / 2.0);
        let cost = KernelCost {
            lead: 0.0,
            kernel: time_of_few.0 - few * of_each,
            wave: of_each - iteration * count,
            iteration,
            has_waves: true,
        };
        cost.or_proportional(length, time_of_many.0 / (many * count))
    }

    /// Returns the cost for kernels of `length` and one wave by the times of two: of `iterations`
    /// iterations, and of half as many.
    pub(super) fn fitted_to_one_wave(
        length: Micros,
        iterations: u32,
        whole: Micros,
        half: Micros,
    ) -> KernelCost {
        let count = f64::from(iterations);
        let iteration = (whole.0 - half.0) / (count / 2.0);
        let cost = KernelCost {
            lead: 0.0,
            kernel: whole.0 - iteration * count,
            wave: 0.0,
            iteration,
            has_waves: false,
        };
        cost.or_proportional(length, whole.0 / count)
    }

    /// Returns this cost if it can be one, and otherwise that of iterations which take all of the
    /// time, `iteration` each. Times that were disturbed fit nothing: an iteration that seems to
    /// take no time, or a kernel that seems to leave none of `length` to its iterations, would give
    /// kernels of minutes.
    fn or_proportional(self, length: Micros, iteration: f64) -> KernelCost {
        let is_plausible = self.iteration >= iteration / LEAST_SHARE && self.iteration > 0.0;
        let KernelTrain {
            waves, iterations, ..
        } = self.train(length, length);
        let of_iterations = f64::from(waves) * f64::from(iterations) * self.iteration;
        let leaves_time = of_iterations >= length.0 / 2.0;
        if is_plausible && leaves_time && self.kernel.is_finite() && self.wave.is_finite() {
            return KernelCost {
                kernel: self.kernel.max(0.0),
                wave: self.wave.max(0.0),
                ..self
            };
        }
        KernelCost {
            kernel: 0.0,
            wave: 0.0,
            iteration: iteration.max(f64::MIN_POSITIVE),
            ..self
        }
    }

    /// Returns this cost multiplied by `factor`.
    pub(super) fn scaled(self, factor: f64) -> KernelCost {
        KernelCost {
            lead: self.lead * factor,
            kernel: self.kernel * factor,
            wave: self.wave * factor,
            iteration: self.iteration * factor,
            ..self
        }
    }

    /// Returns the kernels of about `kernel` each that take `time` together.
    pub(super) fn train(&self, time: Micros, kernel: Micros) -> KernelTrain {
        if time.0 <= 0.0 {
            return KernelTrain {
                kernels: 0,
                waves: 0,
                iterations: 0,
            };
        }
        let kernels = (time.0 / kernel.0.max(1.0)).round().max(1.0);
        let of_waves = ((time.0 - self.lead) / kernels - self.kernel).max(0.0);
        let waves = if self.has_waves {
            (of_waves / BLOCK.0).round().max(1.0)
        } else {
            1.0
        };
        let iterations = (of_waves / waves - self.wave) / self.iteration;
        KernelTrain {
            kernels: kernels as u32,
            waves: waves as u32,
            iterations: iterations.round().max(1.0) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: KernelCost = KernelCost {
        lead: 2.0,
        kernel: 1.5,
        wave: 0.5,
        iteration: 0.008,
        has_waves: true,
    };

    const LENGTH: Micros = Micros(25.0);

    fn time_of(cost: &KernelCost, waves: u32, iterations: u32) -> f64 {
        cost.kernel + f64::from(waves) * (cost.wave + cost.iteration * f64::from(iterations))
    }

    /// Half of the iterations took as long as all of them, because something else ran beside them.
    #[test]
    fn disturbed_times_give_no_endless_kernels() {
        let (few, many) = ((4, Micros(24.0)), (12, Micros(72.0)));
        for half in [71.999_999, 72.0, 90.0] {
            let cost = KernelCost::fitted(LENGTH, 1000, few, many, Micros(half));
            let train = cost.train(Micros(25.0), Micros(25.0));
            assert_eq!((train.kernels, train.waves), (1, 4));
            assert!((1000..1100).contains(&train.iterations), "{train:?}");
            let cost = KernelCost::fitted_to_one_wave(LENGTH, 12_000, Micros(72.0), Micros(half));
            let train = cost.train(Micros(25.0), Micros(25.0));
            assert!((4100..4200).contains(&train.iterations), "{train:?}");
        }
    }

    /// Ranks that share processors with others took four times as long as they would alone. A
    /// kernel with one iteration would be timed, and what it takes less than a kernel of the length
    /// would be taken for the speed of iterations.
    #[test]
    fn a_kernel_that_seems_longer_than_its_length_is_not_believed() {
        let length = Micros(100.0);
        let cost = KernelCost::fitted_to_one_wave(length, 1000, Micros(400.0), Micros(300.0));
        assert_eq!((cost.kernel, cost.iteration), (0.0, 0.4));
        let (few, many) = ((4, Micros(250.0)), (16, Micros(400.0)));
        let cost = KernelCost::fitted(length, 100, few, many, Micros(240.0));
        assert_eq!((cost.kernel, cost.wave), (0.0, 0.0));
        assert_eq!(cost.iteration, 400.0 / 1600.0);
        // A wave of 6 us seems to take 1 us, then 4 us besides its iterations.
        let (few, many) = ((4, Micros(24.0)), (16, Micros(96.0)));
        let cost = KernelCost::fitted(length, 100, few, many, Micros(56.0));
        assert!((cost.wave - 1.0).abs() < 1e-9, "{cost:?}");
        let cost = KernelCost::fitted(length, 100, few, many, Micros(80.0));
        assert_eq!((cost.kernel, cost.wave), (0.0, 0.0));
    }

    #[test]
    fn three_kernels_give_the_cost_of_all() {
        let time = |waves, iterations| Micros(time_of(&COST, waves, iterations));
        let (few, many) = ((4, time(4, 700)), (12, time(12, 700)));
        let fitted = KernelCost::fitted(LENGTH, 700, few, many, time(12, 350));
        assert!((fitted.kernel - 1.5).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.wave - 0.5).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.iteration - 0.008).abs() < 1e-9, "{fitted:?}");
        let part = KernelCost::fitted_to_one_wave(LENGTH, 5600, time(1, 5600), time(1, 2800));
        assert!((part.kernel - 2.0).abs() < 1e-9, "{part:?}");
        assert!(!part.has_waves);
    }

    #[test]
    fn times_that_fit_nothing_give_a_cost_in_proportion() {
        let (few, many) = ((4, Micros(20.0)), (8, Micros(40.0)));
        let fitted = KernelCost::fitted(LENGTH, 100, few, many, Micros(50.0));
        assert_eq!((fitted.kernel, fitted.wave), (0.0, 0.0));
        assert_eq!(fitted.iteration, 40.0 / 800.0);
    }

    #[test]
    fn a_train_takes_the_time_in_kernels_of_about_the_given_length_and_short_blocks() {
        for time in [5.0, 8.0, 50.0, 74.0, 76.0, 1234.5, 50_000.0] {
            let train = COST.train(Micros(time), Micros(50.0));
            let kernel = time_of(&COST, train.waves, train.iterations);
            let total = COST.lead + f64::from(train.kernels) * kernel;
            assert!((total / time - 1.0).abs() < 0.01, "{time}: {train:?}");
            assert!(time < 50.0 || (33.0..=75.0).contains(&kernel), "{train:?}");
            let block = (kernel - 1.5) / f64::from(train.waves);
            assert!(block < 9.1, "{time}: {train:?}");
        }
        assert_eq!(COST.train(Micros(0.0), Micros(50.0)).kernels, 0);
        let part = KernelCost {
            has_waves: false,
            ..COST
        };
        let train = part.train(Micros(100.0), Micros(50.0));
        assert_eq!((train.kernels, train.waves), (2, 1));
        assert!((time_of(&part, 1, train.iterations) - 49.0).abs() < 0.1);
    }
}
