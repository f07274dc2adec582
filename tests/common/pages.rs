//! The pages that teach: their commands, where each can run, and what the pages show of the output.

use std::{fs, path::Path, process::Command, time::Duration};

use super::clean;

/// No page takes longer, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);

/// A block of commands of a page, with the output that the page shows for it.
#[derive(Debug, Default)]
pub struct Block {
    /// Page and line where it begins.
    pub at: String,
    pub place: Place,
    pub commands: Vec<String>,
    /// The lines of the `text` blocks up to the next block of commands.
    pub shown: Vec<String>,
}

/// Where the commands of a block can run. The first line of the block says so to the reader, as a
/// comment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On any machine with MPI.
    #[default]
    Anywhere,
    /// Where Slurm is.
    Cluster,
    /// Only with what a test does not have.
    Elsewhere(&'static str),
}

/// The comments that open a block, up to their colon.
const PLACES: [(&str, Place); 9] = [
    ("# on the login node:", Place::Cluster),
    ("# with the results of the job:", Place::Cluster),
    ("# after a run on GPUs:", Place::Cluster),
    ("# only without a cluster:", Place::Cluster),
    (
        "# once, takes some minutes:",
        Place::Elsewhere("the build of the program itself"),
    ),
    (
        "# on a cluster, with your own names:",
        Place::Elsewhere("the names of a site"),
    ),
    (
        "# on a cluster with 4 GPUs per node:",
        Place::Elsewhere("nodes with 4 GPUs"),
    ),
    ("# on a node with GPUs:", Place::Elsewhere("GPUs")),
    ("# on nodes with GPUs:", Place::Elsewhere("GPUs")),
];

/// Returns the blocks of a page, in order.
pub fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
    let name = page.file_name().expect("a name").to_string_lossy();
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<(&str, usize, Vec<&str>)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut fence, line.strip_prefix("```")) {
            (None, Some(language)) => fence = Some((language, number + 1, Vec::new())),
            (None, None) => {}
            (Some((_, _, lines)), None) => lines.push(line),
            (Some((language, start, lines)), Some(_)) => {
                match *language {
                    "sh" => blocks.push(block(&format!("{name}:{start}"), lines)),
                    "text" => {
                        let last = blocks.last_mut().expect("output follows a command");
                        last.shown
                            .extend(lines.iter().map(|line| (*line).to_owned()));
                    }
                    _ => {}
                }
                fence = None;
            }
        }
    }
    blocks
}

fn block(at: &str, lines: &[&str]) -> Block {
    let opening = lines
        .first()
        .filter(|first| first.starts_with('#') && first.ends_with(':'));
    let place = opening.map(|opening| {
        let known = PLACES.iter().find(|(comment, _)| comment == opening);
        known
            .unwrap_or_else(|| panic!("{at}: no test knows the place {opening}"))
            .1
    });
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in lines {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        match commands.last_mut().filter(|_| continues) {
            Some(last) => *last = format!("{} {}", last.trim_end_matches('\\'), line.trim()),
            None => commands.push((*line).to_owned()),
        }
        continues = line.ends_with('\\');
    }
    Block {
        at: at.to_owned(),
        place: place.unwrap_or_default(),
        commands,
        shown: Vec::new(),
    }
}

/// Returns a command without the comment behind it.
pub fn without_comment(command: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in command.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && before == ' ' => return command[..at].trim_end(),
            None => {}
        }
        before = c;
    }
    command.trim_end()
}

/// Returns the exit codes that the comment behind a command names; without one, 0.
fn expected_codes(command: &str) -> Vec<i32> {
    let comment = &command[without_comment(command).len()..];
    let Some((_, codes)) = comment.split_once("exit code") else {
        return vec![0];
    };
    let words = codes.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Runs blocks in order in one shell in `folder`, and compares exit codes and output with what the
/// page says. `prelude` is run first.
#[track_caller]
pub fn run_blocks(blocks: &[&Block], folder: &Path, prelude: &str) {
    let mut script = format!("exec 2>&1\n{prelude}\n");
    for block in blocks {
        script += &format!("printf '\\n@block %s\\n' {}\n", block.at);
        for command in &block.commands {
            script += &format!("{command}\nprintf '\\n@exit %s\\n' $?\n");
        }
    }
    let file = folder.join(".page.sh");
    fs::write(&file, script).expect("written");
    let mut command = Command::new("bash");
    clean(&mut command);
    let ended = super::run_within(command.arg(&file).current_dir(folder), LIMIT);
    let outputs: Vec<&str> = ended.stdout.split("\n@block ").skip(1).collect();
    assert_eq!(outputs.len(), blocks.len(), "{}", ended.stdout);
    for (block, output) in blocks.iter().zip(outputs) {
        let place = &block.at;
        let mut codes = output
            .lines()
            .filter_map(|line| line.strip_prefix("@exit "));
        for command in &block.commands {
            let code: i32 = codes
                .next()
                .and_then(|code| code.parse().ok())
                .expect("a code");
            assert!(
                expected_codes(command).contains(&code),
                "{place}: {command} ended with {code}\n{output}"
            );
        }
        for line in &block.shown {
            assert!(
                is_shown_by(line, output),
                "{place}: no line of the output is like this one:\n{line}\nbut these are its \
                 lines:\n{output}"
            );
        }
    }
}

/// Whether a line that a page shows is like one of `output`: the same but for numbers and spaces.
/// `…` stands for anything at an end of a line, and on a line of its own for lines that are left
/// out.
fn is_shown_by(line: &str, output: &str) -> bool {
    let from_start = line.trim_end().trim_end_matches('…');
    let shown = from_start.trim_start_matches("… ");
    let (open_start, open_end) = (shown != from_start, from_start != line.trim_end());
    let wanted = plain(shown);
    output
        .lines()
        .map(plain)
        .any(|actual| match (open_start, open_end) {
            (false, false) => actual == wanted,
            (false, true) => actual.starts_with(&wanted),
            (true, false) => actual.ends_with(&wanted),
            (true, true) => actual.contains(&wanted),
        })
}

/// A line with `0` for each number, and one space for several.
fn plain(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ");
    let mut plain = String::new();
    let mut rest = line.as_str();
    while let Some(c) = rest.chars().next() {
        let number = length_of_number(rest);
        match number {
            0 => plain.push(c),
            _ => plain.push('0'),
        }
        rest = &rest[number.max(c.len_utf8())..];
    }
    plain
}

/// The length of the number at the beginning of `text`, as in 12, 4.15 or 3e-6; 0 if there is none.
fn length_of_number(text: &str) -> usize {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut length = digits(text);
    if length == 0 {
        return 0;
    }
    for mark in [".", "e-", "e"] {
        let after = text[length..].strip_prefix(mark).map_or(0, digits);
        if after > 0 {
            length += mark.len() + after;
        }
    }
    length
}

/// Makes what a reader has in `folder`: the program where the build leaves it, and the files of the
/// repository.
pub fn check_out(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let release = folder.join("target/release");
    fs::create_dir_all(&release).expect("made");
    link(Path::new(super::BINARY), &release.join("pxnbench"));
    for name in ["examples", "tests", "docs", "data"] {
        link(&root.join(name), &folder.join(name));
    }
}

fn link(target: &Path, link: &Path) {
    std::os::unix::fs::symlink(target, link).expect("linked");
}

/// The settings that a reader may have from elsewhere: the program in the path, and mpirun on a
/// machine with few cores.
pub fn prelude() -> String {
    let settings = super::MPIRUN_VARIABLES.map(|(name, value)| format!("{name}={value}"));
    format!(
        "export PATH=\"$PWD/target/release:$PATH\" {} OMPI_MCA_orte_tmpdir_base=\"$PWD/.mpi\" \
         PRTE_MCA_prte_tmpdir_base=\"$PWD/.mpi\"\n",
        settings.join(" ")
    )
}

/// Says aloud which commands of a page are not run, and why.
pub fn say_what_is_left_out(page: &str, blocks: &[Block]) {
    let mut left_out = Vec::new();
    for block in blocks {
        if let Place::Elsewhere(need) = block.place {
            left_out.push(format!("{} (needs {need})", block.commands.join("; ")));
        }
    }
    if !left_out.is_empty() {
        let why = format!("{page}: only parsed: {}", left_out.join(", "));
        super::skip("taught", &why);
    }
}
