//! A log that is read while another process writes it.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// A file that grows, and the part of its last line that is written so far.
pub struct LogTail {
    file: File,
    rest: Vec<u8>,
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
        })
    }

    /// Passes each new whole line to `take`, without its newline. Empty lines are left out.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn lines(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let Some(last) = memchr::memrchr(b'\n', &self.rest) else {
            return Ok(());
        };
        for line in self.rest[..last].split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                take(line);
            }
        }
        self.rest.drain(..=last);
        Ok(())
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
    }
}
