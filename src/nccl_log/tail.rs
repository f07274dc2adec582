//! A log that is read while another writes it.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// A file that grows, and the last line as far as it is written.
pub struct LogTail {
    file: File,
    rest: Vec<u8>,
}

impl LogTail {
    /// Opens the file at its start.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn open(path: &Path) -> io::Result<LogTail> {
        Ok(LogTail {
            file: File::open(path)?,
            rest: Vec::new(),
        })
    }

    /// Gives each whole line that is new, without its end.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn lines(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let whole = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.rest[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .for_each(each);
        self.rest.drain(..whole);
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
