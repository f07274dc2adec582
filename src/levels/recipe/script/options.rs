//! The variables that commands and options set for other programs: those of launchers, of Slurm,
//! and of `env`.

use std::mem;

use crate::levels::recipe::{
    data::Unseen,
    shell::{Part, Word},
    variable::{is_audited, is_name},
};

/// Commands that start a program on other ranks, or in a container.
const LAUNCHERS: [&str; 13] = [
    "srun",
    "sbatch",
    "salloc",
    "mpirun",
    "mpiexec",
    "orterun",
    "prun",
    "docker",
    "podman",
    "singularity",
    "apptainer",
    "torchrun",
    "deepspeed",
];

/// Options that are followed by a variable: `NAME=value`, or the name alone.
const ONE_VARIABLE: [&str; 4] = ["-x", "-e", "--env", "--genv"];

/// Options that are followed by a name and then a value.
const NAME_AND_VALUE: [&str; 2] = ["-genv", "-env"];

/// Options with a list of variables, separated by commas.
const LISTS: [&str; 3] = ["--export", "--env", "-v"];

/// A variable that is set.
pub(super) struct SetVariable {
    pub(super) name: String,
    /// The value; `None` for that of the caller.
    pub(super) value: Option<Word>,
    pub(super) line: usize,
}

impl SetVariable {
    /// Returns the variable that a word such as `NAME=value` sets.
    pub(super) fn of_assignment(word: &Word) -> Option<SetVariable> {
        let (name, value) = word.assignment()?;
        Some(SetVariable {
            name,
            line: value.line,
            value: Some(value),
        })
    }
}

/// Returns the variables that the options of a command set. Adds what is not a variable of a list
/// to `unseen`.
pub(super) fn options(words: &[&Word], unseen: &mut Vec<Unseen>) -> Vec<SetVariable> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let option = word.written();
        let option = option.as_str();
        let next = words.get(at + 1);
        if let Some(next) = next {
            if ONE_VARIABLE.contains(&option) {
                found.extend(one_variable(next));
            }
            if NAME_AND_VALUE.contains(&option)
                && let Some(value) = words.get(at + 2)
                && is_name(&next.written())
            {
                found.push(SetVariable {
                    name: next.written(),
                    value: Some((*value).clone()),
                    line: next.line,
                });
            }
            if LISTS.contains(&option) && !ONE_VARIABLE.contains(&option) {
                found.extend(list(next, unseen));
            }
        }
        for name in LISTS {
            if let Some(rest) = without_prefix(word, &format!("{name}=")) {
                found.extend(list(&rest, unseen));
            }
        }
    }
    found
}

/// Returns the variables of a list such as `ALL,NAME=value`.
fn list(word: &Word, unseen: &mut Vec<Unseen>) -> Vec<SetVariable> {
    let mut found = Vec::new();
    let mut last = String::new();
    for item in items(word) {
        if let Some(variable) = one_variable(&item) {
            last.clone_from(&variable.name);
            found.push(variable);
        } else if let Some(piece) = item.text()
            && piece.contains(|c: char| c.is_ascii_lowercase())
            && is_audited(&last)
        {
            unseen.push(Unseen {
                line: item.line,
                what: format!(
                    "{piece} is not a part of {last}: a comma separates variables in this list"
                ),
            });
        }
    }
    found
}

/// Returns the list of Slurm's `--export` as it is written, if the caller's environment is not in
/// it.
pub(super) fn list_without_all(words: &[&Word]) -> Option<String> {
    for (at, word) in words.iter().enumerate() {
        let written = word.written();
        let list = match written.strip_prefix("--export=") {
            Some(list) => list.to_owned(),
            None if written == "--export" => words.get(at + 1)?.written(),
            None => continue,
        };
        // What a variable holds is not known.
        let has_all = list.split(',').any(|item| item.eq_ignore_ascii_case("ALL"));
        return (!has_all && !list.contains('$')).then_some(list);
    }
    None
}

/// Returns what `env` sets for a program, as in `srun env -u A NAME=value program`.
pub(super) fn env_command(command: &[&Word]) -> Vec<SetVariable> {
    const WITH_ARGUMENT: [&str; 3] = ["-u", "--unset", "-C"];
    let is_env = |word: &&Word| base_name(&word.written()) == "env";
    let mut found = Vec::new();
    let mut words = command.iter().copied();
    if !words.any(|word| is_env(&word)) {
        return found;
    }
    while let Some(word) = words.next() {
        let text = word.written();
        if let Some(set) = SetVariable::of_assignment(word) {
            found.push(set);
        } else if WITH_ARGUMENT.contains(&text.as_str()) {
            words.next();
        } else if !text.starts_with('-') {
            break;
        }
    }
    found
}

/// Returns the name of a program without its folder.
pub(super) fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns whether a word starts programs, or is an option of a command in a variable.
pub(super) fn is_launcher(word: &Word) -> bool {
    let word = word.written();
    let name = base_name(&word);
    LAUNCHERS.contains(&name.as_str())
        || name.starts_with("mpirun")
        || name.starts_with("mpiexec")
        || ONE_VARIABLE.contains(&word.as_str())
        || NAME_AND_VALUE.contains(&word.as_str())
}

/// Returns a word without its first letters, if it begins with them.
fn without_prefix(word: &Word, prefix: &str) -> Option<Word> {
    let Part::Text(first) = word.parts.first()? else {
        return None;
    };
    let rest = first.strip_prefix(prefix)?;
    let mut parts = vec![Part::Text(rest.to_owned())];
    parts.extend_from_slice(&word.parts[1..]);
    let line = word.line;
    Some(Word { parts, line })
}

fn one_variable(word: &Word) -> Option<SetVariable> {
    if let Some(variable) = SetVariable::of_assignment(word) {
        return Some(variable);
    }
    let name = word.text()?;
    is_audited(&name).then_some(SetVariable {
        name,
        value: None,
        line: word.line,
    })
}

/// Splits a word at its commas.
fn items(word: &Word) -> Vec<Word> {
    let empty = || Word {
        parts: Vec::new(),
        line: word.line,
    };
    let mut items = Vec::new();
    let mut item = empty();
    for part in &word.parts {
        let Part::Text(text) = part else {
            item.parts.push(part.clone());
            continue;
        };
        for (at, piece) in text.split(',').enumerate() {
            if at > 0 {
                items.push(mem::replace(&mut item, empty()));
            }
            item.parts.push(Part::Text(piece.to_owned()));
        }
    }
    items.push(item);
    items
}
