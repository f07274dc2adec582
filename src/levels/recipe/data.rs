//! What a file sets, as plain data.

use serde::Serialize;

use super::form::Form;

/// The settings of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recipe {
    /// Its form.
    pub form: Form,
    /// Whether it is a job, in which debugging variables have no place.
    pub is_job: bool,
    /// What it sets, in the order of its lines.
    pub assignments: Vec<Assignment>,
    /// What is in force together: for each command that sets something, and at the end.
    #[serde(skip)]
    pub(super) in_force: Vec<InForce>,
    /// What else decides the settings, and cannot be seen.
    pub unseen: Vec<Unseen>,
}

/// A variable that a file sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// The line.
    pub line: usize,
    /// The variable.
    pub name: String,
    /// The value, if the file alone decides it.
    pub value: Option<String>,
    /// The value as it is written.
    pub written: String,
    /// The line of the condition under which it is set, if there is one.
    pub condition: Option<usize>,
    /// Whether programs see it.
    pub is_exported: bool,
}

impl Assignment {
    /// Returns an assignment that holds without a condition.
    pub(super) fn certain(
        line: usize,
        name: &str,
        value: Option<&str>,
        written: &str,
    ) -> Assignment {
        Assignment {
            line,
            name: name.to_owned(),
            value: value.map(str::to_owned),
            written: written.to_owned(),
            condition: None,
            is_exported: true,
        }
    }
}

/// Something that may set variables too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The line.
    pub line: usize,
    /// What it is, as a sentence without its end.
    pub what: String,
}

/// Indices into [`Recipe::assignments`] of what is in force at one point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InForce {
    /// If no condition holds.
    pub(super) sure: Vec<usize>,
    /// If all conditions hold.
    pub(super) possible: Vec<usize>,
}
