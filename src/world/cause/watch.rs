//! A thread that notices at once when a process of this node is gone, by pidfd.

use std::{
    os::fd::{AsFd, OwnedFd},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::rank_folder::{ProcessState, RankFolder};
use crate::world::private;

/// How many processes one watches: the next ones by rank, so that each is watched by several if a node has many.
const MOST_WATCHED: usize = 8;

/// A process of this node that is watched.
struct WatchedProcess {
    folder: RankFolder,
    descriptor: OwnedFd,
}

/// Returns those of `folders`, which are by rank, that the process of rank `own` watches.
fn neighbours(folders: &[RankFolder], own: u32) -> Vec<&RankFolder> {
    let after = folders.iter().filter(|folder| folder.mark.rank > own);
    let before = folders.iter().filter(|folder| folder.mark.rank < own);
    after.chain(before).take(MOST_WATCHED).collect()
}

/// Starts a thread that calls `on_loss` with the folder of a process that is gone without a note, and how it ended, if that is
/// known. A kernel without pidfd, or a limit of descriptors, leaves processes unwatched.
pub(super) fn start(
    folders: &[RankFolder],
    own: u32,
    on_loss: impl Fn(&RankFolder, Option<ExitStatus>) + Send + 'static,
) {
    let mut watched = Vec::new();
    for folder in neighbours(folders, own) {
        let pid = Pid::from_raw(folder.mark.process.pid as i32);
        let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(descriptor) = opened else { continue };
        // Only now it is certain that the number still stands for that process.
        if folder.state() == ProcessState::Running {
            watched.push(WatchedProcess {
                folder: folder.clone(),
                descriptor,
            });
        }
    }
    if watched.is_empty() {
        return;
    }
    // Without the thread less is known.
    let _ = thread::Builder::new().spawn(move || watch(watched, on_loss));
}

fn watch(mut watched: Vec<WatchedProcess>, on_loss: impl Fn(&RankFolder, Option<ExitStatus>)) {
    while !watched.is_empty() {
        let Some(at) = next_end(&watched) else { return };
        let ended = watched.swap_remove(at);
        // Its parent has not asked for it yet, if this is fast enough.
        let status = exit_status(ended.folder.mark.process.pid);
        if ended.folder.state() == ProcessState::Lost {
            on_loss(&ended.folder, status);
        }
    }
}

/// Waits until a process has ended, and returns its position; `None` if the system refuses to wait.
fn next_end(watched: &[WatchedProcess]) -> Option<usize> {
    loop {
        let mut asked: Vec<PollFd> = watched
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

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    Exit(i32),
    Signal(i32),
}

/// Returns how process `pid` ended, if its parent has not asked for that yet.
fn exit_status(pid: u32) -> Option<ExitStatus> {
    parse_exit_status(&private::state_of(pid)?)
}

/// Parses the exit status in what [`private::state_of`] returned; `None` if the process still runs.
fn parse_exit_status(state: &str) -> Option<ExitStatus> {
    let mut fields = state.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    // The status is the last field but one of those that old kernels have too: the 50th after the name.
    let status: i32 = fields.nth(48)?.parse().ok()?;
    is_zombie.then_some(match status & 0x7f {
        0 => ExitStatus::Exit(status >> 8),
        signal => ExitStatus::Signal(signal),
    })
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
        start(&folders, 0, move |folder, status| {
            sender.send((folder.mark.rank, status)).expect("sent");
        });
        folders[1].remove();
        children[0].kill().expect("killed");
        children[1].kill().expect("killed");
        // They are not waited for yet, so that their status can be read.
        let first = lost.recv_timeout(Duration::from_secs(60)).expect("noticed");
        assert_eq!(first, (2, Some(ExitStatus::Signal(libc::SIGKILL))));
        lost.recv_timeout(Duration::from_secs(60))
            .expect_err("nothing is left to watch");
        for child in &mut children {
            child.wait().expect("ended");
        }
    }

    #[test]
    fn the_exit_status_is_read_from_a_process_that_has_ended() {
        let stat = |state: &str, status: i32| {
            let zeros = vec!["0"; 48].join(" ");
            format!("{state} {zeros} {status}\n")
        };
        assert_eq!(parse_exit_status(&stat("S", 0)), None);
        assert_eq!(
            parse_exit_status(&stat("Z", 9)),
            Some(ExitStatus::Signal(9))
        );
        assert_eq!(
            parse_exit_status(&stat("Z", 0x8b)),
            Some(ExitStatus::Signal(11)),
            "with a core"
        );
        assert_eq!(
            parse_exit_status(&stat("Z", 0x300)),
            Some(ExitStatus::Exit(3))
        );
        assert_eq!(parse_exit_status("Z 0"), None);
    }
}
