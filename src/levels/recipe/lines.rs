//! Files with one variable per line: an nccl.conf and an env file.

use std::collections::BTreeMap;

use super::{
    data::{Assignment, InForce, Recipe},
    form::Form,
    variable::is_audited,
};
use crate::levels::conf;

/// Reads an nccl.conf, in which the first line of a name counts.
pub(super) fn read_conf(text: &str) -> Recipe {
    let mut assignments = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        if let Some((name, value)) = conf::line(line)
            && is_audited(name)
        {
            assignments.push(Assignment::certain(at + 1, name, Some(value), value));
        }
    }
    finish(Form::NcclConf, assignments, false)
}

/// Reads an env file, in which the last line of a name counts.
pub(super) fn read_env_file(text: &str) -> Recipe {
    let mut assignments = Vec::new();
    for (at, line) in text.lines().enumerate() {
        // docker removes blanks before the name, and no others.
        let line = line.trim_start();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        match line.split_once('=') {
            Some((name, value)) if is_audited(name) => {
                assignments.push(Assignment::certain(at + 1, name, Some(value), value));
            }
            None if is_audited(line) => {
                let written = "(from the environment of docker)";
                assignments.push(Assignment::certain(at + 1, line.trim_end(), None, written));
            }
            _ => {}
        }
    }
    finish(Form::EnvFile, assignments, true)
}

fn finish(form: Form, assignments: Vec<Assignment>, last_counts: bool) -> Recipe {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, assignment) in assignments.iter().enumerate() {
        if last_counts || !by_name.contains_key(assignment.name.as_str()) {
            by_name.insert(&assignment.name, at);
        }
    }
    let sure: Vec<usize> = by_name.into_values().collect();
    Recipe {
        form,
        in_force: vec![InForce {
            possible: sure.clone(),
            sure,
        }],
        assignments,
        ..Recipe::default()
    }
}
