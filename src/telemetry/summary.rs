//! [`Summary`]: many samples of a GPU in short.

use std::collections::BTreeMap;

use super::sample::{SampledGpu, Values};
use crate::{
    native::nvml::throttle_names,
    record::{Extent, GpuSummary},
};

/// The samples of one GPU so far.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    samples: u64,
    sm_clock: Range,
    power: Range,
    temperature: Range,
    memory_temperature: Range,
    energy: Option<f64>,
    /// Samples in which it was known what limits the clocks.
    with_throttle: u64,
    /// Samples by what limits the clocks.
    limited: BTreeMap<&'static str, u64>,
}

/// The numbers of a quantity so far.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Range {
    fn add(&mut self, number: Option<f64>) {
        let Some(number) = number else { return };
        if self.count == 0 {
            (self.min, self.max) = (number, number);
        }
        self.count += 1;
        self.sum += number;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }

    fn extent(&self) -> Option<Extent> {
        (self.count > 0).then(|| Extent {
            min: self.min,
            mean: self.sum / self.count as f64,
            max: self.max,
        })
    }

    fn most(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl Summary {
    /// Adds what was measured at one moment.
    pub fn add(&mut self, values: &Values) {
        self.samples += 1;
        self.sm_clock.add(values.sm_clock_mhz.map(f64::from));
        self.power.add(values.power_w);
        self.temperature.add(values.temperature_c.map(f64::from));
        self.memory_temperature
            .add(values.memory_temperature_c.map(f64::from));
        self.energy = values.energy_j.or(self.energy);
        if let Some(mask) = values.throttle {
            self.with_throttle += 1;
            for name in throttle_names(mask) {
                *self.limited.entry(name).or_default() += 1;
            }
        }
    }

    /// Returns the summary of `gpu`, which is on node `node` of that host.
    pub fn of(&self, host: &str, node: u32, gpu: &SampledGpu) -> GpuSummary {
        let share = |(name, count): (&&str, &u64)| {
            let share = *count as f64 / self.with_throttle as f64;
            ((*name).to_owned(), share)
        };
        GpuSummary {
            host: host.to_owned(),
            node,
            gpu: gpu.index,
            uuid: gpu.uuid.clone(),
            bus_id: gpu.bus_id.clone(),
            samples: self.samples,
            sm_clock_MHz: self.sm_clock.extent(),
            max_temperature_C: self.temperature.most(),
            max_memory_temperature_C: self.memory_temperature.most(),
            power_W: self.power.extent(),
            energy_J: self.energy,
            limited: (self.with_throttle > 0).then(|| self.limited.iter().map(share).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_extents_and_shares_and_leaves_out_what_is_unknown() {
        let mut summary = Summary::default();
        for (clock, mask, energy) in [
            (Some(1980), Some(0), Some(0.0)),
            (Some(1200), Some(0x24), Some(150.0)),
            (None, None, None),
            (Some(1500), Some(0x4), Some(310.5)),
            (Some(1980), Some(0), None),
        ] {
            summary.add(&Values {
                sm_clock_mhz: clock,
                throttle: mask,
                energy_j: energy,
                ..Values::default()
            });
        }
        let gpu = SampledGpu {
            index: 3,
            ..SampledGpu::default()
        };
        let short = summary.of("n1", 2, &gpu);
        let clock = short.sm_clock_MHz.expect("clocks");
        assert_eq!((clock.min, clock.mean, clock.max), (1200.0, 1665.0, 1980.0));
        assert_eq!((short.samples, short.energy_J), (5, Some(310.5)));
        let limited = short.limited.expect("known");
        assert_eq!(limited["power cap"], 0.5);
        assert_eq!(limited["thermal slowdown"], 0.25);
        assert_eq!(limited.len(), 2);
        assert_eq!((short.max_temperature_C, short.power_W), (None, None));
        let unknown = Summary::default().of("n1", 2, &gpu);
        assert_eq!(unknown.limited, None);
    }
}
