//! Parses the command line, sets the environment, runs the subcommand and returns its exit code.
//! Nothing else sets environment variables.

use std::{ffi::OsString, process::ExitCode};

use clap::error::ErrorKind;
use pxnbench::{
    cmd::{Cli, own_options_first, usage_sentence},
    drop_in, env,
    exit::Code,
    fault,
    output::stdout,
    world::{abort, launch, resource_limits, scratch, signal},
};

fn main() -> ExitCode {
    // First, since parsing needs some stack.
    if let Err(sentence) = resource_limits::check_process() {
        return refuse_limit(&sentence);
    }
    let words = own_options_first(drop_in::words(std::env::args_os()));
    let cli = match Cli::parse_words(&words) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &words),
    };
    for (name, value) in settings(&cli) {
        #[expect(
            unsafe_code,
            reason = "NCCL and MPI read their settings from the environment"
        )]
        // SAFETY: no other thread runs yet, since this directly follows parsing.
        unsafe {
            std::env::set_var(name, value);
        }
    }
    fault::install_panic_hook();
    if let Err(sentence) = check_limits(&cli) {
        return refuse_limit(&sentence);
    }
    install_signal_handlers(&cli);
    let code = cli.run().unwrap_or_else(|error| fault::report(&error));
    scratch::remove();
    ExitCode::from(code as u8)
}

/// Returns the variables that this process sets for itself: names and values.
fn settings(cli: &Cli) -> Vec<(String, String)> {
    let mut settings = cli.environment();
    if !cli.launches() {
        for (name, value) in launch::settings_alone(&env::var) {
            settings.push((name.to_owned(), value.to_owned()));
        }
    }
    settings
}

/// Returns a sentence if a limit of the system is too small for what this process does.
fn check_limits(cli: &Cli) -> Result<(), String> {
    if cli.measures() {
        resource_limits::check_rank()?;
    }
    resource_limits::check_threads()
}

/// Handles signals: for this process, or for the ranks that it starts.
fn install_signal_handlers(cli: &Cli) {
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
}

/// Ends the program under a limit of the system that is too small. The limits of each node may
/// differ, so every process says so.
fn refuse_limit(sentence: &str) -> ExitCode {
    if !fault::speaks() {
        fault::let_the_speaker_end_first(Code::Launch);
    }
    pxnbench::say!("pxnbench: {}: {sentence}", abort::process_name());
    ExitCode::from(Code::Launch as u8)
}

/// Ends the program if the command line asks for help or the version, or if it is wrong.
fn refuse(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let asks_for_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let code = if asks_for_help {
        print_help(error)
    } else {
        print_usage_error(error, words);
        Code::Usage
    };
    ExitCode::from(code as u8)
}

/// Prints the help or the version, on one process of a job.
fn print_help(help: &clap::Error) -> Code {
    if !fault::speaks() {
        return Code::Fine;
    }
    match stdout::unless_gone(help.print()) {
        Ok(()) => Code::Fine,
        Err(error) => fault::report(&stdout::failure(&error)),
    }
}

/// Prints what is wrong with the command line, on one process of a job.
fn print_usage_error(error: &clap::Error, words: &[OsString]) {
    if !fault::speaks() {
        fault::let_the_speaker_end_first(Code::Usage);
        return;
    }
    let sentence = usage_sentence(error, words);
    pxnbench::say!("pxnbench: {sentence}");
}
