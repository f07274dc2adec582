//! How the cases of a run went, and the exit code that follows.

use crate::{
    collective::Collective,
    env,
    exit::{Code, Failure},
    record::{self, TableTotals},
    units::counted,
    world::signal,
};

/// The outcome of the cases of a run, on which the exit code depends.
#[derive(Default)]
pub(super) struct SweepOutcome {
    ran: u64,
    wrong: u64,
    /// Those of them in which something changed outside the receive buffer.
    wrong_outside: u64,
    waived: u64,
    /// The mean busbw that each collective must reach nine tenths of, in GB/s.
    least_busbw: Option<f64>,
    sums: Vec<(Collective, TableTotals)>,
}

impl SweepOutcome {
    pub(super) fn new(least_busbw: Option<f64>) -> SweepOutcome {
        SweepOutcome {
            least_busbw,
            ..SweepOutcome::default()
        }
    }

    pub(super) fn add(&mut self, record: &record::Record) {
        self.sums_of(record).add(record);
        self.wrong_outside += u64::from(record.wrong_outside > 0);
        match record.status {
            record::Status::Waived => self.waived += 1,
            record::Status::Wrong => (self.ran, self.wrong) = (self.ran + 1, self.wrong + 1),
            _ => self.ran += 1,
        }
    }

    /// Returns the sums of the table that `record` belongs to.
    fn sums_of(&mut self, record: &record::Record) -> &mut TableTotals {
        let collective = record.case.collective;
        let is_repeated = record.cycle > 0;
        let mut tables = self.sums.iter().rev();
        let from_end = match tables.position(|(other, _)| *other == collective) {
            // A collective that is named twice has two tables.
            Some(from_end) if from_end == 0 || is_repeated => from_end,
            _ => {
                self.sums.push((collective, TableTotals::default()));
                0
            }
        };
        let at = self.sums.len() - 1 - from_end;
        &mut self.sums[at].1
    }

    /// Returns the exit code, and a sentence for what the table does not show.
    pub(super) fn verdict(&self, stopped: bool) -> (Code, String) {
        let cases = |number: u64| counted(number, "case");
        match self {
            SweepOutcome { wrong, .. } if *wrong > 0 => {
                let mut what = format!("wrong data in {}", cases(*wrong));
                if self.wrong_outside > 0 {
                    what += &format!(
                        ", with changes outside the receive buffer in {}: the notes say where",
                        self.wrong_outside
                    );
                }
                (Code::WrongData, what)
            }
            _ if stopped => (
                Code::Stopped,
                format!(
                    "{} after {}; finished cases are kept",
                    stopped_by(),
                    cases(self.ran)
                ),
            ),
            SweepOutcome { ran: 0, waived, .. } => (
                Code::NothingRan,
                format!("nothing ran: waived {}", cases(*waived)),
            ),
            _ => self
                .too_slow()
                .map_or((Code::Fine, String::new()), |what| (Code::WrongData, what)),
        }
    }

    /// Returns a sentence that names the collectives below the threshold.
    fn too_slow(&self) -> Option<String> {
        let least = self.least_busbw?;
        let slow = self.sums.iter().filter(|(_, sums)| !sums.reaches(least));
        let slow: Vec<String> = slow
            .map(|(collective, sums)| {
                format!(
                    "{collective} {:.2} GB/s",
                    sums.average().unwrap_or(f64::NAN)
                )
            })
            .collect();
        let what = "mean busbw below nine tenths of NCCL_TESTS_MIN_BW";
        (!slow.is_empty()).then(|| format!("{what}={least}: {}", slow.join(", ")))
    }
}

/// Returns nccl-tests' `NCCL_TESTS_MIN_BW`: the mean busbw that is requested, in GB/s.
///
/// # Errors
///
/// Returns an error if the value is not a number.
pub(super) fn least_busbw() -> anyhow::Result<Option<f64>> {
    let Some(value) = env::nccl_tests(&env::var, "NCCL_TESTS_MIN_BW") else {
        return Ok(None);
    };
    match value.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => {
            let what =
                format!("NCCL_TESTS_MIN_BW={value} is not a bandwidth in GB/s (for example 300)");
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

/// Returns what stopped the run. Another rank may have received the signal.
pub(super) fn stopped_by() -> String {
    format!("stopped by {}", signal::received().unwrap_or("a signal"))
}
