//! Writing to stdout: everything that is printed arrives, or it is an error.

use std::io;

use crate::exit::{Code, Failure};
use crate::streams;
use crate::visible::visible;

/// The error number of a terminal, or of a launcher's pipe, that is gone.
const EIO: i32 = 5;

/// Writes `text`, with what a terminal would obey made visible.
///
/// # Errors
/// Returns an error as [`unless_gone`] does.
pub fn write(text: &str) -> io::Result<()> {
    unless_gone(streams::to_stdout(visible(text).as_bytes()))
}

/// Writes `text`, and returns whether there is still somebody who reads it.
///
/// # Errors
/// Returns an error as [`unless_gone`] does.
pub fn write_to_reader(text: &str) -> io::Result<bool> {
    let written = streams::to_stdout(text.as_bytes());
    let is_gone = written.is_err();
    unless_gone(written)?;
    Ok(!is_gone)
}

/// Writes `text` as a line.
///
/// # Errors
/// Returns an error as [`unless_gone`] does, as a sentence.
pub fn line(text: &str) -> anyhow::Result<()> {
    write(&format!("{text}\n")).map_err(|error| failure(&error))
}

/// Passes on the result of writing to stdout, unless its reader has gone: one who reads only the
/// first lines of a list closes the pipe, and misses nothing.
///
/// # Errors
/// Returns an error if stdout cannot be written although its reader is there.
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

/// Returns the error for stdout that cannot be written.
pub fn failure(error: &io::Error) -> anyhow::Error {
    Failure::on_this_rank(
        Code::Disk,
        format!("the output cannot be written to stdout: {error}"),
    )
}
