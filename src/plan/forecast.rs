//! [`Plan`]: the fits of all series, and [`Forecast`]: what they predict for one operation.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    cost::{Cost, CostFit, FEWEST_SIZES},
    measurements::{Conditions, Measurements, Point, SeriesKey, bus_bytes},
};
use crate::{
    collective::{BufferMode, Case, CaseShape},
    exit::{Code, Failure},
    units::{Bytes, GBps, Micros, counted},
};

/// The most ranks of a forecast, as a multiple of the largest measured number.
const MOST_TIMES_RANKS: u64 = 8;

/// The largest size of a forecast, as a multiple of the largest measured one.
const MOST_TIMES_SIZE: u64 = 16;

/// What is said if a series was measured on two numbers of ranks.
const ON_TWO_NUMBERS: &str = "Two numbers of ranks do not tell how latency grows; it is taken to \
                              grow as along a tree, and intervals are those of the measured \
                              numbers.";

/// What is said if a series was measured on one number of ranks.
const ON_ONE_NUMBER: &str = "With one number of ranks, latency is part of the constant, and no \
                             other number can be planned for.";

/// The fitted costs of all series.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The conditions under which all runs were measured; `None` if they are unknown.
    pub conditions: Option<Conditions>,
    /// The probability of intervals, such as 0.9.
    pub rate: f64,
    /// The fits, in the order in which the series were measured.
    pub fits: Vec<CostFit>,
    /// Remarks on the runs and the fits for the user, a sentence each.
    pub remarks: Vec<String>,
}

/// What an operation would take.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The series whose costs were used.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The number of ranks.
    pub ranks: u64,
    /// The size as nccl-tests counts it.
    pub size_bytes: Bytes,
    /// The predicted time.
    pub time_us: Micros,
    /// The interval of the time; `None` if too few points were measured for one.
    pub time_interval_us: Option<[f64; 2]>,
    /// The busbw at the predicted time.
    #[serde(rename = "busbw_GBps")]
    pub busbw: GBps,
    /// The interval of busbw.
    #[serde(rename = "busbw_interval_GBps")]
    pub busbw_interval: Option<[f64; 2]>,
    /// The mean time that NCCL's own model predicts in rows of this size and number of ranks;
    /// `None` if no row has it.
    pub nccl_us: Option<Micros>,
    /// The mean measured time of rows of this size and number of ranks; `None` if there is no row.
    pub measured_us: Option<Micros>,
    /// `ranks` and `size`, as far as they lie outside of those that were measured.
    pub extrapolated: Vec<&'static str>,
}

impl Plan {
    /// Fits the costs of all series, with intervals of the probability `rate`.
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
                "no collective was measured at {FEWEST_SIZES} sizes or more: nothing to fit. \
                 Measure more sizes (-b, -e, -f)"
            );
            return Err(Failure::on_all_ranks(Code::NothingRan, what));
        }
        plan.remark_on_fits();
        Ok(plan)
    }

    /// Adds what few numbers of ranks leave open.
    fn remark_on_fits(&mut self) {
        let numbers = self.fits.iter().map(|fit| fit.measured_ranks().len());
        let numbers: BTreeSet<usize> = numbers.collect();
        for (number, remark) in [(2, ON_TWO_NUMBERS), (1, ON_ONE_NUMBER)] {
            if numbers.contains(&number) {
                self.remarks.push(remark.to_owned());
            }
        }
    }

    /// Returns all costs, by series and range of sizes.
    pub fn costs(&self) -> Vec<Cost> {
        self.fits.iter().flat_map(CostFit::costs).collect()
    }

    /// Returns what `case` would take. If its series was not measured, the series of the same
    /// collective with the nearest traffic, reduction and type stands for it.
    ///
    /// # Errors
    /// Returns an error if the collective was not measured, or if the case is too far from what
    /// was.
    pub fn forecast(&self, case: &Case) -> anyhow::Result<Forecast> {
        let fit = self.fit_for(case)?;
        check_reach(fit, case)?;
        Ok(forecast(fit, case))
    }

    /// Returns what an operation of the series of `fit` would take with this size and number of
    /// ranks.
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

    /// Returns the fit of the series of `case`, or of the series that stands for it.
    fn fit_for(&self, case: &Case) -> anyhow::Result<&CostFit> {
        let own = SeriesKey::of(case, &case.pattern());
        let of_collective = self
            .fits
            .iter()
            .filter(|fit| fit.key.collective == case.collective);
        // Traffic matters most, then the reduction, then the size of an element, then its type.
        // `false` is less than `true`.
        let distance = |fit: &&CostFit| {
            let key = &fit.key;
            (
                key.pattern != own.pattern,
                key.redop != own.redop,
                key.dtype.size().abs_diff(own.dtype.size()),
                key.dtype != own.dtype,
            )
        };
        of_collective.min_by_key(distance).ok_or_else(|| {
            let name = case.collective.name();
            let what = format!(
                "no run measured {name} at enough sizes to predict its time. Measure it: pxnbench \
                 {name}"
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
    let (sizes, ranks) = (fit.measured_sizes(), fit.measured_ranks());
    let refuse = |what: String| Err(Failure::on_all_ranks(Code::Usage, what));
    let text = fit.key.text();
    let most = ranks.last().copied().unwrap_or_default();
    if ranks.len() == 1 && !ranks.contains(&case.ranks) {
        return refuse(format!(
            "{text} was measured on {} only, so its time on {} cannot be predicted. Measure it on \
             another number of ranks too",
            counted(most, "rank"),
            case.ranks
        ));
    }
    if case.ranks > most.saturating_mul(MOST_TIMES_RANKS) {
        return refuse(format!(
            "{text} was measured on up to {}, and {} are more than {MOST_TIMES_RANKS} times as \
             many. Measure it on at least {}",
            counted(most, "rank"),
            case.ranks,
            case.ranks.div_ceil(MOST_TIMES_RANKS)
        ));
    }
    let largest = sizes.last().copied().unwrap_or_default();
    if case.size().0 > largest.0.saturating_mul(MOST_TIMES_SIZE) {
        return refuse(format!(
            "{text} was measured up to {largest}, and {} is more than {MOST_TIMES_SIZE} times as \
             large. Measure it up to at least {}",
            case.size(),
            Bytes(case.size().0.div_ceil(MOST_TIMES_SIZE))
        ));
    }
    Ok(())
}

fn forecast(fit: &CostFit, case: &Case) -> Forecast {
    let (size, ranks) = (case.size(), case.ranks);
    let bus_bytes = bus_bytes(case);
    let (time, interval) = fit.time(size, ranks, bus_bytes);
    let busbw = |time: f64| bus_bytes / time / 1e3;
    let mut extrapolated = Vec::new();
    if !is_within(&fit.measured_ranks(), &ranks) {
        extrapolated.push("ranks");
    }
    if !is_within(&fit.measured_sizes(), &size) {
        extrapolated.push("size");
    }
    let is_same = |point: &&Point| point.size == size && point.ranks == ranks;
    let same: Vec<&Point> = fit.points.iter().filter(is_same).collect();
    Forecast {
        key: fit.key.clone(),
        ranks,
        size_bytes: size,
        time_us: time,
        time_interval_us: interval,
        busbw: GBps(busbw(time.0)),
        busbw_interval: interval.map(|[low, high]| [busbw(high), busbw(low)]),
        nccl_us: mean(same.iter().filter_map(|point| point.predicted)),
        measured_us: mean(same.iter().map(|point| point.time)),
        extrapolated,
    }
}

/// Returns whether `value` lies between the smallest and the largest of `measured`.
fn is_within<T: Ord>(measured: &BTreeSet<T>, value: &T) -> bool {
    let (first, last) = (measured.first(), measured.last());
    first.is_some_and(|first| first <= value) && last.is_some_and(|last| value <= last)
}

/// Returns the arithmetic mean of `times`; `None` if there are none.
fn mean(times: impl Iterator<Item = Micros>) -> Option<Micros> {
    let (mut sum, mut count) = (0.0, 0_u32);
    for time in times {
        sum += time.0;
        count += 1;
    }
    (count > 0).then(|| Micros(sum / f64::from(count)))
}
