//! Child processes: what they print, and their end. A child never blocks on a full pipe, and what
//! it prints fills no memory.

use std::{
    io::{self, BufRead, BufReader, Read},
    iter,
    process::{Child, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use super::signal;

/// The most bytes that are kept of an answer.
pub const MOST_BYTES: u64 = 64 << 20;

/// The longest line, in bytes.
const LONGEST_LINE: u64 = 16 << 10;

/// Lines that wait to be taken.
const WAITING_LINES: usize = 1024;

/// How often the wait for an end looks.
const LOOK: Duration = Duration::from_millis(10);

/// Reads a pipe on a thread of its own, and sends what came through it when it ends. The first
/// `most` bytes are kept.
pub fn read_all(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    read_all_and_tell(pipe, most, Arc::default())
}

/// Does what [`read_all`] does, and sets `is_more` as soon as more than `most` bytes have come.
pub fn read_all_and_tell(
    pipe: Option<impl Read + Send + 'static>,
    most: u64,
    is_more: Arc<AtomicBool>,
) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is as good as all.
            let _ = pipe.by_ref().take(most).read_to_end(&mut kept);
            if pipe.read(&mut [0]).is_ok_and(|bytes| bytes > 0) {
                is_more.store(true, Ordering::SeqCst);
            }
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // If this fails, nobody waits any more.
        let _ = sender.send(kept);
    });
    receiver
}

/// Returns the lines that come through a pipe, each with its end, until the pipe ends. A line of
/// more than 16 KiB comes in parts.
pub fn lines(pipe: impl Read) -> impl Iterator<Item = Vec<u8>> {
    let mut pipe = BufReader::new(pipe);
    iter::from_fn(move || {
        let mut line = Vec::new();
        let mut limited = pipe.by_ref().take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut line);
        read.is_ok_and(|bytes| bytes > 0).then_some(line)
    })
}

/// Reads [`lines`] on a thread of its own. Only some wait to be taken: a slow reader slows the
/// child down.
pub fn read_lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(WAITING_LINES);
    thread::spawn(move || {
        for line in pipe.into_iter().flat_map(lines) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns how a child ended; `None` if it has not within `patience`.
///
/// # Errors
/// Returns an error if the system refuses to wait.
pub fn end_within(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > patience {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// Asks a child to end, and kills it if it has not ended within `patience`.
///
/// # Errors
/// Returns an error if the system refuses to wait.
pub fn end(child: &mut Child, patience: Duration) -> io::Result<()> {
    signal::terminate(child.id());
    if end_within(child, patience)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt,
        process::{Command, Stdio},
    };

    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command.spawn().expect("started")
    }

    #[test]
    fn a_child_that_prints_more_than_is_kept_ends_well() {
        let mut child = shell("head -c 200000 /dev/zero");
        let printed = read_all(child.stdout.take(), 10);
        assert_eq!(printed.recv().expect("what it printed"), [0; 10]);
        assert!(child.wait().expect("its end").success());
    }

    #[test]
    fn more_than_is_kept_is_told() {
        for (script, expected) in [("printf 12345", false), ("printf 123456; sleep 0", true)] {
            let mut child = shell(script);
            let is_more = Arc::new(AtomicBool::new(false));
            let printed = read_all_and_tell(child.stdout.take(), 5, Arc::clone(&is_more));
            assert_eq!(printed.recv().expect("what it printed"), b"12345");
            assert_eq!(is_more.load(Ordering::SeqCst), expected);
            assert!(child.wait().expect("its end").success());
        }
    }

    #[test]
    fn lines_may_be_of_any_bytes_and_long_ones_come_in_parts() {
        let long = vec![b'x'; LONGEST_LINE as usize + 1];
        let text = [b"\xe9t\xe9\n\n".to_vec(), long, b"\nend".to_vec()].concat();
        let lengths: Vec<usize> = lines(&text[..]).map(|line| line.len()).collect();
        assert_eq!(lengths, [4, 1, LONGEST_LINE as usize, 2, 3]);
    }

    #[test]
    fn a_child_that_does_not_listen_is_killed() {
        let mut child = shell("trap '' TERM; echo; while :; do sleep 0.01; done");
        let lines = read_lines(child.stdout.take());
        lines.recv().expect("it no longer listens");
        end(&mut child, Duration::ZERO).expect("ended");
        let status = child.wait().expect("its end");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }
}
