//! [`Probe`]: takes samples of GPUs, and makes rates of their counters.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::sample::{Sample, SampledGpu, Values};
use crate::{
    native::nvml::{GpuReadings, Meter, MeteredGpu, PcieQuery, PcieTraffic, Reading},
    record::exact_now,
};

/// A connection to NVML, and what it said of each GPU before.
pub struct Probe {
    meter: Meter,
    pcie: PcieQuery,
    gpus: Vec<SampledGpu>,
    started: Option<Instant>,
    before: Vec<Option<Counters>>,
    first_energy: Vec<Option<u64>>,
    gaps: Gaps,
}

/// The counters of a GPU at one moment.
#[derive(Clone, Copy, Debug)]
struct Counters {
    at: Duration,
    nvlink_sent: Option<u64>,
    nvlink_received: Option<u64>,
    pcie_sent: Option<u64>,
    pcie_received: Option<u64>,
}

impl Probe {
    /// Connects to NVML and finds the GPUs.
    ///
    /// # Errors
    /// Returns one sentence if NVML is missing or does not work.
    pub fn open(pcie: PcieQuery) -> Result<Probe, String> {
        let meter = Meter::open()?;
        let gpus: Vec<SampledGpu> = meter.gpus()?.into_iter().map(sampled).collect();
        let mut probe = Probe {
            meter,
            pcie,
            gpus: Vec::new(),
            started: None,
            before: Vec::new(),
            first_energy: Vec::new(),
            gaps: Gaps::default(),
        };
        probe.choose(gpus);
        Ok(probe)
    }

    /// Samples only the GPUs that are `wanted`.
    pub fn keep(&mut self, wanted: impl Fn(&SampledGpu) -> bool) {
        let gpus = self.gpus.iter().filter(|gpu| wanted(gpu)).cloned();
        self.choose(gpus.collect());
    }

    fn choose(&mut self, gpus: Vec<SampledGpu>) {
        self.before = vec![None; gpus.len()];
        self.first_energy = vec![None; gpus.len()];
        self.gpus = gpus;
    }

    /// Returns the GPUs that are sampled.
    pub fn gpus(&self) -> &[SampledGpu] {
        &self.gpus
    }

    /// Returns what is not known, and why, as far as it was seen.
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Begins to count seconds, unless that was done before, and returns the beginning.
    pub fn start(&mut self) -> Instant {
        *self.started.get_or_insert_with(Instant::now)
    }

    /// Samples each GPU once.
    pub fn sample(&mut self) -> Vec<Sample> {
        (0..self.gpus.len())
            .map(|gpu| self.sample_one(gpu))
            .collect()
    }

    fn sample_one(&mut self, gpu: usize) -> Sample {
        let at = self.start().elapsed();
        let time = exact_now();
        let index = self.gpus[gpu].index;
        let values = match self.meter.read(index, self.pcie) {
            Ok(readings) => self.values(gpu, at, readings),
            Err(error) => {
                // What it counts when it comes back may have begun anew.
                self.before[gpu] = None;
                Values {
                    error,
                    ..Values::default()
                }
            }
        };
        Sample {
            time,
            seconds: at.as_secs_f64(),
            gpu,
            values,
        }
    }

    fn values(&mut self, gpu: usize, at: Duration, readings: GpuReadings) -> Values {
        let index = self.gpus[gpu].index;
        let mut known = Known {
            gaps: &mut self.gaps,
            gpu: index,
        };
        let pcie_sent = known.value("pcie_tx_GBps", readings.pcie_sent);
        let pcie_received = known.value("pcie_rx_GBps", readings.pcie_received);
        let counters = Counters {
            at,
            nvlink_sent: known.value("nvlink_tx_GBps", readings.nvlink_sent),
            nvlink_received: known.value("nvlink_rx_GBps", readings.nvlink_received),
            pcie_sent: pcie_sent.and_then(counted_bytes),
            pcie_received: pcie_received.and_then(counted_bytes),
        };
        let before = self.before[gpu].replace(counters);
        let energy = known.value("energy_J", readings.energy);
        if self.first_energy[gpu].is_none() {
            self.first_energy[gpu] = energy;
        }
        let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
        Values {
            sm_clock_mhz: known.value("sm_clock_MHz", readings.sm_clock),
            memory_clock_mhz: known.value("memory_clock_MHz", readings.memory_clock),
            throttle: known.value("throttle", readings.throttle),
            temperature_c: known.value("temperature_C", readings.temperature),
            memory_temperature_c: known.value("memory_temperature_C", readings.memory_temperature),
            power_w: known.value("power_W", readings.power).map(watts),
            power_limit_w: known
                .value("power_limit_W", readings.power_limit)
                .map(watts),
            energy_j: joules(energy, self.first_energy[gpu]),
            utilization_pct: known.value("utilization_pct", readings.utilization),
            memory_utilization_pct: known
                .value("memory_utilization_pct", readings.memory_utilization),
            memory_used: known.value("memory_used_MiB", readings.memory_used),
            memory_total: known.value("memory_total_MiB", readings.memory_total),
            nvlink_sent: rate(before, counters, |counters| counters.nvlink_sent),
            nvlink_received: rate(before, counters, |counters| counters.nvlink_received),
            pcie_sent: pcie_sent
                .and_then(measured_rate)
                .or_else(|| rate(before, counters, |counters| counters.pcie_sent)),
            pcie_received: pcie_received
                .and_then(measured_rate)
                .or_else(|| rate(before, counters, |counters| counters.pcie_received)),
            ecc_corrected: known.value("ecc_corrected", readings.ecc_corrected),
            ecc_uncorrected: known.value("ecc_uncorrected", readings.ecc_uncorrected),
            error: String::new(),
        }
    }
}

fn sampled(gpu: MeteredGpu) -> SampledGpu {
    SampledGpu {
        index: gpu.index,
        uuid: printable(gpu.uuid),
        bus_id: printable(gpu.bus_id),
        name: printable(gpu.name),
    }
}

/// Returns a name without anything that a terminal would obey; empty if it is unknown.
fn printable(name: Reading<String>) -> String {
    let mut text = String::new();
    for character in name.value.unwrap_or_default().chars() {
        match character {
            '\'' | '"' | '\\' => text.push(character),
            other => text.extend(other.escape_debug()),
        }
    }
    text
}

fn counted_bytes(traffic: PcieTraffic) -> Option<u64> {
    match traffic {
        PcieTraffic::Bytes(bytes) => Some(bytes),
        PcieTraffic::BytesPerSecond(_) => None,
    }
}

/// Returns a rate in GB/s that NVML measured itself.
fn measured_rate(traffic: PcieTraffic) -> Option<f64> {
    match traffic {
        PcieTraffic::Bytes(_) => None,
        PcieTraffic::BytesPerSecond(rate) => Some(rate / 1e9),
    }
}

/// Returns the energy since the first reading; `None` if the counter has begun anew.
fn joules(now: Option<u64>, first: Option<u64>) -> Option<f64> {
    let millijoules = now?.checked_sub(first?)?;
    Some(millijoules as f64 / 1e3)
}

/// Returns the rate of a counter between two moments in GB/s; `None` if the counter has begun anew.
fn rate(
    before: Option<Counters>,
    now: Counters,
    counter: fn(&Counters) -> Option<u64>,
) -> Option<f64> {
    let before = before?;
    let bytes = counter(&now)?.checked_sub(counter(&before)?)?;
    let seconds = now.at.checked_sub(before.at)?.as_secs_f64();
    (seconds > 0.0).then(|| bytes as f64 / seconds / 1e9)
}

/// Quantities that are not known, each with the reason and the GPUs that it holds for. Each is kept
/// once, as first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(BTreeMap<(&'static str, u32), String>);

impl Gaps {
    fn add(&mut self, quantity: &'static str, gpu: u32, why: String) {
        self.0.entry((quantity, gpu)).or_insert(why);
    }

    /// Returns a sentence for each reason, with the quantities and the GPUs:
    /// `unknown on GPUs 0,1: energy_J (not supported)`.
    pub fn sentences(&self) -> Vec<String> {
        let mut by_quantity: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
        for ((quantity, gpu), why) in &self.0 {
            by_quantity.entry((quantity, why)).or_default().push(*gpu);
        }
        let mut by_reason: BTreeMap<(Vec<u32>, &str), Vec<&str>> = BTreeMap::new();
        for ((quantity, why), gpus) in by_quantity {
            by_reason.entry((gpus, why)).or_default().push(quantity);
        }
        let mut sentences = Vec::new();
        for ((gpus, why), quantities) in by_reason {
            let numbers: Vec<String> = gpus.iter().map(u32::to_string).collect();
            let noun = if gpus.len() == 1 { "GPU" } else { "GPUs" };
            sentences.push(format!(
                "unknown on {noun} {}: {} ({why})",
                numbers.join(","),
                quantities.join(", ")
            ));
        }
        sentences
    }
}

/// Values of a GPU that are taken from readings, of which those without a value are noted.
struct Known<'a> {
    gaps: &'a mut Gaps,
    gpu: u32,
}

impl Known<'_> {
    fn value<T>(&mut self, quantity: &'static str, reading: Reading<T>) -> Option<T> {
        if reading.value.is_none() {
            self.gaps.add(quantity, self.gpu, reading.why);
        }
        reading.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(seconds: f64, bytes: Option<u64>) -> Counters {
        Counters {
            at: Duration::from_secs_f64(seconds),
            nvlink_sent: bytes,
            nvlink_received: None,
            pcie_sent: bytes,
            pcie_received: None,
        }
    }

    #[test]
    fn a_name_cannot_command_a_terminal() {
        let name = |text: &str| printable(Reading::of(text.to_owned()));
        assert_eq!(name("NVIDIA H200 \"x\" °"), "NVIDIA H200 \"x\" °");
        assert_eq!(name("a\u{1b}[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(printable(Reading::none("why")), "");
    }

    #[test]
    fn a_rate_is_the_difference_over_the_time() {
        let before = Some(counters(1.0, Some(1_000_000_000)));
        let now = counters(1.5, Some(4_000_000_000));
        assert_eq!(rate(before, now, |c| c.nvlink_sent), Some(6.0));
        assert_eq!(rate(before, now, |c| c.pcie_received), None);
        assert_eq!(measured_rate(PcieTraffic::BytesPerSecond(5e9)), Some(5.0));
    }

    #[test]
    fn no_rate_is_made_of_what_is_missing_or_began_anew() {
        let now = counters(1.5, Some(5));
        for before in [
            None,
            Some(counters(1.0, None)),
            Some(counters(1.0, Some(6))),
            Some(counters(1.5, Some(5))),
        ] {
            assert_eq!(rate(before, now, |c| c.nvlink_sent), None, "{before:?}");
        }
        assert_eq!(joules(Some(1500), Some(1000)), Some(0.5));
        assert_eq!(joules(Some(10), Some(1000)), None);
        assert_eq!(joules(None, Some(1000)), None);
    }

    #[test]
    fn gaps_with_one_reason_are_one_sentence() {
        let mut gaps = Gaps::default();
        for gpu in [0, 1] {
            gaps.add("energy_J", gpu, "not supported".into());
            gaps.add("memory_temperature_C", gpu, "not supported".into());
        }
        gaps.add("power_W", 1, "an unknown error".into());
        gaps.add("power_W", 1, "another one".into());
        assert_eq!(
            gaps.sentences(),
            [
                "unknown on GPUs 0,1: energy_J, memory_temperature_C (not supported)",
                "unknown on GPU 1: power_W (an unknown error)",
            ]
        );
    }
}
