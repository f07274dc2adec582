//! A sweep that is repeated for a time: samples of its throughput, and what it finds.

use std::time::{Duration, Instant};

use super::{context::RunContext, sampler::Sampler};
use crate::{
    output::samples::Sample,
    record::{OverTime, Record, Status, over_time::MemoryGrowth},
    sweep::memory_watch::{MemoryWatch, Observed},
    world::{self, World},
};

/// Rows that a repeated sweep writes to the CSV at most; cases with wrong data always have one.
pub(super) const MOST_ROWS: u64 = 10_000;

/// Cases with wrong data that are named on stderr, at most.
const MOST_NAMED: u64 = 20;

/// Memory that has grown by less than this, or by less than a twentieth, is not worth a remark.
const LEAST_GROWTH: u64 = 32 << 20;

/// The state of a sweep that is repeated for a time.
pub(super) struct Repetition {
    began: Instant,
    sampler: Sampler,
    rows: u64,
    cases_per_pass: u64,
    /// Cases of the first pass that ended.
    cases_of_first_pass: u64,
    named: u64,
}

impl Repetition {
    /// Begins a sweep of `cases` cases that is repeated for `time`.
    pub(super) fn begin(time: Duration, cases: u64) -> Repetition {
        Repetition {
            began: Instant::now(),
            sampler: Sampler::new(time, cases),
            rows: 0,
            cases_per_pass: cases,
            cases_of_first_pass: 0,
            named: 0,
        }
    }

    /// Returns whether `record` gets a row, and what to say if from now on not all do.
    pub(super) fn keeps(&mut self, record: &Record) -> (bool, Option<String>) {
        if record.status == Status::Wrong || record.cycle == 0 || self.rows < MOST_ROWS {
            self.rows += 1;
            return (true, None);
        }
        let is_first = self.rows == MOST_ROWS;
        self.rows += u64::from(is_first);
        let remark = is_first.then(|| {
            format!(
                "results.csv and results.json have {MOST_ROWS} rows; from now on only cases with \
                 wrong data are added to them. samples.csv covers the whole time"
            )
        });
        (false, remark)
    }

    /// Adds a case that ended now. Returns the samples of an interval that has ended.
    pub(super) fn add(&mut self, record: &Record) -> Vec<Sample> {
        self.cases_of_first_pass += u64::from(record.cycle == 0);
        self.sampler.add(record, self.began.elapsed())
    }

    /// Returns a sentence about a case of a later pass, which the table does not show, if its data
    /// were wrong.
    pub(super) fn complaint(&mut self, record: &Record) -> Option<String> {
        if record.status != Status::Wrong || record.cycle == 0 || self.named >= MOST_NAMED {
            return None;
        }
        self.named += 1;
        let rest = if self.named == MOST_NAMED {
            "; further ones are only counted"
        } else {
            ""
        };
        Some(format!(
            "wrong data in {} after {} s, in pass {}{rest}",
            record.case,
            self.began.elapsed().as_secs(),
            record.cycle + 1
        ))
    }

    /// Ends the last interval, and returns its samples.
    pub(super) fn end(&mut self) -> Vec<Sample> {
        self.sampler.end_interval()
    }

    /// Returns what to say if the first pass is not complete.
    pub(super) fn incomplete(&self) -> Option<String> {
        (self.cases_of_first_pass < self.cases_per_pass).then(|| {
            format!(
                "the time was over after {} of {} cases. Use a longer --time, or fewer sizes",
                self.cases_of_first_pass, self.cases_per_pass
            )
        })
    }

    /// Returns what was found, the same on every process.
    ///
    /// # Errors
    ///
    /// Returns an error if what a process observed does not reach the others; that would be a bug.
    pub(super) fn found(
        &self,
        memory: &MemoryWatch,
        context: &RunContext,
    ) -> anyhow::Result<OverTime> {
        let hosts = context.hosts();
        Ok(OverTime {
            resident: most_grown(memory.resident, &hosts, context.world)?,
            gpu: most_grown(memory.gpu, &hosts, context.world)?,
            ..self.sampler.found()
        })
    }
}

/// Returns the memory of the process whose use grew most; `None` if no process knows its own.
fn most_grown(
    own: Option<Observed>,
    hosts: &[&str],
    world: &dyn World,
) -> anyhow::Result<Option<MemoryGrowth>> {
    let own = own.map(|observed| (observed.first, observed.last, observed.most));
    let mut found: Option<MemoryGrowth> = None;
    for (process, observed) in world::all_gather(world, &own)?.into_iter().enumerate() {
        let Some((first, last, most)) = observed else {
            continue;
        };
        let growth = MemoryGrowth {
            process: process as u32,
            host: hosts.get(process).copied().unwrap_or_default().to_owned(),
            first,
            last,
            most,
        };
        if found
            .as_ref()
            .is_none_or(|found| growth.growth() > found.growth())
        {
            found = Some(growth);
        }
    }
    Ok(found)
}

/// Returns what to say of memory that has grown.
pub(super) fn growth_remarks(found: &OverTime) -> Vec<String> {
    // What is in use on a GPU is known, and not by whom.
    let kinds = [
        ("the memory", "", &found.resident),
        (
            "the memory in use on the GPUs",
            ", by all programs together,",
            &found.gpu,
        ),
    ];
    let mut remarks = Vec::new();
    for (memory, whose, growth) in kinds {
        let Some(growth) = growth else { continue };
        if growth.growth() >= LEAST_GROWTH.max(growth.first / 20) {
            remarks.push(format!(
                "{memory} of process {} on {}{whose} grew from {} to {} while the sweep was \
                 repeated",
                growth.process,
                growth.host,
                mebibytes(growth.first),
                mebibytes(growth.last)
            ));
        }
    }
    remarks
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        units::Bytes,
    };

    fn record(cycle: u32, status: Status) -> Record {
        let case = CaseShape {
            collective: Collective::AllGather,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 4,
        }
        .nearest(Bytes(64));
        Record {
            cycle,
            ..Record::new(case, status)
        }
    }

    #[test]
    fn rows_end_at_the_limit_except_those_of_wrong_data() {
        let mut repetition = Repetition::begin(Duration::from_secs(1), 1);
        for cycle in 0..MOST_ROWS as u32 {
            let kept = repetition.keeps(&record(cycle, Status::Ok));
            assert_eq!(kept, (true, None));
        }
        let (kept, remark) = repetition.keeps(&record(10_000, Status::Ok));
        assert!(!kept && remark.is_some_and(|text| text.contains("10000 rows")));
        assert_eq!(repetition.keeps(&record(10_001, Status::Ok)), (false, None));
        assert!(repetition.keeps(&record(10_002, Status::Wrong)).0);
    }

    #[test]
    fn wrong_data_of_later_passes_is_named_a_few_times() {
        let mut repetition = Repetition::begin(Duration::from_secs(1), 1);
        assert_eq!(repetition.complaint(&record(0, Status::Wrong)), None);
        let mut named = 0;
        for cycle in 1..100 {
            named += u64::from(
                repetition
                    .complaint(&record(cycle, Status::Wrong))
                    .is_some(),
            );
        }
        assert_eq!(named, MOST_NAMED);
    }

    #[test]
    fn only_memory_that_grew_much_is_remarked_on() {
        let growth = |first: u64, last: u64| OverTime {
            resident: Some(MemoryGrowth {
                process: 3,
                host: "node7".into(),
                first: first << 20,
                last: last << 20,
                most: last << 20,
            }),
            ..OverTime::default()
        };
        assert_eq!(
            growth_remarks(&growth(200, 300)),
            [
                "the memory of process 3 on node7 grew from 200 MiB to 300 MiB while the sweep \
                 was repeated"
            ]
        );
        let on_gpus = OverTime {
            gpu: growth(200, 300).resident,
            ..OverTime::default()
        };
        assert_eq!(
            growth_remarks(&on_gpus),
            [
                "the memory in use on the GPUs of process 3 on node7, by all programs together, \
                 grew from 200 MiB to 300 MiB while the sweep was repeated"
            ]
        );
        assert!(growth_remarks(&growth(200, 220)).is_empty(), "20 MiB");
        assert!(growth_remarks(&growth(2000, 2050)).is_empty(), "2.5 %");
        assert!(growth_remarks(&growth(300, 200)).is_empty());
        assert!(growth_remarks(&OverTime::default()).is_empty());
    }
}
