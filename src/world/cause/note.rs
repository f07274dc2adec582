//! [`FailureNote`]: which process failed first, and how the job ended thereby. It is kept in files
//! that only this user can read.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    exit::Code,
    input::{self, InputKind},
    record::FailedProcess,
    world::end_of_job::EndOfJob,
};

/// What the names of notes in a run's folder begin and end with.
const SHARED_NAME: (&str, &str) = ("failure.", ".json");

/// The process that failed first, and how it ended the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureNote {
    /// The process.
    #[serde(flatten)]
    pub process: FailedProcess,
    /// The end of the job, as the process or a neighbour of it describes it.
    #[serde(flatten)]
    pub end: EndOfJob,
}

impl From<&FailureNote> for FailedProcess {
    fn from(note: &FailureNote) -> Self {
        note.process.clone()
    }
}

/// NCCL's words for an error that another rank caused, such as one that is gone.
const OF_ANOTHER_RANK: &str = "remote process exited";

/// Returns whether a failure with `code`, described by `reason`, follows from one of another rank.
pub(super) fn is_consequence(code: Code, reason: &str) -> bool {
    code == Code::Nccl && reason.contains(OF_ANOTHER_RANK)
}

impl FailureNote {
    /// Returns whether the failure follows from one of another rank.
    pub(super) fn is_consequence(&self) -> bool {
        is_consequence(self.end.code, &self.end.sentence)
    }
}

/// Returns the failure that came first. One that follows from that of another rank may be noted
/// earlier than its cause.
pub(super) fn first_of(notes: impl IntoIterator<Item = FailureNote>) -> Option<FailureNote> {
    let order = |note: &FailureNote| (note.is_consequence(), note.process.at);
    notes.into_iter().min_by_key(order)
}

/// Writes `value` to a new file that only this user can read, unless `path` exists.
///
/// # Errors
/// Returns an error if it exists, or cannot be written.
pub(super) fn write_new(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Reads what [`write_new`] wrote; `None` if there is no such file of this user's.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let is_own = path.symlink_metadata().is_ok_and(|file| {
        file.is_file() && Some(file.uid()) == own_user() && file.mode() & 0o077 == 0
    });
    if !is_own {
        return None;
    }
    let text = input::read(path, InputKind::Json).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns the number of the user of this process.
pub(super) fn own_user() -> Option<u32> {
    Some(fs::metadata("/proc/self").ok()?.uid())
}

/// Writes a note into the folder of a run, under a random name.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(super) fn write_shared(folder: &Path, note: &FailureNote) -> io::Result<()> {
    let (prefix, suffix) = SHARED_NAME;
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .suffix(suffix)
        .tempfile_in(folder)?;
    file.write_all(&serde_json::to_vec(note)?)?;
    file.keep()?;
    Ok(())
}

/// Returns the notes in the folder of a run.
pub fn shared(folder: &Path) -> Vec<PathBuf> {
    let (prefix, suffix) = SHARED_NAME;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_note = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(prefix);
        rest.and_then(|rest| rest.strip_suffix(suffix)).is_some()
    };
    paths.filter(is_note).collect()
}

/// Returns the first failure among the notes at `paths`, as far as they belong to this user.
pub fn first_at(paths: &[PathBuf]) -> Option<FailureNote> {
    first_of(paths.iter().filter_map(|path| read(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn note(rank: u32, second: u32) -> FailureNote {
        let at = format!("2026-03-01T12:00:{second:02}.250+01:00");
        FailureNote {
            process: FailedProcess {
                rank,
                host: "n1".into(),
                pid: 7,
                at: at.parse().expect("a time"),
            },
            end: EndOfJob {
                code: Code::Cuda,
                sentence: format!("rank {rank} on n1: CUDA failed"),
            },
        }
    }

    #[test]
    fn the_first_note_in_a_folder_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(first_at(&shared(folder.path())), None);
        for (rank, second) in [(3, 9), (1, 2), (2, 5)] {
            write_shared(folder.path(), &note(rank, second)).expect("written");
        }
        fs::write(folder.path().join("failure.json"), "{}").expect("written");
        fs::write(folder.path().join("results.csv"), "").expect("written");
        let found = shared(folder.path());
        assert_eq!(found.len(), 3, "{found:?}");
        for path in &found {
            let mode = path.metadata().expect("there").mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(first_at(&found), Some(note(1, 2)));
        let consequence = FailureNote {
            end: EndOfJob {
                code: Code::Nccl,
                sentence: "rank 4 on n1: NCCL reports remote process exited or there was a \
                           network error (code 6)"
                    .into(),
            },
            ..note(4, 1)
        };
        assert_eq!(
            first_of([consequence.clone(), note(1, 2)]),
            Some(note(1, 2))
        );
        assert_eq!(first_of([consequence.clone()]), Some(consequence));
    }

    #[test]
    fn a_note_is_one_object_without_parts() {
        let text = serde_json::to_value(note(1, 2)).expect("JSON");
        let expected = serde_json::json!({
            "rank": 1, "host": "n1", "pid": 7, "at": "2026-03-01T12:00:02.250+01:00",
            "code": "cuda", "sentence": "rank 1 on n1: CUDA failed",
        });
        assert_eq!(text, expected);
    }

    #[test]
    fn a_note_is_not_replaced_and_one_that_others_may_write_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("end.json");
        write_new(&path, &note(1, 2)).expect("written");
        write_new(&path, &note(2, 1)).expect_err("it exists");
        assert_eq!(read(&path), Some(note(1, 2)));
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(read::<FailureNote>(&link), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("opened");
        assert_eq!(read::<FailureNote>(&path), None);
    }
}
