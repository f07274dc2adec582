//! What connects this node to others: RDMA ports with their rates and GIDs, and network interfaces.
//! From `/sys` and `/proc`.

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
    /// Device, number, link layer and state.
    pub port: Port,
    /// Its rate in Gb/s; `None` if /sys does not tell.
    pub rate: Option<f64>,
    /// The GIDs that are set, by index.
    pub gids: BTreeMap<u32, Gid>,
}

impl RdmaPort {
    /// Returns the name of the port, such as `mlx5_0:1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.port.device, self.port.number)
    }
}

/// An address of an RDMA port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gid {
    /// The address.
    pub address: String,
    /// Its type, such as `RoCE v2`; empty if /sys does not tell.
    pub kind: String,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it carries traffic, as far as Linux knows.
    pub is_up: bool,
    /// Whether it has an IPv4 address, as far as the routes tell.
    pub ipv4: bool,
    /// Whether it has an IPv6 address. A link-local one (fe80::) counts, since NCCL uses it.
    pub ipv6: bool,
}

/// Returns the RDMA ports under `root`.
pub(super) fn rdma_ports(root: &Path) -> Vec<RdmaPort> {
    let mut detailed = Vec::new();
    for port in rdma::ports(root) {
        detailed.push(RdmaPort {
            rate: rate(root, &port),
            gids: gids(&port_folder(root, &port)),
            port,
        });
    }
    detailed
}

fn port_folder(root: &Path, port: &Port) -> PathBuf {
    let Port { device, number, .. } = port;
    root.join(format!("sys/class/infiniband/{device}/ports/{number}"))
}

/// Returns the rate of a port in Gb/s; `None` if /sys does not tell.
pub(super) fn rate(root: &Path, port: &Port) -> Option<f64> {
    let rate = text(&port_folder(root, port).join("rate"));
    rate.split_whitespace().next()?.parse().ok()
}

/// Returns the GIDs of a port that are not zero.
fn gids(port: &Path) -> BTreeMap<u32, Gid> {
    let mut gids = BTreeMap::new();
    for name in names(&port.join("gids")) {
        let Ok(index) = name.parse() else { continue };
        let address = text(&port.join("gids").join(&name));
        let is_set = address.chars().any(|c| c != '0' && c != ':');
        if is_set {
            let kind = text(&port.join("gid_attrs/types").join(&name));
            gids.insert(index, Gid { address, kind });
        }
    }
    gids
}

/// Returns the network interfaces under `root`, in the order in which the kernel lists them.
pub(super) fn interfaces(root: &Path) -> Vec<Interface> {
    let class = root.join("sys/class/net");
    let routes = text(&root.join("proc/net/route"));
    let addresses = text(&root.join("proc/net/if_inet6"));
    let mut names = names(&class);
    names.retain(|name| name != "bonding_masters");
    names.sort_by_cached_key(|name| kernel_index(&class.join(name)));
    let mut interfaces = Vec::new();
    for name in names {
        let is_up = is_up(&class.join(&name));
        interfaces.push(Interface {
            is_up,
            // The routes of lo are in a table of their own; it has 127.0.0.1 as soon as it is up.
            ipv4: if name == "lo" {
                is_up
            } else {
                has_route(&routes, &name)
            },
            ipv6: has_ipv6(&addresses, &name),
            name,
        });
    }
    interfaces
}

fn kernel_index(interface: &Path) -> u32 {
    text(&interface.join("ifindex")).parse().unwrap_or(u32::MAX)
}

/// Returns whether an interface is up. Some drivers, and lo, report `unknown` while they work.
fn is_up(interface: &Path) -> bool {
    let state = text(&interface.join("operstate"));
    state == "up" || state == "unknown"
}

/// Returns whether /proc/net/route has a route through this interface.
fn has_route(routes: &str, interface: &str) -> bool {
    let mut lines = routes.lines();
    lines.any(|line| line.split_whitespace().next() == Some(interface))
}

/// Returns whether /proc/net/if_inet6 has an address of this interface that reaches anything: ::1,
/// which does not, is the only one with host scope.
fn has_ipv6(addresses: &str, interface: &str) -> bool {
    const HOST_SCOPE: &str = "10";
    for line in addresses.lines() {
        // Address, number, prefix, scope, flags, name.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let scope = fields.get(3);
        if fields.last() == Some(&interface) && scope.is_some_and(|scope| *scope != HOST_SCOPE) {
            return true;
        }
    }
    false
}
