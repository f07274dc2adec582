//! The options of a subcommand that starts a sweep. They may also follow the sweep's collectives:
//! `submit all_reduce --wait`.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// The words that name the program and the subcommand.
const NAMES: usize = 2;

/// Moves the options of `subcommand` before the arguments of the sweep. Behind the first of these
/// only its long options count, because the sweep has short ones of its own; behind `--` none do.
pub fn before_the_sweep(words: Vec<OsString>, subcommand: &Command) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut own: Vec<OsString> = words.by_ref().take(NAMES).collect();
    let mut sweep = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            sweep.push(word);
            break;
        }
        let option = own_option(&word, subcommand, sweep.is_empty());
        let Some(OwnOption { takes_next_word }) = option else {
            sweep.push(word);
            continue;
        };
        own.push(word);
        if takes_next_word {
            own.extend(words.next());
        }
    }
    own.extend(sweep);
    own.extend(words);
    own
}

/// An option of the subcommand.
struct OwnOption {
    /// Whether its value is the next word.
    takes_next_word: bool,
}

fn own_option(word: &OsStr, subcommand: &Command, short_too: bool) -> Option<OwnOption> {
    let word = word.to_str()?;
    if ["--help", "-h"].contains(&word) {
        return Some(OwnOption {
            takes_next_word: false,
        });
    }
    let mut arguments = subcommand.get_arguments();
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        let argument = arguments.find(|argument| has_long(argument, name))?;
        let takes_next_word = takes_value(argument) && !long.contains('=');
        return Some(OwnOption { takes_next_word });
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let argument = arguments.find(|argument| argument.get_short() == Some(letter))?;
    let takes_next_word = takes_value(argument) && letters.next().is_none();
    short_too.then_some(OwnOption { takes_next_word })
}

fn has_long(argument: &clap::Arg, name: &str) -> bool {
    let longs = argument.get_long_and_visible_aliases();
    longs.is_some_and(|longs| longs.contains(&name))
}

fn takes_value(argument: &clap::Arg) -> bool {
    argument.get_action().takes_values()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn moved(line: &str) -> String {
        let command = Command::new("submit")
            .arg(Arg::new("nodes").short('N').long("nodes"))
            .arg(
                Arg::new("wait")
                    .short('w')
                    .long("wait")
                    .action(ArgAction::SetTrue),
            );
        let words = line.split(' ').map(OsString::from).collect();
        let words = before_the_sweep(words, &command);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn own_options_come_first_and_the_sweeps_stay_in_their_order() {
        for (typed, expected) in [
            ("x submit all_reduce --wait", "x submit --wait all_reduce"),
            (
                "x submit -N 2 all_reduce -N 3 -w 5 --nodes 4",
                "x submit -N 2 --nodes 4 all_reduce -N 3 -w 5",
            ),
            (
                "x submit -N2 -w all_reduce --nodes=4 -b 8",
                "x submit -N2 -w --nodes=4 all_reduce -b 8",
            ),
            (
                "x submit --wait -- all_reduce --wait",
                "x submit --wait -- all_reduce --wait",
            ),
            ("x submit -b 8 --wait", "x submit --wait -b 8"),
            ("x submit all_reduce --help", "x submit --help all_reduce"),
            ("x submit", "x submit"),
            ("x submit --nodes", "x submit --nodes"),
        ] {
            assert_eq!(moved(typed), expected, "{typed}");
        }
    }
}
