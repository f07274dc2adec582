//! The variables in a Kubernetes or Compose file, line by line: `- name: NCCL_X` with `value: "…"`,
//! `NCCL_X: "…"`, `- NCCL_X=…`, and scripts in it.

use super::{
    data::{Assignment, InForce, Recipe},
    form::Form,
    script,
    variable::{self, is_audited, is_name, mentions_audited},
};

/// Reads a file.
pub(super) fn read(text: &str) -> Recipe {
    let mut reader = Reader::default();
    for (at, line) in text.lines().enumerate() {
        reader.read(line, at + 1);
    }
    reader.end_list();
    Recipe {
        form: Form::Yaml,
        in_force: reader.in_force,
        assignments: reader.found,
        ..Recipe::default()
    }
}

/// Keys that begin the variables of another container, and what begins another document.
const NEXT: [&str; 3] = ["env:", "environment:", "---"];

#[derive(Default)]
struct Reader {
    found: Vec<Assignment>,
    /// What is in force together, in one container.
    in_force: Vec<InForce>,
    /// The number of variables before this container.
    before: usize,
    /// A name that waits for its value.
    name: Option<(String, usize)>,
}

impl Reader {
    fn read(&mut self, line: &str, number: usize) {
        let line = without_comment(line).trim();
        if NEXT.contains(&line) {
            self.end_list();
        }
        let item = line.strip_prefix("- ").unwrap_or(line).trim();
        let flow = item
            .strip_prefix('{')
            .and_then(|item| item.strip_suffix('}'));
        if let Some(flow) = flow {
            for pair in flow.split(',') {
                self.read_pair(pair.trim(), number);
            }
            self.end_name();
            return;
        }
        if line.starts_with("- ") {
            self.end_name();
        }
        if !self.read_pair(item, number) {
            self.read_text(item, number);
        }
    }

    /// Reads `key: value`, and returns whether it is of a variable.
    fn read_pair(&mut self, pair: &str, number: usize) -> bool {
        let Some((key, value)) = pair.split_once(':') else {
            return false;
        };
        let (key, value) = (unquoted(key.trim()), value.trim());
        match key {
            "name" if is_variable(unquoted(value)) => {
                self.end_name();
                self.name = Some((unquoted(value).to_owned(), number));
            }
            "value" => {
                if let Some((name, _)) = self.name.take() {
                    self.add(&name, value, number);
                }
            }
            "valueFrom" => self.end_name(),
            key if is_variable(key) => self.add(key, value, number),
            _ => return false,
        }
        true
    }

    /// Reads a part of a script, or `NCCL_X=…` in a list.
    fn read_text(&mut self, text: &str, number: usize) {
        if !mentions_audited(text) {
            return;
        }
        let text = unquoted(text);
        let alone = variable::assignment(text)
            .filter(|(name, value)| is_audited(name) && !value.contains(char::is_whitespace));
        if let Some((name, value)) = alone {
            self.add(name, value, number);
            return;
        }
        let mut found = script::read_line(text, number);
        // `[bash, -c, "…"]`
        for quote in ['"', '\''] {
            if found.is_empty() {
                let quoted = text.split(quote).skip(1).step_by(2);
                found.extend(quoted.flat_map(|script| script::read_line(script, number)));
            }
        }
        self.found.extend(found);
    }

    fn add(&mut self, name: &str, value: &str, line: usize) {
        let bare = unquoted(value);
        let is_known = !["{{", "$(", "${", "&", "*"]
            .iter()
            .any(|mark| bare.contains(mark) && (mark.len() > 1 || bare.starts_with(mark)));
        let value = is_known.then_some(bare);
        self.found
            .push(Assignment::certain(line, name, value, bare));
    }

    /// Ends the variables of a container.
    fn end_list(&mut self) {
        self.end_name();
        let found = &self.found;
        let is_last = |at: &usize| {
            let later = &found[*at + 1..];
            later.iter().all(|later| later.name != found[*at].name)
        };
        let sure: Vec<usize> = (self.before..found.len()).filter(is_last).collect();
        self.before = found.len();
        self.in_force.push(InForce {
            possible: sure.clone(),
            sure,
        });
    }

    /// Gives up on the value of a name.
    fn end_name(&mut self) {
        if let Some((name, line)) = self.name.take() {
            let written = "(from elsewhere)";
            self.found
                .push(Assignment::certain(line, &name, None, written));
        }
    }
}

fn is_variable(name: &str) -> bool {
    is_name(name) && is_audited(name)
}

fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        let inside = text
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote));
        if let Some(inside) = inside {
            return inside;
        }
    }
    text
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(before, _)| before)
}
