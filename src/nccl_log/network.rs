//! What NCCL says of its version, its networks and its NICs.

use std::collections::BTreeSet;

use super::{
    limits::{SOME, clipped_text},
    line::Message,
    quotes::Topic,
};

/// The first version of NCCL that has PXN.
const FIRST_WITH_PXN: (u32, u32) = (2, 12);

/// Versions, networks, plugins, and GPUDirect RDMA by NIC.
#[derive(Debug, Default)]
pub(super) struct NetworkFacts {
    pub(super) versions: BTreeSet<String>,
    pub(super) networks: BTreeSet<String>,
    pub(super) plugins: BTreeSet<String>,
    /// Whether the network plugin's interface is v4, which has no PXN.
    pub(super) plugin_too_old: bool,
    nics_with_gpudirect: u64,
    nics_without_gpudirect: u64,
}

impl NetworkFacts {
    /// Adds a message about networks, and returns the topic that quotes its line.
    pub(super) fn add(&mut self, message: Message<'_>) -> Option<Topic> {
        match message {
            Message::Version(version) => {
                insert(&mut self.versions, version);
                Some(Topic::Version)
            }
            Message::Network(name) => {
                insert(&mut self.networks, name);
                Some(Topic::Network)
            }
            Message::Plugin(name) => {
                insert(&mut self.plugins, name);
                None
            }
            Message::PluginTooOld => {
                self.plugin_too_old = true;
                Some(Topic::PluginTooOld)
            }
            Message::GpuDirect(true) => {
                self.nics_with_gpudirect += 1;
                None
            }
            Message::GpuDirect(false) => {
                self.nics_without_gpudirect += 1;
                Some(Topic::GpuDirect)
            }
            Message::GpuDirectTooFar => Some(Topic::GpuDirectTooFar),
            _ => None,
        }
    }

    /// Returns whether all versions in the log are older than PXN.
    pub(super) fn is_older_than_pxn(&self) -> bool {
        !self.versions.is_empty() && self.versions.iter().all(|version| is_before_pxn(version))
    }

    /// Returns whether NCCL says that it uses sockets, and no other network.
    pub(super) fn is_sockets_only(&self) -> bool {
        !self.networks.is_empty() && self.networks.iter().all(|name| name == "Socket")
    }

    /// Returns whether the log speaks of NICs and none of them has GPUDirect RDMA.
    pub(super) fn lacks_gpudirect(&self) -> bool {
        self.nics_with_gpudirect == 0 && self.nics_without_gpudirect > 0
    }
}

/// Returns whether `version`, such as `2.4.8+cuda10.0`, is older than PXN.
fn is_before_pxn(version: &str) -> bool {
    let mut numbers = version.split(['.', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < FIRST_WITH_PXN,
        _ => false,
    }
}

fn insert(set: &mut BTreeSet<String>, name: &[u8]) {
    if set.len() < SOME {
        set.insert(clipped_text(name));
    }
}
