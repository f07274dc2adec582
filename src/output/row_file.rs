//! [`RowFile`]: a file that grows row by row, on a disk that may fill up or go away, and in a
//! folder where others may do anything.
//!
//! The file holds whole rows only: what was written of others is cut off again. Rows that cannot be
//! written stay in memory, and each later row tries again. Somebody may remove, replace or cut the
//! file meanwhile: then it is written anew.

use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    kept::keep_earlier, lock::identity, row_faults::RowFaults, row_text::RowText, target,
    whole_file::write_whole,
};
use crate::{
    streams::{self, Destination},
    world::progress,
};

/// Whether rows are on disk before the next case begins, or only at the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Each row.
    EachRow,
    /// The rows of a run.
    AtTheEnd,
}

/// A file that is written row by row.
pub(super) struct RowFile {
    path: PathBuf,
    durability: Durability,
    is_stream: bool,
    /// The open file; `None` if it has to be opened again.
    file: Option<File>,
    /// What tells the file from one that somebody puts in its place.
    identity: Option<(u64, u64)>,
    text: RowText,
    /// Whether there may be a part of a row behind the last whole one.
    is_torn: bool,
    /// Whether nothing has been written since the file was last on disk.
    is_on_disk: bool,
    faults: RowFaults,
}

impl RowFile {
    /// Creates the file with its header.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn create(
        path: &Path,
        header: String,
        durability: Durability,
    ) -> io::Result<RowFile> {
        let file = target::create(path)?;
        let is_stream = target::is_stream(path);
        let began = (&file).write_all(header.as_bytes());
        if let Err(error) = began {
            if !is_stream {
                // Half a header is of no use to anybody.
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        let text = header.clone();
        RowFile::new(path, file, header, text.into_bytes(), durability)
    }

    /// Opens the file of an earlier run, which holds `text`, a header and whole rows; what comes
    /// behind that is cut off.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn resume(
        path: &Path,
        header: String,
        text: String,
        durability: Durability,
    ) -> io::Result<RowFile> {
        let file = open(path)?;
        file.set_len(text.len() as u64)?;
        RowFile::new(path, file, header, text.into_bytes(), durability)
    }

    fn new(
        path: &Path,
        file: File,
        header: String,
        text: Vec<u8>,
        durability: Durability,
    ) -> io::Result<RowFile> {
        Ok(RowFile {
            is_stream: target::is_stream(path),
            identity: Some(identity(&file.metadata()?)),
            path: path.to_owned(),
            faults: RowFaults::none(path.to_owned()),
            durability,
            file: Some(file),
            text: RowText::of_file(header, text),
            is_torn: false,
            is_on_disk: false,
        })
    }

    /// Appends `rows`, which are `count` whole rows. Returns what to say of the file: that it
    /// cannot be written, that it can again, or that somebody changed it.
    pub(super) fn append(&mut self, rows: &str, count: u64) -> Vec<String> {
        let mut said = Vec::new();
        if self.text.push(rows) {
            self.faults.wait_for(count);
        } else {
            said.extend(self.faults.lose(count));
        }
        said.extend(self.try_to_write());
        said
    }

    /// Writes what could not be written so far, and waits until all of it is on disk. Returns what
    /// to say of the file.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut said = self.try_to_write();
        let _writing = streams::writing_to(Destination::File(self.path.clone()));
        if let Some(file) = &self.file
            && !self.faults.is_in_trouble()
            && !self.is_on_disk
        {
            match target::sync(file) {
                Ok(()) => self.is_on_disk = true,
                Err(error) => said.extend(self.fail(error)),
            }
        }
        progress::tick();
        said
    }

    /// Returns a sentence if rows of the run are missing in the file.
    pub(super) fn missing(&self) -> Option<String> {
        self.faults.missing()
    }

    fn try_to_write(&mut self) -> Vec<String> {
        let _writing = streams::writing_to(Destination::File(self.path.clone()));
        let mut said = Vec::new();
        let written = if self.is_stream {
            self.write_to_stream()
        } else {
            self.write_to_file(&mut said)
        };
        match written {
            Err(error) => said.extend(self.fail(error)),
            Ok(()) => said.extend(self.faults.recover()),
        }
        progress::tick();
        said
    }

    /// Notes that rows cannot be written, and returns what to say of that, once.
    fn fail(&mut self, error: io::Error) -> Option<String> {
        if !self.is_stream {
            if let Some(file) = &self.file
                && self.is_torn
                && file.set_len(self.text.written()).is_ok()
            {
                self.is_torn = false;
            }
            // On a network, an open file can be of no more use although the file is there.
            self.file = None;
        }
        self.faults.fail(error)
    }

    /// Writes what a stream has not got yet. What it has cannot be taken back.
    fn write_to_stream(&mut self) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else {
            return Err(io::Error::other("it is closed"));
        };
        loop {
            match file.write(self.text.waiting()) {
                Ok(0) if self.text.waiting().is_empty() => return Ok(()),
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.text.note_written(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write_to_file(&mut self, said: &mut Vec<String>) -> io::Result<()> {
        if let Some(change) = self.change()? {
            said.extend(self.write_anew(change)?);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let file = self.file.insert(file);
        if self.is_torn {
            file.set_len(self.text.written())?;
            self.is_torn = false;
        }
        let waiting = self.text.waiting();
        if waiting.is_empty() {
            return Ok(());
        }
        (self.is_torn, self.is_on_disk) = (true, false);
        // In one write: a reader never sees half a line.
        file.write_all_at(waiting, self.text.written())?;
        if self.durability == Durability::EachRow {
            target::sync(file)?;
            self.is_on_disk = true;
        }
        self.is_torn = false;
        self.text.note_all_written();
        Ok(())
    }

    /// Returns what somebody did to the file, as the end of a sentence.
    fn change(&self) -> io::Result<Option<&'static str>> {
        let there = match fs::symlink_metadata(&self.path) {
            Err(error) if is_absence(&error) => return Ok(Some("was removed")),
            there => there?,
        };
        Ok(self.change_of(&there))
    }

    fn change_of(&self, there: &Metadata) -> Option<&'static str> {
        if Some(identity(there)) != self.identity {
            Some("was replaced")
        } else if there.len() < self.text.written() {
            Some("was cut short")
        } else if there.len() > self.text.written() && !self.is_torn {
            Some("was written to")
        } else {
            None
        }
    }

    /// Writes the file anew with all rows, beside what somebody else put there. Returns what to say
    /// of that.
    fn write_anew(&mut self, change: &str) -> io::Result<Option<String>> {
        if !self.text.is_whole() {
            self.faults.lack_earlier_rows();
        }
        let text = self.text.anew();
        fs::create_dir_all(target::folder_of(&self.path))?;
        if self.path.metadata().is_ok_and(|there| there.len() > 0) {
            keep_earlier(&self.path)?;
        }
        write_whole(&self.path, |file| file.write_all(text))?;
        let file = open(&self.path)?;
        self.identity = Some(identity(&file.metadata()?));
        self.file = Some(file);
        self.text.note_all_written();
        self.is_torn = false;
        self.is_on_disk = true;
        Ok(self.faults.write_anew(change))
    }
}

/// Opens a file that exists for writing.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(path: &Path) -> RowFile {
        RowFile::create(path, "a,b\r\n".into(), Durability::EachRow).expect("created")
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).expect("read")
    }

    #[test]
    fn what_others_do_to_the_file_is_seen_and_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/x.csv");
        fs::create_dir(folder.path().join("run")).expect("made");
        let mut rows = new(&path);
        assert!(rows.append("1,1\r\n", 1).is_empty());
        let mut expected = "a,b\r\n1,1\r\n".to_owned();
        type Deed<'a> = (&'a dyn Fn(), &'a str);
        let deeds: [Deed; 3] = [
            (
                &|| fs::remove_dir_all(folder.path().join("run")).expect("removed"),
                "was removed during the run. It was written anew, with all rows",
            ),
            (
                &|| {
                    let file = File::options().write(true).open(&path).expect("opened");
                    file.set_len(3).expect("cut");
                },
                "was cut short",
            ),
            (
                &|| {
                    fs::remove_file(&path).expect("removed");
                    fs::write(&path, "theirs").expect("written");
                },
                "was replaced",
            ),
        ];
        for (at, (deed, words)) in deeds.iter().enumerate() {
            deed();
            let row = format!("{at},2\r\n");
            let said = rows.append(&row, 1);
            expected += &row;
            assert!(said.len() == 1 && said[0].contains(words), "{said:?}");
            assert_eq!(text(&path), expected);
        }
        assert_eq!(text(&folder.path().join("run/x.csv.2")), "theirs");
        let append = File::options().append(true).open(&path).expect("opened");
        (&append).write_all(b"more").expect("written");
        assert!(rows.append("4,4\r\n", 1).is_empty(), "said often enough");
        assert_eq!(text(&path), expected + "4,4\r\n");
        assert_eq!((rows.finish(), rows.missing()), (Vec::new(), None));
    }

    #[test]
    fn a_file_that_is_not_wholly_in_memory_lacks_rows_if_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        let mut rows = new(&path);
        rows.text.most_kept = 12;
        for row in ["1,1\r\n", "2,2\r\n"] {
            assert!(rows.append(row, 1).is_empty());
        }
        assert_eq!(text(&path), "a,b\r\n1,1\r\n2,2\r\n");
        fs::remove_file(&path).expect("removed");
        let said = rows.append("3,3\r\n", 1);
        assert!(said[0].contains("lacks earlier rows"), "{said:?}");
        assert_eq!(text(&path), "a,b\r\n3,3\r\n");
        fs::remove_file(&path).expect("removed again");
        let said = rows.append("4,4\r\n", 1);
        assert!(said[0].contains("lacks earlier rows"), "{said:?}");
        let missing = rows.missing().expect("some are missing");
        assert!(
            missing.ends_with("lacks rows of this run: somebody removed them"),
            "{missing}"
        );
    }

    #[test]
    fn rows_wait_for_a_path_that_cannot_be_written_within_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        let mut rows = new(&path);
        rows.text.most_kept = 15;
        // A folder in its place can be neither written nor replaced, by root either.
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        fs::write(path.join("inside"), "x").expect("written");
        let said = rows.append("1,1\r\n", 1);
        assert!(
            said.len() == 1 && said[0].contains("x.csv cannot be written: "),
            "{said:?}"
        );
        assert!(rows.append("2,2\r\n", 1).is_empty(), "said once");
        assert!(rows.append("3,3\r\n", 1).is_empty());
        let said = rows.append("4,4\r\n", 1);
        assert!(
            said.len() == 1
                && said[0].contains("that the memory for its rows is full, with 3 rows. Further"),
            "{said:?}"
        );
        assert!(rows.append("5,5\r\n", 1).is_empty(), "said once");
        let missing = rows.missing().expect("some are missing");
        assert!(missing.contains("lacks 5 rows of this run"), "{missing}");
        fs::remove_dir_all(&path).expect("removed");
        rows.finish();
        assert_eq!(text(&path), "a,b\r\n1,1\r\n2,2\r\n3,3\r\n");
        let missing = rows.missing().expect("two are missing");
        assert!(missing.contains("lacks 2 rows of this run"), "{missing}");
    }
}
