//! nccl-tests' table (version 2.19.6): header, rows, footer, number formats, so that what reads its output reads ours.
//!
//! Pure: strings from values. Differences, each a comment line or a column at the end of a row (`docs/ARCHITECTURE.md` has them): the version line names
//! this program, `# Waived` lines say what could not run, and a computed time is marked `computed`.

use crate::{
    record::{ProcessMeta, Record, RunMeta, Status},
    sweep::plan::{Ask, Step},
    units::Bytes,
};

/// Numbers of the command line that the table's head repeats.
pub struct Head<'a> {
    /// What was asked for.
    pub ask: &'a Ask,
    /// Timed operations.
    pub iters: u32,
    /// Untimed operations.
    pub warmup: u32,
    /// Checks.
    pub checks: u32,
    /// The largest size that fits, where it is less than what was asked for.
    pub reduced_to: Option<Bytes>,
}

/// Everything above the first row of a collective.
pub fn head(collective: &str, run: &RunMeta, head: &Head) -> String {
    let Ask { begin, end, step, .. } = head.ask;
    let (step, kind) = match step {
        Step::Factor(factor) => (*factor, "factor"),
        Step::Add(bytes) => (bytes.0, "bytes"),
    };
    let library = run.versions.get("nccl").and_then(|version| nccl_code(version));
    let library = library.map_or(String::new(), |code| format!(" nccl-library={code}"));
    let mut text = format!(
        "# pxnbench version {} backend={}{library}\n\
         # Collective test starting: {collective}_perf\n\
         # nThread 1 nGpus 1 minBytes {} maxBytes {} step: {step}({kind}) warmup iters: {} iters: {} agg iters: 1 \
         validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
        run.pxnbench, run.backend, begin.0, end.0, head.warmup, head.iters, head.checks
    );
    run.processes.iter().for_each(|process| text.push_str(&device_line(process)));
    if run.backend == "model" {
        text.push_str(&format!("#\n# Computed for {} ranks, not measured\n", run.ranks));
    }
    if let Some(reduced) = head.reduced_to {
        text.push_str(&format!("#\n# Reducing maxBytes to {} due to memory limitation\n", reduced.0));
    }
    text.push_str(COLUMNS);
    text
}

/// NCCL's number for a version such as `2.28.3`: 22803, as nccl-tests prints it.
fn nccl_code(version: &str) -> Option<u32> {
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [major, minor, patch] = parts[..] else { return None };
    Some(major * 10_000 + minor * 100 + patch)
}

/// The three lines above the rows; each ends with a space, as in nccl-tests.
const COLUMNS: &str = concat!(
    "#\n",
    "#                                                              out-of-place                       in-place          \n",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n",
);

fn device_line(process: &ProcessMeta) -> String {
    let device = &process.device;
    format!(
        "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n",
        process.rank, 0, process.pid, process.host, device.index, device.bus, device.name
    )
}

/// One row: a case out of place and in place. Where one of the two did not run, its columns are `N/A`.
pub fn row(out_of_place: &Record, in_place: &Record) -> String {
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
        text.push_str(&half(record));
    }
    if [out_of_place, in_place].iter().any(|record| record.status == Status::Computed) {
        text.push_str("  computed");
    }
    text.push('\n');
    text
}

/// The four columns of one placement.
fn half(record: &Record) -> String {
    let (Some(time), Some((algbw, busbw))) = (record.time, record.bandwidth()) else {
        return format!("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    };
    let numbers = format!("  {}  {}  {}", fitting(time.0, 7), fitting(algbw.0, 6), fitting(busbw.0, 6));
    match record.wrong {
        Some(wrong) => format!("{numbers}  {:>6}", general(wrong as f64)),
        // One column narrower than a number, as in nccl-tests.
        None => format!("{numbers}    N/A"),
    }
}

/// Everything below the last row of a collective.
pub fn foot(collective: &str, failed_checks: u64, average: Option<f64>) -> String {
    let verdict = if failed_checks == 0 { "OK" } else { "FAILED" };
    let average = average.map_or("nan".to_owned(), general);
    format!(
        "# Out of bounds values : {failed_checks} {verdict}\n# Avg bus bandwidth    : {average} \n#\n\
         # Collective test concluded: {collective}_perf\n#\n\n"
    )
}

/// A number in `width` columns, right aligned: with two decimals, else one, else none, else as a power of ten.
fn fitting(value: f64, width: usize) -> String {
    let plain = (0..=2).rev().map(|decimals| format!("{value:.decimals$}")).find(|text| text.len() <= width);
    let text = plain.unwrap_or_else(|| {
        let short = exponent(value, 1);
        if short.len() <= width { short } else { exponent(value, 0) }
    });
    format!("{text:>width$}")
}

/// C's `%.{decimals}e`: Rust writes no sign and no leading zero in the exponent.
fn exponent(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// C's `%g`: six significant digits, no trailing zeros, an exponent where the number is very large or small.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let rounded = exponent(value, 5);
    let power: i32 = rounded.rsplit('e').next().and_then(|power| power.parse().ok()).unwrap_or(0);
    if !(-4..6).contains(&power) {
        let (mantissa, tail) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
        return format!("{}e{tail}", trimmed(mantissa));
    }
    trimmed(&format!("{value:.*}", (5 - power).max(0) as usize)).to_owned()
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

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
