//! Where a result goes: a file, which is replaced as a whole, or a stream, which is written to.
//!
//! `/dev/stdout` and its kin lead to whatever the shell opened. Were that file replaced or cut, the table in it would be
//! lost; so they stand for the file that is open, never for its name.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Why results cannot go to a file.
#[derive(Debug)]
pub enum OutputError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// It is of another run: the rest of a sentence that begins with the path.
    Other(PathBuf, String),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Io(path, error) => {
                let path = path.display();
                write!(
                    f,
                    "{path} cannot be written: {error}; name another file, or another folder with --out"
                )
            }
            OutputError::Other(path, why) => {
                let path = path.display();
                write!(
                    f,
                    "{path} {why}: name another file, or another folder with --out"
                )
            }
        }
    }
}

/// Names of what is open already, as shells and people write them.
const OPEN: [(&str, u32); 6] = [
    ("/dev/stdout", 1),
    ("/dev/fd/1", 1),
    ("/proc/self/fd/1", 1),
    ("/dev/stderr", 2),
    ("/dev/fd/2", 2),
    ("/proc/self/fd/2", 2),
];

/// Links followed at most, as the kernel does.
const MOST_LINKS: usize = 40;

/// `path` with links followed to the file that it stands for, but not through the names of what is open already.
pub fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&path) else { break };
        if is_open_already(&path) {
            break;
        }
        // A link that is relative is so to its own folder.
        path = path
            .parent()
            .map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    path
}

fn number_of(path: &Path) -> Option<u32> {
    OPEN.iter()
        .find(|(name, _)| Path::new(name) == path)
        .map(|(_, number)| *number)
}

fn is_open_already(path: &Path) -> bool {
    number_of(path).is_some() || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Is `path`, which is [`resolved`], a thing that is written to and cannot be replaced: a pipe, a device, what is open already?
pub fn is_stream(path: &Path) -> bool {
    is_open_already(path)
        || path
            .metadata()
            .is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Opens a stream, or creates a file.
///
/// # Errors
/// Where it cannot be written.
pub fn create(path: &Path) -> io::Result<File> {
    match number_of(path) {
        Some(1) => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        Some(_) => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        None if is_stream(path) => File::options().write(true).open(path),
        None => File::create(path),
    }
}

/// Writes a whole file beside its place and moves it there: a reader never sees half of it. A stream is written to
/// directly, and only where `is_end` says that nothing comes after.
///
/// # Errors
/// Where it cannot be written.
pub fn replace(is_end: bool, path: &Path, text: &str) -> io::Result<()> {
    if is_stream(path) {
        return if is_end {
            create(path)?.write_all(text.as_bytes())
        } else {
            Ok(())
        };
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    // Else a crash of the machine could leave the new name with nothing behind it.
    file.sync_all()?;
    fs::rename(beside, path)
}
