//! `pxnbench generate`: man pages and shell completions, made from the command line's own
//! definition.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Arg, Command, builder::PossibleValuesParser};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
    },
    exit::{Code, Failure},
    levels::{self, Axis},
    record::BackendKind,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Write the man pages or the shell completions, for packages
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to write
    #[arg(value_name = "WHAT")]
    what: Target,
    /// Folder for the files; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Target {
    /// One page for the program, and one per subcommand
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}

/// Writes the files for `program`, and prints their paths.
///
/// # Errors
/// Returns an error if the folder cannot be created or a file cannot be written.
pub(super) fn run(args: &Args, program: Command) -> anyhow::Result<Code> {
    let written = match args.what {
        Target::Man => write_man_pages(program, &args.folder),
        Target::Completions => write_completions(&program, &args.folder),
    };
    let files = written.map_err(|error| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("cannot write to {}: {error}", args.folder.display()),
        )
    })?;
    for file in files {
        print_line!("{}", file.display())?;
    }
    Ok(Code::Fine)
}

fn write_completions(program: &Command, folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let mut command = completable(program);
    SHELLS
        .into_iter()
        .map(|shell| generate_to(shell, &mut command, "pxnbench", folder))
        .collect()
}

/// Returns `command` without what is hidden: `clap_complete` would offer it.
fn completable(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned())
        .about(about)
        .version(VERSION)
        .disable_version_flag(true)
        .args(args.map(|arg| with_values(command.get_name(), arg)))
        .subcommands(subcommands.map(completable))
}

/// Returns a copy of `arg` that knows the words it takes, if they are a fixed list.
///
/// The program parses these words itself, because its error messages name the nearest one.
fn with_values(command: &str, arg: &Arg) -> Arg {
    let arg = arg.clone();
    match words(command, arg.get_id().as_str()) {
        Some(words) => arg.value_parser(PossibleValuesParser::new(words)),
        None => arg,
    }
}

/// Returns the words that the argument `id` of `command` takes.
fn words(command: &str, id: &str) -> Option<Vec<String>> {
    let names = |axis| levels::rows(axis).iter().map(|row| row.name.clone());
    let words = match (command, id) {
        // `submit --level` takes the names of templates.
        ("submit", _) => return None,
        (_, "collectives") => or_all(Collective::ALL.map(Collective::name)),
        (_, "datatype") => or_all(DType::ALL.map(DType::name)),
        (_, "op") => or_all(RedOp::ALL.map(RedOp::name)),
        (_, "backend") => {
            let kinds = BackendKind::ALL.map(BackendKind::name);
            ["auto"]
                .into_iter()
                .chain(kinds)
                .map(String::from)
                .collect()
        }
        (_, "level") => names(Axis::Level).collect(),
        (_, "resources") => names(Axis::Resources).collect(),
        (_, "network") => names(Axis::Network).collect(),
        _ => return None,
    };
    Some(words)
}

/// Returns `names`, and the word for all of them.
fn or_all<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.into_iter().chain(["all"]).map(String::from).collect()
}

fn write_man_pages(program: Command, folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    collect_pages(&program, &mut pages);
    pages
        .into_iter()
        .map(|command| write_man_page(command, folder))
        .collect()
}

/// Adds `command` and its visible subcommands, of any depth, to `pages`.
fn collect_pages<'a>(command: &'a Command, pages: &mut Vec<&'a Command>) {
    pages.push(command);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        collect_pages(sub, pages);
    }
}

/// Writes the page of one command.
///
/// Its options are `clap_mangen`'s. The synopsis is the usage line, since all options in one
/// paragraph say little; the text after the help becomes sections of its own, with its line breaks.
fn write_man_page(command: &Command, folder: &Path) -> io::Result<PathBuf> {
    let page = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or("pxnbench");
    let usage = command.clone().render_usage().to_string();
    let after_help = command.get_after_help().map(ToString::to_string);
    let mut text = Vec::new();
    writeln!(
        text,
        ".TH {name} 1 \"\" \"pxnbench {VERSION}\" \"User Commands\""
    )?;
    page.render_name_section(&mut text)?;
    write!(
        text,
        "{}",
        sections(&usage.replace("Usage: ", "Synopsis:\n"))
    )?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    write!(text, "{}", sections(&after_help.unwrap_or_default()))?;
    if name != "pxnbench" {
        writeln!(text, ".SH \"SEE ALSO\"\n.BR pxnbench (1)")?;
    }
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, text)?;
    Ok(file)
}

/// Returns sections in roff for text whose paragraphs each begin with `Heading:`.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    for paragraph in text.split("\n\n") {
        let Some((heading, lines)) = paragraph.split_once(":\n") else {
            continue;
        };
        roff += &format!(".SH \"{}\"\n.nf\n", heading.to_uppercase());
        for line in lines.lines() {
            // A dot or an apostrophe at the start of a line would be a request to roff.
            roff += &format!(
                "\\&{}\n",
                line.trim_start().replace('\\', "\\e").replace('-', "\\-")
            );
        }
        roff += ".fi\n";
    }
    roff
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn text_after_the_help_keeps_its_lines() {
        assert_eq!(
            sections("Examples:\n  a -b \\\n.c\n\nno heading"),
            ".SH \"EXAMPLES\"\n.nf\n\\&a \\-b \\e\n\\&.c\n.fi\n"
        );
    }

    #[test]
    fn the_program_takes_every_word_that_is_offered() {
        let program = crate::cmd::Cli::command();
        let takes = |line: &[&str]| program.clone().try_get_matches_from(line).is_ok();
        for arg in program.get_arguments() {
            for word in words("pxnbench", arg.get_id().as_str()).unwrap_or_default() {
                let line = match arg.get_long() {
                    Some(flag) => vec!["pxnbench".to_owned(), format!("--{flag}={word}")],
                    None => vec!["pxnbench".to_owned(), word],
                };
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                assert!(takes(&line), "{line:?}");
            }
        }
    }
}
