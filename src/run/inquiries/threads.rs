//! What the system says of the threads of a process, as text.

use std::{
    fmt::Write,
    fs::{self, File},
    io::Read,
};

use crate::{visible::visible_line, world::process_stat::ProcessStat};

/// The most threads of a process that are listed.
const MOST_THREADS: usize = 1024;

/// The most that is read of a file of the system, in bytes.
const MOST_BYTES: u64 = 4096;

/// Returns a line for each thread of process `pid`: its number, name and state, where in the kernel
/// it waits, and its call of the system, as far as this process may know.
pub(super) fn described(pid: u32) -> String {
    let threads = threads(pid);
    let mut text = String::new();
    for thread in threads.iter().take(MOST_THREADS) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", visible_line(&line(pid, *thread)));
    }
    if threads.len() > MOST_THREADS {
        let _ = writeln!(text, "and {} more threads", threads.len() - MOST_THREADS);
    }
    text
}

/// Returns the threads of process `pid` in order; none if there is no such process.
fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut threads: Vec<u32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    threads.sort_unstable();
    threads
}

fn line(pid: u32, thread: u32) -> String {
    let read = |name: &str| short_text(&format!("/proc/{pid}/task/{thread}/{name}"));
    let name = read("comm").unwrap_or_default();
    let stat = ProcessStat::of_thread(pid, thread);
    let state = stat.as_ref().and_then(ProcessStat::state).unwrap_or("?");
    let mut line = format!("thread {thread} {name}: state {state} ({})", meaning(state));
    if let Some(place) = read("wchan").filter(|place| place != "0") {
        line += &format!(", in the kernel at {place}");
    }
    if let Some(call) = read("syscall") {
        line += &format!(", system call {call}");
    }
    line
}

/// Returns the text of a small file, without the end of its line; `None` if there is none.
fn short_text(path: &str) -> Option<String> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}

fn meaning(state: &str) -> &'static str {
    match state {
        "R" => "running",
        "S" => "waiting",
        "D" => "waiting for a device or a file system, and cannot be interrupted",
        "T" => "stopped by a signal",
        "t" => "stopped by a debugger",
        "Z" | "X" => "ended",
        "I" => "idle",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process, sync::mpsc, thread};

    #[test]
    fn a_thread_is_listed_with_its_name_and_state() {
        let (hold, held) = mpsc::channel::<()>();
        let (say, has_its_name) = mpsc::channel::<()>();
        let waiting = thread::Builder::new()
            .name("it waits".into())
            .spawn(move || {
                drop(say);
                held.recv()
            })
            .expect("a thread");
        assert!(has_its_name.recv().is_err());
        let text = described(process::id());
        drop(hold);
        assert!(waiting.join().expect("its end").is_err());
        assert!(text.contains(" it waits: state "), "{text}");
        assert!(text.contains(": state R (running)"), "{text}");
        assert_eq!(described(0), "");
    }
}
