//! A thread that notices at once, by pidfd, when a process of this node has died.

use std::{
    os::fd::{AsFd, OwnedFd},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::rank_folder::{ProcessState, RankFolder};
use crate::world::process_stat::{ExitStatus, ProcessStat};

/// How many processes each one observes: the next ones by rank, so that each is observed by several
/// if a node has many.
const MOST_OBSERVED: usize = 8;

/// A process of this node whose end is waited for.
struct ObservedProcess {
    folder: RankFolder,
    descriptor: OwnedFd,
}

/// Returns those of `folders`, which are by rank, that the process of rank `own` observes.
fn neighbours(folders: &[RankFolder], own: u32) -> Vec<&RankFolder> {
    let after = folders.iter().filter(|folder| folder.mark.rank > own);
    let before = folders.iter().filter(|folder| folder.mark.rank < own);
    after.chain(before).take(MOST_OBSERVED).collect()
}

/// Starts a thread that calls `on_loss` with the folder of a process that is gone without a note,
/// and how it ended, if that is known. A kernel without pidfd, or a limit of descriptors, leaves
/// processes unobserved.
pub(super) fn observe_all(
    folders: &[RankFolder],
    own: u32,
    on_loss: impl Fn(&RankFolder, Option<ExitStatus>) + Send + 'static,
) {
    let mut observed = Vec::new();
    for folder in neighbours(folders, own) {
        let pid = Pid::from_raw(folder.mark.process.pid as i32);
        let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(descriptor) = opened else { continue };
        // Only now it is certain that the number still stands for that process.
        if folder.state() == ProcessState::Running {
            observed.push(ObservedProcess {
                folder: folder.clone(),
                descriptor,
            });
        }
    }
    if observed.is_empty() {
        return;
    }
    // Without the thread less is known.
    let _ = thread::Builder::new().spawn(move || observe(observed, on_loss));
}

fn observe(mut observed: Vec<ObservedProcess>, on_loss: impl Fn(&RankFolder, Option<ExitStatus>)) {
    while !observed.is_empty() {
        let Some(at) = next_end(&observed) else {
            return;
        };
        let ended = observed.swap_remove(at);
        // Its parent has not asked for it yet, if this is fast enough.
        let stat = ProcessStat::of(ended.folder.mark.process.pid);
        let status = stat.and_then(|stat| stat.exit_status());
        if ended.folder.state() == ProcessState::Lost {
            on_loss(&ended.folder, status);
        }
    }
}

/// Waits until a process has ended, and returns its position; `None` if the system refuses to wait.
fn next_end(observed: &[ObservedProcess]) -> Option<usize> {
    loop {
        let mut asked: Vec<PollFd> = observed
            .iter()
            .map(|process| PollFd::from_borrowed_fd(process.descriptor.as_fd(), PollFlags::IN))
            .collect();
        match poll(&mut asked, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let ended = asked.iter().position(|one| !one.revents().is_empty());
        if ended.is_some() {
            return ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{cause::rank_folder::RankMark, private::Owner};
    use std::{
        process::{Command, Stdio},
        sync::mpsc,
        time::Duration,
    };

    fn folder_of(within: &std::path::Path, rank: u32, pid: u32) -> RankFolder {
        let mark = RankMark {
            job: "a".into(),
            rank,
            process: Owner::of(pid).expect("a process"),
        };
        RankFolder::make(within, mark).expect("made")
    }

    #[test]
    fn a_process_that_is_killed_is_noticed_and_one_that_leaves_is_not() {
        let within = tempfile::tempdir().expect("a folder");
        let mut children = Vec::new();
        for _ in 0..2 {
            let mut command = Command::new("sleep");
            children.push(
                command
                    .arg("600")
                    .stdin(Stdio::null())
                    .spawn()
                    .expect("sleep"),
            );
        }
        let folders = [
            folder_of(within.path(), 0, std::process::id()),
            folder_of(within.path(), 1, children[0].id()),
            folder_of(within.path(), 2, children[1].id()),
        ];
        let (sender, lost) = mpsc::channel();
        observe_all(&folders, 0, move |folder, status| {
            sender.send((folder.mark.rank, status)).expect("sent");
        });
        folders[1].remove();
        children[0].kill().expect("killed");
        children[1].kill().expect("killed");
        // They are not waited for yet, so that their status can be read.
        let first = lost.recv_timeout(Duration::from_secs(60)).expect("noticed");
        assert_eq!(first, (2, Some(ExitStatus::Signal(libc::SIGKILL))));
        lost.recv_timeout(Duration::from_secs(60))
            .expect_err("nothing is left to observe");
        for child in &mut children {
            child.wait().expect("ended");
        }
    }
}
