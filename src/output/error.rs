//! [`OutputError`]: why results cannot go to a file.

use std::{fmt, io, path::PathBuf};

use super::lock::Holder;

/// Why results cannot go to a file.
#[derive(Debug)]
pub enum OutputError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// It is not to be written to: the rest of a sentence that begins with the path, which says
    /// why.
    Other(PathBuf, String),
    /// Another process writes it.
    Held(PathBuf, Holder),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Io(path, error) => {
                let path = path.display();
                write!(
                    f,
                    "{path} cannot be written: {error}. Name another file, or another folder with \
                     --out"
                )
            }
            OutputError::Other(path, why) => {
                let path = path.display();
                write!(
                    f,
                    "{path} {why}. Name another file, or another folder with --out"
                )
            }
            OutputError::Held(path, holder) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is being written by {holder}. Wait until that ends, or name another \
                     file, or another folder with --out"
                )
            }
        }
    }
}
