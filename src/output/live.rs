//! Events to the terminal: the table on stdout, row by row, and the progress on stderr.

use std::{fmt::Display, io};

use super::{progress::Progress, stdout, table};
use crate::{
    collective::{BufferMode, Collective},
    record::{MemoryUse, Record, RunMeta, Status, TableTotals},
    sweep::Event,
};

/// What is shown of a sweep while it runs, on the process that shows it.
pub struct Live {
    progress: Progress,
    /// The table that is open: rows so far.
    open: Option<Open>,
    /// The case out of place, waiting for its other half of the row.
    half: Option<Record>,
}

/// What stands below the rows of one collective.
struct Open {
    collective: Collective,
    sums: TableTotals,
    /// Reasons of waivers already told.
    waived: Vec<String>,
}

impl Live {
    /// Shows a sweep of `cases` cases; 0 where there is no end.
    pub fn new(cases: usize) -> Live {
        Live {
            progress: Progress::new(cases),
            open: None,
            half: None,
        }
    }

    /// Shows one event.
    ///
    /// # Errors
    /// Where stdout cannot be written, unless its reader has gone: then the files still get everything.
    pub fn on(&mut self, event: &Event, run: &RunMeta) -> io::Result<()> {
        match event {
            Event::Series(series)
                if self
                    .open
                    .as_ref()
                    .is_none_or(|open| open.collective != series.collective) =>
            {
                self.close(run, None)?;
                self.open(series.collective, run)
            }
            Event::Series(_) => Ok(()),
            Event::Started(case) => {
                self.progress.start(case);
                Ok(())
            }
            Event::Finished(record) | Event::Earlier(record) => self.finished(record, run),
        }
    }

    /// Ends the open table: its sums below the rows so far, and what memory is in use, where that is to be told.
    ///
    /// # Errors
    /// As [`Live::on`].
    pub fn close(&mut self, run: &RunMeta, memory: Option<&MemoryUse>) -> io::Result<()> {
        self.half_a_row(run)?;
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if open.sums.checked == 0 {
            self.print("# Nothing was checked\n")?;
        }
        self.print(&table::foot(
            open.collective.name(),
            &open.sums,
            &run.sweep,
            memory,
        ))
    }

    /// Says in the open table that it ends before its time: what is `done`, and why.
    ///
    /// # Errors
    /// As [`Live::on`].
    pub fn unfinished(&mut self, run: &RunMeta, done: impl Display, why: &str) -> io::Result<()> {
        self.half_a_row(run)?;
        self.print(&table::unfinished(done, why))
    }

    /// A signal can come between the two halves of a row; the measured half is not lost.
    fn half_a_row(&mut self, run: &RunMeta) -> io::Result<()> {
        let Some(half) = self.half.take() else {
            return Ok(());
        };
        let missing = Record {
            time: None,
            issue: None,
            iteration_times: None,
            wrong: None,
            status: Status::Waived,
            ..half.clone()
        };
        self.print(&table::row(&half, &missing, &run.sweep))
    }

    fn open(&mut self, collective: Collective, run: &RunMeta) -> io::Result<()> {
        self.open = Some(Open {
            collective,
            sums: TableTotals::default(),
            waived: Vec::new(),
        });
        self.print(&table::head(collective.name(), run))
    }

    fn finished(&mut self, record: &Record, run: &RunMeta) -> io::Result<()> {
        self.progress.finish();
        if let Some(open) = &mut self.open {
            open.sums.add(record);
        }
        match (record.case.buffer_mode, self.half.take()) {
            (BufferMode::OutOfPlace, _) => {
                self.half = Some(record.clone());
                Ok(())
            }
            (BufferMode::InPlace, Some(half))
                if [&half, record].iter().all(|r| r.status == Status::Waived) =>
            {
                self.waived(record)
            }
            (BufferMode::InPlace, Some(half)) => {
                self.print(&table::row(&half, record, &run.sweep))?;
                for half in [&half, record] {
                    self.by_rank(half, run)?;
                    if half.status == Status::Waived {
                        self.waived(half)?;
                    }
                }
                Ok(())
            }
            (BufferMode::InPlace, None) => Ok(()),
        }
    }

    /// What each rank of an alltoallv reached, where that is asked for.
    fn by_rank(&mut self, record: &Record, run: &RunMeta) -> io::Result<()> {
        let time = record.time.filter(|_| run.sweep.reports_ranks);
        let lines = time.map_or_else(Vec::new, |time| record.case.rank_bandwidths(time));
        lines
            .into_iter()
            .try_for_each(|line| self.print(&(line + "\n")))
    }

    /// Says once for each type and operation why there is no row.
    fn waived(&mut self, record: &Record) -> io::Result<()> {
        let case = &record.case;
        let line = format!(
            "# Waived {} {}: {}\n",
            case.dtype.name(),
            case.redop_name(),
            record.note
        );
        match &mut self.open {
            Some(open) if !open.waived.contains(&line) => open.waived.push(line.clone()),
            _ => return Ok(()),
        }
        self.print(&line)
    }

    fn print(&self, text: &str) -> io::Result<()> {
        self.progress.pause(|| stdout::write(text))
    }
}
