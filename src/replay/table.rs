//! The result of a replay as text.

use std::fmt::Write;

use super::{
    exposure::Exposure,
    kind::CollectiveKind,
    parts::{CommunicationPart, CommunicationParts},
    proof::{KindProof, ReplayProof},
    result::ReplayResult,
};
use crate::{
    backend::step::StepMode,
    units::{Bytes, GBps, Micros, counted},
    workload::Step,
};

/// Returns the table: the step in each mode, exposed communication, what copies take, and each kind
/// of collective, with what NCCL's logs show if there is a `proof`.
pub fn text(step: &Step, result: &ReplayResult, proof: Option<&ReplayProof>) -> String {
    let mut text = String::new();
    write_modes(&mut text, result);
    write_exposure(&mut text, result);
    write_parts(&mut text, &CommunicationParts::of(step, result));
    write_collectives(&mut text, step, result, proof);
    text
}

fn write_modes(text: &mut String, result: &ReplayResult) {
    let _ = writeln!(
        text,
        "# {:<14} {:>12} {:>12} {:>12}",
        "step", "median(ms)", "25 %(ms)", "75 %(ms)"
    );
    for mode in StepMode::ALL {
        let Some(times) = result.times(mode) else {
            continue;
        };
        let _ = writeln!(
            text,
            "  {:<14} {:>12} {:>12} {:>12}   {}",
            mode.name(),
            milliseconds(times.median_us),
            milliseconds(times.first_us),
            milliseconds(times.third_us),
            mode.note(),
        );
    }
}

fn write_exposure(text: &mut String, result: &ReplayResult) {
    let Some(exposure) = Exposure::of(result) else {
        return;
    };
    let _ = write!(
        text,
        "# exposed communication: {} ms, {:.1} % of the step",
        milliseconds(exposure.time_us),
        100.0 * exposure.share,
    );
    let interval = match exposure.share_interval {
        Some([low, high]) => format!(
            " (95 % interval {:.1} to {:.1} %)",
            100.0 * low,
            100.0 * high
        ),
        None => String::new(),
    };
    let _ = writeln!(text, "{interval}");
}

/// Writes what collectives and copies take, if there are copies.
fn write_parts(text: &mut String, parts: &CommunicationParts) {
    let CommunicationParts {
        collectives,
        copies,
    } = parts;
    if copies.count == 0 {
        return;
    }
    let _ = write!(text, "# of the communication: ");
    if collectives.count > 0 {
        let number = counted(collectives.count, "collective");
        let _ = write!(text, "{number} {}; ", part_times(collectives));
    }
    let number = counted(copies.count, "copy");
    let _ = writeln!(text, "{number} {}", part_times(copies));
}

fn part_times(part: &CommunicationPart) -> String {
    let time = |time: Option<Micros>| time.map_or_else(|| "-".into(), milliseconds);
    format!(
        "{} ms alone, {} ms in the step",
        time(part.alone_us),
        time(part.in_step_us)
    )
}

fn write_collectives(
    text: &mut String,
    step: &Step,
    result: &ReplayResult,
    proof: Option<&ReplayProof>,
) {
    let kinds = CollectiveKind::of_step(step, result);
    if kinds.is_empty() {
        let _ = writeln!(text, "# no collectives: no group has more than one rank");
        return;
    }
    let _ = write!(
        text,
        "# {:<14} {:>12} {:>8} {:>6} {:<16} {:>5} {:>6} {:>11} {:>12} {:>11} {:>12}",
        "collective",
        "size(B)",
        "type",
        "redop",
        "group",
        "ranks",
        "count",
        "alone(us)",
        "busbw(GB/s)",
        "in step(us)",
        "busbw(GB/s)",
    );
    let _ = match proof {
        Some(_) => writeln!(text, " {:>11} {:>13}", "pxn", "relayed sends"),
        None => writeln!(text),
    };
    for kind in &kinds {
        let case = &kind.case;
        let _ = write!(
            text,
            "  {:<14} {:>12} {:>8} {:>6} {:<16} {:>5} {:>6} {:>11} {:>12} {:>11} {:>12}",
            case.collective.name(),
            case.size().0,
            case.dtype.name(),
            case.redop.map_or("none", |redop| redop.name()),
            kind.group,
            case.ranks,
            kind.operations.len(),
            microseconds(kind.alone),
            bandwidth(kind.busbw(kind.alone)),
            microseconds(kind.in_step),
            bandwidth(kind.busbw(kind.in_step)),
        );
        let _ = match proof {
            Some(proof) => writeln!(text, "{}", proof_cells(&proof.of(step, kind))),
            None => writeln!(text),
        };
    }
}

/// Returns two cells: the verdict, and how many of the connections that send over a network are
/// relayed.
fn proof_cells(proof: &KindProof) -> String {
    let sends = match proof.sends {
        Some(sends) => format!("{} of {}", sends.relayed, sends.sends),
        None => "-".into(),
    };
    format!(" {:>11} {sends:>13}", proof.pxn.label())
}

/// Returns the line about the check: how many kinds of collectives were checked, and which had
/// wrong elements.
pub fn verification(result: &ReplayResult) -> String {
    if result.checked == 0 {
        return "# Data not checked".into();
    }
    let checked = counted(u64::from(result.checked), "kind");
    if result.wrong == 0 {
        return format!("# Out of bounds values : 0 OK, {checked} of collectives checked");
    }
    format!(
        "# Out of bounds values : {} FAILED, {checked} of collectives checked, wrong: {}",
        result.wrong,
        result.wrong_operations.join(", "),
    )
}

/// Returns the lines above the table: what is replayed. `about` becomes a single line, so that each
/// line begins with `#`.
pub fn head(name: &str, about: &str, step: &Step) -> String {
    let volume = step.volume();
    let collectives = volume.all_collectives();
    let copies = match volume.copies.pieces {
        0 => String::new(),
        pieces => format!(
            ", {} of {} MB",
            counted(pieces, "copy"),
            megabytes(volume.copies.bytes)
        ),
    };
    let mut words = about.split_whitespace().peekable();
    let separator = if words.peek().is_some() { ": " } else { "" };
    let about = words.collect::<Vec<&str>>().join(" ");
    format!(
        "# Replay of {name}{separator}{about}\n# Per step and rank: {} ms of computation, {} of \
         {} MB in {}{copies}\n",
        milliseconds(volume.computation),
        counted(collectives.calls, "collective"),
        megabytes(collectives.bytes),
        counted(step.communicators.len() as u64, "communicator"),
    )
}

fn megabytes(bytes: Bytes) -> String {
    format!("{:.3}", bytes.0 as f64 / 1e6)
}

fn milliseconds(time: Micros) -> String {
    format!("{:.3}", time.0 / 1e3)
}

fn microseconds(time: Option<Micros>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.2}", time.0))
}

fn bandwidth(busbw: Option<GBps>) -> String {
    busbw.map_or_else(|| "-".into(), |busbw| format!("{:.2}", busbw.0))
}
