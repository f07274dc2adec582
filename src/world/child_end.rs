//! [`ChildEnd`]: the end of a child that signals are passed on to. One that is to end is not waited
//! for forever.

use std::{
    io,
    process::{Child, ExitStatus},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{process_stat, signal};

/// How often the wait looks at the clock, and for a signal.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process that was killed may take to be gone.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// How long what a child leaves behind may take to be gone once it is killed.
const AFTER_CHILD: Duration = Duration::from_secs(5);

/// How long a child may run, and how long it may take to end.
#[derive(Clone, Copy, Debug)]
pub struct ChildLimits {
    /// When it is asked to end; `None` if only a signal to this process ends it.
    pub until: Option<Instant>,
    /// The time from being asked to end to being killed. What it leaves behind has as long.
    pub patience: Duration,
}

/// The end of a child.
#[derive(Clone, Copy, Debug)]
pub struct ChildEnd {
    /// How it ended; `None` if it is still there although it was killed.
    pub status: Option<ExitStatus>,
    /// Whether it was asked to end because its time was over.
    pub was_late: bool,
    /// Whether it was killed because it did not end when it was asked to.
    pub was_killed: bool,
}

impl ChildEnd {
    /// Waits for the end of `child`, and passes signals on to it, including one that came before.
    /// It is to end after a signal that leaves no time, and when its time is over. If it does not,
    /// it is killed, and what is left of its process group ends with it.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses to wait.
    pub fn of(child: &mut Child, limits: ChildLimits) -> io::Result<ChildEnd> {
        let process = child.id();
        let (sender, news) = mpsc::channel();
        thread::spawn(move || {
            // `wait` would reap the child while a signal may still be on its way to its number.
            let ended = signal::wait_without_reaping(process);
            // If this fails, nobody waits any more.
            let _ = sender.send(ended);
        });
        signal::relay_also_to(process);
        let mut wait = ChildWait {
            process,
            limits,
            stage: Stage::Running,
            was_late: false,
        };
        let has_ended = wait.until_it_ends(&news);
        signal::no_longer_relay_to(process);
        let has_ended = has_ended?;
        if wait.was_late || signal::stops_now().is_some() {
            end_rest_of_group(process, limits.patience);
        }
        let status = match has_ended {
            true => Some(child.wait()?),
            false => None,
        };
        Ok(ChildEnd {
            status,
            was_late: wait.was_late,
            was_killed: matches!(wait.stage, Stage::Killed(_)),
        })
    }
}

/// What was done to make a child end, and when.
#[derive(Clone, Copy)]
enum Stage {
    Running,
    Asked(Instant),
    Killed(Instant),
}

/// The wait for the end of a child.
struct ChildWait {
    process: u32,
    limits: ChildLimits,
    stage: Stage,
    was_late: bool,
}

impl ChildWait {
    /// Waits for the `news` of its end. Returns whether it has ended; it may remain although it was
    /// killed.
    fn until_it_ends(&mut self, news: &Receiver<io::Result<()>>) -> io::Result<bool> {
        loop {
            match news.recv_timeout(LOOK) {
                Ok(ended) => return ended.map(|()| true),
                Err(RecvTimeoutError::Disconnected) => return Ok(true),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.goes_on() {
                return Ok(false);
            }
        }
    }

    /// Does what the time asks for. Returns whether the wait goes on.
    fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        match self.stage {
            // The signal was passed on when it came.
            Stage::Running if signal::stops_now().is_some() => self.stage = Stage::Asked(now),
            Stage::Running if self.limits.until.is_some_and(|until| now >= until) => {
                self.was_late = true;
                signal::terminate_group(self.process);
                self.stage = Stage::Asked(now);
            }
            Stage::Asked(at) if now - at >= self.limits.patience => {
                signal::kill_with_group(self.process);
                self.stage = Stage::Killed(now);
            }
            Stage::Killed(at) => return now - at < AFTER_KILL,
            Stage::Running | Stage::Asked(_) => {}
        }
        true
    }
}

/// Ends what is left of the process group of a child that has ended, and has not been waited for
/// yet. If the child was a script, that may be a launcher whose ranks save what they measured: it
/// is killed after `patience`.
fn end_rest_of_group(leader: u32, patience: Duration) {
    let asks: [(fn(u32), Duration); 2] = [
        (signal::terminate_group, patience),
        (signal::kill_group, AFTER_CHILD),
    ];
    for (send, limit) in asks {
        send(leader);
        let sent = Instant::now();
        while process_stat::group_runs(leader) && sent.elapsed() < limit {
            thread::sleep(LOOK / 10);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Command, Stdio},
    };

    use super::*;

    /// Starts a script in a process group of its own, and waits for its first line.
    fn shell(script: &str) -> (Child, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.process_group(0).spawn().expect("started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        (child, line.trim().to_owned())
    }

    fn late(patience: Duration) -> ChildLimits {
        ChildLimits {
            until: Some(Instant::now()),
            patience,
        }
    }

    #[test]
    fn one_that_ends_in_time_is_left_alone() {
        let (mut child, _) = shell("echo; exit 3");
        let limits = ChildLimits {
            until: None,
            patience: Duration::ZERO,
        };
        let end = ChildEnd::of(&mut child, limits).expect("its end");
        assert_eq!(end.status.and_then(|status| status.code()), Some(3));
        assert!(!end.was_late && !end.was_killed);
    }

    #[test]
    fn one_that_is_late_is_asked_to_end() {
        let script = "trap 'exit 5' TERM; echo; while :; do sleep 0.1; done";
        let (mut child, _) = shell(script);
        let end = ChildEnd::of(&mut child, late(Duration::from_secs(60))).expect("its end");
        assert_eq!(end.status.and_then(|status| status.code()), Some(5));
        assert!(end.was_late && !end.was_killed);
    }

    #[test]
    fn one_that_does_not_listen_is_killed_with_all_of_its_group() {
        let script = "trap '' TERM; sleep 1000 & echo $!; wait; wait";
        let (mut child, rest) = shell(script);
        let end = ChildEnd::of(&mut child, late(Duration::ZERO)).expect("its end");
        let signal = end.status.and_then(|status| status.signal());
        assert_eq!(signal, Some(libc::SIGKILL));
        assert!(end.was_late && end.was_killed);
        let rest: u32 = rest.parse().expect("a process");
        let stat = process_stat::ProcessStat::of(rest);
        assert!(stat.is_none_or(|stat| stat.has_ended()));
    }

    #[test]
    fn what_it_leaves_behind_ends_too() {
        let rest = "trap '' TERM; echo $$; while :; do sleep 0.01; done";
        let script = format!("sh -c \"{}\" & wait", rest.replace('$', "\\$"));
        let (mut child, rest) = shell(&script);
        let end = ChildEnd::of(&mut child, late(Duration::from_secs(2))).expect("its end");
        assert!(end.was_late && !end.was_killed);
        let rest: u32 = rest.parse().expect("a process");
        let stat = process_stat::ProcessStat::of(rest);
        assert!(stat.is_none_or(|stat| stat.has_ended()));
    }
}
