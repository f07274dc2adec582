//! What joins this node to others: RDMA ports with their rates and GIDs, and network interfaces. From `/sys` and `/proc`.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::rdma;
use crate::levels::ports::Port;

/// A port of an RDMA device, in more detail than the sweep needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// Device, number, link and whether it is up.
    pub port: Port,
    /// Gb/s; `None` where /sys does not tell.
    pub rate: Option<f64>,
    /// GIDs that are set: index, address, and type such as `RoCE v2`.
    pub gids: BTreeMap<u32, (String, String)>,
}

impl RdmaPort {
    /// `mlx5_0:1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.port.device, self.port.number)
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Does it carry traffic, as far as Linux knows?
    pub is_up: bool,
    /// Has it a route of IPv4?
    pub ipv4: bool,
    /// Has it an address of IPv6 that is valid beyond its own link?
    pub ipv6: bool,
}

impl Interface {
    /// Is it one that NCCL takes by itself only where there is nothing else?
    pub fn is_local(&self) -> bool {
        self.name == "lo" || self.name.starts_with("docker")
    }
}

/// The RDMA ports under `root`.
pub(super) fn rdma(root: &Path) -> Vec<RdmaPort> {
    let detail = |port: Port| {
        let folder = root.join(format!("sys/class/infiniband/{}/ports/{}", port.device, port.number));
        let rate = fs::read_to_string(folder.join("rate")).ok();
        let rate = rate.and_then(|text| text.split_whitespace().next()?.parse().ok());
        RdmaPort { port, rate, gids: gids(&folder) }
    };
    rdma::ports(root).into_iter().map(detail).collect()
}

fn gids(port: &Path) -> BTreeMap<u32, (String, String)> {
    let entries = fs::read_dir(port.join("gids")).into_iter().flatten().flatten();
    let gid = |entry: fs::DirEntry| {
        let index: u32 = entry.file_name().to_str()?.parse().ok()?;
        let address = fs::read_to_string(entry.path()).ok()?.trim().to_owned();
        let is_set = address.chars().any(|c| c != '0' && c != ':');
        let kind = fs::read_to_string(port.join(format!("gid_attrs/types/{index}"))).unwrap_or_default();
        is_set.then(|| (index, (address, kind.trim().to_owned())))
    };
    entries.filter_map(gid).collect()
}

/// The network interfaces under `root`, by name.
pub(super) fn interfaces(root: &Path) -> Vec<Interface> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (routes, addresses) = (read("proc/net/route"), read("proc/net/if_inet6"));
    let has_route = |name: &str| routes.lines().any(|line| line.split_whitespace().next() == Some(name));
    // Address, number, prefix, scope (20 is the link's own), flags, name.
    let has_address = |name: &str| {
        addresses.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            fields.last() == Some(&name) && fields.get(3).is_some_and(|scope| !["20", "10"].contains(scope))
        })
    };
    let mut all: Vec<Interface> = super::health::names(&root.join("sys/class/net"))
        .into_iter()
        .map(|name| Interface {
            // Some drivers, and lo, say `unknown` while they work.
            is_up: ["up", "unknown"].contains(&read(&format!("sys/class/net/{name}/operstate")).trim()),
            ipv4: has_route(&name),
            ipv6: has_address(&name),
            name,
        })
        .collect();
    all.retain(|interface| interface.name != "bonding_masters");
    all
}
