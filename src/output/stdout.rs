//! stdout: all that is printed there arrives, or it is an error.

use std::io::{self, Write};

use crate::exit::{Code, Failure};

/// The number of the error of a terminal, or of a launcher's pipe, that is gone.
const EIO: i32 = 5;

/// Writes `text`.
///
/// # Errors
/// As [`unless_gone`].
pub fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    unless_gone(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

/// Writes `text` and the end of its line.
///
/// # Errors
/// As [`unless_gone`], as a sentence.
pub fn line(text: &str) -> anyhow::Result<()> {
    write(&format!("{text}\n")).map_err(|error| failure(&error))
}

/// What writing to stdout came to: who reads only the first lines of a list closes the pipe, and misses nothing.
///
/// # Errors
/// Where it cannot be written, unless its reader has gone.
pub fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error)
            if error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(EIO) =>
        {
            Ok(())
        }
        written => written,
    }
}

/// The sentence for stdout that cannot be written.
pub fn failure(error: &io::Error) -> anyhow::Error {
    Failure::on_this_rank(
        Code::Internal,
        format!("what was asked for cannot be written to stdout: {error}"),
    )
}
