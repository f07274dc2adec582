//! PXN levels: how far NCCL may relay a message through the GPU beside the peer's rail.
//!
//! `slurm/levels.toml` is the one source, compiled in. This module turns a level into environment settings and tells
//! which level a set of settings is. It sets nothing: `main.rs` does, before MPI and NCCL start, since NCCL reads each
//! variable once a process.

use std::sync::LazyLock;

use serde::Deserialize;

/// One setting of a level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it does.
    pub why: String,
    /// The first NCCL that reads it.
    pub since: String,
}

/// One level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// What NCCL then does.
    pub summary: String,
    /// What it sets.
    pub set: Vec<Setting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    level: Vec<Level>,
}

/// The level of a run whose settings are no row of the table.
pub const CUSTOM: &str = "custom";

static LEVELS: LazyLock<Vec<Level>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("../slurm/levels.toml")).expect("slurm/levels.toml is tested");
    table.level
});

/// All levels, from `off` up, then `default`.
pub fn all() -> &'static [Level] {
    &LEVELS
}

/// What applying a level means in a given environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// To be set: name and value.
    pub set: Vec<(String, String)>,
    /// Already set by the user to something else, which wins: name, the user's value, the level's.
    pub overridden: Vec<(String, String, String)>,
}

impl Level {
    /// The level of this name.
    ///
    /// # Errors
    /// A sentence with the names there are.
    pub fn named(name: &str) -> Result<&'static Level, String> {
        all().iter().find(|level| level.name == name).ok_or_else(|| {
            let names: Vec<_> = all().iter().map(|level| level.name.as_str()).collect();
            format!("unknown level; there are {}", names.join(", "))
        })
    }

    /// What this level sets where `env` is the environment: a variable that the user has set wins.
    pub fn apply(&self, env: &dyn Fn(&str) -> Option<String>) -> Applied {
        let mut applied = Applied::default();
        for Setting { name, value, .. } in &self.set {
            match env(name) {
                None => applied.set.push((name.clone(), value.clone())),
                Some(users) if users != *value => applied.overridden.push((name.clone(), users, value.clone())),
                Some(_) => {}
            }
        }
        applied
    }
}

/// The level that the environment amounts to: the first whose variables are all as it sets them while no other level's
/// variable is set, else [`CUSTOM`].
pub fn in_force(env: &dyn Fn(&str) -> Option<String>) -> &'static str {
    let mut names: Vec<&str> = all().iter().flat_map(|level| &level.set).map(|setting| setting.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let is_in_force = |level: &&Level| {
        names.iter().all(|name| {
            let value = level.set.iter().find(|setting| setting.name == *name).map(|setting| setting.value.as_str());
            env(name).as_deref() == value
        })
    };
    all().iter().find(is_in_force).map_or(CUSTOM, |level| &level.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn the_table_is_the_scale_of_nccl() {
        let rows: Vec<_> = all()
            .iter()
            .map(|l| {
                let set: Vec<_> = l.set.iter().map(|s| format!("{}={}", s.name, s.value)).collect();
                format!("{}: {}", l.name, set.join(" "))
            })
            .collect();
        assert_eq!(
            rows,
            [
                "off: NCCL_PXN_DISABLE=1",
                "conservative: NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=0",
                "balanced: NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=1",
                "aggressive: NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=2",
                "default: ",
            ]
        );
    }

    #[test]
    fn the_users_own_setting_wins_and_is_told() {
        let level = Level::named("balanced").expect("a level");
        let applied = level.apply(&env(&[("NCCL_P2P_PXN_LEVEL", "2"), ("NCCL_PXN_DISABLE", "0")]));
        assert_eq!(applied.set, []);
        assert_eq!(applied.overridden, [("NCCL_P2P_PXN_LEVEL".into(), "2".into(), "1".into())]);
        assert_eq!(level.apply(&env(&[])).set.len(), 2);
    }

    #[test]
    fn each_level_is_recognised_by_what_it_sets() {
        for level in all() {
            let set = level.apply(&env(&[])).set;
            let read = |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            assert_eq!(in_force(&read), level.name);
        }
        assert_eq!(in_force(&env(&[("NCCL_PXN_DISABLE", "0")])), CUSTOM);
    }
}
