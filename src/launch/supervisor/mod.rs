//! Processes that belong together, such as the ranks of a node: started together, watched, and
//! ended together.

mod end;
mod process;

use std::{
    io,
    process::ChildStderr,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use self::process::Process;
pub(super) use self::{
    end::{HowItEnded, ProcessEnd, first_failure, own_code},
    process::{ProcessCommand, Signals},
};
use crate::world::{process_stat::ProcessStat, signal};

/// How often a wait looks for a signal that asks to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The time limits of what the ranks do by themselves.
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

/// What was done to make the processes end.
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

/// Processes that end together. None of them outlives it, nor this process.
pub(super) struct Supervisor {
    processes: Vec<Process>,
    /// The ends so far, in the order in which they came.
    ends: Vec<ProcessEnd>,
    /// Gives the position of each process that ends.
    news: Receiver<usize>,
    /// The last signal that was passed on by lines.
    told: Option<&'static str>,
    stage: Stage,
    /// When the next stage begins.
    until: Option<Instant>,
    patience: Patience,
}

impl Supervisor {
    /// Starts the processes, each in a process group of its own, so that a signal from the terminal
    /// reaches it once, through this process. To be called on a thread that lasts as long as they
    /// do.
    ///
    /// # Errors
    /// Returns an error if one cannot be started; the others are ended.
    pub(super) fn start(
        commands: Vec<ProcessCommand>,
        patience: Patience,
    ) -> io::Result<Supervisor> {
        let (sender, news) = mpsc::channel();
        let mut supervisor = Supervisor {
            processes: Vec::new(),
            ends: Vec::new(),
            news,
            told: None,
            stage: Stage::Running,
            until: None,
            patience,
        };
        for (at, command) in commands.into_iter().enumerate() {
            let process = Process::start(command)?;
            let pid = process.child.id();
            supervisor.processes.push(process);
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

    /// Takes the standard errors that are piped, with the numbers of their processes.
    pub(super) fn take_stderrs(&mut self) -> Vec<(u32, ChildStderr)> {
        let processes = self.processes.iter_mut();
        let piped =
            processes.filter_map(|process| Some((process.number, process.child.stderr.take()?)));
        piped.collect()
    }

    /// Waits until all processes have ended, and returns how they did, in that order. Once one has
    /// failed, the others have to end too: by themselves, otherwise they are asked to, and in the
    /// end killed.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait.
    pub(super) fn wait(mut self) -> io::Result<Vec<ProcessEnd>> {
        while self.processes.iter().any(|process| !process.has_ended) {
            match self.news.recv_timeout(LOOK) {
                Ok(at) => self.reap(at)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tell_signals();
            self.advance();
            if self.stage == Stage::GivenUp {
                break;
            }
        }
        for process in self.processes.iter().filter(|process| !process.has_ended) {
            self.ends.push(ProcessEnd {
                number: process.number,
                how: HowItEnded::Remains,
                was_asked: true,
            });
        }
        Ok(std::mem::take(&mut self.ends))
    }

    /// Passes a signal on to the processes that read their names.
    fn tell_signals(&mut self) {
        let received = signal::received();
        if received == self.told {
            return;
        }
        self.told = received;
        if let Some(signal) = received {
            self.running().for_each(|process| process.tell(signal));
        }
    }

    fn running(&mut self) -> impl Iterator<Item = &mut Process> {
        let processes = self.processes.iter_mut();
        processes.filter(|process| !process.has_ended)
    }

    fn reap(&mut self, at: usize) -> io::Result<()> {
        let was_asked = self.stage != Stage::Running || signal::stops_now().is_some();
        let process = &mut self.processes[at];
        let pid = process.child.id();
        signal::no_longer_relay_to(pid);
        // What it started ends with it.
        signal::kill_group(pid);
        let status = process.child.wait()?;
        process.has_ended = true;
        let end = ProcessEnd {
            number: process.number,
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
            self.kill_stopped();
            self.enter(Stage::Asked);
            return;
        }
        if self.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        match self.stage {
            Stage::Running => {
                self.kill_stopped();
                self.running().for_each(Process::ask);
                self.enter(Stage::Asked);
            }
            Stage::Asked => {
                self.kill();
                self.enter(Stage::Killed);
            }
            Stage::Killed | Stage::GivenUp => self.stage = Stage::GivenUp,
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.until = Some(Instant::now() + self.patience.when_asked);
    }

    /// Kills the processes that are stopped: they would not hear that they are asked to end.
    fn kill_stopped(&mut self) {
        for process in self.running() {
            let pid = process.child.id();
            if ProcessStat::of(pid).is_some_and(|stat| stat.is_stopped()) {
                signal::kill_group(pid);
            }
        }
    }

    fn kill(&mut self) {
        for process in self.running() {
            signal::kill_group(process.child.id());
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const NO_PATIENCE: Patience = Patience {
        after_failure: Duration::ZERO,
        after_success: Duration::from_secs(600),
        when_asked: Duration::from_secs(60),
    };

    fn shell(number: u32, script: &str) -> ProcessCommand {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ProcessCommand {
            number,
            command,
            signals: Signals::Direct,
        }
    }

    fn ends(scripts: &[&str], patience: Patience) -> Vec<ProcessEnd> {
        let ranks = scripts.iter().zip(0..);
        let ranks = ranks
            .map(|(script, number)| shell(number, script))
            .collect();
        let supervisor = Supervisor::start(ranks, patience).expect("started");
        supervisor.wait().expect("waited for")
    }

    #[test]
    fn ranks_that_end_by_themselves_are_left_alone() {
        let mut ends = ends(&["exit 0", "exit 7", "exit 8"], Patience::default());
        ends.sort_by_key(|end| end.number);
        let how: Vec<HowItEnded> = ends.iter().map(|end| end.how).collect();
        assert_eq!(how, [0, 7, 8].map(HowItEnded::Exit));
        assert!(ends.iter().all(|end| !end.was_asked), "{ends:?}");
    }

    #[test]
    fn a_rank_that_goes_on_after_a_failure_is_asked_to_end() {
        let ends = ends(&["exec sleep 1000", "exit 3"], NO_PATIENCE);
        assert_eq!(ends[0].how, HowItEnded::Exit(3));
        let asked = ProcessEnd {
            number: 0,
            how: HowItEnded::Signal(libc::SIGTERM),
            was_asked: true,
        };
        assert_eq!(ends[1], asked);
    }

    #[test]
    fn a_rank_that_is_stopped_is_not_waited_for() {
        let patience = Patience {
            when_asked: Duration::from_secs(600),
            ..NO_PATIENCE
        };
        let ranks = vec![
            shell(0, "kill -STOP $$; sleep 1000"),
            shell(1, "exec sleep 1000"),
        ];
        let supervisor = Supervisor::start(ranks, patience).expect("started");
        let stopped = supervisor.processes[0].child.id();
        while !ProcessStat::of(stopped).expect("it").is_stopped() {
            thread::sleep(Duration::from_millis(5));
        }
        // The other one fails only now.
        signal::terminate(supervisor.processes[1].child.id());
        let ends = supervisor.wait().expect("waited for");
        assert_eq!(ends[1].number, 0);
        assert_eq!(ends[1].how, HowItEnded::Signal(libc::SIGKILL));
        assert!(ends[1].was_asked);
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
        let missing = ProcessCommand {
            number: 1,
            command: Command::new("/nonexistent/pxnbench"),
            signals: Signals::Direct,
        };
        let ranks = vec![shell(0, "exec sleep 1000"), missing];
        let Err(error) = Supervisor::start(ranks, NO_PATIENCE) else {
            panic!("it cannot be started");
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_behind_ssh_gets_a_first_line_and_is_asked_by_a_line() {
        let mut reads = shell(
            0,
            r#"read first; read signal; test "$first $signal" = "secret SIGTERM" && exit 9"#,
        );
        reads.signals = Signals::ByLine("secret".into());
        let commands = vec![reads, shell(1, "exit 3")];
        let ends = Supervisor::start(commands, NO_PATIENCE)
            .and_then(Supervisor::wait)
            .expect("waited for");
        assert_eq!(ends[0].how, HowItEnded::Exit(3));
        assert_eq!(ends[1].how, HowItEnded::Exit(9));
    }

    #[test]
    fn a_process_behind_ssh_sees_the_end_of_its_input_when_it_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("end");
        let mut reads = shell(
            0,
            &format!("read first; read none || echo > {}", file.display()),
        );
        reads.signals = Signals::ByLine("secret".into());
        let mut supervisor = Supervisor::start(vec![reads], NO_PATIENCE).expect("started");
        supervisor.processes[0].lines = None;
        supervisor.wait().expect("waited for");
        assert!(file.exists());
    }
}
