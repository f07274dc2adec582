//! [`EndOfJob`]: what ended the job. Each rank ends with its code, whether it hears of it over TCP,
//! from the watch or from a note.

use serde::{Deserialize, Serialize};

use crate::exit::Code;

/// What ended the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfJob {
    /// The exit code of the job.
    pub code: Code,
    /// The sentence, which names the rank.
    pub sentence: String,
}
