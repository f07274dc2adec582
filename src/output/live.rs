//! Events to the terminal: the table on stdout, row by row, and the progress on stderr.

use std::{fmt::Display, io};

use super::{narrow::NarrowTable, progress::Progress, samples::Sample, stdout, table, terminal};
use crate::{
    collective::{BufferMode, Collective},
    env::Env,
    record::{MemoryUse, OverTime, Record, RunMeta, Status, TableTotals},
    sweep::Event,
};

/// The display of a sweep while it runs, on the process that shows it.
pub struct Live {
    progress: Progress,
    /// Whether only rows are printed.
    is_quiet: bool,
    /// The width of the terminal; `None` if stdout goes elsewhere.
    width: Option<usize>,
    /// The table of the current collective.
    table: Option<OpenTable>,
    /// The case out of place, waiting for the other half of its row.
    half: Option<Record>,
}

/// A table whose rows are being printed.
struct OpenTable {
    collective: Collective,
    /// Its layout if the terminal is too narrow for the usual one.
    narrow: Option<NarrowTable>,
    totals: TableTotals,
    /// Lines about waived cases that are printed already.
    waived: Vec<String>,
}

impl Live {
    /// Returns the display of a sweep of `cases` cases; 0 if it has no end. A quiet one shows rows
    /// and nothing else.
    pub fn new(cases: usize, is_quiet: bool, env: Env) -> Live {
        let progress = if is_quiet {
            Progress::hidden()
        } else {
            Progress::new(cases, env)
        };
        Live {
            progress,
            is_quiet,
            width: terminal::stdout_width(env),
            table: None,
            half: None,
        }
    }

    /// Shows an event.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written, unless its reader has gone: then the files
    /// still get everything.
    pub fn on(&mut self, event: &Event, run: &RunMeta) -> io::Result<()> {
        match event {
            Event::Series(series) => self.start_series(series.collective, run),
            Event::Started(case) => {
                self.progress.start(case);
                Ok(())
            }
            Event::Finished(record) | Event::Earlier(record) => self.finish_case(record, run),
        }
    }

    /// Opens a table, unless the one of this collective is open already.
    fn start_series(&mut self, collective: Collective, run: &RunMeta) -> io::Result<()> {
        if let Some(table) = &self.table
            && table.collective == collective
        {
            return Ok(());
        }
        self.close(run, None)?;
        let width = self.width;
        let narrow = width.and_then(|width| NarrowTable::new(width, run));
        let head = table::head(collective.name(), run);
        let head = match &narrow {
            Some(narrow) => narrow.head(&head),
            None => head,
        };
        self.table = Some(OpenTable {
            collective,
            narrow,
            totals: TableTotals::default(),
            waived: Vec::new(),
        });
        self.print_comment(&head)
    }

    /// Ends the open table: prints its totals below the rows so far, and the use of GPU memory if
    /// it is to be reported.
    ///
    /// # Errors
    /// Returns an error as [`Live::on`] does.
    pub fn close(&mut self, run: &RunMeta, memory: Option<&MemoryUse>) -> io::Result<()> {
        self.print_half_row(run)?;
        let Some(table) = self.table.take() else {
            return Ok(());
        };
        if table.totals.checked == 0 {
            self.print_comment("# Nothing was checked\n")?;
        }
        if table.totals.untimed > 0 {
            self.print_comment("# Nothing was timed\n")?;
        }
        let name = table.collective.name();
        self.print_comment(&table::foot(name, &table.totals, &run.sweep, memory))
    }

    /// Shows the throughput of the last second with the progress.
    pub fn show_sample(&mut self, sample: &Sample) {
        if let Some(busbw) = sample.busbw() {
            self.progress
                .set_sample(&format!("{} at {busbw:.2} GB/s", sample.case));
        }
    }

    /// Prints what was found over the time for which the sweep was repeated.
    ///
    /// # Errors
    /// Returns an error as [`Live::on`] does.
    pub fn over_time(&mut self, found: &OverTime, run: &RunMeta) -> io::Result<()> {
        self.print_half_row(run)?;
        self.print_comment(&found.lines())
    }

    /// Prints in the open table that it ends early: `done` is how many cases were done.
    ///
    /// # Errors
    /// Returns an error as [`Live::on`] does.
    pub fn unfinished(&mut self, run: &RunMeta, done: impl Display, why: &str) -> io::Result<()> {
        self.print_half_row(run)?;
        self.print_comment(&table::unfinished(done, why))
    }

    /// Prints the measured half of a row if a signal came between the two halves.
    fn print_half_row(&mut self, run: &RunMeta) -> io::Result<()> {
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
        self.print_table_row(&table::row(&half, &missing, &run.sweep))
    }

    fn finish_case(&mut self, record: &Record, run: &RunMeta) -> io::Result<()> {
        self.progress.finish();
        if let Some(table) = &mut self.table
            && table.collective == record.case.collective
        {
            table.totals.add(record);
        }
        // What is repeated for a time has a row for the first pass.
        if run.sweep.time_s.is_some() && record.cycle > 0 {
            return Ok(());
        }
        if record.case.buffer_mode == BufferMode::OutOfPlace {
            self.half = Some(record.clone());
            return Ok(());
        }
        match self.half.take() {
            Some(out_of_place) => self.print_row(&out_of_place, record, run),
            None => Ok(()),
        }
    }

    /// Prints a row and the lines that belong to it; if both halves were waived, only why.
    fn print_row(
        &mut self,
        out_of_place: &Record,
        in_place: &Record,
        run: &RunMeta,
    ) -> io::Result<()> {
        let halves = [out_of_place, in_place];
        if halves.iter().all(|half| half.status == Status::Waived) {
            return self.print_waived(in_place);
        }
        self.print_table_row(&table::row(out_of_place, in_place, &run.sweep))?;
        for half in halves {
            self.print_ranks(half, run)?;
            if half.status == Status::Waived {
                self.print_waived(half)?;
            }
        }
        Ok(())
    }

    /// Prints what each rank of an alltoallv reached, if that is to be reported.
    fn print_ranks(&mut self, record: &Record, run: &RunMeta) -> io::Result<()> {
        let Some(time) = record.time.filter(|_| run.sweep.reports_ranks) else {
            return Ok(());
        };
        for line in record.case.rank_bandwidths(time) {
            self.print_comment(&(line + "\n"))?;
        }
        Ok(())
    }

    /// Prints, once per type and operation, why there is no row.
    fn print_waived(&mut self, record: &Record) -> io::Result<()> {
        let case = &record.case;
        let line = format!(
            "# Waived {} {}: {}\n",
            case.dtype.name(),
            case.redop_name(),
            record.note
        );
        match &mut self.table {
            Some(table) if !table.waived.contains(&line) => table.waived.push(line.clone()),
            _ => return Ok(()),
        }
        self.print_comment(&line)
    }

    /// Prints a row of the table, with fewer columns if the terminal is narrow.
    fn print_table_row(&self, row: &str) -> io::Result<()> {
        let narrow = self.table.as_ref().and_then(|table| table.narrow.as_ref());
        match narrow {
            Some(narrow) => self.print(&narrow.row(row)),
            None => self.print(row),
        }
    }

    /// Prints what is not a row.
    fn print_comment(&self, text: &str) -> io::Result<()> {
        if self.is_quiet {
            return Ok(());
        }
        let narrow = self.table.as_ref().and_then(|table| table.narrow.as_ref());
        match narrow {
            Some(narrow) => {
                let lines = text.lines().map(|line| narrow.comment(line));
                self.print(&lines.collect::<String>())
            }
            None => self.print(text),
        }
    }

    fn print(&self, text: &str) -> io::Result<()> {
        self.progress.pause(|| stdout::write(text))
    }
}
