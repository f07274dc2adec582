//! One conflict: the conditions under which it holds, and the sentences that describe it.

use serde::{Deserialize, Serialize};

use crate::levels::{conf::NcclSettings, reading, version};

/// The effect of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// NCCL crashes: a run refuses it.
    Crashes,
    /// NCCL ends with an error.
    Fails,
    /// NCCL does not relay, whatever the level.
    Silences,
    /// Rings do not relay; send/recv may.
    SilencesRings,
    /// A setting has no effect, or not the apparent one.
    Nothing,
}

/// A condition on one variable's value, as NCCL reads it. Exactly one of the tests from `is` to
/// `set` is present.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// The variable.
    pub(super) name: String,
    /// The value is one of these integers.
    pub(super) is: Option<Vec<i64>>,
    /// The value is none of these integers, or unset.
    pub(super) not: Option<Vec<i64>>,
    /// The value is an integer above this one.
    pub(super) above: Option<i64>,
    /// The value is one of these distances.
    pub(super) path: Option<Vec<String>>,
    /// The value is one of these words, in any case.
    pub(super) word: Option<Vec<String>>,
    /// The variable is set, to any value; or it is unset.
    pub(super) set: Option<bool>,
    /// The driver has cuMem, or lacks it.
    pub(super) cumem: Option<bool>,
}

/// A combination of settings that conflict with each other or with PXN.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Its effect.
    pub does: Effect,
    /// The conditions, all of which must hold.
    pub(super) when: Vec<Condition>,
    /// The first NCCL that has the conflict.
    pub(super) from: Option<String>,
    /// The first NCCL that no longer has it.
    pub(super) before: Option<String>,
    /// The reason.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

/// The facts that conflicts are looked for in.
#[derive(Clone, Copy, Debug)]
pub struct ConflictContext<'a> {
    /// The settings in force.
    pub settings: &'a NcclSettings,
    /// The version of NCCL as `ncclGetVersion` returns it. If it is unknown, conflicts of some
    /// versions only are skipped.
    pub nccl: Option<i32>,
    /// Whether the driver has cuMem; `None` if unknown.
    pub cumem: Option<bool>,
}

impl Condition {
    fn holds(&self, known: &ConflictContext) -> bool {
        let value = known.settings.get(&self.name);
        let cumem_fits = self.cumem.is_none() || self.cumem == known.cumem;
        cumem_fits && self.integer_fits(value) && self.text_fits(value) && self.presence_fits(value)
    }

    fn integer_fits(&self, value: Option<&str>) -> bool {
        let integer = value.and_then(reading::integer);
        if let Some(list) = &self.is {
            return integer.is_some_and(|integer| list.contains(&integer));
        }
        if let Some(list) = &self.not {
            return integer.is_none_or(|integer| !list.contains(&integer));
        }
        if let Some(limit) = self.above {
            return integer.is_some_and(|integer| integer > limit);
        }
        true
    }

    fn text_fits(&self, value: Option<&str>) -> bool {
        if let Some(list) = &self.path {
            let path = value.and_then(reading::path);
            return path.is_some_and(|path| list.iter().any(|listed| listed == path));
        }
        if let Some(list) = &self.word {
            return value
                .is_some_and(|value| list.iter().any(|word| word.eq_ignore_ascii_case(value)));
        }
        true
    }

    fn presence_fits(&self, value: Option<&str>) -> bool {
        self.set.is_none_or(|set| set == value.is_some())
    }

    /// Returns whether the condition needs its variable to be set, so that messages name it.
    fn names_a_setting(&self) -> bool {
        self.not.is_none() && self.set != Some(false)
    }

    /// Returns the condition for a table: `NCCL_P2P_PXN_LEVEL=1`; `None` if it only excludes
    /// values.
    fn text(&self) -> Option<String> {
        let name = &self.name;
        if self.cumem == Some(false) {
            return Some("a driver without cuMem".to_owned());
        }
        if !self.names_a_setting() {
            return None;
        }
        if let Some(integers) = &self.is {
            let integers: Vec<String> = integers.iter().map(i64::to_string).collect();
            return Some(format!("{name}={}", integers.join(" or ")));
        }
        if let Some(limit) = self.above {
            return Some(format!("{name} above {limit}"));
        }
        match self.path.as_ref().or(self.word.as_ref()) {
            Some(words) => Some(format!("{name}={}", words.join(" or "))),
            None => Some(name.clone()),
        }
    }
}

impl Conflict {
    /// Returns whether the conflict is present.
    pub(in crate::levels) fn holds(&self, known: &ConflictContext) -> bool {
        self.is_of_version(known.nccl) && self.when.iter().all(|condition| condition.holds(known))
    }

    fn is_of_version(&self, nccl: Option<i32>) -> bool {
        if self.from.is_none() && self.before.is_none() {
            return true;
        }
        let Some(nccl) = nccl else {
            return false;
        };
        let from = self.from.as_deref().and_then(version::parse);
        let before = self.before.as_deref().and_then(version::parse);
        from.is_none_or(|from| nccl >= from) && before.is_none_or(|before| nccl < before)
    }

    /// Returns the versions that have the conflict: `NCCL 2.22.3 and newer`; `None` if all do.
    pub fn versions(&self) -> Option<String> {
        match (&self.from, &self.before) {
            (Some(from), Some(before)) => {
                Some(format!("NCCL {from} and newer, but before {before}"))
            }
            (Some(from), None) => Some(format!("NCCL {from} and newer")),
            (None, Some(before)) => Some(format!("NCCL before {before}")),
            (None, None) => None,
        }
    }

    /// Returns the combination for a table: `NCCL_P2P_PXN_LEVEL=1 with NCCL_RUNTIME_CONNECT=0`.
    pub fn combination(&self) -> String {
        let conditions: Vec<String> = self.when.iter().filter_map(Condition::text).collect();
        conditions.join(" with ")
    }

    /// Returns the variables that are set and make the conflict.
    pub(in crate::levels) fn names(&self) -> Vec<&str> {
        let named = self
            .when
            .iter()
            .filter(|condition| condition.names_a_setting());
        named.map(|condition| condition.name.as_str()).collect()
    }

    /// Returns whether a condition looks at this variable.
    pub(in crate::levels) fn looks_at(&self, name: &str) -> bool {
        self.when.iter().any(|condition| condition.name == name)
    }

    /// Returns every variable that a condition looks at.
    #[cfg(test)]
    pub(in crate::levels) fn looked_at(&self) -> impl Iterator<Item = &str> {
        self.when.iter().map(|condition| condition.name.as_str())
    }

    /// Returns whether the conflict depends on the presence of variables only, not on their values.
    pub(in crate::levels) fn is_of_a_name(&self) -> bool {
        self.when.iter().all(|condition| condition.set.is_some())
    }

    /// Describes a conflict that is present: the settings, their effect and the reason.
    pub(in crate::levels) fn describe(&self, known: &ConflictContext) -> String {
        let names = self.names();
        let settings: Vec<String> = names
            .iter()
            .map(|name| known.settings.describe(name))
            .collect();
        format!(
            "{} {}: {}",
            settings.join(" with "),
            self.effect(known.nccl),
            self.why
        )
    }

    fn effect(&self, nccl: Option<i32>) -> String {
        let version = match nccl {
            Some(nccl) if self.versions().is_some() => format!(" {}", version::text(nccl)),
            _ => String::new(),
        };
        match self.does {
            Effect::Crashes => format!("crashes NCCL{version}"),
            Effect::Fails => format!("makes NCCL{version} fail"),
            Effect::Silences => "keeps NCCL from using PXN".into(),
            Effect::SilencesRings => "keeps rings from using PXN".into(),
            Effect::Nothing => "has no effect".into(),
        }
    }
}
