//! [`ScriptBlocks`]: on which conditions a command of a script depends.

use crate::levels::recipe::shell::Word;

/// The block that a word at the start of a command opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Commands in braces.
    Group,
    Function,
    /// What runs only if a condition holds, or some number of times.
    Condition,
}

/// The blocks around a command, and what is before it on its line.
#[derive(Default)]
pub(super) struct ScriptBlocks {
    /// ScriptBlocks that are open, with their lines.
    open: Vec<(Block, usize)>,
    /// The line of a `&&` or `||` before this command, on which it depends.
    after: Option<usize>,
}

impl ScriptBlocks {
    /// Opens a function whose name is in this line.
    pub(super) fn open_function(&mut self, line: usize) {
        self.open.push((Block::Function, line));
    }

    /// Notes that the next command depends on one in this line.
    pub(super) fn depend_on(&mut self, line: Option<usize>) {
        self.after = self.after.or(line);
    }

    /// Notes that the next command depends on none before it.
    pub(super) fn begin_command(&mut self) {
        self.after = None;
    }

    /// Returns the line of the condition on which the command depends.
    pub(super) fn condition(&self) -> Option<usize> {
        let mut blocks = self.open.iter();
        let block = blocks.find(|(block, _)| *block != Block::Group);
        block.map(|(_, line)| *line).or(self.after)
    }

    /// Opens and closes blocks, and returns the words after the keywords.
    pub(super) fn without_keywords<'a>(&mut self, words: &[&'a Word]) -> Vec<&'a Word> {
        let mut rest = words;
        while let Some(first) = rest.first() {
            let line = first.line;
            match first.text().unwrap_or_default().as_str() {
                "if" | "while" | "until" => self.open.push((Block::Condition, line)),
                "for" | "case" | "select" | "foreach" | "switch" => {
                    self.open.push((Block::Condition, line));
                    return Vec::new();
                }
                "function" => {
                    self.open_function(line);
                    let brace = rest.iter().position(|word| word.written() == "{");
                    rest = brace.map_or(&[], |brace| &rest[brace + 1..]);
                    continue;
                }
                "then" | "else" | "elif" | "do" | "!" | "time" => {}
                "{" => {
                    let innermost = self.open.last();
                    if innermost.is_none_or(|(block, _)| *block != Block::Function) {
                        self.open.push((Block::Group, line));
                    }
                }
                "fi" | "done" | "esac" | "}" | "endif" | "end" | "endsw" => {
                    self.open.pop();
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        rest.to_vec()
    }
}
