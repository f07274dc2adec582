//! Opening and reading within the limits of a kind. Nothing here waits forever: a pipe into which
//! nobody writes is given up.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::kind::InputKind;

/// How long nothing may come through a pipe until it is given up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A file that is open for reading. It ends in an error if it is larger than its kind may be, or if
/// it is a pipe through which nothing comes for [`PATIENCE`].
#[derive(Debug)]
pub struct InputFile {
    file: File,
    kind: InputKind,
    is_pipe: bool,
    read: u64,
}

/// Opens a file, or a pipe that has a name.
///
/// # Errors
/// Returns an error if it cannot be opened, or if it is a folder or a device other than /dev/null.
pub fn open(path: &Path, kind: InputKind) -> io::Result<InputFile> {
    // Without the flag, opening a pipe waits until somebody opens the other end.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    let of = found.file_type();
    if of.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let is_null = of.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3);
    if !of.is_file() && !of.is_fifo() && !is_null {
        let what = "it is a device, of which no end can be expected. Name a file";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    if of.is_file() && found.len() > kind.most().0 {
        return Err(kind.too_large());
    }
    Ok(InputFile {
        file,
        kind,
        is_pipe: of.is_fifo(),
        read: 0,
    })
}

/// Reads a file, or a pipe that has a name, as a whole.
///
/// # Errors
/// Returns an error if it cannot be opened ([`open`]) or read, if it is larger than its kind may
/// be, or if nothing comes through a pipe.
pub fn read(path: &Path, kind: InputKind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, kind)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text file as [`read`] does.
///
/// # Errors
/// Returns an error in the same cases, and if it is not UTF-8.
pub fn read_text(path: &Path, kind: InputKind) -> io::Result<String> {
    text(read(path, kind)?)
}

/// Reads what comes from `source`, such as standard input.
///
/// # Errors
/// Returns an error if it cannot be read, or is larger than its kind may be.
pub fn read_from(source: impl Read, kind: InputKind) -> io::Result<Vec<u8>> {
    let most = kind.most().0;
    let mut bytes = Vec::new();
    source
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(kind.too_large());
    }
    Ok(bytes)
}

/// Reads the text that comes from `source`.
///
/// # Errors
/// Returns an error in the cases of [`read_from`], and if it is not UTF-8.
pub fn read_text_from(source: impl Read, kind: InputKind) -> io::Result<String> {
    text(read_from(source, kind)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        // The words of `fs::read_to_string`.
        io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

impl InputFile {
    /// Returns the file if it is a regular one, in which a position can be set.
    pub fn regular(&mut self) -> Option<&mut File> {
        (!self.is_pipe).then_some(&mut self.file)
    }

    /// Waits until something has come through a pipe, or its other end was closed.
    fn wait(&self) -> io::Result<()> {
        let limit = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let mut pipe = [PollFd::new(&self.file, PollFlags::IN)];
        loop {
            match rustix::event::poll(&mut pipe, Some(&limit)) {
                Ok(0) => return Err(nothing_came()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn nothing_came() -> io::Error {
    let what = format!(
        "it is a pipe, and nothing came through it for {} s. Start what writes into it first",
        PATIENCE.as_secs()
    );
    io::Error::new(ErrorKind::TimedOut, what)
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = loop {
            if self.is_pipe {
                self.wait()?;
            }
            match self.file.read(buffer) {
                // Another reader of the pipe was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.is_pipe => {}
                read => break read?,
            }
        };
        self.read = self.read.saturating_add(bytes as u64);
        if self.read > self.kind.most().0 {
            return Err(self.kind.too_large());
        }
        Ok(bytes)
    }
}

impl Seek for InputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.read = 0;
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, process::Command, thread, time::Instant};

    use super::*;

    fn fifo(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("fifo");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        path
    }

    #[test]
    fn files_and_the_empty_device_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x");
        fs::write(&file, "a=1\n").expect("written");
        assert_eq!(
            read_text(&file, InputKind::Settings).expect("text"),
            "a=1\n"
        );
        let empty = read(Path::new("/dev/null"), InputKind::Recipe);
        assert_eq!(empty.expect("nothing"), b"");
        // A file without a length of its own.
        let system = read_text(Path::new("/proc/self/status"), InputKind::System);
        assert!(system.expect("text").contains("Pid:"));
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let refused = |path: &str| {
            let read = read(Path::new(path), InputKind::Json);
            read.expect_err("refused").to_string()
        };
        let device = "it is a device, of which no end can be expected. Name a file";
        assert_eq!(refused("/dev/zero"), device);
        assert_eq!(refused("/dev/urandom"), device);
        assert_eq!(refused("/proc"), "is a directory");
    }

    #[test]
    fn a_larger_file_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x");
        let larger = InputKind::Matrix.most().0 + 1;
        let sparse = File::create(&file).expect("a file");
        sparse.set_len(larger).expect("a hole");
        let error = read(&file, InputKind::Matrix).expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let endless = read_from(io::repeat(b'x'), InputKind::Settings);
        assert_eq!(
            endless.expect_err("too much").to_string(),
            "it is larger than 4M, the most that is read of a file of settings"
        );
    }

    #[test]
    fn a_pipe_into_which_nobody_writes_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = fifo(folder.path());
        let started = Instant::now();
        let error = read(&path, InputKind::Settings).expect_err("nobody writes");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() >= PATIENCE);
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = fifo(folder.path());
        let writer = thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = OpenOptions::new().write(true).open(path).expect("a reader");
                for part in [&b"a=1\n"[..], &[b'#'; 200_000], b"\nb=2\n"] {
                    pipe.write_all(part).expect("written");
                }
            }
        });
        let text = read_text(&path, InputKind::Settings).expect("text");
        writer.join().expect("the writer");
        assert!(text.starts_with("a=1\n#") && text.ends_with("#\nb=2\n"));
        assert_eq!(text.len(), 200_009);
    }
}
