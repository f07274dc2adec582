//! The sentence for an error of the command line, and where there is help.

use std::ffi::OsString;

use clap::{CommandFactory, error::ErrorKind};

use super::{
    args::{slips, values},
    cli::Cli,
};
use crate::{drop_in, fault};

/// Returns the sentence for an error of the command line in `words`.
pub fn usage_sentence(error: &clap::Error, words: &[OsString]) -> String {
    sentence_with_help(error, words, &help_of(words))
}

/// Returns the sentence for an error of the command line, which ends with where there is help. If
/// the first word is neither a subcommand nor a collective, the sentence is about that: what
/// follows it means nothing then.
pub(super) fn sentence_with_help(error: &clap::Error, words: &[OsString], help: &str) -> String {
    let slip = match error.kind() {
        ErrorKind::UnknownArgument => unknown_first_word(words).or_else(|| option_slip(words)),
        _ => option_slip(words),
    };
    match slip {
        Some(what) => format!("{what}; see {help}"),
        None => fault::clap_sentence(error, help),
    }
}

/// Returns a sentence on the first option of a sweep that another program has, or that is written
/// in another way.
fn option_slip(words: &[OsString]) -> Option<String> {
    let cli = Cli::command();
    let words: Vec<String> = words
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_subcommand = words
        .first()
        .is_some_and(|first| cli.find_subcommand(first).is_some());
    if is_subcommand {
        return None;
    }
    let long: Vec<&str> = cli
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    slips::option_slip(&words, &long)
}

fn unknown_first_word(words: &[OsString]) -> Option<String> {
    let first = words
        .get(1)?
        .to_str()
        .filter(|word| !word.starts_with('-'))?;
    let is_subcommand = Cli::command().find_subcommand(first).is_some();
    values::collectives(first).err().filter(|_| !is_subcommand)
}

/// Returns the command whose help explains `words`.
pub(super) fn help_of(words: &[OsString]) -> String {
    // Under a name of nccl-tests, help is that of the name.
    let name = words.first().and_then(|word| drop_in::program_name(word));
    let mut path = vec![name.unwrap_or("pxnbench")];
    let cli = Cli::command();
    let mut command = &cli;
    for word in words.iter().skip(1) {
        let Some(subcommand) = word.to_str().and_then(|name| command.find_subcommand(name)) else {
            break;
        };
        path.push(subcommand.get_name());
        command = subcommand;
    }
    format!("{} --help", path.join(" "))
}
