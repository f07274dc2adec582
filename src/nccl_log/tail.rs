//! A log that is read while another process writes it.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// The longest line that is kept, which is more than NCCL writes.
const LONGEST: usize = 1 << 20;

/// A file that grows, and the part of its last line that is written so far.
pub struct LogTail {
    file: File,
    rest: Vec<u8>,
    /// Whether the last line is too long. Its beginning was passed on, and the rest is left out.
    is_skipping: bool,
}

impl LogTail {
    /// Opens the file at its start.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<LogTail> {
        Ok(LogTail {
            file: File::open(path)?,
            rest: Vec::new(),
            is_skipping: false,
        })
    }

    /// Passes each new whole line to `take`, without its newline. Empty lines are left out. Of a
    /// line that is too long only the beginning is passed, so that no log fills the memory.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn lines(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        loop {
            let mut piece = self.file.by_ref().take(PIECE);
            if piece.read_to_end(&mut self.rest)? == 0 {
                return Ok(());
            }
            self.pass_lines(take);
        }
    }

    fn pass_lines(&mut self, take: &mut dyn FnMut(&[u8])) {
        if let Some(last) = memchr::memrchr(b'\n', &self.rest) {
            for line in self.rest[..last].split(|byte| *byte == b'\n') {
                if !line.is_empty() && !self.is_skipping {
                    take(line);
                }
                self.is_skipping = false;
            }
            self.rest.drain(..=last);
        }
        if self.rest.len() > LONGEST {
            if !self.is_skipping {
                take(&self.rest);
            }
            self.is_skipping = true;
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_is_given_once_and_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut writer = File::create(&path).expect("made");
        let mut log = LogTail::open(&path).expect("opened");
        let mut new = |text: &str| {
            writer.write_all(text.as_bytes()).expect("written");
            let mut lines = Vec::new();
            log.lines(&mut |line| lines.push(String::from_utf8_lossy(line).into_owned()))
                .expect("read");
            lines
        };
        assert_eq!(new("one\ntw"), ["one"]);
        assert_eq!(new("o"), [] as [&str; 0]);
        assert_eq!(new("\n\nthree\n"), ["two", "three"]);
        let long = "x".repeat(3 * LONGEST);
        let lines = new(&format!("{long}{long}"));
        assert_eq!(lines.len(), 1);
        assert!(long.starts_with(&lines[0]));
        assert_eq!(new("the rest of it\nfour\n"), ["four"]);
    }
}
