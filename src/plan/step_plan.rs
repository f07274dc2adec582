//! [`StepPlan`]: what a training step would take on a number of ranks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde::Serialize;

use super::forecast::{Forecast, Plan};
use crate::{
    collective::Collective,
    exit::{Failure, code_of},
    units::{Bytes, Micros, counted},
    visible::excerpt,
    workload::{Step, StepWork},
};

/// Steps for which GPU-hours are told.
const STEPS: f64 = 1000.0;

/// Microseconds of an hour.
const HOUR_US: f64 = 3.6e9;

/// What a step would take.
#[derive(Clone, Debug, Serialize)]
pub struct StepPlan {
    /// The workload.
    pub workload: String,
    /// Ranks.
    pub ranks: u64,
    /// Its collectives, by kind.
    pub collectives: Vec<StepPlanCollective>,
    /// Computation.
    pub computation_us: Micros,
    /// The sum of the collectives, and its interval.
    pub communication_us: Micros,
    /// Its interval: all of them at their low or at their high ends.
    pub communication_interval_us: Option<[f64; 2]>,
    /// Each operation when those that it waits for have ended, and nothing slows another down.
    pub full_overlap: StepBound,
    /// One operation after another.
    pub no_overlap: StepBound,
    /// What is to be said of it.
    pub remarks: Vec<String>,
}

/// The collectives of one kind in a step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepPlanCollective {
    /// Name of the collective.
    pub collective: String,
    /// Calls.
    pub calls: u64,
    /// The sum of their sizes.
    pub bytes: Bytes,
    /// The sum of their times.
    pub time_us: Micros,
}

/// A bound of the time of a step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepBound {
    /// Time.
    pub step_us: Micros,
    /// Its interval.
    pub step_interval_us: Option<[f64; 2]>,
    /// The part of the step that is longer than its computation.
    pub exposed_share: f64,
    /// Hours of all GPUs together that 1000 steps take.
    pub gpu_hours: f64,
    /// Those of them that communication wastes.
    pub gpu_hours_wasted: f64,
}

impl StepPlan {
    /// Returns what `step` on `ranks` ranks would take by the costs of `plan`.
    ///
    /// # Errors
    /// Returns an error that names the operation if its time cannot be told.
    pub fn new(plan: &Plan, workload: &str, ranks: u64, step: &Step) -> anyhow::Result<StepPlan> {
        let mut forecasts = Vec::new();
        for operation in &step.operations {
            forecasts.push(match &operation.work {
                StepWork::Compute(_) => None,
                StepWork::Collective { case, .. } => {
                    let forecast = plan.forecast(case);
                    let forecast = forecast.map_err(|error| {
                        let name = excerpt(&operation.name);
                        Failure::on_all_ranks(
                            code_of(&error),
                            format!("operation '{name}': {error:#}"),
                        )
                    });
                    Some(forecast?)
                }
            });
        }
        let times = |of: fn(&Forecast) -> Option<f64>| operation_times(step, &forecasts, of);
        let middle = times(|forecast| Some(forecast.time_us.0))
            .context("a time is missing: this is a bug of pxnbench")?;
        let low = times(|forecast| Some(forecast.time_interval_us?[0]));
        let high = times(|forecast| Some(forecast.time_interval_us?[1]));
        let interval = |time_of: fn(&Step, &[f64]) -> f64| {
            let (low, high) = (low.as_ref()?, high.as_ref()?);
            Some([time_of(step, low), time_of(step, high)])
        };
        let computation = step.volume().computation.0;
        let bound = |time_of: fn(&Step, &[f64]) -> f64| {
            let time = time_of(step, &middle);
            StepBound::new(time, interval(time_of), computation, ranks)
        };
        let communication = |_: &Step, times: &[f64]| times.iter().sum::<f64>();
        let sum = communication(step, &middle) - computation;
        Ok(StepPlan {
            workload: workload.to_owned(),
            ranks,
            collectives: by_kind(step, &forecasts),
            computation_us: Micros(computation),
            communication_us: Micros(sum.max(0.0)),
            communication_interval_us: interval(communication)
                .map(|ends| ends.map(|end| (end - computation).max(0.0))),
            full_overlap: bound(longest_path),
            no_overlap: bound(communication),
            remarks: remarks(step, &forecasts),
        })
    }
}

impl StepBound {
    fn new(time: f64, interval: Option<[f64; 2]>, computation: f64, ranks: u64) -> StepBound {
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

/// Returns the time of each operation; `None` if one is unknown.
fn operation_times(
    step: &Step,
    forecasts: &[Option<Forecast>],
    of: fn(&Forecast) -> Option<f64>,
) -> Option<Vec<f64>> {
    let both = step.operations.iter().zip(forecasts);
    both.map(|(operation, forecast)| match (&operation.work, forecast) {
        (StepWork::Compute(time), _) => Some(time.0),
        (StepWork::Collective { .. }, Some(forecast)) => of(forecast),
        (StepWork::Collective { .. }, None) => None,
    })
    .collect()
}

/// Returns when the last operation ends, if each begins when those that it waits for, and the one before it in its stream, have
/// ended.
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

fn by_kind(step: &Step, forecasts: &[Option<Forecast>]) -> Vec<StepPlanCollective> {
    let mut kinds: BTreeMap<Collective, StepPlanCollective> = BTreeMap::new();
    for (operation, forecast) in step.operations.iter().zip(forecasts) {
        let (StepWork::Collective { case, .. }, Some(forecast)) = (&operation.work, forecast)
        else {
            continue;
        };
        let kind = kinds.entry(case.collective).or_default();
        kind.collective = case.collective.name().to_owned();
        kind.calls += 1;
        kind.bytes.0 = kind.bytes.0.saturating_add(case.size().0);
        kind.time_us.0 += forecast.time_us.0;
    }
    kinds.into_values().collect()
}

/// Returns what is to be said: which operations lie outside of what was measured, and which stand for others.
fn remarks(step: &Step, forecasts: &[Option<Forecast>]) -> Vec<String> {
    let mut outside = BTreeMap::<&str, u64>::new();
    let mut stand_ins = BTreeSet::new();
    for (operation, forecast) in step.operations.iter().zip(forecasts) {
        let (StepWork::Collective { case, .. }, Some(forecast)) = (&operation.work, forecast)
        else {
            continue;
        };
        for what in &forecast.extrapolated {
            *outside.entry(what).or_default() += 1;
        }
        let key = &forecast.key;
        let is_same =
            key.dtype == case.dtype && key.redop == case.redop && key.pattern == case.pattern();
        if !is_same {
            let own = super::measurements::SeriesKey::of(case, &case.pattern());
            stand_ins.insert(format!(
                "{} was not measured: the costs of {} stand for it.",
                own.text(),
                key.text()
            ));
        }
    }
    let outside = outside.into_iter().map(|(what, number)| {
        let collectives = counted(number, "collective");
        format!("Extrapolated: the {what} of {collectives} lies outside of what was measured.")
    });
    outside.chain(stand_ins).collect()
}
