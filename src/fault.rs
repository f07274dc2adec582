//! Reports an error as one sentence on stderr and an exit code.

use std::{io, thread, time::Duration};

use crate::{
    env,
    exit::{self, Code},
    streams,
    world::{abort, launch, resource_limits},
};

/// What the standard library says of a thread that it cannot start.
const NO_THREAD: &str = "failed to spawn thread: ";

/// Prints `error` if this process speaks for the job, and returns the exit code. An error of this
/// rank alone has already ended the job in [`abort::job`], so every rank has this one.
pub fn report(error: &anyhow::Error) -> Code {
    let code = exit::code_of(error);
    // The other ranks end now, and wait for this one.
    streams::limit_writes();
    if speaks() {
        say!("pxnbench: {error:#}");
    } else if abort::rank().is_none() {
        let_the_speaker_end_first(code);
    }
    code
}

/// Waits until the process that speaks has printed its error. Before MPI is up, processes cannot
/// wait for each other, and a launcher kills all of them when the first exits with an error.
pub fn let_the_speaker_end_first(code: Code) {
    // The launcher's signal then needs no message.
    abort::set_final_code(code);
    thread::sleep(Duration::from_secs(1));
}

/// Ends the work of one rank of `ranks`, before MPI is finalized, and returns the exit code. An
/// error that every rank has is printed now, because a launcher kills the others when the first
/// rank exits with an error, which may not be the one that speaks. An error of this rank alone ends
/// the job here: the others do not know of it and may be waiting for this rank, and unwinding would
/// wait for them in MPI_Finalize.
///
/// # Errors
/// Returns the error of a process that is alone.
pub fn end_together(end: anyhow::Result<Code>, ranks: u32) -> anyhow::Result<Code> {
    match end {
        Err(error) if exit::is_everywhere(&error) => {
            let code = report(&error);
            abort::set_final_code(code);
            Ok(code)
        }
        Err(error) if ranks > 1 => abort::job(exit::code_of(&error), &format!("{error:#}")),
        end => end,
    }
}

/// Returns whether this process speaks for the job. Before MPI is up, the launcher's environment
/// tells.
pub fn speaks() -> bool {
    match abort::rank() {
        Some(rank) => rank == 0,
        None => launch::speaks(&env::var),
    }
}

/// Makes a panic on any thread end the job: it is a bug, and must not leave the other ranks
/// waiting.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with(NO_THREAD)) {
            let why = io::Error::from_raw_os_error(libc::EAGAIN);
            abort::job(Code::Launch, &resource_limits::no_thread(&why.to_string()));
        }
        // The place and the message are two lines.
        let panic = panic.to_string().replace('\n', " ");
        abort::job(
            Code::Internal,
            &format!("internal error: {panic}; please report it"),
        );
    }));
}

/// Returns the error of clap, which has several lines, as one sentence that ends with the command
/// whose help explains it.
pub fn clap_sentence(error: &clap::Error, help: &str) -> String {
    let text = error.to_string();
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more") {
            break;
        }
        // The tip tells how to pass an option as a value, which is never what was meant.
        if !line.is_empty() && !line.starts_with("tip: to pass") {
            parts.push(line);
        }
    }
    let joined = parts.join("; ");
    let joined = joined.trim_start_matches("error: ");
    // A list follows its colon directly.
    format!("{}; see {help}", joined.replace(":; ", ": "))
}
