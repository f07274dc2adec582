//! nccl-tests' table (version 2.19.6): header, rows, footer, number formats, so that what reads its output reads ours.
//!
//! Pure: strings from values. Differences, each a comment line or a column at the end of a row (`docs/ARCHITECTURE.md` has them): the version line names
//! this program, `# Waived` lines say what could not run, `# Not finished` that not all did, and a computed time is marked `computed`.

use crate::record::{
    IterationStats, MemoryUse, ProcessMeta, Record, RunMeta, Status, SweepMeta, TableTotals,
};

/// Everything above the first row of a collective.
pub fn head(collective: &str, run: &RunMeta) -> String {
    let asked = &run.sweep;
    let kind = if asked.step_is_factor {
        "factor"
    } else {
        "bytes"
    };
    let library = run
        .versions
        .get("nccl")
        .and_then(|version| nccl_code(version));
    let library = library.map_or(String::new(), |code| format!(" nccl-library={code}"));
    let mut text = format!(
        "# pxnbench version {} backend={}{library}\n\
         # Collective test starting: {collective}_perf\n\
         # nThread {} nGpus {} minBytes {} maxBytes {} step: {}({kind}) warmup iters: {} iters: {} agg iters: {} \
         validation: {} graph: {} unalign: {}\n",
        run.pxnbench,
        run.backend,
        asked.threads,
        asked.gpus,
        asked.begin.0,
        asked.end.0,
        asked.step,
        asked.warmup,
        asked.iters,
        asked.aggregate,
        asked.checks,
        asked.graph,
        asked.unalign
    );
    text.push_str(&manners(asked));
    text.push_str("#\n# Using devices\n");
    run.processes
        .iter()
        .for_each(|process| text.push_str(&device_line(process)));
    if !run.backend.measures() {
        text.push_str(&format!(
            "#\n# Computed for {} ranks, not measured\n",
            run.ranks
        ));
    }
    if let Some(reduced) = asked.reduced_to {
        text.push_str(&format!(
            "#\n# Reducing maxBytes to {} due to memory limitation\n",
            reduced.0
        ));
    }
    text.push_str(&columns(asked));
    text
}

/// A line for each manner of measuring that is not the usual one.
fn manners(asked: &SweepMeta) -> String {
    let mut text = String::new();
    let blocking = match asked.blocking {
        1 => "wait after each operation (-m), and for all ranks",
        2 => "wait after each operation (-m), no barrier",
        3 => "wait after each iteration (-n), and for all ranks, which is not counted",
        _ => "",
    };
    if !blocking.is_empty() {
        text.push_str(&format!("# Blocking Enabled: {blocking}\n"));
    }
    if asked.per_iter {
        text.push_str("# Per-Iteration Report: CUDA event timing; of each iteration the longest over all GPUs");
        if asked.per_iter_skip > 0 {
            text.push_str(&format!(
                "; without the first {} iterations",
                asked.per_iter_skip
            ));
        }
        text.push('\n');
    }
    if asked.parallel_init {
        text.push_str("# Parallel Init Enabled: threads join the communicator at once\n");
    }
    text
}

/// NCCL's number for a version such as `2.28.3`: 22803, as nccl-tests prints it.
pub(super) fn nccl_code(version: &str) -> Option<u32> {
    let parts: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [major, minor, patch] = parts[..] else {
        return None;
    };
    Some(major * 10_000 + minor * 100 + patch)
}

/// The three lines above the rows; each ends with a space, as in nccl-tests.
fn columns(asked: &SweepMeta) -> String {
    let time = if asked.reports_issue {
        "cputime"
    } else {
        "time"
    };
    let (name, unit) = match asked.timestamps {
        true => ("          timestamp", "YYYY-MM-DD HH:MM:SS"),
        false => ("", ""),
    };
    let half = |words: [&str; 4], iteration_times: [&str; 4]| {
        let [time, algbw, busbw, wrong] = words;
        let half = format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}");
        let iteration_times = if asked.per_iter {
            iteration_times.map(|word| format!("  {word:>7}")).concat()
        } else {
            String::new()
        };
        format!("{half}{iteration_times}").repeat(2)
    };
    let above = match asked.per_iter {
        false => "           out-of-place                       in-place          ".to_owned(),
        true => format!(
            "              {:<62}{}",
            "out-of-place (+ per-iteration)", "in-place (+ per-iteration)"
        ),
    };
    let line = |[size, count, dtype, redop, root]: [&str; 5], rest: &str| {
        format!("# {size:>10}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}{rest}")
    };
    let names = half(
        [time, "algbw", "busbw", "#wrong"],
        ["i_min", "i_max", "i_p99", "i_cv%"],
    );
    let units = half(
        ["(us)", "(GB/s)", "(GB/s)", ""],
        ["(us)", "(us)", "(us)", "(%)"],
    );
    [
        "#".to_owned(),
        line(["", "", "", "", ""], &above),
        line(
            ["size", "count", "type", "redop", "root"],
            &format!("{names} {name}"),
        ),
        line(
            ["(B)", "(elements)", "", "", ""],
            &format!("{units} {unit}"),
        ),
        String::new(),
    ]
    .join("\n")
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

/// One row: a case out of place and in place. Where one of the two did not run, its columns are `N/A`.
pub fn row(out_of_place: &Record, in_place: &Record, asked: &SweepMeta) -> String {
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
        text.push_str(&half(record, asked));
        if asked.per_iter {
            text.push_str(&iteration_times(record.iteration_times.as_ref()));
        }
    }
    if asked.timestamps {
        text.push_str(&format!(
            "  {}",
            in_place.started_at.format("%Y-%m-%d %H:%M:%S")
        ));
    }
    if [out_of_place, in_place]
        .iter()
        .any(|record| record.status == Status::Computed)
    {
        text.push_str("  computed");
    }
    text.push('\n');
    text
}

/// The four columns of one placement.
fn half(record: &Record, asked: &SweepMeta) -> String {
    let (Some(time), Some((algbw, busbw))) = (record.time, record.bandwidth()) else {
        return format!("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    };
    let shown = match (asked.reports_issue, record.issue) {
        (false, _) => fitting(time.0, 7),
        (true, Some(issue)) => fitting(issue.0, 7),
        (true, None) => format!("{:>7}", "N/A"),
    };
    let numbers = format!(
        "  {}  {}  {}",
        shown,
        fitting(algbw.0, 6),
        fitting(busbw.0, 6)
    );
    match record.wrong {
        Some(wrong) => format!("{numbers}  {:>6}", general(wrong as f64)),
        // One column narrower than a number, as in nccl-tests.
        None => format!("{numbers}    N/A"),
    }
}

/// The four columns of the single iterations of one placement.
fn iteration_times(iteration_times: Option<&IterationStats>) -> String {
    match iteration_times {
        Some(iteration_times) => [
            iteration_times.min.0,
            iteration_times.max.0,
            iteration_times.p99.0,
            iteration_times.variation(),
        ]
        .map(|value| format!("  {}", fitting(value, 7)))
        .concat(),
        None => format!("  {:>7}", "N/A").repeat(4),
    }
}

/// Says below the rows of a table that not all are there: `done` tells how many cases are.
pub fn unfinished(done: impl std::fmt::Display, why: &str) -> String {
    // What a panic says takes several lines.
    let why = why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    format!("# Not finished, {done}: {why}\n")
}

/// Everything below the last row of a collective.
pub fn foot(
    collective: &str,
    sums: &TableTotals,
    asked: &SweepMeta,
    memory: Option<&MemoryUse>,
) -> String {
    let verdict = if sums.failed_checks == 0 {
        "OK"
    } else {
        "FAILED"
    };
    let average = sums.average().map_or("nan".to_owned(), general);
    let reached = match asked.least_busbw {
        None => "",
        Some(least) if sums.reaches(least) => "OK",
        Some(_) => "FAILED",
    };
    let memory = memory.map_or_else(String::new, memory_line);
    format!(
        "# Out of bounds values : {} {verdict}\n# Avg bus bandwidth    : {average} {reached}\n#\n\
         # Collective test concluded: {collective}_perf\n{memory}#\n\n",
        sums.failed_checks
    )
}

/// Memory on the GPU that has most in use; K, M and G are powers of 1024, as in nccl-tests.
fn memory_line(used: &MemoryUse) -> String {
    let MemoryUse {
        initialization,
        buffers,
        collectives,
    } = *used;
    let [init, user, collective, total] = [
        initialization,
        buffers,
        collectives,
        initialization + buffers + collectives,
    ]
    .map(binary);
    format!(
        "# GPU memory usage     : Initialization {init} | User-Allocated {user} | Collective {collective} | Total  {total}\n"
    )
}

/// Bytes as nccl-tests writes them: three digits at most before the unit.
fn binary(bytes: u64) -> String {
    let units = [
        (1_u64 << 30, "GB"),
        (1 << 20, "MB"),
        (1 << 10, "KB"),
        (1, "B"),
    ];
    let (one, unit) = units
        .into_iter()
        .find(|(one, _)| bytes >= *one)
        .unwrap_or((1, "B"));
    let amount = bytes as f64 / one as f64;
    let decimals = if amount < 10.0 {
        2
    } else {
        usize::from(amount < 100.0)
    };
    format!("{amount:.decimals$} {unit}")
}

/// A number in `width` columns, right aligned: with two decimals, else one, else none, else as a power of ten.
fn fitting(value: f64, width: usize) -> String {
    let plain = (0..=2)
        .rev()
        .map(|decimals| format!("{value:.decimals$}"))
        .find(|text| text.len() <= width);
    let text = plain.unwrap_or_else(|| {
        let short = exponent(value, 1);
        if short.len() <= width {
            short
        } else {
            exponent(value, 0)
        }
    });
    format!("{text:>width$}")
}

/// C's `%.{decimals}e`: Rust writes no sign and no leading zero in the exponent.
fn exponent(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!(
        "{mantissa}e{}{:02}",
        if power < 0 { '-' } else { '+' },
        power.abs()
    )
}

/// C's `%g`: six significant digits, no trailing zeros, an exponent where the number is very large or small.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let rounded = exponent(value, 5);
    let power: i32 = rounded
        .rsplit('e')
        .next()
        .and_then(|power| power.parse().ok())
        .unwrap_or(0);
    if !(-4..6).contains(&power) {
        let (mantissa, tail) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
        return format!("{}e{tail}", trimmed(mantissa));
    }
    trimmed(&format!("{value:.*}", (5 - power).max(0) as usize)).to_owned()
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
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
            columns(&SweepMeta::default())
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
            columns(&SweepMeta {
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
            columns(&SweepMeta {
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
            columns(&SweepMeta {
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

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (value, width, text) in [
            (12.345, 7, "  12.35"),
            (10_234.6, 7, "10234.6"),
            (141_386.0, 7, " 141386"),
            (12_345_678.0, 7, "1.2e+07"),
            (0.0, 6, "  0.00"),
            (1_234.5, 6, "1234.5"),
            (1_234_567.0, 6, " 1e+06"),
        ] {
            assert_eq!(fitting(value, width), text, "{value}");
        }
        for (value, text) in [
            (0.0, "0"),
            (105.32, "105.32"),
            (86.841_23, "86.8412"),
            (341.503, "341.503"),
            (1_000_000.0, "1e+06"),
            (123_456.0, "123456"),
            (0.000_012_5, "1.25e-05"),
            (0.000_125, "0.000125"),
            (f64::NAN, "nan"),
            (999_999.9, "1e+06"),
        ] {
            assert_eq!(general(value), text, "{value}");
        }
    }
}
