//! The table of the GPUs of a node at one moment.

use chrono::SecondsFormat;

use crate::{
    record::columns::Cell,
    telemetry::{QUANTITIES, Quantity, Sample, SampledGpu},
};

/// What stands for an unknown value.
const UNKNOWN: &str = "-";

/// Characters between two columns.
const GAP: usize = 2;

/// A column: two lines of its head, and a cell per GPU.
struct Column {
    head: [String; 2],
    cells: Vec<String>,
    /// Whether its cells begin at the left, as words do.
    is_left: bool,
}

impl Column {
    fn width(&self) -> usize {
        let texts = self.head.iter().chain(&self.cells);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }

    fn pad(&self, text: &str) -> String {
        let width = self.width();
        if self.is_left {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

/// Returns the table, with the columns that matter most if not all fit into `width` characters.
pub(super) fn render(
    host: &str,
    gpus: &[SampledGpu],
    samples: &[Sample],
    width: Option<usize>,
) -> String {
    let time = samples.first().map(|sample| sample.time);
    let time = time.map_or(String::new(), |time| {
        time.to_rfc3339_opts(SecondsFormat::Secs, false)
    });
    let mut lines = vec![format!("{host}  {time}")];
    lines.extend(body(&columns_within(gpus, samples, width)));
    let mut text = String::new();
    for line in lines {
        let line = line.trim_end();
        let shown = width.unwrap_or(usize::MAX);
        text.extend(line.chars().take(shown));
        text.push('\n');
    }
    text
}

fn columns_within(gpus: &[SampledGpu], samples: &[Sample], width: Option<usize>) -> Vec<Column> {
    let most = QUANTITIES.iter().map(|quantity| quantity.rank).max();
    let mut rank = most.unwrap_or(0);
    loop {
        let columns = columns(gpus, samples, rank);
        let total: usize = columns.iter().map(|column| column.width() + GAP).sum();
        if rank == 0 || width.is_none_or(|width| total <= width + GAP) {
            return columns;
        }
        rank -= 1;
    }
}

/// Returns the columns of at most that rank. One of errors is left out if there are none.
fn columns(gpus: &[SampledGpu], samples: &[Sample], rank: u8) -> Vec<Column> {
    let mut columns = vec![names(gpus, samples)];
    for quantity in QUANTITIES.iter().filter(|quantity| quantity.rank <= rank) {
        let column = column(quantity, samples);
        let is_empty = column.cells.iter().all(|cell| cell == UNKNOWN);
        if quantity.column.name != "error" || !is_empty {
            columns.push(column);
        }
    }
    columns
}

fn names(gpus: &[SampledGpu], samples: &[Sample]) -> Column {
    let mut cells = Vec::new();
    for sample in samples {
        let gpu = &gpus[sample.gpu];
        cells.push(format!("{:>2} {}", gpu.index, gpu.name));
    }
    Column {
        head: [String::new(), "GPU".into()],
        cells,
        is_left: true,
    }
}

fn column(quantity: &Quantity, samples: &[Sample]) -> Column {
    let mut is_left = false;
    let mut cells = Vec::new();
    for sample in samples {
        let cell = (quantity.column.get)(&(), &sample.values);
        is_left |= matches!(cell, Cell::Text(_));
        cells.push(shown(&cell, quantity.digits));
    }
    Column {
        head: quantity.head.map(str::to_owned),
        cells,
        is_left,
    }
}

fn shown(cell: &Cell, digits: usize) -> String {
    match cell {
        Cell::Empty => UNKNOWN.into(),
        Cell::Text(text) => text.clone(),
        Cell::Integer(number) => number.to_string(),
        Cell::Number(number) => format!("{number:.digits$}"),
    }
}

fn body(columns: &[Column]) -> Vec<String> {
    let mut lines = Vec::new();
    for at in 0..2 {
        lines.push(line(columns, |column| &column.head[at]));
    }
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        lines.push(line(columns, |column| &column.cells[row]));
    }
    lines
}

fn line(columns: &[Column], text: impl Fn(&Column) -> &str) -> String {
    let padded: Vec<String> = columns
        .iter()
        .map(|column| column.pad(text(column)))
        .collect();
    padded.join(&" ".repeat(GAP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Values;

    fn table(width: Option<usize>) -> String {
        let gpus = [0, 1].map(|index| SampledGpu {
            index,
            name: "NVIDIA H200".into(),
            ..SampledGpu::default()
        });
        let sample = |gpu, values| Sample {
            time: "2026-11-29T01:02:03+00:00".parse().expect("a time"),
            seconds: 1.0,
            gpu,
            values,
        };
        let known = Values {
            sm_clock_mhz: Some(1980),
            throttle: Some(4),
            power_w: Some(699.6),
            nvlink_sent: Some(351.25),
            ..Values::default()
        };
        let lost = Values {
            error: "the GPU is lost".into(),
            ..Values::default()
        };
        render("n1", &gpus, &[sample(0, known), sample(1, lost)], width)
    }

    #[test]
    fn a_wide_table_has_all_and_a_narrow_one_what_matters_most() {
        let wide = table(None);
        for head in [
            "energy",
            "PCIe",
            "limited by",
            "power cap",
            "the GPU is lost",
            "351.25",
            "700",
        ] {
            assert!(wide.contains(head), "{head}\n{wide}");
        }
        for width in [60, 80, 100, 120] {
            let narrow = table(Some(width));
            assert!(
                narrow.lines().all(|line| line.chars().count() <= width),
                "{narrow}"
            );
            assert!(
                narrow.contains("1980") && !narrow.contains("energy"),
                "{narrow}"
            );
        }
        assert!(table(Some(120)).contains("351.25"));
        assert!(!table(Some(60)).contains("351.25"));
    }

    #[test]
    fn what_is_unknown_is_a_dash() {
        let wide = table(None);
        let lost = wide.lines().last().expect("a row");
        assert!(
            lost.starts_with(" 1 NVIDIA H200") && lost.contains("  -  "),
            "{wide}"
        );
    }
}
