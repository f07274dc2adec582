//! What a link can carry in one direction, and where that figure comes from. An unknown figure
//! stays unknown.

use serde::{Deserialize, Serialize};

use crate::units::GBps;

/// The most a link or a path carries in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// GB/s, if known.
    pub gbps: Option<GBps>,
    /// What the figure describes, or why there is none: `PCIe 5.0 x16`.
    pub of: String,
}

/// A generation of NVLink.
struct NvLinkGeneration {
    name: &'static str,
    /// NVML's numbers of the generation.
    versions: &'static [u32],
    /// The first and the last compute capability that has it: 90 is 9.0.
    sm: (u32, u32),
    /// GB/s per link.
    gbps: f64,
}

const fn nvlink(
    name: &'static str,
    versions: &'static [u32],
    sm: (u32, u32),
    gbps: f64,
) -> NvLinkGeneration {
    NvLinkGeneration {
        name,
        versions,
        sm,
        gbps,
    }
}

/// Source: NVIDIA's data sheets, which give the sum of both directions and all links. P100 160 GB/s
/// over 4, V100 300 over 6, A100 600 over 12, A40 112.5 over 4, H100 and H200 900 over 18, B200
/// 1,800 over 18.
const NVLINK: [NvLinkGeneration; 6] = [
    nvlink("NVLink 1", &[1], (60, 61), 20.0),
    nvlink("NVLink 2", &[2, 3], (70, 75), 25.0),
    nvlink("NVLink 3", &[4], (80, 80), 25.0),
    nvlink("NVLink 3 (GA10x)", &[5], (86, 89), 14.0625),
    nvlink("NVLink 4", &[6], (90, 90), 25.0),
    nvlink("NVLink 5", &[7], (100, 109), 50.0),
];

/// A generation of PCIe.
struct PcieGeneration {
    name: &'static str,
    /// GT/s per lane, by which Linux names it.
    rate: f64,
    /// Payload and size of a symbol or flit.
    encoding: (f64, f64),
}

const fn pcie(name: &'static str, rate: f64, encoding: (f64, f64)) -> PcieGeneration {
    PcieGeneration {
        name,
        rate,
        encoding,
    }
}

/// Source: the PCI Express base specifications. The encoding is 8b/10b, from 3.0 on 128b/130b, and
/// in 6.0 flits with 242 bytes of payload in 256. Packet headers cost about another tenth.
const PCIE: [PcieGeneration; 6] = [
    pcie("1.0", 2.5, (8.0, 10.0)),
    pcie("2.0", 5.0, (8.0, 10.0)),
    pcie("3.0", 8.0, (128.0, 130.0)),
    pcie("4.0", 16.0, (128.0, 130.0)),
    pcie("5.0", 32.0, (128.0, 130.0)),
    pcie("6.0", 64.0, (242.0, 256.0)),
];

/// The most lanes that a device has.
const MOST_LANES: u32 = 32;

/// The speed of the fastest port, in Mb/s; a larger number is not a speed.
const FASTEST_PORT: f64 = 10_000_000.0;

impl Peak {
    /// Returns an unknown figure, with the reason.
    pub fn unknown(why: impl Into<String>) -> Peak {
        Peak {
            gbps: None,
            of: why.into(),
        }
    }

    fn known(gbps: f64, of: impl Into<String>) -> Peak {
        Peak {
            gbps: Some(GBps(gbps)),
            of: of.into(),
        }
    }

    /// Returns the peak of one NVLink of a GPU of compute capability `sm` (90 for 9.0).
    pub fn nvlink_of_sm(sm: u32) -> Peak {
        for generation in &NVLINK {
            let (first, last) = generation.sm;
            if (first..=last).contains(&sm) {
                return Peak::known(generation.gbps, generation.name);
            }
        }
        Peak::unknown(format!("NVLink of sm {sm}"))
    }

    /// Returns the peak of one NVLink of the generation with this number in NVML.
    pub fn nvlink_of_version(version: u32) -> Peak {
        for generation in &NVLINK {
            if generation.versions.contains(&version) {
                return Peak::known(generation.gbps, generation.name);
            }
        }
        Peak::unknown(format!("NVLink of version {version}"))
    }

    /// Returns the peak of a PCIe link from what Linux reports: `32.0 GT/s PCIe`, and lanes.
    /// Virtual machines often report 0 lanes.
    pub fn pcie(speed: &str, lanes: u32) -> Peak {
        let rate = speed.split_whitespace().next().unwrap_or_default();
        let rate = rate.parse::<f64>().ok();
        let generation = PCIE.iter().find(|generation| Some(generation.rate) == rate);
        let Some(PcieGeneration {
            name,
            rate,
            encoding: (payload, size),
        }) = generation
        else {
            return Peak::unknown("PCIe speed not reported");
        };
        if lanes == 0 || lanes > MOST_LANES {
            return Peak::unknown(format!("PCIe {name}, width not reported"));
        }
        let gbps_per_lane = rate * payload / size / 8.0;
        Peak::known(
            gbps_per_lane * f64::from(lanes),
            format!("PCIe {name} x{lanes}"),
        )
    }

    /// Returns the peak of a network port of `mbps` Mb/s.
    pub fn port(mbps: f64) -> Peak {
        if mbps > 0.0 && mbps <= FASTEST_PORT {
            Peak::known(mbps / 8000.0, format!("{} Gb/s port", mbps / 1000.0))
        } else {
            Peak::unknown("port speed not reported")
        }
    }

    /// Returns the peak of one C2C link of `mbps` MB/s.
    pub fn c2c(mbps: f64) -> Peak {
        Peak::known(mbps / 1000.0, "C2C")
    }

    /// Returns the peak of `count` such links together.
    pub fn times(&self, count: u32) -> Peak {
        Peak {
            gbps: self.gbps.map(|each| GBps(each.0 * f64::from(count))),
            of: format!("{count} x {}", self.of),
        }
    }

    /// Returns the slowest of `links`. One of unknown speed makes the whole unknown, because it may
    /// be the slowest.
    pub fn least<'a>(links: impl IntoIterator<Item = &'a Peak>) -> Peak {
        let mut least: Option<&Peak> = None;
        for link in links {
            if link.gbps.is_none() {
                return link.clone();
            }
            if least.is_none_or(|least| link.speed() < least.speed()) {
                least = Some(link);
            }
        }
        least.cloned().unwrap_or_else(|| Peak::unknown("no link"))
    }

    /// Returns the figure in GB/s for comparisons; less than any other if it is unknown.
    pub(super) fn speed(&self) -> f64 {
        self.gbps.map_or(-1.0, |gbps| gbps.0)
    }

    /// Returns the figure with what it describes: `450.0 GB/s (18 x NVLink 4)`.
    pub fn text(&self) -> String {
        format!("{} ({})", self.short(), self.of)
    }

    /// Returns the figure alone: `450.0 GB/s`.
    pub fn short(&self) -> String {
        match self.gbps {
            Some(GBps(gbps)) if gbps < 10.0 => format!("{gbps:.2} GB/s"),
            Some(GBps(gbps)) => format!("{gbps:.1} GB/s"),
            None => "unknown".into(),
        }
    }
}
