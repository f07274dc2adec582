//! The pages that teach are true: each of their commands runs, and does what the page says. What
//! needs Slurm is in `tests/slurm/taught.rs`. A command that can run nowhere here is parsed, and
//! said to be left out.

#[path = "common/mod.rs"]
mod common;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::error::ErrorKind;
use common::{
    pages::{
        Block, Place, blocks, check_out, prelude, run_blocks, say_what_is_left_out, without_comment,
    },
    sentences::{SourceTexts, quotes},
};
use pxnbench::cmd::{Cli, own_options_first};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn page(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The blocks of a page that run anywhere, up to the first one that needs the results of a job.
fn on_any_machine(blocks: &[Block]) -> Vec<&Block> {
    let before_jobs = blocks
        .iter()
        .take_while(|block| block.place != Place::Cluster);
    before_jobs
        .filter(|block| block.place == Place::Anywhere)
        .collect()
}

/// Runs what a page has for any machine.
fn try_page(name: &str) {
    let blocks = blocks(&page(name));
    say_what_is_left_out(name, &blocks);
    if !common::has_mpi() {
        return;
    }
    if Path::new("/proc/driver/nvidia").exists() {
        common::skip("taught", "the pages show a machine without a GPU");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    check_out(folder.path());
    let here = on_any_machine(&blocks);
    assert!(!here.is_empty(), "{name} has no commands");
    run_blocks(&here, folder.path(), &prelude());
}

#[test]
fn the_first_part_of_the_tutorial_runs_as_printed() {
    try_page("docs/TUTORIAL.md");
}

#[test]
fn the_commands_of_the_pxn_guide_run_as_printed() {
    try_page("docs/PXN_GUIDE.md");
}

/// The documents with commands for a shell.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![page("README.md")];
    for folder in ["docs", "docs/zh"] {
        let entries = std::fs::read_dir(page(folder))
            .into_iter()
            .flatten()
            .flatten();
        let pages = entries.map(|entry| entry.path());
        documents.extend(pages.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    documents
}

/// Splits a command as a shell does, without expanding anything; ends at what ends a command.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        let word = words.last_mut().expect("there is always one");
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.push(c),
            None => match c {
                '\'' | '"' => quote = Some(c),
                '|' | '>' | ';' | '&' | ')' => break,
                c if c.is_whitespace() => words.push(String::new()),
                c => word.push(c),
            },
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The command lines of pxnbench in a block.
fn invocations(block: &Block) -> Vec<Vec<String>> {
    let mut invocations = Vec::new();
    for command in &block.commands {
        let mut rest = without_comment(command);
        while let Some(at) = rest.find("pxnbench ") {
            let is_program = rest[..at]
                .chars()
                .last()
                .is_none_or(|c| " (\"/`".contains(c));
            if is_program {
                invocations.push(words(&rest[at..]));
            }
            rest = &rest[at + "pxnbench ".len()..];
        }
    }
    invocations
}

#[test]
fn each_command_of_the_documents_can_be_parsed() {
    let mut parsed = 0;
    for document in documents() {
        for block in blocks(&document) {
            for words in invocations(&block) {
                let line: Vec<OsString> = words.iter().map(OsString::from).collect();
                let result = Cli::parse_words(&own_options_first(line));
                let is_help =
                    |kind| matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                if let Err(error) = result {
                    assert!(
                        is_help(error.kind()),
                        "{} in {}: {words:?}: {error}",
                        block.at,
                        document.display()
                    );
                }
                parsed += 1;
            }
        }
    }
    assert!(parsed > 50, "only {parsed} commands were found");
}

/// The messages in the first cells of a page's tables, by heading.
fn quoted_messages(text: &str) -> Vec<(String, String)> {
    let mut heading = "";
    let mut messages = Vec::new();
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let cell = line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").next());
        let codes = cell.into_iter().flat_map(quotes);
        messages.extend(codes.map(|code| (heading.to_owned(), code.to_owned())));
    }
    messages
}

#[test]
fn each_message_that_troubleshooting_quotes_is_one_that_a_program_prints() {
    let text = std::fs::read_to_string(page("docs/TROUBLESHOOTING.md")).expect("the page");
    let mut own = SourceTexts::below(&["src", "scripts", "slurm", "tests/golden"]);
    // What the tutorial shows is compared with the output.
    own.add(&page("docs/TUTORIAL.md"));
    let mut others = SourceTexts::default();
    for other in documents() {
        if !other.ends_with("TROUBLESHOOTING.md") {
            others.add(&other);
        }
    }
    let messages = quoted_messages(&text);
    assert!(messages.len() > 70, "only {} messages", messages.len());
    let mut unknown = Vec::new();
    for (heading, message) in messages {
        let is_foreign =
            ["Containers", "Kubernetes", "Messages of other programs"].contains(&heading.as_str());
        let is_known = own.have(&message) || (is_foreign && others.have(&message));
        if !is_known {
            unknown.push(format!("{heading}: {message}"));
        }
    }
    assert!(
        unknown.is_empty(),
        "nothing prints these messages:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn the_commands_of_troubleshooting_run_as_printed() {
    try_page("docs/TROUBLESHOOTING.md");
}

/// The translated pages, each with its original.
const TRANSLATIONS: [(&str, &str); 3] = [
    ("docs/zh/README.md", "README.md"),
    ("docs/zh/TUTORIAL.md", "docs/TUTORIAL.md"),
    ("docs/zh/PXN_GUIDE.md", "docs/PXN_GUIDE.md"),
];

/// The commands of a page without their comments, and the output that it shows, block by block.
fn without_comments(page: &Path) -> Vec<(Vec<String>, Vec<String>)> {
    let bare = |command: &String| without_comment(command).to_owned();
    let blocks = blocks(page).into_iter();
    blocks
        .map(|block| (block.commands.iter().map(bare).collect(), block.shown))
        .collect()
}

#[test]
fn translated_pages_have_the_commands_and_the_output_of_their_originals() {
    for (translation, original) in TRANSLATIONS {
        let (translated, originals) = (
            without_comments(&page(translation)),
            without_comments(&page(original)),
        );
        for (ours, theirs) in translated.iter().zip(&originals) {
            assert_eq!(ours, theirs, "{translation} differs from {original}");
        }
        assert_eq!(translated.len(), originals.len(), "{translation}");
    }
}

/// The code in the sentences and tables of a page that has something to type: commands, flags,
/// variables, settings.
fn code_in_sentences(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page(name)).expect("a page");
    let mut in_block = false;
    let mut sentences = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            sentences += line;
            sentences += " ";
        }
    }
    let codes = sentences.split('`').skip(1).step_by(2);
    let mut typed: Vec<String> = codes
        .filter(|code| code.contains(' ') || code.contains('=') || code.starts_with('-'))
        .map(str::to_owned)
        .collect();
    typed.sort();
    typed.dedup();
    typed
}

#[test]
fn translated_pages_have_the_code_of_their_originals_in_sentences_too() {
    for (translation, original) in TRANSLATIONS {
        let (ours, theirs) = (code_in_sentences(translation), code_in_sentences(original));
        assert_eq!(ours, theirs, "{translation}");
    }
}

/// The headings of a page, by their depth.
fn headings(name: &str) -> Vec<usize> {
    let text = std::fs::read_to_string(page(name)).expect("a page");
    let mut in_block = false;
    let mut depths = Vec::new();
    for line in text.lines() {
        in_block ^= line.starts_with("```");
        if !in_block && line.starts_with('#') {
            depths.push(line.len() - line.trim_start_matches('#').len());
        }
    }
    depths
}

#[test]
fn translated_pages_have_the_sections_of_their_originals() {
    for (translation, original) in TRANSLATIONS {
        assert_eq!(headings(translation), headings(original), "{translation}");
    }
}
