//! PXN levels: how far NCCL may relay a message through the GPU beside the peer's rail; and beside them how many channels
//! NCCL may take ([`Axis::Resources`]) and which transport it is asked for ([`Axis::Network`]).
//!
//! `slurm/levels.toml` is the one source, compiled in. This module turns a row of it into environment settings; [`conf`]
//! knows what is in force where files set variables too, [`evidence`] which rows that amounts to over all ranks, and
//! [`conflict`] which combinations crash NCCL or silence PXN, [`audit`] what else is wrong with what is set. Nothing here sets
//! or reads anything: `main.rs` sets, before MPI and NCCL start, since NCCL reads each variable once a process.

pub mod audit;
pub mod conf;
pub mod conflict;
pub mod evidence;
pub mod ports;
pub mod reading;
pub mod report;
pub mod selection;

use std::{fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};

use ports::{Link, Port};

/// One setting of a row.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The variable.
    pub name: String,
    /// Its value. One that starts with `@` stands for the ports of a kind: see [`Setting::on`].
    pub value: String,
    /// What it does.
    pub why: String,
    /// The first NCCL that reads it.
    pub since: String,
}

/// What a job must be like for a row to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// All ranks are on one node.
    OneNode,
    /// There are ranks on two nodes or more.
    SeveralNodes,
    /// The GPUs of the node reach each other over NVLink.
    Nvlink,
    /// They do not.
    NoNvlink,
    /// Every node has an active InfiniBand port.
    Infiniband,
    /// Every node has an active Ethernet port of an RDMA device.
    Ethernet,
    /// NICs read the memory of GPUs.
    Gpudirect,
}

/// What a row belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// How far PXN may go.
    #[default]
    Level,
    /// How many channels NCCL may take.
    Resources,
    /// Which transport it is asked for.
    Network,
}

impl Axis {
    /// All, in the order in which they are applied: of two that set one variable, the first has its way.
    pub const ALL: [Axis; 3] = [Axis::Level, Axis::Resources, Axis::Network];

    /// Its word: that of the option too.
    pub fn word(self) -> &'static str {
        match self {
            Axis::Level => "level",
            Axis::Resources => "resources",
            Axis::Network => "network",
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One row: a level, or a value of another axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name. No two rows have the same, whatever their axis.
    pub name: String,
    /// What NCCL then does.
    pub summary: String,
    /// What the job must be like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// What it sets.
    pub set: Vec<Setting>,
    /// What it belongs to.
    #[serde(skip)]
    pub axis: Axis,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    level: Vec<Preset>,
    resources: Vec<Preset>,
    network: Vec<Preset>,
    conflict: Vec<conflict::Conflict>,
    variable: Vec<reading::Variable>,
}

/// The level, or value of another axis, of a run whose settings are no row of the table.
pub const CUSTOM: &str = "custom";

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("../../slurm/levels.toml");
    let mut table: Table = toml::from_str(text).expect("slurm/levels.toml is tested");
    table
        .resources
        .iter_mut()
        .for_each(|row| row.axis = Axis::Resources);
    table
        .network
        .iter_mut()
        .for_each(|row| row.axis = Axis::Network);
    table
});

/// The rows of an axis, in the order of the table.
pub fn rows(axis: Axis) -> &'static [Preset] {
    match axis {
        Axis::Level => &TABLE.level,
        Axis::Resources => &TABLE.resources,
        Axis::Network => &TABLE.network,
    }
}

/// The levels, from `off` up, then `default`.
pub fn all() -> &'static [Preset] {
    rows(Axis::Level)
}

/// The row of this name on any axis.
///
/// # Errors
/// A sentence with the names there are.
pub fn find(name: &str) -> Result<&'static Preset, String> {
    let all = || Axis::ALL.into_iter().flat_map(rows);
    all()
        .find(|row| row.name == name)
        .ok_or_else(|| unknown("level, resources or network", all()))
}

/// The level of this name.
///
/// # Errors
/// A sentence with the names there are.
pub fn level(name: &str) -> Result<&'static Preset, String> {
    named(Axis::Level, name)
}

/// The resources of this name.
///
/// # Errors
/// A sentence with the names there are.
pub fn resources(name: &str) -> Result<&'static Preset, String> {
    named(Axis::Resources, name)
}

/// The network of this name.
///
/// # Errors
/// A sentence with the names there are.
pub fn network(name: &str) -> Result<&'static Preset, String> {
    named(Axis::Network, name)
}

fn named(axis: Axis, name: &str) -> Result<&'static Preset, String> {
    rows(axis)
        .iter()
        .find(|row| row.name == name)
        .ok_or_else(|| unknown(axis.word(), rows(axis).iter()))
}

fn unknown(what: &str, rows: impl Iterator<Item = &'static Preset>) -> String {
    let names: Vec<_> = rows.map(|row| row.name.as_str()).collect();
    format!("unknown {what}; there are {}", names.join(", "))
}

/// Every variable that a row of `axis` sets, each once, sorted.
pub fn variables(axis: Axis) -> Vec<&'static str> {
    let mut names: Vec<&str> = rows(axis)
        .iter()
        .flat_map(|row| &row.set)
        .map(|setting| setting.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Does the table say anything of this variable?
pub fn concerns(name: &str) -> bool {
    let in_rows = || {
        Axis::ALL
            .into_iter()
            .flat_map(rows)
            .flat_map(|row| &row.set)
            .any(|setting| setting.name == name)
    };
    reading::variable(name).is_some() || conflict::concerns(name) || in_rows()
}

impl Setting {
    /// The value on a node with these ports; `None` where it stands for ports that the node does not have.
    pub fn on(&self, ports: &[Port]) -> Option<String> {
        match self.value.as_str() {
            "@InfiniBand" => ports::hca_list(ports, Link::InfiniBand),
            "@Ethernet" => ports::hca_list(ports, Link::Ethernet),
            value => Some(value.to_owned()),
        }
    }
}

impl Preset {
    /// What this row sets where `env` is the environment: a variable that is there already wins.
    pub fn apply(&self, env: crate::env::Env, ports: &[Port]) -> Vec<(String, String)> {
        let free = self
            .set
            .iter()
            .filter(|setting| env(&setting.name).is_none());
        free.filter_map(|setting| Some((setting.name.clone(), setting.on(ports)?)))
            .collect()
    }

    /// Does it set this variable?
    pub fn sets(&self, name: &str) -> bool {
        self.set.iter().any(|setting| setting.name == name)
    }

    /// Lines for a shell that do what the row does: a variable that is there already wins, one that is set to nothing
    /// too.
    pub fn exports(&self) -> Vec<String> {
        let line = |Setting {
                        name, value, why, ..
                    }: &Setting| match value.strip_prefix('@') {
            None => format!("export {name}=\"${{{name}-{value}}}\"  # {why}"),
            Some(kind) => {
                format!(
                    "# {name}: the active {kind} ports of each node; `pxnbench --network {}` sets it",
                    self.name
                )
            }
        };
        if self.set.is_empty() {
            return vec![format!(
                "# {} {} sets nothing: {}",
                self.axis, self.name, self.summary
            )];
        }
        self.set.iter().map(line).collect()
    }
}

/// The row that the environment amounts to: the first whose variables are all as it sets them while no other row's
/// variable is set, else [`CUSTOM`]. Not for networks, which are only asked for.
pub fn in_force(axis: Axis, env: crate::env::Env) -> &'static str {
    let names = variables(axis);
    let is_in_force = |row: &&Preset| {
        names.iter().all(|name| {
            let value = row
                .set
                .iter()
                .find(|setting| setting.name == *name)
                .map(|setting| setting.value.as_str());
            env(name).as_deref() == value
        })
    };
    rows(axis)
        .iter()
        .find(is_in_force)
        .map_or(CUSTOM, |row| &row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "standard: NCCL_MIN_CTAS= NCCL_MAX_CTAS= NCCL_MIN_P2P_NCHANNELS= NCCL_MAX_P2P_NCHANNELS=",
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
                    !why.is_empty() && conflict::version(since).is_some(),
                    "{}: {name}",
                    row.name
                );
                assert!(
                    !why.contains(['\n', '`', '$']),
                    "it stands in a shell comment"
                );
                let variable =
                    reading::variable(name).expect("a [[variable]] says how NCCL reads it");
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
        let ports = ["mlx5_0 1 InfiniBand", "mlx5_1 1 Ethernet"].map(ports::tests::port);
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
                "export NCCL_PXN_DISABLE=\"${NCCL_PXN_DISABLE-1}\"  # no relay, neither for rings and trees nor for send/recv"
            ]
        );
        assert!(lines("default")[0].starts_with("# level default sets nothing"));
        assert!(lines("ib")[2].starts_with("# NCCL_IB_HCA: the active InfiniBand ports"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        assert_eq!(
            resources("huge").map(|_| ()),
            Err("unknown resources; there are none, lean, standard, large".into())
        );
        assert!(find("x").expect_err("unknown").ends_with("socket, pxn"));
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
