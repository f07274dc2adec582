//! The level, resources and network that a run asks for.

use crate::{
    env::Env,
    levels::{Axis, Preset, ports::Port},
};

/// What is requested on each axis; `None` if nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presets {
    /// The PXN level.
    pub level: Option<&'static Preset>,
    /// How many channels NCCL may use.
    pub resources: Option<&'static Preset>,
    /// The transport that NCCL is asked for.
    pub network: Option<&'static Preset>,
}

impl Presets {
    /// Returns what is requested on `axis`.
    pub fn on(&self, axis: Axis) -> Option<&'static Preset> {
        match axis {
            Axis::Level => self.level,
            Axis::Resources => self.resources,
            Axis::Network => self.network,
        }
    }

    /// Returns whether the variable `name`, which a preset of `axis` sets, is already decided by an
    /// axis before it.
    pub fn is_decided_before(&self, axis: Axis, name: &str) -> bool {
        for earlier in Axis::ALL {
            if earlier == axis {
                return false;
            }
            if self.on(earlier).is_some_and(|preset| preset.sets(name)) {
                return true;
            }
        }
        false
    }

    /// Returns whether any preset asks NCCL to relay.
    pub fn ask_for_relays(&self) -> bool {
        let relays = |preset: Option<&Preset>, names: &[&str]| {
            preset.is_some_and(|preset| names.contains(&preset.name.as_str()))
        };
        relays(self.level, &["conservative", "balanced", "aggressive"])
            || relays(self.network, &["pxn"])
    }

    /// Returns the variables that the presets set on top of the environment `env`, on a node with
    /// the ports that `ports` lists. A variable that `env` already has keeps its value and is left
    /// out.
    pub fn environment(&self, env: Env, ports: &dyn Fn() -> Vec<Port>) -> Vec<(String, String)> {
        let ports = if self.network.is_some() {
            ports()
        } else {
            Vec::new()
        };
        let mut set: Vec<(String, String)> = Vec::new();
        for preset in Axis::ALL.into_iter().filter_map(|axis| self.on(axis)) {
            let added = preset.apply(&|name| lookup(&set, name).or_else(|| env(name)), &ports);
            set.extend(added);
        }
        set
    }
}

fn lookup(set: &[(String, String)], name: &str) -> Option<String> {
    let (_, value) = set.iter().find(|(other, _)| other == name)?;
    Some(value.clone())
}
