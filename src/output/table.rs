//! nccl-tests' table (version 2.19.6): header, rows, footer and number formats, so that scripts
//! which parse its output work unchanged.
//!
//! Pure: strings from values. Differences, each a comment line or a column at the end of a row (see
//! `docs/METHOD.md`): the version line names this program, `# Waived` lines say what could not run,
//! `# Not finished` that some cases are missing, and a computed time is marked `computed`.

use std::fmt::Display;

use super::{
    c_format::{fit, general},
    column_heads::{self, ColumnHead},
};
use crate::{
    drop_in,
    record::{
        BackendKind, IterationStats, MemoryUse, NcclEvidence, ProcessMeta, Record, RunMeta, Status,
        SweepMeta, TableTotals,
    },
    units::counted,
};

/// NCCL's number for the version whose header the program's own declarations follow.
const NCCL_HEADERS: u32 = 23_000;

/// Returns everything above the first row of a collective.
pub fn head(collective: &str, run: &RunMeta) -> String {
    let sweep = &run.sweep.as_run_by(run.backend);
    let mut text = version_line(run);
    text += &format!("# Collective test starting: {collective}_perf\n");
    text += &sweep_line(sweep);
    text += &option_lines(sweep, run.backend);
    text += "#\n# Using devices\n";
    for process in &run.processes {
        text += &device_line(process);
    }
    if !run.backend.measures() {
        text += &format!(
            "#\n# Computed for {}, not measured\n",
            counted(run.ranks, "rank")
        );
    }
    if let Some(reduced) = sweep.reduced_to {
        text += &format!(
            "#\n# Reducing maxBytes to {} due to memory limitation\n",
            reduced.0
        );
    }
    text + &column_heads(sweep)
}

/// Returns the version line. Under a name of nccl-tests it has the form that readers of its output
/// expect: with the version whose conventions are kept, and in parentheses, where nccl-tests has
/// its commit, the program that ran.
fn version_line(run: &RunMeta) -> String {
    let version = &run.pxnbench;
    let library = nccl_library(run);
    if run.drop_in {
        return format!(
            "# nccl-tests version {} nccl-headers={NCCL_HEADERS} nccl-library={}\n",
            drop_in::version(version),
            library.unwrap_or(0)
        );
    }
    let library = match library {
        Some(code) => format!(" nccl-library={code}"),
        None => String::new(),
    };
    format!(
        "# pxnbench version {version} backend={}{library}\n",
        run.backend
    )
}

/// Returns NCCL's number of its version; `None` if no NCCL ran.
pub(super) fn nccl_library(run: &RunMeta) -> Option<u32> {
    nccl_code(run.versions.get("nccl")?)
}

/// Returns NCCL's number for a version such as `2.28.3`: 22803, as nccl-tests prints it.
fn nccl_code(version: &str) -> Option<u32> {
    let mut parts = Vec::new();
    for part in version.split('.') {
        parts.push(part.parse::<u32>().ok()?);
    }
    match parts[..] {
        [major, minor, patch] => Some(major * 10_000 + minor * 100 + patch),
        _ => None,
    }
}

fn sweep_line(sweep: &SweepMeta) -> String {
    let step_unit = if sweep.step_is_factor {
        "factor"
    } else {
        "bytes"
    };
    format!(
        "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({step_unit}) warmup iters: {} \
         iters: {} agg iters: {} validation: {} graph: {} unalign: {}\n",
        sweep.threads,
        sweep.gpus,
        sweep.begin.0,
        sweep.end.0,
        sweep.step,
        sweep.warmup,
        sweep.iters,
        sweep.aggregate,
        sweep.checks,
        sweep.graph,
        sweep.unalign
    )
}

/// Returns one line per execution option that is not at its default.
fn option_lines(sweep: &SweepMeta, backend: BackendKind) -> String {
    let mut text = String::new();
    let blocking = match sweep.blocking {
        1 => "wait after each operation (-m), and for all ranks",
        2 => "wait after each operation (-m), no barrier",
        3 => "wait after each iteration (-n), and for all ranks, which is not counted",
        _ => "",
    };
    if !blocking.is_empty() {
        text += &format!("# Blocking Enabled: {blocking}\n");
    }
    if sweep.per_iter {
        text += if backend.uses_gpus() {
            "# Per-Iteration Report: CUDA event timing; of each iteration the longest over all GPUs"
        } else if backend.measures() {
            "# Per-Iteration Report: timing by the host's clock; of each iteration the longest \
             over all ranks"
        } else {
            "# Per-Iteration Report: computed"
        };
        if sweep.per_iter_skip > 0 {
            text += &format!("; without the first {} iterations", sweep.per_iter_skip);
        }
        text += "\n";
    }
    if let Some(percent) = sweep.precision {
        text += &format!("# Precision: each time within {percent} %, with a confidence of 95 %\n");
    }
    if sweep.parallel_init {
        text += "# Parallel Init Enabled: threads join the communicator at once\n";
    }
    text
}

fn device_line(process: &ProcessMeta) -> String {
    let device = &process.device;
    format!(
        "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n",
        process.rank,
        process.group,
        process.pid,
        process.host,
        device.index,
        device.bus,
        device.name
    )
}

/// Returns the lines above the rows: buffer modes, names and units. The latter two end with a
/// space, as in nccl-tests.
fn column_heads(sweep: &SweepMeta) -> String {
    let mut names = String::new();
    let mut units = String::new();
    // Two spaces stand before each column.
    for ColumnHead { name, unit, width } in column_heads::of_row(sweep) {
        names += &format!("  {name:>width$}");
        units += &format!("  {unit:>width$}");
    }
    // Rows begin without these two, and the sign that begins a line takes one more.
    let (names, units) = (&names[3..], &units[3..]);
    let case_width = column_heads::CASE.iter().map(|column| 2 + column.width);
    let case_width = case_width.sum::<usize>() - 3;
    let modes = if sweep.per_iter {
        "              out-of-place (+ per-iteration)                                in-place (+ \
         per-iteration)"
    } else {
        "           out-of-place                       in-place          "
    };
    let (timestamp, format) = if sweep.timestamps {
        ("          timestamp", "YYYY-MM-DD HH:MM:SS")
    } else {
        ("", "")
    };
    let indent = " ".repeat(case_width);
    format!("#\n#{indent}{modes}\n#{names} {timestamp}\n#{units} {format}\n")
}

/// Returns one row: a case out of place and in place. If one of the two did not run, its columns
/// are `N/A`.
pub fn row(out_of_place: &Record, in_place: &Record, sweep: &SweepMeta) -> String {
    let case = &out_of_place.case;
    let mut text = format!(
        "{:12}  {:12}  {:>8}  {:>6}  {:6}",
        case.size().0,
        case.counts.param,
        case.dtype.name(),
        case.redop_name(),
        case.root_number()
    );
    for record in [out_of_place, in_place] {
        text += &result_cells(record, sweep);
        if sweep.per_iter {
            text += &iteration_cells(record.iteration_times.as_ref());
        }
    }
    if sweep.tuning {
        text += &tuning_cells([&out_of_place.seen, &in_place.seen]);
    }
    if sweep.timestamps {
        let time = in_place.started_at.format("%Y-%m-%d %H:%M:%S");
        text += &format!("  {time}");
    }
    if out_of_place.status == Status::Computed || in_place.status == Status::Computed {
        text += "  computed";
    }
    text + "\n"
}

/// Returns the four columns of one buffer mode.
fn result_cells(record: &Record, sweep: &SweepMeta) -> String {
    if record.status == Status::Waived {
        return format!("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    }
    // What ran untimed has zeros, which every reader takes.
    let time = record.time.unwrap_or_default();
    let (algbw, busbw) = record.bandwidth().unwrap_or_default();
    let shown_time = if sweep.reports_issue && record.time.is_some() {
        record.issue
    } else {
        Some(time)
    };
    let time = match shown_time {
        Some(time) => fit(time.0, 7),
        None => format!("{:>7}", "N/A"),
    };
    let wrong = match record.wrong {
        Some(wrong) => format!("{:>6}", general(wrong as f64)),
        // One column narrower than a number, as in nccl-tests.
        None => "  N/A".to_owned(),
    };
    format!(
        "  {time}  {}  {}  {wrong}",
        fit(algbw.0, 6),
        fit(busbw.0, 6)
    )
}

/// Returns the four columns of the single iterations of one buffer mode.
fn iteration_cells(stats: Option<&IterationStats>) -> String {
    let Some(stats) = stats else {
        return format!("  {:>7}", "N/A").repeat(4);
    };
    let mut cells = String::new();
    for value in [stats.min.0, stats.max.0, stats.p99.0, stats.variation()] {
        cells += &format!("  {}", fit(value, 7));
    }
    cells
}

/// Returns the columns that say how NCCL ran the two halves of a row: `N/A` if that is unknown, and
/// both values if they differ.
fn tuning_cells(halves: [&NcclEvidence; 2]) -> String {
    let values = [
        halves.map(|seen| seen.algo.clone()),
        halves.map(|seen| seen.proto.clone()),
        halves.map(|seen| {
            seen.operation_channels
                .map_or_else(String::new, |count| count.to_string())
        }),
    ];
    let mut cells = String::new();
    for (column, of_halves) in column_heads::TUNING.iter().zip(values) {
        let mut known: Vec<String> = of_halves.into_iter().filter(|v| !v.is_empty()).collect();
        known.dedup();
        let shown = if known.is_empty() {
            "N/A".to_owned()
        } else {
            known.join("/")
        };
        cells += &format!("  {shown:>width$}", width = column.width);
    }
    cells
}

/// Returns the line that tells, below the rows of a table, that some are missing: `done` is how
/// many cases were done.
pub fn unfinished(done: impl Display, why: &str) -> String {
    // The message of a panic takes several lines.
    let lines: Vec<&str> = why.lines().map(str::trim).collect();
    format!("# Not finished, {done}: {}\n", lines.join("; "))
}

/// Returns everything below the last row of a collective.
pub fn foot(
    collective: &str,
    totals: &TableTotals,
    sweep: &SweepMeta,
    memory: Option<&MemoryUse>,
) -> String {
    let failed_checks = totals.failed_checks;
    let verdict = ok_or_failed(failed_checks == 0);
    let average = match totals.average() {
        Some(average) => general(average),
        None => "nan".to_owned(),
    };
    let reached = match sweep.least_busbw {
        Some(least) => ok_or_failed(totals.reaches(least)),
        None => "",
    };
    let memory = memory.map_or_else(String::new, memory_line);
    format!(
        "# Out of bounds values : {failed_checks} {verdict}\n# Avg bus bandwidth    : {average} {reached}\n#\n\
         # Collective test concluded: {collective}_perf\n{memory}#\n\n"
    )
}

fn ok_or_failed(is_ok: bool) -> &'static str {
    if is_ok { "OK" } else { "FAILED" }
}

/// Returns the line about the memory of the GPU that uses most of it.
fn memory_line(used: &MemoryUse) -> String {
    let total = used.initialization + used.buffers + used.collectives;
    format!(
        "# GPU memory usage     : Initialization {} | User-Allocated {} | Collective {} | Total  \
         {}\n",
        format_bytes(used.initialization),
        format_bytes(used.buffers),
        format_bytes(used.collectives),
        format_bytes(total)
    )
}

/// Formats bytes as nccl-tests does: at most three digits, and units that are powers of 1024.
fn format_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => (1, "B"),
        0x400..0x10_0000 => (0x400, "KB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MB"),
        _ => (0x4000_0000_u64, "GB"),
    };
    let amount = bytes as f64 / unit as f64;
    let decimals = if amount < 10.0 {
        2
    } else {
        usize::from(amount < 100.0)
    };
    format!("{amount:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nccl-tests 2.19.6 prints, made with its printf formats: the lines above the rows.
    #[test]
    fn the_lines_above_the_rows_are_those_of_nccl_tests() {
        let expected = [
            "#",
            "#                                                              out-of-place                       in-place          ",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
            "",
        ];
        assert_eq!(
            column_heads(&SweepMeta::default())
                .split('\n')
                .collect::<Vec<_>>(),
            expected
        );
        let expected = [
            "#",
            "#                                                              out-of-place                       in-place          ",
            "#       size         count      type   redop    root  cputime   algbw   busbw  #wrong  cputime   algbw   busbw  #wrong           timestamp",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         YYYY-MM-DD HH:MM:SS",
            "",
        ];
        assert_eq!(
            column_heads(&SweepMeta {
                timestamps: true,
                reports_issue: true,
                ..SweepMeta::default()
            })
            .split('\n')
            .collect::<Vec<_>>(),
            expected
        );
        let expected = [
            "#",
            "#                                                                 out-of-place (+ per-iteration)                                in-place (+ per-iteration)",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv% ",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%) ",
            "",
        ];
        assert_eq!(
            column_heads(&SweepMeta {
                per_iter: true,
                ..SweepMeta::default()
            })
            .split('\n')
            .collect::<Vec<_>>(),
            expected
        );
        let expected = [
            "#",
            "#                                                                 out-of-place (+ per-iteration)                                in-place (+ per-iteration)",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%) YYYY-MM-DD HH:MM:SS",
            "",
        ];
        assert_eq!(
            column_heads(&SweepMeta {
                per_iter: true,
                timestamps: true,
                ..SweepMeta::default()
            })
            .split('\n')
            .collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn nccl_versions_have_a_number() {
        assert_eq!(nccl_code("2.28.3"), Some(22_803));
        assert_eq!(nccl_code("unknown"), None);
    }
}
