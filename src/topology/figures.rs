//! What a link can carry, in one direction, and where that figure comes from. A figure that is not known stays unknown.

use serde::Serialize;

use crate::units::GBps;

/// The most a link or a path carries in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peak {
    /// GB/s; nothing where it is not known.
    pub gbps: Option<GBps>,
    /// What the figure is of, or why there is none: `PCIe 5.0 x16`.
    pub of: String,
}

/// NVLink: name, NVML's number of the version (0 where it has none), compute capabilities from and to, GB/s a link.
struct NvLinkFigure(&'static str, &'static [u32], u32, u32, f64);

/// Source: NVIDIA's data sheets, which give both directions of all links together. P100 160 GB/s over 4, V100 300 over 6,
/// A100 600 over 12, A40 112.5 over 4, H100 and H200 900 over 18, B200 1,800 over 18.
const NVLINK: [NvLinkFigure; 6] = [
    NvLinkFigure("NVLink 1", &[1], 60, 61, 20.0),
    NvLinkFigure("NVLink 2", &[2, 3], 70, 75, 25.0),
    NvLinkFigure("NVLink 3", &[4], 80, 80, 25.0),
    NvLinkFigure("NVLink 3 (GA10x)", &[5], 86, 89, 14.0625),
    NvLinkFigure("NVLink 4", &[6], 90, 90, 25.0),
    NvLinkFigure("NVLink 5", &[7], 100, 109, 50.0),
];

/// PCIe: generation, GT/s a lane, GB/s a lane. Source: the PCI Express base specifications: line rate less the encoding
/// (8b/10b, from 3.0 on 128b/130b, 6.0 in flits of 242 payload bytes in 256). Packet headers cost another tenth or so.
const PCIE: [(&str, f64, f64); 6] = [
    ("1.0", 2.5, 0.25),
    ("2.0", 5.0, 0.5),
    ("3.0", 8.0, 8.0 * 128.0 / 130.0 / 8.0),
    ("4.0", 16.0, 16.0 * 128.0 / 130.0 / 8.0),
    ("5.0", 32.0, 32.0 * 128.0 / 130.0 / 8.0),
    ("6.0", 64.0, 64.0 * 242.0 / 256.0 / 8.0),
];

/// No device has more lanes.
const MOST_LANES: u32 = 32;

/// No port is faster, in Mb/s: what says more says nothing.
const FASTEST_PORT: f64 = 10_000_000.0;

impl Peak {
    /// No figure, and why.
    pub fn unknown(why: impl Into<String>) -> Peak {
        Peak {
            gbps: None,
            of: why.into(),
        }
    }

    fn of(gbps: f64, of: impl Into<String>) -> Peak {
        Peak {
            gbps: Some(GBps(gbps)),
            of: of.into(),
        }
    }

    /// One NVLink of a GPU of compute capability `sm` (90 for 9.0).
    pub fn nvlink_of_sm(sm: u32) -> Peak {
        let figure = NVLINK
            .iter()
            .find(|figure| (figure.2..=figure.3).contains(&sm));
        figure.map_or_else(
            || Peak::unknown(format!("NVLink of sm {sm}")),
            |figure| Peak::of(figure.4, figure.0),
        )
    }

    /// One NVLink of the version that NVML numbers so.
    pub fn nvlink_of_version(version: u32) -> Peak {
        let figure = NVLINK.iter().find(|figure| figure.1.contains(&version));
        figure.map_or_else(
            || Peak::unknown(format!("NVLink of version {version}")),
            |figure| Peak::of(figure.4, figure.0),
        )
    }

    /// A PCIe link by what Linux says of it: `32.0 GT/s PCIe`, and lanes. Virtual machines often say 0 lanes.
    pub fn pcie(speed: &str, lanes: u32) -> Peak {
        let rate = speed
            .split_whitespace()
            .next()
            .and_then(|rate| rate.parse::<f64>().ok());
        let Some((name, _, lane)) = PCIE.iter().find(|(_, gts, _)| rate == Some(*gts)) else {
            return Peak::unknown("PCIe of unknown speed");
        };
        if lanes == 0 || lanes > MOST_LANES {
            return Peak::unknown(format!("PCIe {name} of unknown width"));
        }
        Peak::of(lane * f64::from(lanes), format!("PCIe {name} x{lanes}"))
    }

    /// A network port of so many Mb/s.
    pub fn port(mbps: f64) -> Peak {
        if !(mbps > 0.0 && mbps <= FASTEST_PORT) {
            return Peak::unknown("port of unknown speed");
        }
        Peak::of(mbps / 8000.0, format!("{} Gb/s port", mbps / 1000.0))
    }

    /// `count` of these together.
    pub fn times(&self, count: u32) -> Peak {
        let gbps = self.gbps.map(|each| GBps(each.0 * f64::from(count)));
        Peak {
            gbps,
            of: format!("{count} x {}", self.of),
        }
    }

    /// The slowest of `links`. One of unknown speed makes the whole unknown: it may be the slowest.
    pub fn least<'a>(links: impl IntoIterator<Item = &'a Peak>) -> Peak {
        let mut least: Option<&Peak> = None;
        for link in links {
            let Some(gbps) = link.gbps else {
                return link.clone();
            };
            if least.is_none_or(|other| other.gbps.is_none_or(|other| gbps.0 < other.0)) {
                least = Some(link);
            }
        }
        least.cloned().unwrap_or_else(|| Peak::unknown("no link"))
    }

    /// As a cell: `450.0 GB/s (18 x NVLink 4)`.
    pub fn text(&self) -> String {
        match self.gbps {
            Some(_) => format!("{} ({})", self.short(), self.of),
            None => format!("unknown ({})", self.of),
        }
    }

    /// As `450.0 GB/s`.
    pub fn short(&self) -> String {
        match self.gbps {
            Some(GBps(gbps)) if gbps < 10.0 => format!("{gbps:.2} GB/s"),
            Some(GBps(gbps)) => format!("{gbps:.1} GB/s"),
            None => "unknown".into(),
        }
    }
}
