//! The process that started this one over ssh, at the other end of standard input. Its first line
//! is the secret of the job, and every other line the name of a signal. At the end of the input
//! that process is gone, and the ranks end too.

use std::{
    io::{self, BufRead},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    exit::{Code, Failure},
    world::signal,
};

/// The time within which the secret has to come.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads the secret, and follows from now on what comes after it.
///
/// # Errors
/// Returns an error if none comes.
pub(super) fn follow() -> anyhow::Result<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = io::stdin().lock().lines().map_while(Result::ok);
        if let Some(token) = lines.next() {
            // If this fails, nobody waits for it any more.
            let _ = sender.send(token);
        }
        for name in lines {
            signal::send_to_self(&name);
        }
        signal::send_to_self("SIGTERM");
    });
    receiver.recv_timeout(LIMIT).map_err(|_| {
        let what = "no secret came through standard input. --controlled is for pxnbench launch; \
                    leave it out";
        Failure::on_all_ranks(Code::Usage, what)
    })
}
