//! [`ProcessStat`]: what the kernel says of a process in `/proc/PID/stat`, or of a thread.

use std::fs;

/// What the kernel says of a process.
#[derive(Clone, Debug)]
pub struct ProcessStat {
    /// The fields after the name, separated by spaces. The first is the letter of the state.
    fields: String,
}

/// The end of a process: an exit code, or the signal that killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    Exit(i32),
    Signal(i32),
}

impl ProcessStat {
    /// Reads it for process `pid`; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads it for thread `thread` of process `pid`; `None` if there is no such thread.
    pub fn of_thread(pid: u32, thread: u32) -> Option<ProcessStat> {
        let path = format!("/proc/{pid}/task/{thread}/stat");
        ProcessStat::parse(&fs::read_to_string(path).ok()?)
    }

    /// Returns the letter of the state.
    pub fn state(&self) -> Option<&str> {
        self.field(0)
    }

    fn parse(text: &str) -> Option<ProcessStat> {
        // The name in parentheses may hold spaces and parentheses.
        let (_, fields) = text.rsplit_once(") ")?;
        Some(ProcessStat {
            fields: fields.to_owned(),
        })
    }

    /// Returns when the process started, in clock ticks since the machine did.
    pub fn started(&self) -> Option<u64> {
        self.field(19)?.parse().ok()
    }

    /// Returns whether the process has ended, even if its parent has not asked how.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.field(0), Some("Z" | "X"))
    }

    /// Returns whether a signal or a debugger has stopped the process.
    pub fn is_stopped(&self) -> bool {
        matches!(self.field(0), Some("T" | "t"))
    }

    /// Returns how the process ended, if its parent has not asked for that yet; `None` if it still
    /// runs.
    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        let status: i32 = self.field(49)?.parse().ok()?;
        (self.field(0)? == "Z").then_some(match status & 0x7f {
            0 => ExitStatus::Exit(status >> 8),
            signal => ExitStatus::Signal(signal),
        })
    }

    /// Returns the process group, by the number of the process that made it.
    fn group(&self) -> Option<u32> {
        self.field(2)?.parse().ok()
    }

    fn field(&self, index: usize) -> Option<&str> {
        self.fields.split_whitespace().nth(index)
    }
}

/// Returns whether a process of the group that `leader` made still runs.
pub(super) fn group_runs(leader: u32) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.any(|process| {
        let stat = ProcessStat::of(process);
        stat.is_some_and(|stat| stat.group() == Some(leader) && !stat.has_ended())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: &str, exit_code: i32) -> ProcessStat {
        let mut fields = vec!["0"; 50];
        let exit_code = exit_code.to_string();
        fields[0] = state;
        fields[19] = "4711";
        fields[49] = &exit_code;
        let text = format!("7 (a) b) {}\n", fields.join(" "));
        ProcessStat::parse(&text).expect("fields")
    }

    #[test]
    fn the_exit_status_is_that_of_a_process_that_has_ended() {
        let status = |state: &str, code| stat(state, code).exit_status();
        assert_eq!(status("S", 0), None);
        assert_eq!(status("Z", 9), Some(ExitStatus::Signal(9)));
        assert_eq!(
            status("Z", 0x8b),
            Some(ExitStatus::Signal(11)),
            "with a core"
        );
        assert_eq!(status("Z", 0x300), Some(ExitStatus::Exit(3)));
        let short = ProcessStat::parse("7 (a) Z 0").expect("fields");
        assert_eq!(short.exit_status(), None);
    }

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stopped = stat("T", 0);
        assert!(stopped.is_stopped() && !stopped.has_ended());
        assert_eq!(stopped.started(), Some(4711));
        let dead = stat("X", 0);
        assert!(dead.has_ended() && !dead.is_stopped());
        let own = ProcessStat::of(std::process::id()).expect("this process");
        assert!(own.started().is_some() && !own.has_ended());
        assert!(own.group().is_some_and(group_runs));
        let thread = ProcessStat::of_thread(std::process::id(), std::process::id());
        assert!(thread.expect("its first thread").state().is_some());
    }
}
