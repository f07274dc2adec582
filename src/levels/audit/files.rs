//! The lines of an nccl.conf: those that set nothing NCCL reads, and those that something else
//! overrides.

use super::{
    finding::{AuditContext, AuditFinding, short},
    rule::Rule,
};
use crate::{env, levels::conf};

/// Returns what is wrong with the lines of the files.
pub(super) fn findings(known: &AuditContext) -> Vec<AuditFinding> {
    let mut found = Vec::new();
    for (file, text) in known.files {
        let mut of_file: Vec<AuditFinding> = conf::lines(text)
            .filter_map(|(name, value)| {
                let value = &env::recorded(name, value.to_owned());
                dead_line(file, name, value).or_else(|| overridden(known, file, name, value))
            })
            .collect();
        of_file.dedup();
        found.append(&mut of_file);
    }
    found
}

fn dead_line(file: &str, name: &str, value: &str) -> Option<AuditFinding> {
    let intended = intended_name(name)?;
    let sentence = format!(
        "{file} has a line `{}={}`, which sets a variable that nothing reads",
        short(name),
        short(value)
    );
    let value = if env::is_secret(name) {
        "…".to_owned()
    } else {
        short(value.trim().trim_matches(['"', '\'']))
    };
    let remedy = format!("write {intended}={value} at the start of the line");
    Some(AuditFinding::new(
        Rule::DeadLine,
        intended,
        sentence,
        remedy,
    ))
}

fn overridden(known: &AuditContext, file: &str, name: &str, value: &str) -> Option<AuditFinding> {
    let setting = known.settings.setting(name)?;
    if setting.file.as_deref() == Some(file) || setting.value == value {
        return None;
    }
    let winner = setting.file.as_deref().unwrap_or("the environment");
    let sentence = format!(
        "{file} sets {name}={}, but {winner} sets {}, which wins",
        short(value),
        short(&setting.value)
    );
    let remedy = "no action is needed if that is intended";
    Some(AuditFinding::new(
        Rule::FileOverridden,
        name,
        sentence,
        remedy,
    ))
}

/// Returns the variable that a line was meant to set; `None` if it sets the variable it names, or
/// one that is not NCCL's.
fn intended_name(name: &str) -> Option<&str> {
    let bare = name
        .trim()
        .trim_start_matches("export ")
        .trim_start_matches("set ")
        .trim_start_matches("setenv ")
        .trim();
    let rest = bare.strip_prefix("NCCL_")?;
    let is_name = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && bare != name).then_some(bare)
}
