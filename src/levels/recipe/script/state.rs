//! [`ScriptState`]: what a script has set so far, and what of it programs see.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use super::options::SetVariable;
use crate::levels::recipe::{
    data::{Assignment, InForce, Recipe},
    shell::{Part, Word},
    variable::is_audited,
};

/// The most states that are compared; scripts of loops would have many.
const MOST_STATES: usize = 200;

/// The variables of a script that is read.
#[derive(Default)]
pub(super) struct ScriptState {
    assignments: Vec<Assignment>,
    in_force: Vec<InForce>,
    /// For each name what may be in force: one that is sure, and then conditional ones.
    current: CurrentVariables,
    /// Values of the shell's own variables that the script alone decides.
    variables: BTreeMap<String, String>,
    /// Whether all that is set is exported, as after `set -a`.
    pub(super) exports_all: bool,
    /// Assignments that no program has seen yet, as indices.
    unused: BTreeSet<usize>,
    /// Those of them that were unset.
    unset: BTreeSet<usize>,
}

/// For each name, indices of assignments.
pub(super) type CurrentVariables = BTreeMap<String, Vec<usize>>;

impl ScriptState {
    /// Returns what may be in force here.
    pub(super) fn current(&self) -> CurrentVariables {
        self.current.clone()
    }

    /// Makes this what may be in force.
    pub(super) fn set_current(&mut self, current: CurrentVariables) {
        self.current = current;
    }

    /// Returns the number of assignments so far.
    pub(super) fn count(&self) -> usize {
        self.assignments.len()
    }

    /// Notes that a program runs, which sees what is set.
    pub(super) fn run_program(&mut self) {
        self.unused.clear();
    }

    /// Sets a variable, under the condition in that line if there is one.
    pub(super) fn set(&mut self, set: SetVariable, is_exported: bool, condition: Option<usize>) {
        let SetVariable { name, value, line } = set;
        let known = value.as_ref().and_then(|value| self.resolve(value));
        match &known {
            Some(known) if condition.is_none() => {
                self.variables.insert(name.clone(), known.clone());
            }
            _ => {
                self.variables.remove(&name);
            }
        }
        if !is_audited(&name) {
            return;
        }
        let at = self.assignments.len();
        self.unused.insert(at);
        self.assignments.push(Assignment {
            line,
            name: name.clone(),
            value: known,
            written: value.map_or_else(|| "(from the caller)".to_owned(), |value| value.written()),
            condition,
            is_exported,
        });
        let set = self.current.entry(name).or_default();
        if condition.is_none() {
            set.clear();
        }
        set.push(at);
    }

    /// Makes programs see a variable that is set, or else that of the caller.
    pub(super) fn export(&mut self, name: &str, line: usize, condition: Option<usize>) {
        match self.current.get(name) {
            Some(set) if !set.is_empty() => {
                for at in set {
                    self.assignments[*at].is_exported = true;
                }
            }
            _ => {
                let of_caller = SetVariable {
                    name: name.to_owned(),
                    value: None,
                    line,
                };
                self.set(of_caller, true, condition);
            }
        }
    }

    /// Returns whether programs see a variable that is set.
    pub(super) fn is_exported(&self, name: &str) -> bool {
        let set = self.current.get(name).into_iter().flatten();
        let mut set = set.map(|at| &self.assignments[*at]);
        set.any(|assignment| assignment.is_exported)
    }

    /// Removes a variable, unless it is not sure that this is done.
    pub(super) fn unset(&mut self, name: &str, condition: Option<usize>) {
        self.variables.remove(name);
        if condition.is_none() {
            let set = self.current.remove(name).unwrap_or_default();
            let unused = set.into_iter().filter(|at| self.unused.contains(at));
            self.unset.extend(unused);
        }
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
    pub(super) fn note_in_force(&mut self) {
        let mut state = InForce::default();
        for set in self.current.values() {
            let exported = set.iter().filter(|at| self.assignments[**at].is_exported);
            let exported: Vec<usize> = exported.copied().collect();
            let first = exported.first().copied();
            let is_sure = |at: &usize| self.assignments[*at].condition.is_none();
            state.sure.extend(first.filter(is_sure));
            state.possible.extend(exported.last());
        }
        if self.in_force.len() < MOST_STATES && !self.in_force.contains(&state) {
            self.in_force.push(state);
        }
    }

    /// Adds what was set to a recipe.
    pub(super) fn add_to(mut self, recipe: &mut Recipe) {
        self.note_in_force();
        self.leave_out_unset();
        recipe.assignments = self.assignments;
        recipe.in_force = self.in_force;
    }

    /// Returns all assignments.
    pub(super) fn into_assignments(self) -> Vec<Assignment> {
        self.assignments
    }

    /// Removes what was unset before any program saw it.
    fn leave_out_unset(&mut self) {
        let mut new_places = BTreeMap::new();
        let mut kept = Vec::new();
        let all = mem::take(&mut self.assignments);
        for (at, assignment) in all.into_iter().enumerate() {
            if !self.unset.contains(&at) {
                new_places.insert(at, kept.len());
                kept.push(assignment);
            }
        }
        self.assignments = kept;
        let moved = |old: &[usize]| -> Vec<usize> {
            let places = old.iter().filter_map(|at| new_places.get(at));
            places.copied().collect()
        };
        for state in &mut self.in_force {
            state.sure = moved(&state.sure);
            state.possible = moved(&state.possible);
        }
    }
}
