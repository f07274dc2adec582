//! Shell and batch scripts: the variables that they export, and those that they set for a command.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    data::{Assignment, InForce, Recipe, Unseen},
    form::Form,
    shell::{Part, Token, Word, tokens},
    variable::{is_audited, is_name, mentions_audited},
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

/// Commands that start no program which reads NCCL's settings.
const WITHOUT_NCCL: [&str; 14] = [
    "cd", "echo", "printf", "true", ":", "test", "[", "[[", "mkdir", "sleep", "ulimit", "umask",
    "shopt", "date",
];

/// The most states that are compared; scripts of loops would have many.
const MOST_STATES: usize = 200;

/// The deepest nesting of a script in quotes inside a script.
const DEEPEST: usize = 4;

/// Reads a script.
pub(super) fn read(text: &str) -> Recipe {
    let mut reader = Reader::default();
    reader.recipe.form = Form::Script;
    reader.read(&tokens(text, 1), 0);
    reader.finish()
}

/// Reads a line of another file that may be a part of a script.
pub(super) fn read_line(text: &str, line: usize) -> Vec<Assignment> {
    let mut reader = Reader::default();
    reader.read(&tokens(text, line), 0);
    reader.recipe.assignments
}

/// The block that a word at the start of a command opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Commands in braces.
    Group,
    Function,
    /// What runs only if a condition holds, or some number of times.
    Condition,
}

#[derive(Default)]
struct Reader {
    recipe: Recipe,
    /// Blocks that are open, with their lines.
    blocks: Vec<(Block, usize)>,
    /// For each name what may be in force: one that is sure, and then conditional ones.
    current: BTreeMap<String, Vec<usize>>,
    /// Values of the shell's own variables that the script alone decides.
    variables: BTreeMap<String, String>,
    /// Whether all that is set is exported, as after `set -a`.
    exports_all: bool,
    /// The line of a `&&` or `||` before this command, on which it depends.
    after: Option<usize>,
    /// Assignments that no program has seen yet, as indices.
    unused: BTreeSet<usize>,
    /// Those of them that were unset.
    unset: BTreeSet<usize>,
}

impl Reader {
    fn read(&mut self, all: &[Token], depth: usize) {
        let mut words: Vec<&Word> = Vec::new();
        let mut is_file = false;
        for (at, token) in all.iter().enumerate() {
            match token {
                Token::Word(_) if is_file => is_file = false,
                Token::Word(word) => words.push(word),
                Token::Redirection => is_file = true,
                Token::HereDocument(text, line) => {
                    if mentions_audited(text) && depth < DEEPEST {
                        self.read(&tokens(text, *line), depth + 1);
                    }
                }
                Token::Comment(text, line) => self.read_directive(text, *line),
                Token::Open => {
                    if all.get(at + 1) == Some(&Token::Close)
                        && let [name] = words[..]
                    {
                        self.blocks.push((Block::Function, name.line));
                        words.clear();
                    } else {
                        self.read_command(&std::mem::take(&mut words), depth);
                    }
                }
                Token::End | Token::Close => {
                    self.read_command(&std::mem::take(&mut words), depth);
                    self.after = None;
                }
                Token::And | Token::Or => {
                    let line = words.first().map(|word| word.line);
                    let sets = self.read_command(&std::mem::take(&mut words), depth);
                    // Setting a variable does not fail.
                    if !sets || *token == Token::Or {
                        self.after = self.after.or(line);
                    }
                }
            }
        }
    }

    /// Reads the variables in a directive of a batch system: `#SBATCH --export=ALL,NAME=value`.
    fn read_directive(&mut self, text: &str, line: usize) {
        let mut marks = ["SBATCH", "PBS"].iter();
        let Some(rest) = marks.find_map(|mark| text.strip_prefix(mark)) else {
            return;
        };
        self.recipe.is_job = true;
        let words: Vec<Word> = words_of(&tokens(rest, line));
        let words: Vec<&Word> = words.iter().collect();
        for (name, value, line) in self.options(&words) {
            self.set(&name, value, line, true);
        }
        if let Some(list) = list_without_all(&words) {
            self.recipe.unseen.push(Unseen {
                line,
                what: format!(
                    "--export={list} has no ALL, so ranks that srun starts see nothing else that is exported here. Put ALL \
                     first in the list, or give srun --export=ALL"
                ),
            });
        }
    }

    /// Reads a command, and returns whether all that it does is to set variables.
    fn read_command(&mut self, words: &[&Word], depth: usize) -> bool {
        let words = self.without_keywords(words);
        self.read_commands_in_values(&words, depth);
        let Some(first) = words.first() else {
            return false;
        };
        let before = words.iter().map_while(|word| word.assignment());
        let before: Vec<(String, Word)> = before.collect();
        if before.len() == words.len() {
            for (name, value) in before {
                let line = value.line;
                let is_exported = self.exports_all || self.is_exported(&name);
                self.set(&name, Some(value), line, is_exported);
            }
            return true;
        }
        let line = first.line;
        let command = &words[before.len()..];
        let program = base_name(&command[0].written());
        let arguments = &command[1..];
        match program.as_str() {
            "export" | "declare" | "typeset" | "readonly" | "local" | "ENV" => {
                self.read_export(&program, arguments);
                return true;
            }
            "setenv" => {
                if let [name, value] = arguments {
                    self.set(&name.written(), Some((*value).clone()), line, true);
                }
                return true;
            }
            "unset" | "unsetenv" => {
                self.read_unset(arguments);
                return true;
            }
            "set" => self.read_set(arguments),
            "source" | "." => self.add_unseen(line, arguments, "is read there, and may set more"),
            "module" | "ml" => self.add_unseen(line, arguments, "is a module, which may set more"),
            _ => self.read_run(before, command, depth),
        }
        false
    }

    /// Reads commands and options that a variable holds: `run="mpirun -x NAME=value"`.
    fn read_commands_in_values(&mut self, words: &[&Word], depth: usize) {
        for word in words {
            let written = word.written();
            let Some((name, value)) = written.split_once('=') else {
                break;
            };
            let is_shells = is_name(name.trim_end_matches('+')) && !is_audited(name);
            let is_command = mentions_audited(value) && value.trim().contains(char::is_whitespace);
            if is_shells && is_command && depth < DEEPEST {
                self.read(&tokens(value, word.line), depth + 1);
            }
        }
    }

    /// Opens and closes blocks, and returns the words after the keywords.
    fn without_keywords<'a>(&mut self, words: &[&'a Word]) -> Vec<&'a Word> {
        let mut rest = words;
        while let Some(first) = rest.first() {
            let line = first.line;
            match first.text().unwrap_or_default().as_str() {
                "if" | "while" | "until" => self.blocks.push((Block::Condition, line)),
                "for" | "case" | "select" | "foreach" | "switch" => {
                    self.blocks.push((Block::Condition, line));
                    return Vec::new();
                }
                "function" => {
                    self.blocks.push((Block::Function, line));
                    let brace = rest.iter().position(|word| word.written() == "{");
                    rest = brace.map_or(&[], |brace| &rest[brace + 1..]);
                    continue;
                }
                "then" | "else" | "elif" | "do" | "!" | "time" => {}
                "{" => {
                    if self
                        .blocks
                        .last()
                        .is_none_or(|(block, _)| *block != Block::Function)
                    {
                        self.blocks.push((Block::Group, line));
                    }
                }
                "fi" | "done" | "esac" | "}" | "endif" | "end" | "endsw" => {
                    self.blocks.pop();
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        rest.to_vec()
    }

    fn condition(&self) -> Option<usize> {
        let mut blocks = self.blocks.iter();
        let block = blocks.find(|(block, _)| *block != Block::Group);
        block.map(|(_, line)| *line).or(self.after)
    }

    fn read_export(&mut self, program: &str, arguments: &[&Word]) {
        let is_export = matches!(program, "export" | "ENV");
        let exports = is_export
            || arguments.iter().any(|word| {
                let text = word.written();
                text.starts_with('-') && text.contains('x')
            });
        if program == "ENV"
            && let [name, value] = arguments
            && is_name(&name.written())
        {
            self.set(&name.written(), Some((*value).clone()), name.line, true);
            return;
        }
        for word in arguments {
            if let Some((name, value)) = word.assignment() {
                let is_exported = exports || self.exports_all;
                self.set(&name, Some(value), word.line, is_exported);
            } else if exports && is_name(&word.written()) {
                self.export(&word.written(), word.line);
            }
        }
    }

    /// Makes programs see a variable that is set, or else that of the caller.
    fn export(&mut self, name: &str, line: usize) {
        match self.current.get(name) {
            Some(set) if !set.is_empty() => {
                for at in set {
                    self.recipe.assignments[*at].is_exported = true;
                }
            }
            _ => self.set(name, None, line, true),
        }
    }

    fn is_exported(&self, name: &str) -> bool {
        let set = self.current.get(name).into_iter().flatten();
        let mut set = set.map(|at| &self.recipe.assignments[*at]);
        set.any(|assignment| assignment.is_exported)
    }

    fn read_unset(&mut self, arguments: &[&Word]) {
        for word in arguments {
            let name = word.written();
            self.variables.remove(&name);
            if self.condition().is_none() {
                let set = self.current.remove(&name).unwrap_or_default();
                let unused = set.into_iter().filter(|at| self.unused.contains(at));
                self.unset.extend(unused);
            }
        }
    }

    fn read_set(&mut self, arguments: &[&Word]) {
        let words: Vec<String> = arguments.iter().map(|word| word.written()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["-a"] | ["-o", "allexport"] => self.exports_all = true,
            ["+a"] | ["+o", "allexport"] => self.exports_all = false,
            _ => {}
        }
    }

    fn add_unseen(&mut self, line: usize, arguments: &[&Word], what: &str) {
        let words: Vec<String> = arguments.iter().map(|word| word.written()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let named = match words[..] {
            ["load" | "add", ref modules @ ..] if !modules.is_empty() => modules.join(" "),
            [file] | [file, ..] if what.starts_with("is read") => file.to_owned(),
            _ => return,
        };
        self.recipe.unseen.push(Unseen {
            line,
            what: format!("{named} {what}"),
        });
    }

    /// Reads a command that runs a program, with the variables that it sets for it.
    fn read_run(&mut self, before: Vec<(String, Word)>, command: &[&Word], depth: usize) {
        let saved = self.current.clone();
        let count = self.recipe.assignments.len();
        for (name, value) in before {
            let line = value.line;
            self.set(&name, Some(value), line, true);
        }
        let launcher = command.iter().position(|word| is_launcher(word));
        if let Some(launcher) = launcher {
            self.leave_out_exports(&command[launcher..]);
            for (name, value, line) in self.options(&command[launcher..]) {
                match value {
                    Some(value) => self.set(&name, Some(value), line, true),
                    None => self.export(&name, line),
                }
            }
        }
        for (name, value) in env_command(command) {
            let line = value.line;
            self.set(&name, Some(value), line, true);
        }
        if depth < DEEPEST {
            self.read_quoted_script(command, depth);
        }
        if launcher.is_some() || self.recipe.assignments.len() > count {
            self.add_state();
        }
        if !WITHOUT_NCCL.contains(&base_name(&command[0].written()).as_str()) {
            self.unused.clear();
        }
        self.current = saved;
    }

    /// Forgets what is exported, if Slurm's command does not hand it on: `srun --export=NONE`.
    fn leave_out_exports(&mut self, command: &[&Word]) {
        let program = base_name(&command[0].written());
        if !matches!(program.as_str(), "srun" | "sbatch" | "salloc") {
            return;
        }
        let Some(list) = list_without_all(command) else {
            return;
        };
        self.current.clear();
        self.recipe.unseen.push(Unseen {
            line: command[0].line,
            what: format!(
                "{program} --export={list} has no ALL, so these ranks see nothing else that is exported. Put ALL first in \
                 the list"
            ),
        });
    }

    /// Returns the variables that the options of a command set: name, value if there is one, line.
    fn options(&mut self, words: &[&Word]) -> Vec<(String, Option<Word>, usize)> {
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
                    found.push((next.written(), Some((*value).clone()), next.line));
                }
                if LISTS.contains(&option) && !ONE_VARIABLE.contains(&option) {
                    found.extend(self.list(next));
                }
            }
            for name in LISTS {
                if let Some(rest) = without_prefix(word, &format!("{name}=")) {
                    found.extend(self.list(&rest));
                }
            }
        }
        found
    }

    /// Returns the variables of a list such as `ALL,NAME=value`.
    fn list(&mut self, word: &Word) -> Vec<(String, Option<Word>, usize)> {
        let mut found = Vec::new();
        let mut last = String::new();
        for item in items(word) {
            if let Some(variable) = one_variable(&item) {
                last.clone_from(&variable.0);
                found.push(variable);
            } else if let Some(piece) = item.text()
                && piece.contains(|c: char| c.is_ascii_lowercase())
                && is_audited(&last)
            {
                self.recipe.unseen.push(Unseen {
                    line: item.line,
                    what: format!(
                        "{piece} is not a part of {last}: a comma separates variables in this list"
                    ),
                });
            }
        }
        found
    }

    /// Reads the script in `bash -c "…"`.
    fn read_quoted_script(&mut self, command: &[&Word], depth: usize) {
        for pair in command.windows(2) {
            let is_c = pair[0].written().starts_with('-') && pair[0].written().ends_with('c');
            let script = pair[1].written();
            if is_c && script.contains(char::is_whitespace) {
                self.read(&tokens(&script, pair[1].line), depth + 1);
            }
        }
    }

    fn set(&mut self, name: &str, value: Option<Word>, line: usize, is_exported: bool) {
        let known = value.as_ref().and_then(|value| self.resolve(value));
        let condition = self.condition();
        match &known {
            Some(known) if condition.is_none() => {
                self.variables.insert(name.to_owned(), known.clone());
            }
            _ => {
                self.variables.remove(name);
            }
        }
        if !is_audited(name) {
            return;
        }
        let at = self.recipe.assignments.len();
        self.unused.insert(at);
        self.recipe.assignments.push(Assignment {
            line,
            name: name.to_owned(),
            value: known,
            written: value.map_or_else(|| "(from the caller)".to_owned(), |value| value.written()),
            condition,
            is_exported,
        });
        let set = self.current.entry(name.to_owned()).or_default();
        if condition.is_none() {
            set.clear();
        }
        set.push(at);
    }

    /// Returns the value of a word, if the script alone decides it.
    fn resolve(&self, word: &Word) -> Option<String> {
        let mut text = String::new();
        for part in &word.parts {
            match part {
                Part::Text(more) => text += more,
                Part::Variable(name) => text += self.variables.get(name)?,
                Part::Unknown(_) => return None,
            }
        }
        Some(text)
    }

    /// Notes what is in force here.
    fn add_state(&mut self) {
        let mut state = InForce::default();
        for set in self.current.values() {
            let exported = set
                .iter()
                .filter(|at| self.recipe.assignments[**at].is_exported);
            let exported: Vec<usize> = exported.copied().collect();
            let first = exported.first().copied();
            let is_sure = |at: &usize| self.recipe.assignments[*at].condition.is_none();
            state.sure.extend(first.filter(is_sure));
            state.possible.extend(exported.last());
        }
        let states = &mut self.recipe.in_force;
        if states.len() < MOST_STATES && !states.contains(&state) {
            states.push(state);
        }
    }

    fn finish(mut self) -> Recipe {
        self.add_state();
        self.leave_out_unset();
        self.recipe
    }

    /// Removes what was unset before any program saw it.
    fn leave_out_unset(&mut self) {
        let mut new_places = BTreeMap::new();
        let mut kept = Vec::new();
        for (at, assignment) in std::mem::take(&mut self.recipe.assignments)
            .into_iter()
            .enumerate()
        {
            if !self.unset.contains(&at) {
                new_places.insert(at, kept.len());
                kept.push(assignment);
            }
        }
        self.recipe.assignments = kept;
        let moved = |old: &[usize]| -> Vec<usize> {
            let places = old.iter().filter_map(|at| new_places.get(at));
            places.copied().collect()
        };
        for state in &mut self.recipe.in_force {
            state.sure = moved(&state.sure);
            state.possible = moved(&state.possible);
        }
    }
}

/// Returns the list of Slurm's `--export` as it is written, if the caller's environment is not in it.
fn list_without_all(words: &[&Word]) -> Option<String> {
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
fn env_command(command: &[&Word]) -> Vec<(String, Word)> {
    const WITH_ARGUMENT: [&str; 3] = ["-u", "--unset", "-C"];
    let is_env = |word: &&Word| base_name(&word.written()) == "env";
    let mut found = Vec::new();
    let mut words = command.iter().copied();
    if !words.any(|word| is_env(&word)) {
        return found;
    }
    while let Some(word) = words.next() {
        let text = word.written();
        if let Some(set) = word.assignment() {
            found.push(set);
        } else if WITH_ARGUMENT.contains(&text.as_str()) {
            words.next();
        } else if !text.starts_with('-') {
            break;
        }
    }
    found
}

fn words_of(tokens: &[Token]) -> Vec<Word> {
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.clone()),
        _ => None,
    });
    words.collect()
}

/// Returns the name of a program without its folder.
fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns whether a word starts programs, or is an option of a command in a variable.
fn is_launcher(word: &Word) -> bool {
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

fn one_variable(word: &Word) -> Option<(String, Option<Word>, usize)> {
    if let Some((name, value)) = word.assignment() {
        return Some((name, Some(value), word.line));
    }
    let name = word.text()?;
    is_audited(&name).then_some((name, None, word.line))
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
                items.push(std::mem::replace(&mut item, empty()));
            }
            item.parts.push(Part::Text(piece.to_owned()));
        }
    }
    items.push(item);
    items
}
