//! The audit of what a file sets.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    data::{Assignment, InForce, Recipe},
    form::Form,
    read::read,
};
use crate::levels::{
    audit::{
        AuditContext, AuditFinding, Severity, findings, known_names, name_findings, own_findings,
    },
    conf::NcclSettings,
};

/// The findings on a file.
#[derive(Clone, Debug, Serialize)]
pub struct RecipeCheck {
    /// What it sets.
    #[serde(flatten)]
    pub recipe: Recipe,
    /// The findings, the worst first.
    pub findings: Vec<RecipeFinding>,
    /// What cannot be told without running it.
    pub cannot_tell: Vec<CannotTell>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecipeFinding {
    /// The finding.
    #[serde(flatten)]
    pub finding: AuditFinding,
    /// The lines that it is about.
    pub lines: Vec<usize>,
    /// The lines of the conditions that have to hold for it, if there are any.
    pub conditions: Vec<usize>,
}

/// Something that the file alone does not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CannotTell {
    /// The line.
    pub line: usize,
    /// What is not known, and why.
    pub what: String,
}

impl RecipeCheck {
    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let of = |one: &&RecipeFinding| one.finding.severity == severity;
        self.findings.iter().filter(of).count()
    }
}

/// Checks the file `name` with this text. `names` are those that libnccl reads, and `nccl` is its
/// version; without one, settings conflict if they do in the newest NCCL that is known.
pub fn check(name: &str, text: &str, names: &BTreeSet<String>, nccl: Option<i32>) -> RecipeCheck {
    let recipe = read(name, text);
    let file = [(name.to_owned(), text.to_owned())];
    let files: &[(String, String)] = match recipe.form {
        Form::NcclConf => &file,
        _ => &[],
    };
    let auditor = Auditor {
        recipe: &recipe,
        names,
        nccl,
        files,
    };
    let mut found = auditor.of_each();
    found.extend(auditor.together());
    found.sort_by_key(|one| (one.finding.severity, one.lines.clone()));
    let cannot_tell = auditor.cannot_tell();
    RecipeCheck {
        findings: found,
        cannot_tell,
        recipe,
    }
}

struct Auditor<'a> {
    recipe: &'a Recipe,
    names: &'a BTreeSet<String>,
    nccl: Option<i32>,
    files: &'a [(String, String)],
}

impl Auditor<'_> {
    fn context<'a>(&'a self, settings: &'a NcclSettings) -> AuditContext<'a> {
        AuditContext {
            settings,
            files: self.files,
            names: Ok(self.names),
            nccl: self.nccl,
            cumem: None,
            adapters: None,
            in_job: self.recipe.is_job,
        }
    }

    /// Audits the name and the value of each assignment.
    fn of_each(&self) -> Vec<RecipeFinding> {
        let mut found: Vec<RecipeFinding> = Vec::new();
        for one in &self.recipe.assignments {
            let settings = settings_of([one]);
            let context = self.context(&settings);
            let own = match &one.value {
                Some(_) => own_findings(&context),
                None => name_findings(&context),
            };
            for finding in own {
                let conditions = Vec::from_iter(one.condition);
                let same = found.iter_mut().find(|other| {
                    other.finding == finding && other.conditions.is_empty() == conditions.is_empty()
                });
                match same {
                    Some(same) => same.lines.push(one.line),
                    None => found.push(RecipeFinding {
                        finding,
                        lines: vec![one.line],
                        conditions,
                    }),
                }
            }
        }
        found
    }

    /// Audits what is in force together.
    fn together(&self) -> Vec<RecipeFinding> {
        let mut found: Vec<RecipeFinding> = Vec::new();
        for InForce { sure, possible } in &self.recipe.in_force {
            let certain = self.of_state(sure);
            for finding in self.of_state(possible) {
                if !certain.contains(&finding) {
                    self.add(&mut found, possible, finding, true);
                }
            }
            for finding in certain {
                self.add(&mut found, sure, finding, false);
            }
        }
        found
    }

    /// Returns the findings on a state that are not those of its single settings.
    fn of_state(&self, state: &[usize]) -> Vec<AuditFinding> {
        let set: Vec<&Assignment> = state
            .iter()
            .map(|at| &self.recipe.assignments[*at])
            .collect();
        let known = set.iter().copied().filter(|one| one.value.is_some());
        let settings = match self.recipe.form {
            Form::NcclConf => {
                let files = self.files.iter();
                NcclSettings::new([], files.map(|(name, text)| (name.as_str(), text.as_str())))
            }
            _ => settings_of(known),
        };
        let context = AuditContext {
            nccl: self.nccl.or_else(known_names::newest_version),
            ..self.context(&settings)
        };
        let own = own_findings(&context);
        let mut all = findings(&context);
        all.retain(|finding| !own.contains(finding));
        // What is set, but not known, may be what a finding misses.
        let unknown: Vec<&str> = set
            .iter()
            .filter(|one| one.value.is_none())
            .map(|one| one.name.as_str())
            .collect();
        all.retain(|finding| !unknown.iter().any(|name| is_named(finding, name)));
        all
    }

    fn add(
        &self,
        found: &mut Vec<RecipeFinding>,
        state: &[usize],
        finding: AuditFinding,
        is_conditional: bool,
    ) {
        let set = state.iter().map(|at| &self.recipe.assignments[*at]);
        let about: Vec<&Assignment> = set.filter(|one| is_named(&finding, &one.name)).collect();
        let mut lines: Vec<usize> = about.iter().map(|one| one.line).collect();
        if lines.is_empty() {
            lines.extend(self.line_in_file(&finding));
        }
        lines.sort_unstable();
        lines.dedup();
        let conditions = about.iter().filter_map(|one| one.condition);
        let mut conditions: Vec<usize> = conditions.filter(|_| is_conditional).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let new = RecipeFinding {
            finding,
            lines,
            conditions,
        };
        if !found.contains(&new) {
            found.push(new);
        }
    }

    /// Returns the line of an nccl.conf that a finding on its lines quotes.
    fn line_in_file(&self, finding: &AuditFinding) -> Option<usize> {
        let (_, text) = self.files.first()?;
        let mut lines = text.lines();
        let at = lines.position(|line| line.contains(&finding.name))?;
        Some(at + 1)
    }

    fn cannot_tell(&self) -> Vec<CannotTell> {
        let mut all = Vec::new();
        for one in &self.recipe.assignments {
            let Assignment { name, written, .. } = one;
            if one.value.is_none() {
                let why = "its value is known only when it runs";
                all.push((one.line, format!("{name}={written}: {why}")));
            }
            if !one.is_exported {
                let what = format!("{name}={written} is not exported here: no program sees it");
                all.push((one.line, what + ", unless it is exported elsewhere"));
            }
        }
        for unseen in &self.recipe.unseen {
            all.push((unseen.line, unseen.what.clone()));
        }
        all.sort();
        all.dedup();
        let all = all.into_iter();
        all.map(|(line, what)| CannotTell { line, what }).collect()
    }
}

fn settings_of<'a>(set: impl IntoIterator<Item = &'a Assignment>) -> NcclSettings {
    let pairs = set.into_iter().map(|one| {
        let value = one.value.as_ref().unwrap_or(&one.written);
        (one.name.clone(), value.clone())
    });
    NcclSettings::new(pairs, [])
}

/// Returns whether a finding speaks of a variable.
fn is_named(finding: &AuditFinding, name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    finding.name == name
        || [&finding.sentence, &finding.remedy].iter().any(|text| {
            text.match_indices(name).any(|(at, _)| {
                let before = text[..at].bytes().next_back();
                let after = text[at + name.len()..].bytes().next();
                !before.is_some_and(is_part) && !after.is_some_and(is_part)
            })
        })
}
