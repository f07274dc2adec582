//! One row of the table: a level, or a preset of another axis, and the settings it makes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ports::{self, Link, Port};
use crate::env::Env;

/// One setting of a preset.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The variable.
    pub name: String,
    /// Its value. A value that starts with `@` stands for the ports of one kind: see
    /// [`Setting::value_on`].
    pub value: String,
    /// What the setting does.
    pub why: String,
    /// The first NCCL that reads the variable.
    pub since: String,
}

/// A property that a job needs for a preset to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// All ranks are on one node.
    OneNode,
    /// The ranks are on two nodes or more.
    SeveralNodes,
    /// The GPUs of a node reach each other over NVLink.
    Nvlink,
    /// The GPUs of a node do not reach each other over NVLink.
    NoNvlink,
    /// Every node has an active InfiniBand port.
    Infiniband,
    /// Every node has an active Ethernet port of an RDMA device.
    Ethernet,
    /// NICs access GPU memory directly.
    Gpudirect,
}

/// The axis that a preset belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// How far PXN may go.
    #[default]
    Level,
    /// How many channels NCCL may use.
    Resources,
    /// Which transport NCCL is asked to use.
    Network,
}

impl Axis {
    /// All axes, in the order in which they are applied: if two set the same variable, the first
    /// one wins.
    pub const ALL: [Axis; 3] = [Axis::Level, Axis::Resources, Axis::Network];

    /// Returns the name of the axis, which is also the name of its option.
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

/// A level, or a value of another axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name, unique over all axes.
    pub name: String,
    /// What NCCL does with it.
    pub summary: String,
    /// What the job needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// The settings it makes.
    pub set: Vec<Setting>,
    /// The axis it belongs to.
    #[serde(skip)]
    pub axis: Axis,
}

impl Setting {
    /// Returns the value on a node with these ports; `None` if it stands for ports that the node
    /// does not have.
    pub fn value_on(&self, ports: &[Port]) -> Option<String> {
        match self.value.as_str() {
            "@InfiniBand" => ports::hca_list(ports, Link::InfiniBand),
            "@Ethernet" => ports::hca_list(ports, Link::Ethernet),
            value => Some(value.to_owned()),
        }
    }
}

impl Preset {
    /// Returns what this preset sets in addition to the environment `env`, in which a variable that
    /// is already set wins.
    pub fn apply(&self, env: Env, ports: &[Port]) -> Vec<(String, String)> {
        let mut applied = Vec::new();
        for setting in &self.set {
            if env(&setting.name).is_some() {
                continue;
            }
            if let Some(value) = setting.value_on(ports) {
                applied.push((setting.name.clone(), value));
            }
        }
        applied
    }

    /// Returns the setting of this variable, if the preset sets it.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.set.iter().find(|setting| setting.name == name)
    }

    /// Returns whether the preset sets this variable.
    pub fn sets(&self, name: &str) -> bool {
        self.setting(name).is_some()
    }

    /// Returns shell lines that do what the preset does: a variable that is already set wins, even
    /// if it is empty.
    pub fn exports(&self) -> Vec<String> {
        if self.set.is_empty() {
            let line = format!(
                "# {} {} sets nothing: {}",
                self.axis, self.name, self.summary
            );
            return vec![line];
        }
        self.set
            .iter()
            .map(|setting| self.export(setting))
            .collect()
    }

    fn export(&self, setting: &Setting) -> String {
        let Setting {
            name, value, why, ..
        } = setting;
        match value.strip_prefix('@') {
            None => format!("export {name}=\"${{{name}-{value}}}\"  # {why}"),
            Some(kind) => {
                let preset = &self.name;
                format!(
                    "# {name}: the active {kind} ports of each node; `pxnbench --network \
                     {preset}` sets it"
                )
            }
        }
    }
}
