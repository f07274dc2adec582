//! Shell and batch scripts: the variables that they export, and those that they set for a command.

mod blocks;
mod options;
mod state;

use std::mem;

use self::{
    blocks::ScriptBlocks,
    options::{SetVariable, base_name, env_command, is_launcher, list_without_all, options},
    state::{CurrentVariables, ScriptState},
};
use super::{
    data::{Assignment, Recipe, Unseen},
    form::Form,
    shell::{Token, Word, tokens},
    variable::{is_audited, is_name, mentions_audited},
};

/// Commands that start no program which reads NCCL's settings.
const WITHOUT_NCCL: [&str; 14] = [
    "cd", "echo", "printf", "true", ":", "test", "[", "[[", "mkdir", "sleep", "ulimit", "umask",
    "shopt", "date",
];

/// The deepest nesting of a script in quotes inside a script.
const DEEPEST: usize = 4;

/// Reads a script.
pub(super) fn read(text: &str) -> Recipe {
    let mut reader = ScriptReader::default();
    reader.read(&tokens(text, 1), 0);
    let mut recipe = reader.recipe;
    recipe.form = Form::Script;
    reader.state.add_to(&mut recipe);
    recipe
}

/// Reads a line of another file that may be a part of a script.
pub(super) fn read_line(text: &str, line: usize) -> Vec<Assignment> {
    let mut reader = ScriptReader::default();
    reader.read(&tokens(text, line), 0);
    reader.state.into_assignments()
}

/// Reads the commands of a script, one after the other.
#[derive(Default)]
struct ScriptReader {
    /// What is found beside assignments.
    recipe: Recipe,
    state: ScriptState,
    blocks: ScriptBlocks,
}

impl ScriptReader {
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
                        self.blocks.open_function(name.line);
                        words.clear();
                    } else {
                        self.read_command(&mem::take(&mut words), depth);
                    }
                }
                Token::End | Token::Close => {
                    self.read_command(&mem::take(&mut words), depth);
                    self.blocks.begin_command();
                }
                Token::And | Token::Or => {
                    let line = words.first().map(|word| word.line);
                    let sets = self.read_command(&mem::take(&mut words), depth);
                    // Setting a variable does not fail.
                    if !sets || *token == Token::Or {
                        self.blocks.depend_on(line);
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
        for variable in options(&words, &mut self.recipe.unseen) {
            self.set(variable, true);
        }
        if let Some(list) = list_without_all(&words) {
            self.recipe.unseen.push(Unseen {
                line,
                what: format!(
                    "--export={list} has no ALL, so ranks that srun starts see nothing else that \
                     is exported here. Put ALL first in the list, or give srun --export=ALL"
                ),
            });
        }
    }

    /// Reads a command, and returns whether all that it does is to set variables.
    fn read_command(&mut self, words: &[&Word], depth: usize) -> bool {
        let words = self.blocks.without_keywords(words);
        self.read_commands_in_values(&words, depth);
        let Some(first) = words.first() else {
            return false;
        };
        let before = words.iter();
        let before = before.map_while(|word| SetVariable::of_assignment(word));
        let before: Vec<SetVariable> = before.collect();
        if before.len() == words.len() {
            for variable in before {
                let is_exported = self.state.exports_all || self.state.is_exported(&variable.name);
                self.set(variable, is_exported);
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
                    self.set(pair(name, value, line), true);
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
            self.set(pair(name, value, name.line), true);
            return;
        }
        for word in arguments {
            if let Some(variable) = SetVariable::of_assignment(word) {
                let is_exported = exports || self.state.exports_all;
                self.set(variable, is_exported);
            } else if exports && is_name(&word.written()) {
                self.export(&word.written(), word.line);
            }
        }
    }

    fn read_unset(&mut self, arguments: &[&Word]) {
        for word in arguments {
            let condition = self.blocks.condition();
            self.state.unset(&word.written(), condition);
        }
    }

    fn read_set(&mut self, arguments: &[&Word]) {
        let words: Vec<String> = arguments.iter().map(|word| word.written()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["-a"] | ["-o", "allexport"] => self.state.exports_all = true,
            ["+a"] | ["+o", "allexport"] => self.state.exports_all = false,
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
    fn read_run(&mut self, before: Vec<SetVariable>, command: &[&Word], depth: usize) {
        let saved = self.state.current();
        let count = self.state.count();
        for variable in before {
            self.set(variable, true);
        }
        let launcher = command.iter().position(|word| is_launcher(word));
        if let Some(launcher) = launcher {
            self.leave_out_exports(&command[launcher..]);
            for variable in options(&command[launcher..], &mut self.recipe.unseen) {
                match variable.value {
                    Some(_) => self.set(variable, true),
                    None => self.export(&variable.name, variable.line),
                }
            }
        }
        for variable in env_command(command) {
            self.set(variable, true);
        }
        if depth < DEEPEST {
            self.read_quoted_script(command, depth);
        }
        if launcher.is_some() || self.state.count() > count {
            self.state.note_in_force();
        }
        if !WITHOUT_NCCL.contains(&base_name(&command[0].written()).as_str()) {
            self.state.run_program();
        }
        self.state.set_current(saved);
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
        self.state.set_current(CurrentVariables::new());
        self.recipe.unseen.push(Unseen {
            line: command[0].line,
            what: format!(
                "{program} --export={list} has no ALL, so these ranks see nothing else that is \
                 exported. Put ALL first in the list"
            ),
        });
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

    fn set(&mut self, variable: SetVariable, is_exported: bool) {
        let condition = self.blocks.condition();
        self.state.set(variable, is_exported, condition);
    }

    fn export(&mut self, name: &str, line: usize) {
        let condition = self.blocks.condition();
        self.state.export(name, line, condition);
    }
}

/// Returns the variable that two words set, as in `setenv NAME value`.
fn pair(name: &Word, value: &Word, line: usize) -> SetVariable {
    SetVariable {
        name: name.written(),
        value: Some(value.clone()),
        line,
    }
}

fn words_of(tokens: &[Token]) -> Vec<Word> {
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.clone()),
        _ => None,
    });
    words.collect()
}
