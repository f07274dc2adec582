//! The folder in which a process notes that it belongs to a job, and how it ended.
//!
//! It is in the folder for temporary files, has a random name, and only its user can enter it. The
//! other processes of the job on this node find it by what is in it. A process that ends in good
//! order removes its folder; one that fails leaves a note in it; one that is killed leaves neither,
//! and thereby shows that it was.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::note::{self, FailureNote};
use crate::world::{
    private::{self, Owner},
    process_stat::ProcessStat,
};

/// The prefix of the name of such a folder.
const PREFIX: &str = "pxnbench-rank.";
/// The file that says which process it belongs to.
const MARK: &str = "rank.json";
/// The file that says how the process failed.
const END: &str = "end.json";

/// How long a folder may be without a mark until it counts as one of no process.
const MARKED_WITHIN: Duration = Duration::from_secs(60);

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankMark {
    /// The job, by its `job_key`.
    pub(super) job: String,
    /// The rank that the launcher gave it.
    pub(super) rank: u32,
    pub(super) process: Owner,
}

/// The folder of a process.
#[derive(Clone, Debug)]
pub(super) struct RankFolder {
    pub(super) path: PathBuf,
    pub(super) mark: RankMark,
}

/// What is known of the process of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProcessState {
    /// It runs, or sleeps.
    Running,
    /// A signal stopped it, and it may continue.
    Stopped,
    /// It has failed, and noted why.
    Failed(FailureNote),
    /// It ended in good order.
    Left,
    /// It ended without a note.
    Lost,
}

impl RankFolder {
    /// Makes the folder of this process, and removes those of jobs whose processes are all dead.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub(super) fn make(within: &Path, mark: RankMark) -> io::Result<RankFolder> {
        remove_abandoned(within, &mark.job);
        let path = private::make(within, PREFIX)?;
        let folder = RankFolder { path, mark };
        let written = note::write_new(&folder.path.join(MARK), &folder.mark);
        if written.is_err() {
            folder.remove();
        }
        written.map(|()| folder)
    }

    /// Returns the folders of this user's processes on this node, of whatever job.
    pub(super) fn all(within: &Path) -> Vec<RankFolder> {
        let mut folders = Vec::new();
        for path in own_paths(within) {
            let mark: Option<RankMark> = note::read(&path.join(MARK));
            if let Some(mark) = mark.filter(|mark| mark.process.is_here()) {
                folders.push(RankFolder { path, mark });
            }
        }
        folders
    }

    /// Returns those of `job`, by rank.
    pub(super) fn of_job(within: &Path, job: &str) -> Vec<RankFolder> {
        let mut folders = RankFolder::all(within);
        folders.retain(|folder| folder.mark.job == job);
        folders.sort_by_key(|folder| folder.mark.rank);
        folders
    }

    /// Returns what is known of its process.
    pub(super) fn state(&self) -> ProcessState {
        // Asked first: a process that leaves removes its folder before it is dead.
        let stat = ProcessStat::of(self.mark.process.pid);
        let has_ended = stat.as_ref().is_some_and(ProcessStat::has_ended);
        let is_dead = self.mark.process.is_dead() || has_ended;
        if let Some(note) = self.failure() {
            return ProcessState::Failed(note);
        }
        if !self.path.join(MARK).exists() {
            return ProcessState::Left;
        }
        match is_dead {
            true => ProcessState::Lost,
            false if stat.is_some_and(|stat| stat.is_stopped()) => ProcessState::Stopped,
            false => ProcessState::Running,
        }
    }

    /// Returns what its process noted of its failure, or another process of it.
    pub(super) fn failure(&self) -> Option<FailureNote> {
        note::read(&self.path.join(END))
    }

    /// Notes a failure of its process.
    ///
    /// # Errors
    /// Returns an error if one is noted already, or it cannot be written.
    pub(super) fn note_failure(&self, failure: &FailureNote) -> io::Result<()> {
        note::write_new(&self.path.join(END), failure)
    }

    /// Removes the folder.
    pub(super) fn remove(&self) {
        // What cannot be removed is left to the next process.
        let _ = fs::remove_file(self.path.join(MARK));
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the paths in `within` that have the name of such a folder and belong to this user only.
fn own_paths(within: &Path) -> Vec<PathBuf> {
    let Some(user) = note::own_user() else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let path = entry.path();
        if is_named_so && private::is_private(&path, user) {
            paths.push(path);
        }
    }
    paths
}

/// Returns whether `path` has no mark, and has had none for longer than a process takes to write or
/// to remove one: another process noted a failure for one that was leaving.
fn lacks_mark(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|folder| folder.modified());
    let is_old = age.is_ok_and(|since| since.elapsed().is_ok_and(|age| age > MARKED_WITHIN));
    is_old && !path.join(MARK).exists()
}

/// Removes the folders of jobs other than `own` of which no process lives, and those of no process.
fn remove_abandoned(within: &Path, own: &str) {
    for path in own_paths(within) {
        if lacks_mark(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
    let mut folders = RankFolder::all(within);
    let alive: Vec<String> = folders
        .iter()
        .filter(|folder| !folder.mark.process.is_dead())
        .map(|folder| folder.mark.job.clone())
        .collect();
    folders.retain(|folder| folder.mark.job != own && !alive.contains(&folder.mark.job));
    folders.iter().for_each(RankFolder::remove);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Code, record::FailedProcess, world::end_of_job::EndOfJob};
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null());
        command.spawn().expect("sleep")
    }

    fn mark(job: &str, rank: u32, pid: u32) -> RankMark {
        RankMark {
            job: job.into(),
            rank,
            process: Owner::of(pid).expect("a process"),
        }
    }

    #[test]
    fn a_process_that_ends_without_a_note_is_lost_and_others_are_not() {
        let within = tempfile::tempdir().expect("a folder");
        let mut children: Vec<Child> = (0..4).map(|_| sleeper()).collect();
        let folders: Vec<RankFolder> = children
            .iter()
            .zip(0..)
            .map(|(child, rank)| {
                RankFolder::make(within.path(), mark("a", rank, child.id())).expect("made")
            })
            .collect();
        RankFolder::make(within.path(), mark("b", 0, std::process::id())).expect("made");
        let of_job = RankFolder::of_job(within.path(), "a");
        let ranks: Vec<u32> = of_job.iter().map(|folder| folder.mark.rank).collect();
        assert_eq!(ranks, [0, 1, 2, 3]);
        let states = || -> Vec<ProcessState> { folders.iter().map(RankFolder::state).collect() };
        assert_eq!(states(), vec![ProcessState::Running; 4]);
        let failure = FailureNote {
            process: FailedProcess {
                rank: 2,
                host: "n1".into(),
                pid: children[2].id(),
                at: crate::record::exact_now(),
            },
            end: EndOfJob {
                code: Code::Nccl,
                sentence: "rank 2 on n1: NCCL failed".into(),
            },
        };
        folders[1].remove();
        folders[2].note_failure(&failure).expect("noted");
        folders[2]
            .note_failure(&failure)
            .expect_err("noted already");
        for child in &mut children[1..] {
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
        let expected = [
            ProcessState::Running,
            ProcessState::Left,
            ProcessState::Failed(failure),
            ProcessState::Lost,
        ];
        assert_eq!(states(), expected);

        // As long as one of them lives, nothing of the job is removed.
        RankFolder::make(within.path(), mark("c", 0, std::process::id())).expect("made");
        assert_eq!(RankFolder::of_job(within.path(), "a").len(), 3);
        children[0].kill().expect("killed");
        children[0].wait().expect("ended");
        RankFolder::make(within.path(), mark("d", 0, std::process::id())).expect("made");
        assert_eq!(RankFolder::of_job(within.path(), "a").len(), 0);
        assert_eq!(RankFolder::of_job(within.path(), "b").len(), 1);
    }

    #[test]
    fn a_folder_that_has_lost_its_mark_is_removed_by_a_later_process() {
        let within = tempfile::tempdir().expect("a folder");
        let hour_ago = std::time::SystemTime::now() - 60 * MARKED_WITHIN;
        let made = |is_old: bool, file: &str| {
            let path = private::make(within.path(), PREFIX).expect("made");
            fs::write(path.join(file), "{}").expect("written");
            if is_old {
                let folder = fs::File::open(&path).expect("opened");
                folder.set_modified(hour_ago).expect("set");
            }
            path
        };
        let (left, marked, new) = (made(true, END), made(true, MARK), made(false, END));
        let own = RankFolder::make(within.path(), mark("a", 0, std::process::id()));
        own.expect("made").remove();
        let exist = [left, marked, new].map(|path| path.exists());
        assert_eq!(exist, [false, true, true]);
    }

    #[test]
    fn a_stopped_process_is_recognized() {
        let within = tempfile::tempdir().expect("a folder");
        let mut child = sleeper();
        let folder = RankFolder::make(within.path(), mark("a", 0, child.id())).expect("made");
        let stop = Command::new("kill")
            .args(["-STOP", &child.id().to_string()])
            .status();
        assert!(stop.expect("kill").success());
        // The kernel stops it a moment later.
        while folder.state() == ProcessState::Running {
            std::thread::yield_now();
        }
        assert_eq!(folder.state(), ProcessState::Stopped);
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(folder.state(), ProcessState::Lost);
    }
}
