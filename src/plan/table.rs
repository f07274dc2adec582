//! A plan as text: costs, times of operations, training steps.

use std::fmt::Write as _;

use super::{
    cost::{Coefficient, Cost},
    forecast::{Forecast, Plan},
    latency::Latency,
    step_plan::{StepBound, StepPlan},
};
use crate::units::{Bytes, Micros};

/// Returns the costs of all series, and the remarks of the plan.
pub fn costs(plan: &Plan) -> String {
    let mut text = String::new();
    if let Some(conditions) = &plan.conditions {
        let _ = writeln!(
            text,
            "# Measured with backend {}, level {}, network {}, resources {}",
            conditions.backend, conditions.level, conditions.network, conditions.resources
        );
    }
    let _ = writeln!(
        text,
        "# Costs: time = constant + latency * steps + bus bytes / bandwidth; {} % intervals in \
         brackets",
        percent(plan.rate)
    );
    let _ = writeln!(
        text,
        "# {:<14} {:>8} {:>6} {:>15} {:>5} {:>28} {:>5} {:>28} {:>28} {:>20}",
        "collective",
        "type",
        "redop",
        "sizes",
        "rows",
        "constant(us)",
        "steps",
        "latency(us)",
        "bandwidth(GB/s)",
        "residuals(%)",
    );
    for cost in plan.costs() {
        write_cost(&mut text, &cost);
    }
    text.push_str("# residuals: median and largest, of rows that were held out of the fit\n");
    for remark in &plan.remarks {
        let _ = writeln!(text, "# {remark}");
    }
    text
}

fn write_cost(text: &mut String, cost: &Cost) {
    let steps = match cost.latency {
        Some(Latency::Tree) => "tree",
        Some(Latency::Ring) => "ring",
        None => "-",
    };
    let residuals = match (cost.residual_median_pct, cost.residual_largest_pct) {
        (Some(median), Some(largest)) => format!("{median:.2} {largest:.2}"),
        _ => "-".to_owned(),
    };
    let _ = writeln!(
        text,
        "  {:<14} {:>8} {:>6} {:>15} {:>5} {:>28} {:>5} {:>28} {:>28} {:>20}",
        cost.key.collective.name(),
        cost.key.dtype.name(),
        cost.key.redop_name(),
        format!("{}-{}", cost.first_bytes, cost.last_bytes),
        cost.rows,
        coefficient(cost.constant_us),
        steps,
        coefficient(cost.step_us),
        coefficient(cost.bandwidth),
        residuals,
    );
}

/// Returns the times of operations.
pub fn forecasts(forecasts: &[Forecast]) -> String {
    let mut text = format!(
        "# {:<14} {:>8} {:>6} {:>6} {:>13} {:>12} {:>24} {:>12} {:>20} {:>10} {:>12} {}\n",
        "collective",
        "type",
        "redop",
        "ranks",
        "size(B)",
        "time(us)",
        "interval",
        "busbw(GB/s)",
        "interval",
        "NCCL(us)",
        "measured(us)",
        " extrapolated",
    );
    for forecast in forecasts {
        let micros = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), number);
        let extrapolated = match forecast.extrapolated.as_slice() {
            [] => String::new(),
            what => format!("  {}", what.join("+")),
        };
        let _ = writeln!(
            text,
            "  {:<14} {:>8} {:>6} {:>6} {:>13} {:>12} {:>24} {:>12} {:>20} {:>10} {:>12}{}",
            forecast.key.collective.name(),
            forecast.key.dtype.name(),
            forecast.key.redop_name(),
            forecast.ranks,
            forecast.size_bytes.0,
            number(forecast.time_us.0),
            interval(forecast.time_interval_us),
            number(forecast.busbw.0),
            interval(forecast.busbw_interval),
            micros(forecast.nccl_us.map(|time| time.0)),
            micros(forecast.measured_us.map(|time| time.0)),
            extrapolated,
        );
    }
    text
}

/// Returns what a training step would take.
pub fn step(step: &StepPlan) -> String {
    let mut text = format!(
        "# Step of {} on {} ranks: {} ms of computation, {} ms of communication{}\n",
        crate::visible::excerpt(&step.workload),
        step.ranks,
        milliseconds(step.computation_us.0),
        milliseconds(step.communication_us.0),
        bracketed(in_milliseconds(step.communication_interval_us)),
    );
    if !step.collectives.is_empty() || step.copies.is_some() {
        let _ = writeln!(
            text,
            "# {:<14} {:>7} {:>16} {:>12}",
            "communication", "calls", "bytes", "time(ms)"
        );
    }
    for kind in &step.collectives {
        let name = &kind.collective;
        write_communication(&mut text, name, kind.calls, kind.bytes, kind.time_us);
    }
    if let Some(copies) = &step.copies {
        let (number, bytes) = (copies.pieces, copies.bytes);
        write_communication(&mut text, "copies", number, bytes, copies.time_us);
    }
    let _ = writeln!(
        text,
        "# {:<14} {:>12} {:>24} {:>10} {:>22} {:>10}",
        "overlap", "step(ms)", "interval", "exposed(%)", "GPU-hours/1000 steps", "wasted"
    );
    write_bound(&mut text, "full", &step.full_overlap);
    write_bound(&mut text, "none", &step.no_overlap);
    for remark in &step.remarks {
        let _ = writeln!(text, "# {remark}");
    }
    text
}

fn write_communication(text: &mut String, name: &str, calls: u64, bytes: Bytes, time: Micros) {
    let _ = writeln!(
        text,
        "  {name:<14} {calls:>7} {:>16} {:>12}",
        bytes.0,
        milliseconds(time.0)
    );
}

fn write_bound(text: &mut String, name: &str, bound: &StepBound) {
    let _ = writeln!(
        text,
        "  {:<14} {:>12} {:>24} {:>10.1} {:>22} {:>10}",
        name,
        milliseconds(bound.step_us.0),
        interval(in_milliseconds(bound.step_interval_us)),
        100.0 * bound.exposed_share,
        number(bound.gpu_hours),
        number(bound.gpu_hours_wasted),
    );
}

fn in_milliseconds(interval: Option<[f64; 2]>) -> Option<[f64; 2]> {
    interval.map(|ends| ends.map(|end| end / 1e3))
}

fn milliseconds(micros: f64) -> String {
    number(micros / 1e3)
}

fn percent(rate: f64) -> String {
    number(100.0 * rate)
}

/// Returns a number with four significant digits.
fn number(value: f64) -> String {
    let value = crate::units::significant(value, 4);
    if value == 0.0 || (1e-3..1e9).contains(&value.abs()) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

fn interval(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some([low, high]) => format!("{} to {}", number(low), number(high)),
        None => "-".to_owned(),
    }
}

fn bracketed(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some(ends) => format!(" ({})", interval(Some(ends))),
        None => String::new(),
    }
}

fn coefficient(coefficient: Option<Coefficient>) -> String {
    match coefficient {
        Some(Coefficient {
            value,
            interval: ends,
        }) => number(value) + &bracketed(ends),
        None => "-".to_owned(),
    }
}
