//! The limits that the system sets to a process (`ulimit`). One that is too small would end MPI, or
//! this program, by a signal or with an error that does not name it, so they are checked at the
//! start.

use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::units::Bytes;

/// A limit, and the least value with which a process can work.
struct Need {
    resource: Resource,
    least: u64,
    /// Returns the sentence for a limit that is too small.
    sentence: fn(u64) -> String,
}

/// What each process needs.
const OF_EACH_PROCESS: [Need; 2] = [
    Need {
        resource: Resource::Stack,
        least: 1 << 20,
        sentence: |limit| {
            format!(
                "the stack of a process is limited to {} (ulimit -s), which is too little. Raise \
                 it to 8M",
                Bytes(limit)
            )
        },
    },
    Need {
        resource: Resource::Cpu,
        least: 2,
        sentence: |limit| {
            format!(
                "CPU time is limited to {limit} s (ulimit -t), which is too little to measure \
                 anything. Raise it"
            )
        },
    },
];

/// What a process of a job needs.
const OF_A_RANK: [Need; 2] = [
    Need {
        resource: Resource::Nofile,
        least: 64,
        sentence: |limit| {
            format!(
                "only {limit} files may be open at once (ulimit -n), which is too few for MPI and \
                 NCCL. Raise it to at least 1024"
            )
        },
    },
    Need {
        resource: Resource::As,
        least: 512 << 20,
        sentence: |limit| {
            format!(
                "the address space of a process is limited to {} (ulimit -v), which is too little \
                 for MPI and NCCL. Raise it, or remove the limit",
                Bytes(limit)
            )
        },
    },
];

/// Checks the limits that concern each process, and raises those that are too small if the system
/// allows it. Starts no thread.
///
/// # Errors
/// Returns a sentence if one is too small.
pub fn check_process() -> Result<(), String> {
    OF_EACH_PROCESS.iter().try_for_each(Need::check)?;
    leave_time_to_save();
    Ok(())
}

/// Checks the limits that concern a process of a job, as [`check_process`] does.
///
/// # Errors
/// Returns a sentence if one is too small.
pub fn check_rank() -> Result<(), String> {
    OF_A_RANK.iter().try_for_each(Need::check)
}

/// Checks that a thread can be started.
///
/// # Errors
/// Returns a sentence if none can.
pub fn check_threads() -> Result<(), String> {
    let tried = thread::Builder::new().spawn(|| {});
    let thread = tried.map_err(|error| no_thread(&error.to_string()))?;
    // It does nothing, so that it cannot fail.
    let _ = thread.join();
    Ok(())
}

/// Returns the sentence for a thread that cannot be started.
pub fn no_thread(why: &str) -> String {
    format!(
        "no thread can be started: {why}. Raise the limit of processes (ulimit -u, or pids.max of \
         the container or job)"
    )
}

impl Need {
    fn check(&self) -> Result<(), String> {
        let limit = getrlimit(self.resource);
        let Some(now) = limit.current.filter(|now| *now < self.least) else {
            return Ok(());
        };
        let raised = Rlimit {
            current: Some(self.least),
            ..limit
        };
        let may_raise = limit.maximum.is_none_or(|most| most >= self.least);
        if may_raise && setrlimit(self.resource, raised).is_ok() {
            return Ok(());
        }
        Err((self.sentence)(now))
    }
}

/// Makes the system warn of the end of CPU time a second before it kills: `ulimit -t` sets both
/// limits to the same.
fn leave_time_to_save() {
    let limit = getrlimit(Resource::Cpu);
    if let (Some(warning), Some(end)) = (limit.current, limit.maximum)
        && warning >= end
    {
        let earlier = Rlimit {
            current: Some(end - 1),
            ..limit
        };
        // Without it the process is killed without a warning.
        let _ = setrlimit(Resource::Cpu, earlier);
    }
}
