//! The GPUs of this node, live: samples as a table, as CSV or as JSON, until it is enough or a
//! signal comes.

mod table;

use std::{
    thread,
    time::{Duration, Instant},
};

use console::Term;
use serde_json::{Map, Value};

use crate::{
    exit::{Code, Failure},
    native::nvml::PcieQuery,
    output::stdout,
    record::columns::Cell,
    telemetry::{Origin, Probe, Sample, SampledGpu, cells, column_names},
    world::{abort, placement, signal},
};

/// What is shown, and for how long.
#[derive(Clone, Debug)]
pub struct Request {
    /// How it is shown.
    pub form: Form,
    /// Time from one sample to the next.
    pub interval: Duration,
    /// Samples after which it ends.
    pub count: Option<u64>,
    /// Time after which it ends.
    pub time: Option<Duration>,
    /// The GPUs: numbers, UUIDs or PCI addresses. All if it is empty.
    pub gpus: Vec<String>,
}

/// The form in which samples are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table, which on a terminal is replaced by the next.
    Table,
    /// A header, and a line per GPU and sample.
    Csv,
    /// An object per GPU and sample, each on a line.
    Json,
}

/// How often a signal is looked for while the next sample is not due.
const SIGNAL_TICK: Duration = Duration::from_millis(20);

/// Shows samples until enough are shown, a signal comes, or nobody reads them.
///
/// # Errors
/// Returns an error if there is no GPU, or not the one that was requested, or if stdout cannot be
/// written.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let mut probe = Probe::open(PcieQuery::MayBlock).map_err(|why| nothing(&why))?;
    choose(&mut probe, &request.gpus)?;
    if probe.gpus().is_empty() {
        return Err(nothing("NVML lists no GPU"));
    }
    // Somebody who has seen enough presses Ctrl-C: that is no failure.
    abort::set_final_code(Code::Fine);
    let started = Instant::now();
    // Rates are differences, so that the first sample has none. It also shows what this GPU or
    // driver does not know.
    probe.sample();
    for gap in probe.gaps().sentences() {
        note!("pxnbench: {gap}");
    }
    let mut screen = Screen::new(request.form);
    let mut next = started;
    for shown in 1_u64.. {
        next += request.interval;
        if wait_until(next).is_err() {
            break;
        }
        next = next.max(Instant::now() - request.interval);
        let samples = probe.sample();
        let is_read = screen
            .show(probe.gpus(), &samples)
            .map_err(|error| stdout::failure(&error))?;
        let is_enough = request.count.is_some_and(|count| shown >= count);
        let is_over = request
            .time
            .is_some_and(|time| started.elapsed() + request.interval > time);
        if !is_read || is_enough || is_over {
            break;
        }
    }
    Ok(Code::Fine)
}

fn nothing(why: &str) -> anyhow::Error {
    let what = format!(
        "there is no GPU to monitor: {why}. Run it on a node with an NVIDIA GPU and its driver"
    );
    Failure::on_all_ranks(Code::NothingRan, what)
}

/// Keeps the GPUs that are requested.
fn choose(probe: &mut Probe, asked: &[String]) -> anyhow::Result<()> {
    for name in asked {
        if !probe.gpus().iter().any(|gpu| is_named(gpu, name)) {
            let numbers: Vec<String> = probe
                .gpus()
                .iter()
                .map(|gpu| gpu.index.to_string())
                .collect();
            let what = format!(
                "--gpu {}: there is no such GPU. Name one by its number ({}), its UUID or its PCI \
                 address",
                name.escape_debug(),
                numbers.join(", ")
            );
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
    }
    if !asked.is_empty() {
        probe.keep(|gpu| asked.iter().any(|name| is_named(gpu, name)));
    }
    Ok(())
}

fn is_named(gpu: &SampledGpu, name: &str) -> bool {
    let name = name.trim();
    let address = crate::native::nvml::bus_id(name);
    gpu.index.to_string() == name
        || (!gpu.uuid.is_empty() && gpu.uuid.eq_ignore_ascii_case(name))
        || (!gpu.bus_id.is_empty() && gpu.bus_id == address)
}

/// Waits, and ends early if a signal asks to stop.
fn wait_until(moment: Instant) -> Result<(), ()> {
    loop {
        if signal::received().is_some() {
            return Err(());
        }
        let rest = moment.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(());
        }
        thread::sleep(rest.min(SIGNAL_TICK));
    }
}

/// The output of samples: a table that is redrawn, or lines.
struct Screen {
    form: Form,
    host: String,
    /// The terminal, if stdout is one.
    terminal: Option<Term>,
    /// Lines that the next table replaces.
    lines: usize,
    has_header: bool,
}

impl Screen {
    fn new(form: Form) -> Screen {
        let terminal = Term::stdout();
        Screen {
            form,
            host: placement::host_name(),
            terminal: terminal.is_term().then_some(terminal),
            lines: 0,
            has_header: false,
        }
    }

    /// Shows the samples of one moment, and returns whether somebody reads them.
    fn show(&mut self, gpus: &[SampledGpu], samples: &[Sample]) -> std::io::Result<bool> {
        let text = match self.form {
            Form::Table => return self.show_table(gpus, samples),
            Form::Csv => self.csv(gpus, samples)?,
            Form::Json => self.json(gpus, samples),
        };
        stdout::write_to_reader(&text)
    }

    fn show_table(&mut self, gpus: &[SampledGpu], samples: &[Sample]) -> std::io::Result<bool> {
        let size = self.terminal.as_ref().and_then(Term::size_checked);
        let width = size.map(|(_, columns)| usize::from(columns));
        let mut text = table::render(&self.host, gpus, samples, width);
        if let Some(terminal) = &self.terminal {
            terminal.clear_last_lines(self.lines)?;
            self.lines = text.lines().count();
        } else {
            text.push('\n');
        }
        stdout::write_to_reader(&text)
    }

    fn csv(&mut self, gpus: &[SampledGpu], samples: &[Sample]) -> std::io::Result<String> {
        let mut rows = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .from_writer(Vec::new());
        if !self.has_header {
            rows.write_record(column_names())?;
            self.has_header = true;
        }
        for sample in samples {
            rows.write_record(self.cells(gpus, sample).iter().map(Cell::csv))?;
        }
        let bytes = rows.into_inner().map_err(|error| error.into_error())?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    }

    fn json(&self, gpus: &[SampledGpu], samples: &[Sample]) -> String {
        let mut text = String::new();
        for sample in samples {
            let mut row = Map::new();
            for (name, cell) in column_names().iter().zip(self.cells(gpus, sample)) {
                row.insert((*name).to_owned(), cell.json());
            }
            text += &Value::Object(row).to_string();
            text.push('\n');
        }
        text
    }

    fn cells(&self, gpus: &[SampledGpu], sample: &Sample) -> Vec<Cell> {
        let origin = Origin {
            host: &self.host,
            node: None,
            gpu: &gpus[sample.gpu],
        };
        cells(&origin, sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_chosen_by_number_uuid_or_address() {
        let gpu = SampledGpu {
            index: 1,
            uuid: "GPU-5d5d".into(),
            bus_id: "0000:18:00.0".into(),
            name: "x".into(),
        };
        for name in ["1", " 1", "gpu-5D5D", "00000000:18:00.0", "18:00.0"] {
            assert!(is_named(&gpu, name), "{name}");
        }
        for name in ["0", "11", "", "GPU-", "x"] {
            assert!(!is_named(&gpu, name), "{name}");
        }
        assert!(!is_named(&SampledGpu::default(), ""));
    }
}
