//! Files that are written as a whole: beside their place first, so that a reader never sees half of
//! one.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::target::{create, folder_of, is_stream};
use crate::{
    streams::{self, Destination},
    world::{progress, unfinished::UnfinishedFile},
};

/// Writes a whole file beside its place and moves it there: a reader never sees half of it. A
/// stream is written to directly, and only where `is_end` says that nothing comes after.
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
        WholeFile::write(path, true, |file| file.write_all(text.as_bytes())).map(Replacement::File)
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

/// A file that is complete and on disk, beside its place. Unless it is put there, it is removed
/// when this is dropped, and when this process is ended.
pub(super) struct WholeFile {
    part: tempfile::TempPath,
    path: PathBuf,
    _unfinished: UnfinishedFile,
}

impl WholeFile {
    /// Writes what `write` writes to a new file of a random name: what somebody else has put there
    /// under a name that can be guessed is neither written to nor removed. If `on_disk` is set,
    /// waits until it is there: else a crash of the machine could leave the new name with nothing
    /// behind it.
    ///
    /// # Errors
    /// Returns an error if `write` does, or if no file can be made there.
    fn write(
        path: &Path,
        on_disk: bool,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<WholeFile> {
        let _writing = streams::writing_to(Destination::File(path.to_owned()));
        let part = tempfile::Builder::new()
            .prefix(&own_prefix(path).unwrap_or_else(|| PART.into()))
            .rand_bytes(RANDOM_LETTERS)
            .make_in(folder_of(path), |part| File::create_new(part))?;
        let (mut file, part) = part.into_parts();
        let unfinished = UnfinishedFile::note(part.to_path_buf());
        write(&mut file)?;
        if on_disk {
            file.sync_all()?;
        }
        progress::tick();
        let path = path.to_owned();
        Ok(WholeFile {
            part,
            path,
            _unfinished: unfinished,
        })
    }

    /// Puts it in its place, where it replaces a file or a link.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    fn put(self) -> io::Result<()> {
        let _writing = streams::writing_to(Destination::File(self.path.clone()));
        Ok(self.part.persist(self.path)?)
    }
}

/// Puts what `write` writes at `path`, replacing a file or a link that is there; a reader never
/// sees half of it, and if that fails nothing has changed.
///
/// # Errors
/// Returns an error if `write` does, or if no file can be made there.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    WholeFile::write(path, true, write)?.put()
}

/// Does what [`write_whole`] does without waiting for the disk, where a file that is on disk
/// follows.
///
/// # Errors
/// Returns an error as [`write_whole`] does.
pub(super) fn write_whole_at_once(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    WholeFile::write(path, false, write)?.put()
}

/// The random letters at the end of a part's name.
const RANDOM_LETTERS: usize = 6;

/// The longest name that all file systems of Linux have.
const LONGEST_NAME: usize = 255;

/// The middle of a part's name, between the name of its file and the random letters.
const PART: &str = ".pxnbench-part-";

/// Returns how the names of the parts of `path` begin, from which its next writer tells what a
/// killed one has left; `None` if the name of the file is too long for that.
fn own_prefix(path: &Path) -> Option<OsString> {
    let name = path.file_name()?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(PART);
    (prefix.len() + RANDOM_LETTERS <= LONGEST_NAME).then_some(prefix)
}

/// Removes what killed writers of `path` have left beside it. The caller is its only writer.
pub(super) fn remove_stale_parts(path: &Path) {
    let Some(prefix) = own_prefix(path) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder_of(path)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.as_bytes().strip_prefix(prefix.as_bytes());
        let is_part = rest.is_some_and(|letters| {
            letters.len() == RANDOM_LETTERS && letters.iter().all(u8::is_ascii_alphanumeric)
        });
        if is_part && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // One of another user stays.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
    fn only_parts_of_the_path_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        let leave = |path: &Path| {
            let written = Replacement::write(path, "text".into()).expect("written");
            std::mem::forget(written);
        };
        leave(&path);
        leave(&folder.path().join("b.json"));
        let long = folder.path().join("x".repeat(LONGEST_NAME));
        leave(&long);
        symlink("b.json", folder.path().join(".a.json.pxnbench-part-linked")).expect("linked");
        fs::write(folder.path().join(".a.json.pxnbench-part-of.me"), "").expect("written");
        assert_eq!(names(folder.path()).len(), 5);
        for path in [&path, &long] {
            remove_stale_parts(path);
        }
        let mut left = names(folder.path());
        left.sort();
        let begins = [
            ".a.json.pxnbench-part-linked",
            ".a.json.pxnbench-part-of.me",
            ".b.json.pxnbench-part-",
            ".pxnbench-part-",
        ];
        let is_as_it_was = |(name, begin): (&String, &str)| name.starts_with(begin);
        assert_eq!(left.len(), begins.len(), "{left:?}");
        assert!(left.iter().zip(begins).all(is_as_it_was), "{left:?}");
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
