//! The ranks of a node as processes: started together, watched, and ended together.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::ends::{HowItEnded, RankEnd};
use crate::world::signal;

/// How often a wait looks for a signal that asks to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long the ranks may take for what they do by themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To end after one of them has failed.
    pub(super) after_failure: Duration,
    /// To end after one of them has ended well.
    pub(super) after_success: Duration,
    /// To save what was measured once they are asked to end, and to be gone once they are killed.
    pub(super) when_asked: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            after_failure: Duration::from_secs(5),
            after_success: Duration::from_secs(600),
            when_asked: Duration::from_secs(10),
        }
    }
}

/// A rank to be started.
pub(super) struct RankCommand {
    pub(super) rank: u32,
    pub(super) command: Command,
}

struct RankProcess {
    rank: u32,
    child: Child,
    has_ended: bool,
}

/// What was done to make the ranks end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    Running,
    /// They were asked to.
    Asked,
    /// They were killed.
    Killed,
    /// All that could be.
    GivenUp,
}

/// The processes of a node's ranks. None of them outlives it, nor this process.
pub(super) struct Supervisor {
    processes: Vec<RankProcess>,
    /// The ends so far, in the order in which they came.
    ends: Vec<RankEnd>,
    /// Gives the position of each process that ends.
    news: Receiver<usize>,
    stage: Stage,
    /// When the next stage begins.
    until: Option<Instant>,
    patience: Patience,
}

impl Supervisor {
    /// Starts the ranks, each in a process group of its own, so that a signal from the terminal reaches it once, through
    /// this process. To be called on a thread that lasts as long as the ranks.
    ///
    /// # Errors
    /// Returns an error if one cannot be started; the others are ended.
    pub(super) fn start(ranks: Vec<RankCommand>, patience: Patience) -> io::Result<Supervisor> {
        let (sender, news) = mpsc::channel();
        let mut supervisor = Supervisor {
            processes: Vec::new(),
            ends: Vec::new(),
            news,
            stage: Stage::Running,
            until: None,
            patience,
        };
        for (at, RankCommand { rank, mut command }) in ranks.into_iter().enumerate() {
            signal::end_with_this_process(&mut command);
            let child = command.process_group(0).spawn()?;
            let pid = child.id();
            supervisor.processes.push(RankProcess {
                rank,
                child,
                has_ended: false,
            });
            signal::relay_also_to(pid);
            let sender = sender.clone();
            thread::spawn(move || {
                // If waiting fails, reaping the process waits for it.
                let _ = signal::wait_without_reaping(pid);
                // If this fails, nobody waits any more.
                let _ = sender.send(at);
            });
        }
        Ok(supervisor)
    }

    /// Waits until all ranks have ended, and returns how they did, in that order. Once one has failed, the others have to end
    /// too: by themselves, otherwise they are asked to, and in the end killed.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait.
    pub(super) fn wait(mut self) -> io::Result<Vec<RankEnd>> {
        while self.processes.iter().any(|process| !process.has_ended) {
            match self.news.recv_timeout(LOOK) {
                Ok(at) => self.reap(at)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.advance();
            if self.stage == Stage::GivenUp {
                break;
            }
        }
        for process in self.processes.iter().filter(|process| !process.has_ended) {
            self.ends.push(RankEnd {
                rank: process.rank,
                how: HowItEnded::Remains,
                was_asked: true,
            });
        }
        Ok(std::mem::take(&mut self.ends))
    }

    fn reap(&mut self, at: usize) -> io::Result<()> {
        let was_asked = self.stage != Stage::Running || signal::stops_now().is_some();
        let process = &mut self.processes[at];
        let pid = process.child.id();
        signal::no_longer_relay_to(pid);
        // What the rank started ends with it.
        signal::kill_group(pid);
        let status = process.child.wait()?;
        process.has_ended = true;
        let end = RankEnd {
            rank: process.rank,
            how: status.into(),
            was_asked,
        };
        let patience = match end.failed() {
            true => self.patience.after_failure,
            false => self.patience.after_success,
        };
        self.ends.push(end);
        if self.stage == Stage::Running {
            self.wait_no_longer_than(patience);
        }
        Ok(())
    }

    fn wait_no_longer_than(&mut self, patience: Duration) {
        let then = Instant::now() + patience;
        self.until = Some(self.until.map_or(then, |until| until.min(then)));
    }

    /// Takes the next step if its time has come.
    fn advance(&mut self) {
        if self.stage == Stage::Running && signal::stops_now().is_some() {
            // The signal was passed on when it came.
            self.enter(Stage::Asked);
            return;
        }
        if self.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        match self.stage {
            Stage::Running => {
                self.each_running(signal::terminate);
                self.enter(Stage::Asked);
            }
            Stage::Asked => {
                self.each_running(signal::kill_group);
                self.enter(Stage::Killed);
            }
            Stage::Killed | Stage::GivenUp => self.stage = Stage::GivenUp,
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.until = Some(Instant::now() + self.patience.when_asked);
    }

    fn each_running(&self, act: fn(u32)) {
        for process in self.processes.iter().filter(|process| !process.has_ended) {
            act(process.child.id());
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.each_running(signal::kill_group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PATIENCE: Patience = Patience {
        after_failure: Duration::ZERO,
        after_success: Duration::from_secs(600),
        when_asked: Duration::from_secs(60),
    };

    fn shell(rank: u32, script: &str) -> RankCommand {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        RankCommand { rank, command }
    }

    fn ends(scripts: &[&str], patience: Patience) -> Vec<RankEnd> {
        let ranks = scripts.iter().zip(0..);
        let ranks = ranks.map(|(script, rank)| shell(rank, script)).collect();
        let supervisor = Supervisor::start(ranks, patience).expect("started");
        supervisor.wait().expect("waited for")
    }

    #[test]
    fn ranks_that_end_by_themselves_are_left_alone() {
        let mut ends = ends(&["exit 0", "exit 7", "exit 8"], Patience::default());
        ends.sort_by_key(|end| end.rank);
        let how: Vec<HowItEnded> = ends.iter().map(|end| end.how).collect();
        assert_eq!(how, [0, 7, 8].map(HowItEnded::Exit));
        assert!(ends.iter().all(|end| !end.was_asked), "{ends:?}");
    }

    #[test]
    fn a_rank_that_goes_on_after_a_failure_is_asked_to_end() {
        let ends = ends(&["exec sleep 1000", "exit 3"], NO_PATIENCE);
        assert_eq!(ends[0].how, HowItEnded::Exit(3));
        let asked = RankEnd {
            rank: 0,
            how: HowItEnded::Signal(libc::SIGTERM),
            was_asked: true,
        };
        assert_eq!(ends[1], asked);
    }

    #[test]
    fn a_rank_that_does_not_listen_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("grandchild");
        // The second rank fails only once the first one ignores the signal.
        let deaf = format!(
            "trap '' TERM; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        let fails = format!(
            "until [ -e {} ]; do sleep 0.01; done; exit 3",
            file.display()
        );
        let patience = Patience {
            when_asked: Duration::from_millis(50),
            ..NO_PATIENCE
        };
        // To be killed may take its time on a busy machine: given up on or not, it is killed.
        let ends = ends(&[&deaf, &fails], patience);
        assert_eq!(ends[0].how, HowItEnded::Exit(3));
        let killed = HowItEnded::Signal(libc::SIGKILL);
        assert!(
            [killed, HowItEnded::Remains].contains(&ends[1].how),
            "{ends:?}"
        );
        let pid = std::fs::read_to_string(&file).expect("its number");
        let state = format!("/proc/{}/stat", pid.trim());
        let is_gone = || {
            let stat = std::fs::read_to_string(&state).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        while !is_gone() {
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_program_that_is_missing_ends_the_ranks_before_it() {
        let missing = RankCommand {
            rank: 1,
            command: Command::new("/nonexistent/pxnbench"),
        };
        let ranks = vec![shell(0, "exec sleep 1000"), missing];
        let Err(error) = Supervisor::start(ranks, NO_PATIENCE) else {
            panic!("it cannot be started");
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
