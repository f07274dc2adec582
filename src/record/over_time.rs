//! [`OverTime`]: how a sweep went that was repeated for a time.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::units::counted;

/// What `--time` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// The requested time in seconds.
    pub asked_s: f64,
    /// The time from the first case to the last in seconds.
    pub elapsed_s: f64,
    /// Complete passes over all cases.
    pub passes: u32,
    /// Cases that ran.
    pub cases: u64,
    /// Cases with wrong data.
    pub wrong_cases: u64,
    /// Seconds that a row of `samples.csv` covers.
    pub interval_s: u64,
    /// How much longer operations take in the last tenth of the time than in the first; `None` if
    /// it cannot be told.
    pub drift: Option<DriftPercent>,
    /// The interval in which operations took longest; `None` if there are fewer than two.
    pub slowest: Option<SlowInterval>,
    /// The process whose resident memory grew most.
    pub resident: Option<MemoryGrowth>,
    /// The process whose GPUs lost most free memory; `None` if the backend does not know.
    pub gpu: Option<MemoryGrowth>,
}

/// A change of time in percent, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftPercent {
    /// The change.
    pub percent: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// An interval of a sweep that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowInterval {
    /// Its beginning in seconds since the first case.
    pub from_s: u64,
    /// How much longer its operations take than the mean, in percent.
    pub percent: f64,
}

/// The memory that a process uses, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    /// The process.
    pub process: u32,
    /// Its host.
    pub host: String,
    /// After the first pass.
    pub first: u64,
    /// At the end.
    pub last: u64,
    /// The most.
    pub most: u64,
}

impl MemoryGrowth {
    /// Returns by how much the use has grown.
    pub fn growth(&self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

impl OverTime {
    /// Returns the lines below the table.
    pub fn lines(&self) -> String {
        let mut text = format!(
            "# Over time: {} in {:.1} s, {}, {} with wrong data\n",
            counted(self.passes, "complete pass"),
            self.elapsed_s,
            counted(self.cases, "case"),
            self.wrong_cases
        );
        let _ = match self.drift {
            Some(drift) => writeln!(
                text,
                "# Over time: operations take {} in the last tenth than in the first (95 % \
                 interval {:+.2} to {:+.2} %)",
                longer(drift.percent),
                drift.low,
                drift.high
            ),
            None => writeln!(
                text,
                "# Over time: too few samples to compare the last tenth with the first"
            ),
        };
        if let Some(slowest) = self.slowest {
            let _ = writeln!(
                text,
                "# Over time: slowest {}: from {} s on, operations take {} than the mean",
                if self.interval_s == 1 {
                    "second"
                } else {
                    "interval"
                },
                slowest.from_s,
                longer(slowest.percent)
            );
        }
        text
    }
}

fn longer(percent: f64) -> String {
    let word = if percent < 0.0 { "shorter" } else { "longer" };
    format!("{:.2} % {word}", percent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_say_what_was_found() {
        let found = OverTime {
            passes: 1,
            elapsed_s: 60.04,
            cases: 2,
            wrong_cases: 1,
            interval_s: 1,
            drift: Some(DriftPercent {
                percent: -0.5,
                low: -1.25,
                high: 0.25,
            }),
            slowest: Some(SlowInterval {
                from_s: 36,
                percent: 4.0,
            }),
            ..OverTime::default()
        };
        assert_eq!(
            found.lines(),
            "# Over time: 1 complete pass in 60.0 s, 2 cases, 1 with wrong data\n\
             # Over time: operations take 0.50 % shorter in the last tenth than in the first (95 % interval -1.25 to +0.25 %)\n\
             # Over time: slowest second: from 36 s on, operations take 4.00 % longer than the mean\n"
        );
        let nothing = OverTime::default().lines();
        assert!(nothing.contains("0 complete passes"), "{nothing}");
        assert!(nothing.contains("too few samples"), "{nothing}");
    }
}
