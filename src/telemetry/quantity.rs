//! [`QUANTITIES`]: the only list of what is measured on a GPU.

use chrono::SecondsFormat;

use super::sample::{Sample, SampledGpu, Values};
use crate::{
    native::nvml::throttle_names,
    record::columns::{Cell, Column, names},
};

/// A quantity that is measured.
pub struct Quantity {
    /// Its column.
    pub column: Column<(), Values>,
    /// Two lines at the head of its column in the table of `pxnbench monitor`.
    pub head: [&'static str; 2],
    /// Digits after the point in that table.
    pub digits: usize,
    /// Which columns a narrow terminal keeps: those with small numbers.
    pub rank: u8,
}

/// A column that says which sample it is.
type SampleColumn<'a> = Column<Origin<'a>, Sample>;

/// The GPU that a sample is of, and its host.
pub struct Origin<'a> {
    /// Host name.
    pub host: &'a str,
    /// Number of the node in a run.
    pub node: Option<u32>,
    /// The GPU.
    pub gpu: &'a SampledGpu,
}

/// Returns the columns before the quantities: host, GPU and time.
pub fn sample_columns<'a>() -> [SampleColumn<'a>; 8] {
    [
        SampleColumn {
            name: "time",
            doc: "time of day, ISO 8601 with milliseconds and offset",
            get: |_, sample| Cell::Text(sample.time.to_rfc3339_opts(SecondsFormat::Millis, false)),
        },
        SampleColumn {
            name: "seconds",
            doc: "seconds since the first sample of the node",
            get: |_, sample| Cell::Number((sample.seconds * 1e3).round() / 1e3),
        },
        SampleColumn {
            name: "host",
            doc: "host name",
            get: |origin, _| origin.host.into(),
        },
        SampleColumn {
            name: "node",
            doc: "number of the node in the run, from 0; empty in `pxnbench monitor`",
            get: |origin, _| origin.node.map(u64::from).into(),
        },
        SampleColumn {
            name: "gpu",
            doc: "number of the GPU on its host, as nvidia-smi counts",
            get: |origin, _| u64::from(origin.gpu.index).into(),
        },
        SampleColumn {
            name: "uuid",
            doc: "UUID of the GPU",
            get: |origin, _| words(&origin.gpu.uuid),
        },
        SampleColumn {
            name: "bus_id",
            doc: "PCI address of the GPU",
            get: |origin, _| words(&origin.gpu.bus_id),
        },
        SampleColumn {
            name: "model",
            doc: "model of the GPU",
            get: |origin, _| words(&origin.gpu.name),
        },
    ]
}

/// All quantities, in order. Later ones are appended.
pub const QUANTITIES: &[Quantity] = &[
    Quantity {
        column: Column {
            name: "sm_clock_MHz",
            doc: "clock of the multiprocessors",
            get: |(), values| whole(values.sm_clock_mhz),
        },
        head: ["SM", "MHz"],
        digits: 0,
        rank: 0,
    },
    Quantity {
        column: Column {
            name: "memory_clock_MHz",
            doc: "memory clock",
            get: |(), values| whole(values.memory_clock_mhz),
        },
        head: ["mem", "MHz"],
        digits: 0,
        rank: 6,
    },
    Quantity {
        column: Column {
            name: "temperature_C",
            doc: "temperature of the GPU",
            get: |(), values| whole(values.temperature_c),
        },
        head: ["GPU", "°C"],
        digits: 0,
        rank: 1,
    },
    Quantity {
        column: Column {
            name: "memory_temperature_C",
            doc: "temperature of its memory",
            get: |(), values| whole(values.memory_temperature_c),
        },
        head: ["mem", "°C"],
        digits: 0,
        rank: 6,
    },
    Quantity {
        column: Column {
            name: "power_W",
            doc: "power draw; on recent GPUs the mean over the last second",
            get: |(), values| values.power_w.into(),
        },
        head: ["power", "W"],
        digits: 0,
        rank: 1,
    },
    Quantity {
        column: Column {
            name: "power_limit_W",
            doc: "power limit in force",
            get: |(), values| values.power_limit_w.into(),
        },
        head: ["limit", "W"],
        digits: 0,
        rank: 4,
    },
    Quantity {
        column: Column {
            name: "energy_J",
            doc: "energy used since the first sample, by the GPU's counter",
            get: |(), values| values.energy_j.into(),
        },
        head: ["energy", "J"],
        digits: 0,
        rank: 7,
    },
    Quantity {
        column: Column {
            name: "utilization_pct",
            doc: "part of the time in which a kernel ran",
            get: |(), values| whole(values.utilization_pct),
        },
        head: ["GPU", "%"],
        digits: 0,
        rank: 2,
    },
    Quantity {
        column: Column {
            name: "memory_utilization_pct",
            doc: "part of the time in which memory was read or written",
            get: |(), values| whole(values.memory_utilization_pct),
        },
        head: ["mem", "%"],
        digits: 0,
        rank: 7,
    },
    Quantity {
        column: Column {
            name: "memory_used_MiB",
            doc: "memory in use, in 2²⁰ bytes",
            get: |(), values| mebibytes(values.memory_used),
        },
        head: ["used", "MiB"],
        digits: 0,
        rank: 3,
    },
    Quantity {
        column: Column {
            name: "memory_total_MiB",
            doc: "all memory, in 2²⁰ bytes",
            get: |(), values| mebibytes(values.memory_total),
        },
        head: ["of", "MiB"],
        digits: 0,
        rank: 7,
    },
    Quantity {
        column: Column {
            name: "nvlink_tx_GBps",
            doc: "data sent over all NVLinks since the sample before, 10⁹ bytes per second",
            get: |(), values| values.nvlink_sent.into(),
        },
        head: ["NVLink", "tx GB/s"],
        digits: 2,
        rank: 2,
    },
    Quantity {
        column: Column {
            name: "nvlink_rx_GBps",
            doc: "data received over them",
            get: |(), values| values.nvlink_received.into(),
        },
        head: ["NVLink", "rx GB/s"],
        digits: 2,
        rank: 2,
    },
    Quantity {
        column: Column {
            name: "pcie_tx_GBps",
            doc: "data sent over PCIe since the sample before; in `pxnbench monitor`, if the \
                  driver has no counter, in a window of 20 ms",
            get: |(), values| values.pcie_sent.into(),
        },
        head: ["PCIe", "tx GB/s"],
        digits: 2,
        rank: 3,
    },
    Quantity {
        column: Column {
            name: "pcie_rx_GBps",
            doc: "data received over PCIe",
            get: |(), values| values.pcie_received.into(),
        },
        head: ["PCIe", "rx GB/s"],
        digits: 2,
        rank: 3,
    },
    Quantity {
        column: Column {
            name: "ecc_corrected",
            doc: "corrected memory errors since the driver was loaded",
            get: |(), values| values.ecc_corrected.into(),
        },
        head: ["ECC", "corr"],
        digits: 0,
        rank: 5,
    },
    Quantity {
        column: Column {
            name: "ecc_uncorrected",
            doc: "uncorrected memory errors since the driver was loaded",
            get: |(), values| values.ecc_uncorrected.into(),
        },
        head: ["ECC", "uncorr"],
        digits: 0,
        rank: 5,
    },
    Quantity {
        column: Column {
            name: "throttle",
            doc: "what limits the clocks, `+` between: `idle`, `application clocks`, `power cap`, \
                  `hardware slowdown`, `sync boost`, `thermal slowdown`, `hardware thermal \
                  slowdown`, `power brake`, `display clocks`; `none` if nothing does",
            get: |(), values| {
                values
                    .throttle
                    .map(throttle_text)
                    .map_or(Cell::Empty, Cell::Text)
            },
        },
        head: ["clocks", "limited by"],
        digits: 0,
        rank: 0,
    },
    Quantity {
        column: Column {
            name: "error",
            doc: "why the GPU does not answer; empty if it does",
            get: |(), values| words(&values.error),
        },
        head: ["", "error"],
        digits: 0,
        rank: 0,
    },
];

/// Returns the names of the columns of a sample, in order.
pub fn column_names() -> Vec<&'static str> {
    let mut all = names(&sample_columns());
    all.extend(QUANTITIES.iter().map(|quantity| quantity.column.name));
    all
}

/// Returns the cells of a sample, in the order of [`column_names`].
pub fn cells(origin: &Origin, sample: &Sample) -> Vec<Cell> {
    let mut cells = Vec::new();
    for column in sample_columns() {
        cells.push((column.get)(origin, sample));
    }
    for quantity in QUANTITIES {
        cells.push((quantity.column.get)(&(), &sample.values));
    }
    cells
}

/// Returns what limits the clocks.
fn throttle_text(mask: u64) -> String {
    match throttle_names(mask) {
        names if names.is_empty() => "none".into(),
        names => names.join("+"),
    }
}

fn whole(value: Option<u32>) -> Cell {
    value.map(u64::from).into()
}

fn mebibytes(bytes: Option<u64>) -> Cell {
    bytes.map(|bytes| bytes >> 20).into()
}

/// Words, or unknown if there are none.
fn words(text: &str) -> Cell {
    if text.is_empty() {
        Cell::Empty
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantities_are_those_promised_in_their_order() {
        let names: Vec<&str> = QUANTITIES
            .iter()
            .map(|quantity| quantity.column.name)
            .collect();
        let promised = "sm_clock_MHz,memory_clock_MHz,temperature_C,memory_temperature_C,power_W,\
                        power_limit_W,energy_J,utilization_pct,memory_utilization_pct,\
                        memory_used_MiB,memory_total_MiB,nvlink_tx_GBps,nvlink_rx_GBps,\
                        pcie_tx_GBps,pcie_rx_GBps,ecc_corrected,ecc_uncorrected,throttle,error";
        assert_eq!(names.join(","), promised);
    }

    #[test]
    fn every_unknown_value_is_empty_and_no_reason_is_none() {
        let unknown = Values::default();
        for quantity in QUANTITIES {
            assert_eq!(
                (quantity.column.get)(&(), &unknown),
                Cell::Empty,
                "{}",
                quantity.column.name
            );
        }
        assert_eq!(throttle_text(0), "none");
        assert_eq!(throttle_text(0x24), "power cap+thermal slowdown");
    }

    #[test]
    fn every_reason_is_in_the_documentation() {
        let throttle = QUANTITIES
            .iter()
            .find(|quantity| quantity.column.name == "throttle");
        let doc = throttle.expect("the quantity").column.doc;
        for reason in crate::native::nvml::THROTTLE_REASONS {
            assert!(
                doc.contains(&format!("`{}`", reason.name)),
                "{}",
                reason.name
            );
        }
    }
}
