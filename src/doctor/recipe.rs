//! The report on a file that sets variables for a run, as text and as JSON. Pure: strings from
//! findings.

use std::fmt::{self, Write};

use serde_json::{Value, json};

use crate::{
    exit::Code,
    levels::{
        audit::Severity,
        recipe::{RecipeCheck, RecipeFinding},
    },
    units::counted,
};

/// The findings on a file, ready to be printed.
pub struct RecipeReport {
    /// The name of the file.
    pub file: String,
    /// What was found.
    pub check: RecipeCheck,
    /// The library that the names were checked against, or why there is none.
    pub library: String,
    /// Whether warnings count as failures.
    pub is_strict: bool,
}

impl RecipeReport {
    /// Returns the exit code that the findings amount to.
    pub fn code(&self) -> Code {
        let failures = self.check.count(Severity::Failure);
        let warnings = self.check.count(Severity::Warning);
        if failures > 0 || self.is_strict && warnings > 0 {
            Code::NotReady
        } else {
            Code::Fine
        }
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Value {
        let mut all = json!({
            "file": self.file,
            "ready": self.code() == Code::Fine,
            "failures": self.check.count(Severity::Failure),
            "warnings": self.check.count(Severity::Warning),
            "library": self.library,
        });
        let check = serde_json::to_value(&self.check).unwrap_or_default();
        if let (Some(all), Value::Object(check)) = (all.as_object_mut(), check) {
            all.extend(check);
        }
        all
    }

    /// Returns the report as text: findings, what cannot be told, the settings, the summary.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let RecipeCheck {
            recipe,
            findings,
            cannot_tell,
        } = &self.check;
        writeln!(text, "{}: {}", self.file, recipe.form.text())?;
        writeln!(text, "names    {}", self.library)?;
        for one in findings {
            write_finding(text, one)?;
        }
        for one in cannot_tell {
            writeln!(text, "unknown  line {}: {}", one.line, one.what)?;
        }
        for one in &recipe.assignments {
            let condition = match one.condition {
                Some(line) => format!(" (conditional, by line {line})"),
                None => String::new(),
            };
            let (line, name, written) = (one.line, &one.name, &one.written);
            writeln!(text, "setting  line {line}: {name}={written}{condition}")?;
        }
        if recipe.assignments.is_empty() {
            writeln!(
                text,
                "note     no variable of NCCL was found; shell scripts, env files, nccl.conf and \
                 YAML are read, other forms are not"
            )?;
        }
        let ready = if self.code() == Code::Fine {
            "fine"
        } else {
            "not ready"
        };
        writeln!(
            text,
            "{ready}: {}, {}, {} unknown",
            counted(self.check.count(Severity::Failure) as u32, "failure"),
            counted(self.check.count(Severity::Warning) as u32, "warning"),
            cannot_tell.len()
        )
    }
}

fn write_finding(text: &mut String, one: &RecipeFinding) -> fmt::Result {
    let RecipeFinding {
        finding,
        lines,
        conditions,
    } = one;
    let place = numbered("line", lines);
    let place = if place.is_empty() {
        String::new()
    } else {
        format!("{place}: ")
    };
    let condition = if conditions.is_empty() {
        String::new()
    } else {
        format!(" (conditional, by {})", numbered("line", conditions))
    };
    let severity = finding.severity.to_string();
    let (id, sentence) = (finding.id, &finding.sentence);
    writeln!(text, "{severity:<8} {id:<22} {place}{sentence}{condition}")?;
    writeln!(text, "{:<31} {}", "  do:", finding.remedy)
}

/// Returns `line 3`, `lines 3 and 7`, or nothing.
fn numbered(noun: &str, lines: &[usize]) -> String {
    let words: Vec<String> = lines.iter().map(usize::to_string).collect();
    match &words[..] {
        [] => String::new(),
        [only] => format!("{noun} {only}"),
        [all @ .., last] => format!("{noun}s {} and {last}", all.join(", ")),
    }
}
