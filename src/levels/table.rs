//! The table `slurm/levels.toml`, compiled in: presets, conflicts, and how NCCL reads each
//! variable.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    conflict::rule::Conflict,
    preset::{Axis, Preset},
    reading::Variable,
};
use crate::env::Env;

/// All that the table says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    level: Vec<Preset>,
    resources: Vec<Preset>,
    network: Vec<Preset>,
    conflict: Vec<Conflict>,
    variable: Vec<Variable>,
}

/// The recorded level (or preset of another axis) of a run whose settings match no preset of the
/// table.
pub const CUSTOM: &str = "custom";

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("../../slurm/levels.toml");
    parse(text).expect("slurm/levels.toml is tested")
});

/// Reads the text of the table.
///
/// # Errors
/// Returns an error if it is not such a table.
pub(crate) fn parse(text: &str) -> Result<Table, toml::de::Error> {
    let mut table: Table = toml::from_str(text)?;
    for preset in &mut table.resources {
        preset.axis = Axis::Resources;
    }
    for preset in &mut table.network {
        preset.axis = Axis::Network;
    }
    Ok(table)
}

/// Returns the presets of an axis, in the order of the table.
pub fn rows(axis: Axis) -> &'static [Preset] {
    match axis {
        Axis::Level => &TABLE.level,
        Axis::Resources => &TABLE.resources,
        Axis::Network => &TABLE.network,
    }
}

/// Returns the levels, from `off` up, then `default`.
pub fn all() -> &'static [Preset] {
    rows(Axis::Level)
}

/// Returns the presets of all axes.
fn presets() -> impl Iterator<Item = &'static Preset> {
    Axis::ALL.into_iter().flat_map(rows)
}

/// Returns the known conflicts.
pub fn conflicts() -> &'static [Conflict] {
    &TABLE.conflict
}

/// Returns what the table knows about this variable.
pub fn variable(name: &str) -> Option<&'static Variable> {
    TABLE.variable.iter().find(|variable| variable.name == name)
}

/// Returns the preset of this name on any axis.
///
/// # Errors
/// Returns an error that lists the valid names if there is no such preset.
pub fn find(name: &str) -> Result<&'static Preset, String> {
    presets()
        .find(|preset| preset.name == name)
        .ok_or_else(|| unknown("level, resources or network", name, presets()))
}

/// Returns the level of this name.
///
/// # Errors
/// Returns an error that lists the valid names if there is no such level.
pub fn level(name: &str) -> Result<&'static Preset, String> {
    find_on(Axis::Level, name)
}

/// Returns the resources of this name.
///
/// # Errors
/// Returns an error that lists the valid names if there are no such resources.
pub fn resources(name: &str) -> Result<&'static Preset, String> {
    find_on(Axis::Resources, name)
}

/// Returns the network of this name.
///
/// # Errors
/// Returns an error that lists the valid names if there is no such network.
pub fn network(name: &str) -> Result<&'static Preset, String> {
    find_on(Axis::Network, name)
}

fn find_on(axis: Axis, name: &str) -> Result<&'static Preset, String> {
    rows(axis)
        .iter()
        .find(|preset| preset.name == name)
        .ok_or_else(|| unknown(axis.word(), name, rows(axis).iter()))
}

fn unknown(what: &str, name: &str, presets: impl Iterator<Item = &'static Preset>) -> String {
    let names: Vec<&str> = presets.map(|preset| preset.name.as_str()).collect();
    let hint = match nearest(name, &names) {
        Some(near) => format!("Did you mean {near}? "),
        None => String::new(),
    };
    format!("unknown {what}. {hint}Use one of {}", names.join(", "))
}

/// Returns the name that `written` is a letter or two off.
fn nearest<'a>(written: &str, names: &[&'a str]) -> Option<&'a str> {
    let written = written.to_lowercase();
    let most = match written.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=20 => 2,
        _ => return None,
    };
    let mut near = Vec::new();
    for name in names {
        near.push((strsim::damerau_levenshtein(&written, name), *name));
    }
    let (distance, name) = near.into_iter().min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(name)
}

/// Returns every variable that a preset of `axis` sets, each once, sorted.
pub fn variables(axis: Axis) -> Vec<&'static str> {
    let settings = rows(axis).iter().flat_map(|preset| &preset.set);
    let mut names: Vec<&str> = settings.map(|setting| setting.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns whether the table mentions this variable anywhere.
pub fn concerns(name: &str) -> bool {
    variable(name).is_some()
        || conflicts().iter().any(|conflict| conflict.looks_at(name))
        || presets().any(|preset| preset.sets(name))
}

/// Returns the preset that the environment amounts to: the first one whose variables all have its
/// values, while no variable of another preset of the axis is set; else [`CUSTOM`]. Does not apply
/// to networks, which are only recorded if they were requested.
pub fn in_force(axis: Axis, env: Env) -> &'static str {
    for preset in rows(axis) {
        if is_in_force(preset, env) {
            return &preset.name;
        }
    }
    CUSTOM
}

fn is_in_force(preset: &Preset, env: Env) -> bool {
    variables(preset.axis).iter().all(|name| {
        let expected = preset.setting(name).map(|setting| setting.value.as_str());
        env(name).as_deref() == expected
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{
        Setting,
        ports::{Port, tests::port},
        version,
    };

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        }
    }

    fn text(axis: Axis) -> Vec<String> {
        let settings = |row: &Preset| {
            row.set
                .iter()
                .map(|s| format!("{}={}", s.name, s.value))
                .collect::<Vec<_>>()
                .join(" ")
        };
        rows(axis)
            .iter()
            .map(|row| format!("{}: {}", row.name, settings(row)))
            .collect()
    }

    #[test]
    fn the_levels_are_the_scale_of_nccl_and_nothing_else() {
        assert_eq!(
            text(Axis::Level),
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
    fn resources_bound_channels_on_either_side_of_what_nccl_takes_itself() {
        // On two H200 NCCL takes 24 channels for collectives and 32 for send/recv.
        assert_eq!(
            text(Axis::Resources),
            [
                "none: ",
                "lean: NCCL_MAX_CTAS=8 NCCL_MAX_P2P_NCHANNELS=8",
                "standard: NCCL_MIN_CTAS= NCCL_MAX_CTAS= NCCL_MIN_P2P_NCHANNELS= \
                 NCCL_MAX_P2P_NCHANNELS=",
                "large: NCCL_MIN_CTAS=32 NCCL_MIN_P2P_NCHANNELS=64",
            ]
        );
    }

    #[test]
    fn every_row_has_a_name_of_its_own_and_every_value_is_one_that_nccl_understands() {
        let all: Vec<&Preset> = Axis::ALL.into_iter().flat_map(rows).collect();
        for (at, row) in all.iter().enumerate() {
            assert!(
                all[..at].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
            assert!(!row.summary.is_empty());
            for (at, setting) in row.set.iter().enumerate() {
                let Setting {
                    name,
                    value,
                    why,
                    since,
                } = setting;
                assert!(
                    row.set[..at].iter().all(|other| other.name != *name),
                    "{}: {name} twice",
                    row.name
                );
                assert!(
                    !why.is_empty() && version::parse(since).is_some(),
                    "{}: {name}",
                    row.name
                );
                assert!(
                    !why.contains(['\n', '`', '$']),
                    "it stands in a shell comment"
                );
                let variable =
                    super::variable(name).expect("a [[variable]] says how NCCL reads it");
                assert_eq!(variable.misread(value), None, "{}", row.name);
            }
        }
    }

    #[test]
    fn the_users_own_setting_wins_even_if_it_is_empty() {
        let balanced = level("balanced").expect("a level");
        assert_eq!(
            balanced.apply(
                &env(&[("NCCL_P2P_PXN_LEVEL", "2"), ("NCCL_PXN_DISABLE", "")]),
                &[]
            ),
            []
        );
        assert_eq!(balanced.apply(&env(&[]), &[]).len(), 2);
    }

    #[test]
    fn each_row_is_recognised_by_what_it_sets() {
        for axis in [Axis::Level, Axis::Resources] {
            for row in rows(axis) {
                let set = row.apply(&env(&[]), &[]);
                let read = |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
                assert_eq!(in_force(axis, &read), row.name);
            }
        }
        assert_eq!(
            in_force(Axis::Level, &env(&[("NCCL_PXN_DISABLE", "0")])),
            CUSTOM
        );
        assert_eq!(
            in_force(Axis::Resources, &env(&[("NCCL_MAX_CTAS", "4")])),
            CUSTOM
        );
    }

    #[test]
    fn networks_name_the_ports_of_their_kind() {
        let ports = ["mlx5_0 1 InfiniBand", "mlx5_1 1 Ethernet"].map(port);
        let hca = |name: &str, ports: &[Port]| {
            let set = network(name).expect("a network").apply(&env(&[]), ports);
            set.into_iter()
                .find(|(name, _)| name == "NCCL_IB_HCA")
                .map(|(_, value)| value)
        };
        assert_eq!(hca("ib", &ports).as_deref(), Some("=mlx5_0:1"));
        assert_eq!(hca("ethernet", &ports).as_deref(), Some("=mlx5_1:1"));
        assert_eq!(
            hca("ethernet", &ports[..1]),
            None,
            "an empty list would mean all of them"
        );
    }

    #[test]
    fn exports_leave_what_is_set() {
        let lines = |name: &str| find(name).expect("a row").exports();
        assert_eq!(
            lines("off"),
            [
                "export NCCL_PXN_DISABLE=\"${NCCL_PXN_DISABLE-1}\"  # no relay, neither for rings \
                 and trees nor for send/recv"
            ]
        );
        assert!(lines("default")[0].starts_with("# level default sets nothing"));
        assert!(lines("ib")[2].starts_with("# NCCL_IB_HCA: the active InfiniBand ports"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        assert_eq!(
            resources("huge").map(|_| ()),
            Err("unknown resources. Use one of none, lean, standard, large".into())
        );
        assert!(find("x").expect_err("unknown").ends_with("socket, pxn"));
        for (written, meant) in [
            ("agressive", "aggressive"),
            ("Balanced", "balanced"),
            ("sockt", "socket"),
            ("of", ""),
            ("extreme", ""),
        ] {
            let sentence = find(written).expect_err("unknown");
            let hint = format!("resources or network. Did you mean {meant}? Use one of ");
            let has_hint = sentence.contains("Did you mean");
            assert_eq!(has_hint, !meant.is_empty(), "{sentence}");
            assert!(!has_hint || sentence.contains(&hint), "{sentence}");
        }
    }

    #[test]
    fn the_table_concerns_what_it_names() {
        for name in [
            "NCCL_PXN_DISABLE",
            "NCCL_MAX_CTAS",
            "NCCL_IB_HCA",
            "NCCL_CUMEM_ENABLE",
            "NCCL_PXN_LEVEL",
        ] {
            assert!(concerns(name), "{name}");
        }
        assert!(!concerns("NCCL_DEBUG"));
    }
}
