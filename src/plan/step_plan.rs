//! [`StepPlan`]: what a training step would take on a number of ranks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    copies::{PlannedCopies, assumed_time},
    forecast::{Forecast, Plan},
    measurements::SeriesKey,
};
use crate::{
    collective::{Case, Collective},
    exit::{Failure, code_of},
    units::{Bytes, Micros, counted},
    visible::excerpt,
    workload::{Step, StepOperation, StepWork},
};

/// The number of steps whose GPU-hours are reported.
const STEPS: f64 = 1000.0;

/// Microseconds in an hour.
const HOUR_US: f64 = 3.6e9;

/// What a training step would take.
#[derive(Clone, Debug, Serialize)]
pub struct StepPlan {
    /// The workload's name.
    pub workload: String,
    /// The number of ranks.
    pub ranks: u64,
    /// The collectives of the step, by kind.
    pub collectives: Vec<StepPlanCollective>,
    /// Its copies within memory, which are part of communication; `None` if it has none.
    pub copies: Option<PlannedCopies>,
    /// The time of all computation.
    pub computation_us: Micros,
    /// The time of all collectives and copies, one after another.
    pub communication_us: Micros,
    /// The interval of that time, with all collectives at their low and all at their high ends;
    /// `None` if one has no interval.
    pub communication_interval_us: Option<[f64; 2]>,
    /// The step if each operation begins as early as it can, and none slows another down.
    pub full_overlap: StepBound,
    /// The step if its operations run one after another.
    pub no_overlap: StepBound,
    /// Remarks for the user, a sentence each.
    pub remarks: Vec<String>,
}

/// The collectives of one kind in a step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepPlanCollective {
    /// The collective's name.
    pub collective: String,
    /// The number of calls.
    pub calls: u64,
    /// The sum of their sizes as nccl-tests counts them.
    pub bytes: Bytes,
    /// The sum of their times.
    pub time_us: Micros,
}

/// A bound of the time of a step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepBound {
    /// The time of the step.
    pub step_us: Micros,
    /// Its interval; `None` if an operation has none.
    pub step_interval_us: Option<[f64; 2]>,
    /// The share of the step, from 0 to 1, by which it is longer than its computation.
    pub exposed_share: f64,
    /// GPU-hours of 1000 steps: the time of the steps times the number of ranks.
    pub gpu_hours: f64,
    /// The exposed share of these GPU-hours.
    pub gpu_hours_wasted: f64,
}

impl StepPlan {
    /// Returns what `step` on `ranks` ranks would take by the costs of `plan`.
    ///
    /// # Errors
    /// Returns an error that names the operation if its time cannot be predicted.
    pub fn new(plan: &Plan, workload: &str, ranks: u64, step: &Step) -> anyhow::Result<StepPlan> {
        let mut times = PlannedTimes::default();
        let mut collectives = Vec::new();
        for operation in &step.operations {
            match &operation.work {
                StepWork::Compute(time) => times.add(time.0, Some([time.0; 2])),
                StepWork::Copies(copies) => {
                    let time = assumed_time(copies).0;
                    times.add(time, Some([time; 2]));
                }
                StepWork::Collective { case, .. } => {
                    let forecast = forecast(plan, operation, case)?;
                    times.add(forecast.time_us.0, forecast.time_interval_us);
                    collectives.push((case, forecast));
                }
            }
        }
        let copies = PlannedCopies::of(step);
        let mut remarks = remarks(&collectives);
        remarks.extend(copies.as_ref().map(PlannedCopies::remark));
        let computation = step.volume().computation.0;
        let bound = |time: fn(&Step, &[f64]) -> f64| {
            StepBound::new(times.of_step(step, time), computation, ranks)
        };
        let (sum, sum_interval) = times.of_step(step, one_after_another);
        let communication = |sum: f64| (sum - computation).max(0.0);
        Ok(StepPlan {
            workload: workload.to_owned(),
            ranks,
            collectives: by_kind(&collectives),
            copies,
            computation_us: Micros(computation),
            communication_us: Micros(communication(sum)),
            communication_interval_us: sum_interval.map(|ends| ends.map(communication)),
            full_overlap: bound(longest_path),
            no_overlap: bound(one_after_another),
            remarks,
        })
    }
}

/// Returns the time of a collective of a step.
fn forecast(plan: &Plan, operation: &StepOperation, case: &Case) -> anyhow::Result<Forecast> {
    plan.forecast(case).map_err(|error| {
        let name = excerpt(&operation.name);
        Failure::on_all_ranks(code_of(&error), format!("operation '{name}': {error:#}"))
    })
}

/// The times of all operations of a step, in us.
struct PlannedTimes {
    predicted: Vec<f64>,
    /// The low and the high ends of their intervals; `None` if an operation has no interval.
    ends: Option<[Vec<f64>; 2]>,
}

impl Default for PlannedTimes {
    fn default() -> PlannedTimes {
        PlannedTimes {
            predicted: Vec::new(),
            ends: Some([Vec::new(), Vec::new()]),
        }
    }
}

impl PlannedTimes {
    /// Adds the time of the next operation.
    fn add(&mut self, time: f64, interval: Option<[f64; 2]>) {
        self.predicted.push(time);
        match (&mut self.ends, interval) {
            (Some([lows, highs]), Some([low, high])) => {
                lows.push(low);
                highs.push(high);
            }
            _ => self.ends = None,
        }
    }

    /// Returns the time of the step, and its interval: with all operations at their low ends, and
    /// with all at their high ends. `time` returns the time of a step from those of its operations.
    fn of_step(&self, step: &Step, time: fn(&Step, &[f64]) -> f64) -> (f64, Option<[f64; 2]>) {
        let ends = self.ends.as_ref();
        let interval = ends.map(|[lows, highs]| [time(step, lows), time(step, highs)]);
        (time(step, &self.predicted), interval)
    }
}

impl StepBound {
    /// Returns the bound with this time and interval, in us as the time of the computation.
    fn new((time, interval): (f64, Option<[f64; 2]>), computation: f64, ranks: u64) -> StepBound {
        let exposed = (time - computation).max(0.0);
        let hours = |time: f64| time * STEPS * ranks as f64 / HOUR_US;
        StepBound {
            step_us: Micros(time),
            step_interval_us: interval,
            exposed_share: if time > 0.0 { exposed / time } else { 0.0 },
            gpu_hours: hours(time),
            gpu_hours_wasted: hours(exposed),
        }
    }
}

/// Returns the time of a step whose operations run one after another.
fn one_after_another(_: &Step, times: &[f64]) -> f64 {
    times.iter().sum()
}

/// Returns the time of a step in which each operation begins when those that it waits for, and the
/// one before it in its stream, have ended.
fn longest_path(step: &Step, times: &[f64]) -> f64 {
    let mut ends: Vec<f64> = Vec::new();
    let mut streams = vec![0.0_f64; step.streams.len()];
    for (operation, time) in step.operations.iter().zip(times) {
        let waits = operation.after.iter().map(|before| ends[*before]);
        let end = waits.fold(streams[operation.stream], f64::max) + time;
        streams[operation.stream] = end;
        ends.push(end);
    }
    ends.into_iter().fold(0.0, f64::max)
}

fn by_kind(collectives: &[(&Case, Forecast)]) -> Vec<StepPlanCollective> {
    let mut kinds: BTreeMap<Collective, StepPlanCollective> = BTreeMap::new();
    for (case, forecast) in collectives {
        let kind = kinds.entry(case.collective).or_default();
        kind.collective = case.collective.name().to_owned();
        kind.calls += 1;
        kind.bytes.0 = kind.bytes.0.saturating_add(case.size().0);
        kind.time_us.0 += forecast.time_us.0;
    }
    kinds.into_values().collect()
}

/// Returns a sentence for each way in which collectives are beyond what was measured, and for each
/// series that stands for another.
fn remarks(collectives: &[(&Case, Forecast)]) -> Vec<String> {
    let mut outside = BTreeMap::<&str, u64>::new();
    let mut stand_ins = BTreeSet::new();
    for (case, forecast) in collectives {
        for what in &forecast.extrapolated {
            *outside.entry(what).or_default() += 1;
        }
        let own = SeriesKey::of(case, &case.pattern());
        if forecast.key != own {
            stand_ins.insert(format!(
                "{} was not measured: the costs of {} stand for it.",
                own.text(),
                forecast.key.text()
            ));
        }
    }
    let mut remarks = Vec::new();
    for (what, number) in outside {
        let collectives = counted(number, "collective");
        remarks.push(format!(
            "Extrapolated: the {what} of {collectives} lies outside of what was measured."
        ));
    }
    remarks.extend(stand_ins);
    remarks
}
