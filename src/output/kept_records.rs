//! [`KeptRecords`]: the records of a run, for the files that are written at its end.
//!
//! A sweep without an end (`-N 0`) has any number of them, and would fill the memory of the node.

use std::path::PathBuf;

use crate::{
    record::{RankTimes, Record},
    units::counted,
};

/// Records that a run keeps at most, beside those of the run that it continues.
const MOST_RECORDS: usize = 100_000;

/// The records of a run, as many as are kept.
pub(super) struct KeptRecords {
    records: Vec<Record>,
    /// The files that need them.
    readers: Vec<PathBuf>,
    /// Whether a CSV has all of them.
    are_in_csv: bool,
    /// How many more are kept.
    room: usize,
    /// Those for which there was no room.
    left_out: u64,
}

impl KeptRecords {
    /// Returns the records of an earlier run, to which those are added that the files `readers`
    /// need.
    pub(super) fn new(
        earlier: Vec<Record>,
        readers: Vec<PathBuf>,
        are_in_csv: bool,
    ) -> KeptRecords {
        KeptRecords {
            records: earlier,
            readers,
            are_in_csv,
            room: MOST_RECORDS,
            left_out: 0,
        }
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> &[Record] {
        &self.records
    }

    /// Adds a record, if a file needs it. Returns what to say of these files when the first one is
    /// left out.
    pub(super) fn add(&mut self, record: &Record) -> Option<String> {
        let first = self.readers.first()?;
        if self.room > 0 {
            self.room -= 1;
            self.records.push(Record {
                rank_times: record.rank_times.as_ref().map(RankTimes::without_ranks),
                ..record.clone()
            });
            return None;
        }
        self.left_out += 1;
        if self.left_out > 1 {
            return None;
        }
        let remedy = if self.are_in_csv {
            "The CSV has all"
        } else {
            "Use --csv to keep all"
        };
        Some(format!(
            "{} will contain only the first {} of this run, because memory for more would have no \
             limit. {remedy}",
            first.display(),
            counted(self.records.len() as u64, "case")
        ))
    }

    /// Returns a sentence for each file that lacks records which no CSV has.
    pub(super) fn missing(&self) -> Vec<String> {
        if self.left_out == 0 || self.are_in_csv {
            return Vec::new();
        }
        let sentence = |path: &PathBuf| {
            format!(
                "{} lacks {} of this run: there was no more room for them in memory",
                path.display(),
                counted(self.left_out, "case")
            )
        };
        self.readers.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{BufferMode, CaseShape, Collective, data::DType},
        record::Status,
        units::Bytes,
    };

    fn record() -> Record {
        let shape = CaseShape {
            collective: Collective::AllGather,
            dtype: DType::Float,
            redop: None,
            root: None,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: 2,
        };
        Record::new(shape.nearest(Bytes(64)), Status::Computed)
    }

    #[test]
    fn records_are_kept_for_the_files_that_need_them_within_a_bound() {
        let readers = || vec![PathBuf::from("o/results.json")];
        let mut none = KeptRecords::new(vec![record()], Vec::new(), true);
        assert_eq!(none.add(&record()), None);
        assert_eq!(none.all().len(), 1, "only the earlier ones");

        for are_in_csv in [true, false] {
            let mut kept = KeptRecords::new(Vec::new(), readers(), are_in_csv);
            kept.room = 2;
            assert_eq!((kept.add(&record()), kept.add(&record())), (None, None));
            let said = kept.add(&record()).expect("the first that is left out");
            assert!(
                said.starts_with(
                    "o/results.json will contain only the first 2 cases of this run, "
                ),
                "{said}"
            );
            assert_eq!(kept.add(&record()), None, "said once");
            assert_eq!(kept.all().len(), 2);
            let missing = match are_in_csv {
                true => Vec::new(),
                false => vec![
                    "o/results.json lacks 2 cases of this run: there was no more room for them in \
                     memory"
                        .to_owned(),
                ],
            };
            assert_eq!(kept.missing(), missing);
        }
    }
}
