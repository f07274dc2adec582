//! [`RowText`]: what a file of rows holds, and the rows that wait to be written to it, as far as
//! they are in memory.

/// Bytes that are kept in memory at most, those on disk included: about 200,000 rows.
const MOST_KEPT: usize = 64 << 20;

/// The text of a file of rows: first what is written, then what is not.
pub(super) struct RowText {
    header: String,
    /// What the file holds from `start` on, and behind that the rows that are not written yet.
    text: Vec<u8>,
    /// Bytes at the beginning of the file that are no longer in memory.
    start: u64,
    /// The length of the file, up to its last whole row.
    written: u64,
    pub(super) most_kept: usize,
}

impl RowText {
    /// Returns the text of a file that holds `text`, which begins with `header`.
    pub(super) fn of_file(header: String, text: Vec<u8>) -> RowText {
        RowText {
            header,
            start: 0,
            written: text.len() as u64,
            text,
            most_kept: MOST_KEPT,
        }
    }

    /// Adds rows that are to be written. Returns whether there was room for them.
    pub(super) fn push(&mut self, rows: &str) -> bool {
        if self.text.len() + rows.len() > self.most_kept {
            self.text.drain(..self.waiting_from());
            self.start = self.written;
        }
        let fits = self.text.len() + rows.len() <= self.most_kept;
        if fits {
            self.text.extend_from_slice(rows.as_bytes());
        }
        fits
    }

    /// Returns the length of the file, up to its last whole row.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns what is not written yet.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.text[self.waiting_from()..]
    }

    /// Notes that the next `count` bytes are written.
    pub(super) fn note_written(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Returns what a new file in place of this one is to hold: all that is in memory, behind a
    /// header.
    pub(super) fn anew(&mut self) -> &[u8] {
        if self.start > 0 {
            let waiting = self.text.split_off(self.waiting_from());
            self.text = self.header.clone().into_bytes();
            self.text.extend(waiting);
            (self.start, self.written) = (0, 0);
        }
        &self.text
    }

    /// Returns whether all rows are in memory.
    pub(super) fn is_whole(&self) -> bool {
        self.start <= self.header.len() as u64
    }

    /// Notes that all of it is written.
    pub(super) fn note_all_written(&mut self) {
        self.written = self.start + self.text.len() as u64;
    }

    fn waiting_from(&self) -> usize {
        (self.written - self.start) as usize
    }
}
