//! What goes wrong, as one sentence on stderr and an exit code.

use crate::{
    env,
    exit::{self, Code},
    world::{abort, launch},
};

/// Prints `error` if this process speaks for the job, and gives the exit code. An error of this rank alone has already
/// ended the job in [`abort::job`]; what comes here is known everywhere.
pub fn report(error: &anyhow::Error) -> Code {
    if speaks() {
        say!("pxnbench: {error:#}");
    } else if abort::rank().is_none() {
        after_the_one_that_speaks(exit::code_of(error));
    }
    exit::code_of(error)
}

/// For a rank that does not speak, where ranks cannot wait for each other yet: a launcher kills the others when the first process
/// ends with an error, so the one that speaks must come first.
pub fn after_the_one_that_speaks(code: Code) {
    // The launcher's signal needs no word.
    abort::settle(code);
    std::thread::sleep(std::time::Duration::from_secs(1));
}

/// How one rank of `ranks` ends, before it parts from the others. An error that every rank has is said now: a launcher kills the
/// others when the first of them ends with an error, and the one that speaks may not be the first. An error of this rank alone
/// ends the job here: the others know nothing of it and may be waiting, so that unwinding would wait for them in MPI_Finalize.
///
/// # Errors
/// That of a process which is alone.
pub fn settle(end: anyhow::Result<Code>, ranks: u32) -> anyhow::Result<Code> {
    match end {
        Err(error) if exit::is_everywhere(&error) => {
            let code = report(&error);
            abort::settle(code);
            Ok(code)
        }
        Err(error) if ranks > 1 => abort::job(exit::code_of(&error), &format!("{error:#}")),
        end => end,
    }
}

/// Does this process speak for the job? Before MPI is up the launcher's environment tells.
pub fn speaks() -> bool {
    abort::rank().map_or_else(|| launch::speaks(&env::var), |rank| rank == 0)
}

/// Ends the job when a thread panics: a panic is a bug, and must not leave the other ranks waiting.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        abort::job(
            Code::Internal,
            &format!("internal error: {panic}; please report it"),
        );
    }));
}

/// One sentence of what clap has to say, which takes several lines for it.
pub fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    // Nobody means an option as a value.
    let joined = lines
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect::<Vec<_>>()
        .join("; ");
    // A list follows its colon.
    format!(
        "{}; see pxnbench --help",
        joined.trim_start_matches("error: ").replace(":; ", ": ")
    )
}
