//! [`Plan`]: all fits, and [`Forecast`]: what they say of one operation, or why they cannot.

use serde::Serialize;

use super::{
    cost::{Cost, CostFit, FEWEST_SIZES},
    measurements::{Conditions, Measurements, SeriesKey, bus_bytes},
};
use crate::{
    collective::{BufferMode, Case, CaseShape},
    exit::{Code, Failure},
    units::{Bytes, GBps, Micros, counted},
};

/// How many times the measured ranks may be planned for.
const MOST_TIMES_RANKS: u64 = 8;

/// How many times the largest measured size may be planned for.
const MOST_TIMES_SIZE: u64 = 16;

/// The costs of all series.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was measured under which conditions; `None` if that is unknown.
    pub conditions: Option<Conditions>,
    /// The probability that intervals are made for.
    pub rate: f64,
    /// The costs, in the order in which the series were measured.
    pub fits: Vec<CostFit>,
    /// What is to be said of runs and fits.
    pub remarks: Vec<String>,
}

/// What an operation would take.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The series whose costs were used.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// Ranks.
    pub ranks: u64,
    /// Size as nccl-tests counts it.
    pub size_bytes: Bytes,
    /// Time.
    pub time_us: Micros,
    /// Its interval; `None` if too little was measured to tell it.
    pub time_interval_us: Option<[f64; 2]>,
    /// busbw.
    #[serde(rename = "busbw_GBps")]
    pub busbw: GBps,
    /// Its interval.
    #[serde(rename = "busbw_interval_GBps")]
    pub busbw_interval: Option<[f64; 2]>,
    /// What NCCL's model predicts, if a row of this size and number of ranks has it.
    pub nccl_us: Option<Micros>,
    /// The mean of what was measured, if this was.
    pub measured_us: Option<Micros>,
    /// In what it lies outside of what was measured: `ranks`, `size`.
    pub extrapolated: Vec<&'static str>,
}

impl Plan {
    /// Fits the costs of all series.
    ///
    /// # Errors
    /// Returns an error if no series has enough sizes.
    pub fn fit(measurements: Measurements, rate: f64) -> anyhow::Result<Plan> {
        let mut plan = Plan {
            conditions: measurements.conditions,
            rate,
            fits: Vec::new(),
            remarks: measurements.remarks,
        };
        for series in &measurements.series {
            match CostFit::new(series, rate) {
                Some(fit) => plan.fits.push(fit),
                None => plan.remarks.push(format!(
                    "{} was measured at fewer than {FEWEST_SIZES} sizes and is left out.",
                    series.key.text()
                )),
            }
        }
        if plan.fits.is_empty() {
            let what = format!(
                "no collective was measured at {FEWEST_SIZES} sizes or more: nothing to fit. Measure more sizes (-b, -e, -f)"
            );
            return Err(Failure::on_all_ranks(Code::NothingRan, what));
        }
        plan.remark_on_fits();
        Ok(plan)
    }

    fn remark_on_fits(&mut self) {
        let numbers = |fit: &CostFit| fit.measured_ranks().len();
        let is_any = |number: usize| self.fits.iter().any(|fit| numbers(fit) == number);
        let mut remarks = Vec::new();
        if is_any(2) {
            remarks.push(
                "Two numbers of ranks do not tell how latency grows; it is taken to grow as along a tree, and intervals are those of the measured numbers."
                    .to_owned(),
            );
        }
        if is_any(1) {
            remarks.push(
                "With one number of ranks, latency is part of the constant, and no other number can be planned for."
                    .to_owned(),
            );
        }
        self.remarks.append(&mut remarks);
    }

    /// Returns all costs, by series and range of sizes.
    pub fn costs(&self) -> Vec<Cost> {
        self.fits.iter().flat_map(CostFit::costs).collect()
    }

    /// Returns what `case` would take. `pattern` is the traffic of an alltoallv. If its series was not measured, the one of the
    /// same collective whose type and reduction are nearest stands for it.
    ///
    /// # Errors
    /// Returns an error if its collective was not measured, or if the case is too far from what was.
    pub fn forecast(&self, case: &Case) -> anyhow::Result<Forecast> {
        let fit = self.fit_of(case)?;
        check_reach(fit, case)?;
        Ok(forecast(fit, case))
    }

    /// Returns what an operation of `fit` would take at a size on so many ranks.
    ///
    /// # Errors
    /// Returns an error if that is too far from what was measured.
    pub fn forecast_of(&self, fit: &CostFit, size: Bytes, ranks: u64) -> anyhow::Result<Forecast> {
        let key = &fit.key;
        let shape = CaseShape {
            collective: key.collective,
            dtype: key.dtype,
            redop: key.redop,
            root: key.collective.spec().rooted.then_some(0),
            buffer_mode: BufferMode::OutOfPlace,
            ranks,
        };
        let case = shape.nearest(size);
        if let Some(why) = case.impossible() {
            return Err(Failure::on_all_ranks(Code::Usage, why));
        }
        check_reach(fit, &case)?;
        Ok(forecast(fit, &case))
    }

    fn fit_of(&self, case: &Case) -> anyhow::Result<&CostFit> {
        let own = SeriesKey::of(case, &case.pattern());
        let of_collective = self
            .fits
            .iter()
            .filter(|fit| fit.key.collective == case.collective);
        let distance = |fit: &&CostFit| {
            let key = &fit.key;
            let element = key.dtype.size().abs_diff(own.dtype.size());
            let is_other = (key.pattern != own.pattern, key.redop != own.redop);
            (is_other, element, key.dtype != own.dtype)
        };
        of_collective.min_by_key(distance).ok_or_else(|| {
            let name = case.collective.name();
            let what = format!(
                "no run measured {name} at enough sizes, so its time cannot be told. Measure it: pxnbench {name}"
            );
            Failure::on_all_ranks(Code::Usage, what)
        })
    }
}

impl SeriesKey {
    /// Returns the series as messages name it: `all_reduce float sum`.
    pub fn text(&self) -> String {
        let mut words = vec![self.collective.name(), self.dtype.name()];
        if self.redop.is_some() {
            words.push(self.redop_name());
        }
        if !self.pattern.is_empty() {
            words.push(&self.pattern);
        }
        words.join(" ")
    }
}

/// Refuses a case that is too far from what was measured.
fn check_reach(fit: &CostFit, case: &Case) -> anyhow::Result<()> {
    let (sizes, numbers) = (fit.measured_sizes(), fit.measured_ranks());
    let refuse = |what: String| Err(Failure::on_all_ranks(Code::Usage, what));
    let text = fit.key.text();
    let most = numbers.last().copied().unwrap_or_default();
    if numbers.len() == 1 && !numbers.contains(&case.ranks) {
        return refuse(format!(
            "{text} was measured on {} only, which cannot tell its time on {}. Measure it on another number of ranks too",
            counted(most, "rank"),
            case.ranks
        ));
    }
    if case.ranks > most.saturating_mul(MOST_TIMES_RANKS) {
        return refuse(format!(
            "{text} was measured on up to {}, and {} are more than {MOST_TIMES_RANKS} times as many. Measure it on at least {}",
            counted(most, "rank"),
            case.ranks,
            case.ranks.div_ceil(MOST_TIMES_RANKS)
        ));
    }
    let largest = sizes.last().copied().unwrap_or_default();
    if case.size().0 > largest.0.saturating_mul(MOST_TIMES_SIZE) {
        return refuse(format!(
            "{text} was measured up to {largest}, and {} is more than {MOST_TIMES_SIZE} times as large. Measure it up to at least {}",
            case.size(),
            Bytes(case.size().0.div_ceil(MOST_TIMES_SIZE))
        ));
    }
    Ok(())
}

fn forecast(fit: &CostFit, case: &Case) -> Forecast {
    let (size, bytes) = (case.size(), bus_bytes(case));
    let (time, interval) = fit.time(size, case.ranks, bytes);
    let busbw = |time: f64| bytes / time / 1e3;
    let mut extrapolated = Vec::new();
    let (sizes, numbers) = (fit.measured_sizes(), fit.measured_ranks());
    let is_in =
        |low: Option<u64>, high: Option<u64>, value: u64| low <= Some(value) && Some(value) <= high;
    if !is_in(
        numbers.first().copied(),
        numbers.last().copied(),
        case.ranks,
    ) {
        extrapolated.push("ranks");
    }
    let (low, high) = (
        sizes.first().map(|size| size.0),
        sizes.last().map(|size| size.0),
    );
    if !is_in(low, high, size.0) {
        extrapolated.push("size");
    }
    let same = || {
        let points = fit.points.iter();
        points.filter(|point| point.size == size && point.ranks == case.ranks)
    };
    let mean = |values: Vec<f64>| {
        let count = values.len();
        (count > 0).then(|| Micros(values.iter().sum::<f64>() / count as f64))
    };
    Forecast {
        key: fit.key.clone(),
        ranks: case.ranks,
        size_bytes: size,
        time_us: time,
        time_interval_us: interval,
        busbw: GBps(busbw(time.0)),
        busbw_interval: interval.map(|[low, high]| [busbw(high), busbw(low)]),
        nccl_us: mean(
            same()
                .filter_map(|point| Some(point.predicted?.0))
                .collect(),
        ),
        measured_us: mean(same().map(|point| point.time.0).collect()),
        extrapolated,
    }
}
