//! The lines of an nccl.conf: those that set nothing NCCL reads, and those that something else overrides.

use super::{AuditContext, AuditFinding, Rule, short};
use crate::levels::conf;

/// What is wrong with the lines of the files.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let of_file = |(file, text): &(String, String)| {
        let mut found: Vec<AuditFinding> = conf::lines(text)
            .filter_map(|line| of_line(known, file, line))
            .collect();
        found.dedup();
        found
    };
    known.files.iter().flat_map(of_file).collect()
}

fn of_line(known: &AuditContext, file: &str, (name, value): (&str, &str)) -> Option<AuditFinding> {
    if let Some(meant) = meant(name) {
        let sentence = format!(
            "{file} has a line `{}={}`, which sets a variable that nobody reads",
            short(name),
            short(value)
        );
        let value = value.trim().trim_matches(['"', '\'']);
        let remedy = format!("write {meant}={} at the start of the line", short(value));
        return Some(AuditFinding::new(Rule::DeadLine, meant, sentence, remedy));
    }
    let setting = known.settings.setting(name)?;
    let overridden = setting.file.as_deref() != Some(file) && setting.value != value;
    let by = setting.file.as_deref().unwrap_or("the environment");
    let sentence = || {
        format!(
            "{file} sets {name}={}, and {by} sets {}, which wins",
            short(value),
            short(&setting.value)
        )
    };
    overridden.then(|| {
        AuditFinding::new(
            Rule::FileOverridden,
            name,
            sentence(),
            "nothing, if that is meant",
        )
    })
}

/// The variable that a line means to set, where it does not.
fn meant(name: &str) -> Option<&str> {
    let bare = name
        .trim()
        .trim_start_matches("export ")
        .trim_start_matches("set ")
        .trim_start_matches("setenv ")
        .trim();
    let is_name = bare
        .strip_prefix("NCCL_")
        .is_some_and(|rest| !rest.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    (is_name && bare != name).then_some(bare)
}
