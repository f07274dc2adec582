//! What joins this node to others: RDMA ports with their rates and GIDs, and network interfaces. From `/sys` and `/proc`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    rdma,
    tree::{names, text},
};
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
    /// Has it an address of IPv4, as far as routes tell?
    pub ipv4: bool,
    /// Has it an address of IPv6? One of the link's own (fe80::) counts: NCCL takes it.
    pub ipv6: bool,
}

/// The RDMA ports under `root`.
pub(super) fn rdma(root: &Path) -> Vec<RdmaPort> {
    let detail = |port: Port| {
        let (rate, gids) = (rate(root, &port), gids(&folder(root, &port)));
        RdmaPort { port, rate, gids }
    };
    rdma::ports(root).into_iter().map(detail).collect()
}

fn folder(root: &Path, port: &Port) -> PathBuf {
    root.join(format!(
        "sys/class/infiniband/{}/ports/{}",
        port.device, port.number
    ))
}

/// Gb/s of a port; `None` where /sys does not tell.
pub(super) fn rate(root: &Path, port: &Port) -> Option<f64> {
    text(&folder(root, port).join("rate"))
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn gids(port: &Path) -> BTreeMap<u32, (String, String)> {
    let gid = |name: String| {
        let index: u32 = name.parse().ok()?;
        let address = text(&port.join("gids").join(&name));
        let is_set = address.chars().any(|c| c != '0' && c != ':');
        is_set.then(|| {
            (
                index,
                (address, text(&port.join("gid_attrs/types").join(&name))),
            )
        })
    };
    names(&port.join("gids"))
        .into_iter()
        .filter_map(gid)
        .collect()
}

/// The network interfaces under `root`, in the order in which the kernel lists them.
pub(super) fn interfaces(root: &Path) -> Vec<Interface> {
    let read = |path: &str| text(&root.join(path));
    let (routes, addresses) = (read("proc/net/route"), read("proc/net/if_inet6"));
    let has_route = |name: &str| {
        routes
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name))
    };
    // Address, number, prefix, scope, flags, name; only ::1, which reaches nothing, has the scope of the host.
    let has_address = |name: &str| {
        addresses
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .any(|fields| {
                fields.last() == Some(&name) && fields.get(3).is_some_and(|scope| *scope != "10")
            })
    };
    let interface = |name: String| {
        // Some drivers, and lo, say `unknown` while they work.
        let is_up =
            ["up", "unknown"].contains(&read(&format!("sys/class/net/{name}/operstate")).as_str());
        // The routes of lo are in a table of their own; it has 127.0.0.1 as soon as it is up.
        let ipv4 = if name == "lo" {
            is_up
        } else {
            has_route(&name)
        };
        Interface {
            is_up,
            ipv4,
            ipv6: has_address(&name),
            name,
        }
    };
    let mut names = names(&root.join("sys/class/net"));
    names.retain(|name| name != "bonding_masters");
    names.sort_by_cached_key(|name| {
        read(&format!("sys/class/net/{name}/ifindex"))
            .parse()
            .unwrap_or(u32::MAX)
    });
    names.into_iter().map(interface).collect()
}
