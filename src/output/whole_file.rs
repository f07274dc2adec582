//! Files that are written as a whole: beside their place first, so that a reader never sees half of one.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::target::{create, folder_of, is_stream};

/// Writes a whole file beside its place and moves it there: a reader never sees half of it. A stream is written to
/// directly, and only where `is_end` says that nothing comes after.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn replace(is_end: bool, path: &Path, text: &str) -> io::Result<()> {
    if is_stream(path) && !is_end {
        return Ok(());
    }
    Replacement::write(path, text.to_owned())?.put()
}

/// A text on its way to its place.
pub(super) enum Replacement {
    /// It is written in one go.
    Stream(PathBuf, String),
    /// It is on disk, beside its place.
    File(WholeFile),
}

impl Replacement {
    /// Writes `text` beside `path`, unless that is a stream.
    ///
    /// # Errors
    /// Returns an error if no file can be made there, or the disk is full.
    pub(super) fn write(path: &Path, text: String) -> io::Result<Replacement> {
        if is_stream(path) {
            return Ok(Replacement::Stream(path.to_owned(), text));
        }
        WholeFile::write(path, |file| file.write_all(text.as_bytes())).map(Replacement::File)
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// Returns an error if that does not work.
    pub(super) fn put(self) -> io::Result<()> {
        match self {
            Replacement::Stream(path, text) => create(&path)?.write_all(text.as_bytes()),
            Replacement::File(file) => file.put(),
        }
    }
}

/// A file that is complete and on disk, beside its place. Unless it is put there, it is removed when this is dropped.
pub(super) struct WholeFile {
    part: tempfile::TempPath,
    path: PathBuf,
}

impl WholeFile {
    /// Writes what `write` writes to a new file of a random name: what somebody else has put there under a name that can be
    /// guessed is neither written to nor removed.
    ///
    /// # Errors
    /// Returns an error if `write` does, or if no file can be made there.
    fn write(
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<WholeFile> {
        let part = tempfile::Builder::new()
            .prefix("pxnbench.")
            .suffix(".part")
            .make_in(folder_of(path), |part| File::create_new(part))?;
        let (mut file, part) = part.into_parts();
        write(&mut file)?;
        // Else a crash of the machine could leave the new name with nothing behind it.
        file.sync_all()?;
        let path = path.to_owned();
        Ok(WholeFile { part, path })
    }

    /// Puts it in its place, where it replaces a file or a link.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    fn put(self) -> io::Result<()> {
        Ok(self.part.persist(self.path)?)
    }
}

/// Puts what `write` writes at `path`, replacing a file or a link that is there; a reader never sees half of it, and if
/// that fails nothing has changed.
///
/// # Errors
/// Returns an error if `write` does, or if no file can be made there.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    WholeFile::write(path, write)?.put()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into()
            })
            .collect()
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_leaves_what_was_there_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "before").expect("written");
        let full = write_whole(&path, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.expect_err("full").kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).expect("read"), "before");
        assert_eq!(names(folder.path()), ["a.json"]);
        write_whole(&path, |file| file.write_all(b"after")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "after");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_link_is_replaced_and_never_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["mine", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "mine").expect("written");
        symlink(&file, &link).expect("linked");
        write_whole(&link, |to| to.write_all(b"new")).expect("written");
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("read"), "mine");
    }

    #[test]
    fn a_file_that_is_not_put_in_its_place_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        let written = Replacement::write(&path, "text".into()).expect("written");
        assert_eq!(names(folder.path()).len(), 1);
        drop(written);
        assert!(names(folder.path()).is_empty());
    }
}
