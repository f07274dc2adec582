//! Parses, sets the environment, dispatches, and gives the exit code. Nothing else sets environment variables.

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, error::ErrorKind};
use pxnbench::{
    cmd::{Cli, unknown_first_word},
    drop_in, env,
    exit::Code,
    fault,
    output::stdout,
    world::{abort, launch, scratch, signal},
};

fn main() -> ExitCode {
    let words = drop_in::words(std::env::args_os());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &words),
    };
    let mut settings = cli.environment();
    if !cli.launches() {
        for (name, value) in launch::settings_alone(&env::var) {
            settings.push((name.to_owned(), value.to_owned()));
        }
    }
    for (name, value) in settings {
        #[expect(
            unsafe_code,
            reason = "NCCL and MPI read their settings from the environment"
        )]
        // SAFETY: no thread runs yet: this is the first thing main does after parsing.
        unsafe {
            std::env::set_var(name, value);
        }
    }
    fault::install_panic_hook();
    let installed = if cli.launches() {
        signal::install_relay()
    } else {
        signal::install()
    };
    if let Err(error) = installed {
        abort::job(
            Code::Internal,
            &format!("signal handlers cannot be installed: {error}"),
        );
    }
    let code = cli.run().unwrap_or_else(|error| fault::report(&error));
    scratch::remove();
    ExitCode::from(code as u8)
}

/// The command line asks for help, or for something that does not exist.
fn refuse(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    match (fault::speaks(), asked_for) {
        (true, true) => {
            if let Err(error) = stdout::unless_gone(error.print()) {
                return ExitCode::from(fault::report(&stdout::failure(&error)) as u8);
            }
        }
        (true, false) => {
            let first =
                unknown_first_word(words).filter(|_| error.kind() == ErrorKind::UnknownArgument);
            let sentence = first.map(|what| format!("{what}; see pxnbench --help"));
            pxnbench::say!(
                "pxnbench: {}",
                sentence.unwrap_or_else(|| fault::sentence(error))
            );
        }
        (false, false) => fault::after_the_one_that_speaks(Code::Usage),
        (false, true) => {}
    }
    ExitCode::from(if asked_for { Code::Fine } else { Code::Usage } as u8)
}
