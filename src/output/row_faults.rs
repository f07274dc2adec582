//! [`RowFaults`]: what a file of rows lacks, and what to say of that: each thing once, or a few
//! times.

use std::{io, mem, path::PathBuf};

use crate::units::counted;

/// How often it is said that somebody changed the file.
const MOST_COMPLAINTS: u32 = 3;

/// What is wrong with a file of rows.
pub(super) struct RowFaults {
    path: PathBuf,
    /// Why rows cannot be written at the moment.
    trouble: Option<io::Error>,
    /// Whether that was said.
    said_trouble: bool,
    /// Whether it was said that they can be written again.
    said_recovery: bool,
    /// How often it was said that somebody changed the file.
    complaints: u32,
    /// Rows that are not written yet.
    waiting_rows: u64,
    /// Rows for which there was no more room in memory.
    lost_rows: u64,
    /// Whether somebody removed rows that are not in memory.
    lacks_earlier: bool,
}

impl RowFaults {
    /// Returns that nothing is wrong with the file at `path`.
    pub(super) fn none(path: PathBuf) -> RowFaults {
        RowFaults {
            path,
            trouble: None,
            said_trouble: false,
            said_recovery: false,
            complaints: 0,
            waiting_rows: 0,
            lost_rows: 0,
            lacks_earlier: false,
        }
    }

    /// Returns whether rows cannot be written at the moment.
    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Notes that `count` rows are to be written.
    pub(super) fn wait_for(&mut self, count: u64) {
        self.waiting_rows += count;
    }

    /// Notes that there is no room for `count` rows, and returns what to say of that, once.
    pub(super) fn lose(&mut self, count: u64) -> Option<String> {
        let is_first = self.lost_rows == 0;
        self.lost_rows += count;
        is_first.then(|| {
            format!(
                "{} has not been writable for so long that the memory for its rows is full, with \
                 {}. Further rows are lost until it can be written again; the end of the run says \
                 how many. Free space on that disk, or see to its file server",
                self.path.display(),
                counted(self.waiting_rows, "row")
            )
        })
    }

    /// Notes that rows cannot be written, and returns what to say of that, once.
    pub(super) fn fail(&mut self, error: io::Error) -> Option<String> {
        let sentence = format!(
            "{} cannot be written: {error}. Its rows are kept in memory, and written as soon as \
             that is possible",
            self.path.display()
        );
        self.trouble = Some(error);
        let was_said = mem::replace(&mut self.said_trouble, true);
        (!was_said).then_some(sentence)
    }

    /// Notes that nothing waits, and returns what to say if something did, once.
    pub(super) fn recover(&mut self) -> Option<String> {
        self.waiting_rows = 0;
        let had_trouble = self.trouble.take().is_some();
        let is_whole = self.lost_rows == 0 && !self.lacks_earlier;
        if !had_trouble || !is_whole || mem::replace(&mut self.said_recovery, true) {
            return None;
        }
        let path = self.path.display();
        Some(format!("{path} can be written again, and has all rows"))
    }

    /// Notes that rows are lost that were written and are no longer in memory.
    pub(super) fn lack_earlier_rows(&mut self) {
        self.lacks_earlier = true;
    }

    /// Notes that the file was written anew because of what somebody did to it, and returns what to
    /// say of that, a few times.
    pub(super) fn write_anew(&mut self, change: &str) -> Option<String> {
        self.complaints += 1;
        if self.complaints > MOST_COMPLAINTS {
            return None;
        }
        let all = if self.lacks_earlier || self.lost_rows > 0 {
            "but lacks earlier rows, which are no longer in memory"
        } else {
            "with all rows"
        };
        let path = self.path.display();
        Some(format!(
            "{path} {change} during the run. It was written anew, {all}"
        ))
    }

    /// Returns a sentence if rows of the run are missing in the file.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.waiting_rows + self.lost_rows;
        if missing == 0 && self.trouble.is_none() && !self.lacks_earlier {
            return None;
        }
        let what = if missing == 0 || self.lacks_earlier {
            // It is not known how many.
            "rows".to_owned()
        } else {
            counted(missing, "row")
        };
        let why = match &self.trouble {
            Some(error) => error.to_string(),
            None if self.lacks_earlier => "somebody removed them".to_owned(),
            None => "there was no more room for them in memory".to_owned(),
        };
        Some(format!(
            "{} lacks {what} of this run: {why}",
            self.path.display()
        ))
    }
}
