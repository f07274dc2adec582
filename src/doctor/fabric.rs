//! What joins the nodes: RDMA ports and network interfaces, and the settings that name them.

use super::{Check, NONE, Subject, Verdict, all, each, list, same};
use crate::{
    facts::fabric::{Interface, RdmaPort},
    levels::{ports::Link, selection::Selection},
};

pub(super) const CHECKS: &[Check] = &[
    each("net.port-down", "all RDMA ports are up", port_down),
    each("net.port-rate", "RDMA ports of a kind have one rate", port_rate),
    all("net.ports-same", "the same RDMA ports on all nodes", |job| {
        let remedy =
            "NCCL_IB_HCA must name adapters that every node has: with different sets it hangs or falls back to sockets";
        same(job, "active RDMA ports", ports, remedy, true)
    }),
    each("net.verbs", "device files for the RDMA ports", verbs),
    each("net.gid", "the GID that NCCL_IB_GID_INDEX names is a RoCE v2 address", gid),
    each("net.hca", "the adapters in NCCL_IB_HCA exist", hca),
    each("net.mixed-ports", "no Ethernet port among InfiniBand ports", mixed),
    each("net.ifname", "the interfaces in NCCL_SOCKET_IFNAME exist", ifname),
    each("net.interface", "an interface that reaches other nodes", interface),
    all("net.interface-same", "the interface for sockets has one name on all nodes", |job| {
        let remedy = "name it: NCCL_SOCKET_IFNAME with each node's interface, or a network with one name everywhere";
        same(job, "interface", |one| chosen(one).map(|chosen| chosen.name.clone()), remedy, false)
    }),
    all("net.family-same", "one address family on all nodes", |job| {
        let remedy =
            "NCCL_SOCKET_FAMILY=AF_INET, or name interfaces of one family in NCCL_SOCKET_IFNAME: the bootstrap hangs";
        same(job, "address family", family, remedy, true)
    }),
];

fn port_down(one: &Subject) -> Verdict {
    let down: Vec<String> = one.health.rdma.iter().filter(|port| !port.port.active).map(RdmaPort::name).collect();
    match (one.health.rdma.len(), down.len()) {
        (0, _) => Verdict::none("there is no RDMA device"),
        (all, 0) => Verdict::ok(format!("{all} ports")),
        (all, down_count) if all == down_count => Verdict::failure(
            format!("all {all} RDMA ports are down: {}", list(&down)),
            "look at cables, switch and subnet manager (ibstat): NCCL will use sockets",
        ),
        (all, _) => Verdict::warning(
            format!("{} of {all} RDMA ports are down: {}", down.len(), list(&down)),
            "look at cables and switch (ibstat); NCCL passes over ports that are down, so that its GPU takes another's",
        ),
    }
}

fn port_rate(one: &Subject) -> Verdict {
    let mut slow = Vec::new();
    for port in one.health.rdma.iter().filter(|port| port.port.active) {
        let siblings = one.health.rdma.iter().filter(|other| other.port.active && other.port.link == port.port.link);
        let best = siblings.filter_map(|other| other.rate).fold(0.0, f64::max);
        if let Some(rate) = port.rate.filter(|rate| *rate < best) {
            slow.push(format!("{} has {rate} Gb/s of {best}", port.name()));
        }
    }
    match one.health.rdma.iter().any(|port| port.rate.is_some()) {
        false => Verdict::none("no RDMA port tells its rate"),
        true if slow.is_empty() => Verdict::ok("one rate"),
        true => Verdict::warning(
            slow.join("; "),
            "a port that trained down needs its cable looked at; leave a management port out with NCCL_IB_HCA=^=NAME",
        ),
    }
}

/// The active ports; nothing is a set too.
fn ports(one: &Subject) -> Option<String> {
    let names: Vec<String> = one.health.rdma.iter().filter(|port| port.port.active).map(RdmaPort::name).collect();
    Some(if names.is_empty() { NONE.into() } else { list(&names) })
}

fn verbs(one: &Subject) -> Verdict {
    let has_uverbs = one.health.verbs.iter().any(|name| name.starts_with("uverbs"));
    match (one.health.rdma.is_empty(), has_uverbs) {
        (true, _) => Verdict::none("there is no RDMA device"),
        (false, true) => Verdict::ok(format!("/dev/infiniband: {}", list(&one.health.verbs))),
        (false, false) => Verdict::failure(
            "/sys/class/infiniband has ports, and /dev/infiniband has no uverbs device",
            "give the container /dev/infiniband (--device, MELLANOX_VISIBLE_DEVICES=all), or modprobe ib_uverbs: NCCL says 'NET/IB \
             : No device found' and uses sockets",
        ),
    }
}

fn gid(one: &Subject) -> Verdict {
    let Some(index) = one.settings.get("NCCL_IB_GID_INDEX").and_then(|value| value.trim().parse::<u32>().ok()) else {
        return Verdict::none("NCCL_IB_GID_INDEX is not set");
    };
    let roce: Vec<&RdmaPort> =
        one.health.rdma.iter().filter(|port| port.port.active && port.port.link == Link::Ethernet).collect();
    let remedy =
        "show_gids lists them: take the index of a RoCE v2 address with IPv4, or unset it: NCCL 2.21 and newer find it";
    let wrong = |port: &&RdmaPort| match port.gids.get(&index) {
        None => Some(format!("{} has no GID {index}", port.name())),
        Some((_, kind)) if !kind.is_empty() && !kind.contains("v2") => {
            Some(format!("GID {index} of {} is {kind}", port.name()))
        }
        Some(_) => None,
    };
    let found: Vec<String> = roce.iter().filter_map(wrong).collect();
    match (roce.is_empty(), found.is_empty()) {
        (true, _) => Verdict::none("there is no active RoCE port"),
        (false, true) => Verdict::ok(format!("GID {index}")),
        (false, false) => Verdict::failure(found.join("; "), remedy),
    }
}

fn hca(one: &Subject) -> Verdict {
    let Some(value) = one.settings.get("NCCL_IB_HCA").filter(|value| !value.is_empty()) else {
        return Verdict::none("NCCL_IB_HCA is not set");
    };
    let choice = Selection::of(value);
    let there: Vec<String> = one.health.rdma.iter().map(|port| port.port.device.clone()).collect();
    let missing = choice.missing(&there);
    let has = if there.is_empty() { "no RDMA device".to_owned() } else { list(&there) };
    let remedy = "name adapters of this node, with = in front (mlx5_1 means mlx5_10 too), or leave it to NCCL";
    match missing.len() {
        0 if there.iter().any(|name| choice.takes(name)) => Verdict::ok(format!("NCCL_IB_HCA={value}")),
        0 => Verdict::failure(format!("NCCL_IB_HCA={value} leaves none of {has}"), remedy),
        all if all == choice.names().count() => {
            Verdict::failure(format!("NCCL_IB_HCA={value}, and the node has {has}"), remedy)
        }
        _ => Verdict::warning(format!("NCCL_IB_HCA={value}, and the node has no {}", list(&missing)), remedy),
    }
}

fn mixed(one: &Subject) -> Verdict {
    let has = |link: Link| one.health.rdma.iter().any(|port| port.port.active && port.port.link == link);
    if !has(Link::InfiniBand) || !has(Link::Ethernet) {
        return Verdict::none("the ports are of one kind, or there are none");
    }
    let ethernet = one.health.rdma.iter().filter(|port| port.port.active && port.port.link == Link::Ethernet);
    let names: Vec<String> = ethernet.map(|port| port.port.device.clone()).collect();
    match one.settings.get("NCCL_IB_HCA").filter(|value| !value.is_empty()) {
        Some(value) => Verdict::ok(format!("NCCL_IB_HCA={value} chooses")),
        None => Verdict::warning(
            format!("{} are Ethernet beside InfiniBand ports", list(&names)),
            format!("leave out what is for management: NCCL_IB_HCA=^={}", names.join(",")),
        ),
    }
}

fn names(interfaces: &[Interface]) -> Vec<String> {
    interfaces.iter().map(|interface| interface.name.clone()).collect()
}

fn ifname(one: &Subject) -> Verdict {
    let Some(value) = one.settings.get("NCCL_SOCKET_IFNAME").filter(|value| !value.is_empty()) else {
        return Verdict::none("NCCL_SOCKET_IFNAME is not set");
    };
    let there = names(&one.health.interfaces);
    let choice = Selection::of(value);
    let remedy = "name an interface of this node: beginnings of names, = for exact names, ^ for all but these; nodes that \
                  differ need an nccl.conf of their own";
    match there.iter().any(|name| choice.takes(name)) {
        true => Verdict::ok(format!("NCCL_SOCKET_IFNAME={value}")),
        false if there.is_empty() => Verdict::none("there is no /sys/class/net"),
        false => Verdict::failure(format!("NCCL_SOCKET_IFNAME={value}, and the node has {}", list(&there)), remedy),
    }
}

/// The interface that NCCL takes for sockets first, as far as that can be told: the named one, else one that is not local.
fn chosen(one: &Subject) -> Option<&Interface> {
    let named = one.settings.get("NCCL_SOCKET_IFNAME").filter(|value| !value.is_empty()).map(Selection::of);
    let usable = |interface: &&Interface| interface.is_up && (interface.ipv4 || interface.ipv6);
    let mut all = one.health.interfaces.iter().filter(usable);
    match named {
        Some(choice) => all.find(|interface| choice.takes(&interface.name)),
        // InfiniBand's own come first with NCCL.
        None => {
            let others: Vec<&Interface> = all.filter(|interface| !interface.is_local()).collect();
            others.iter().find(|interface| interface.name.starts_with("ib")).or_else(|| others.first()).copied()
        }
    }
}

fn interface(one: &Subject) -> Verdict {
    match (chosen(one), one.health.interfaces.is_empty()) {
        (_, true) => Verdict::none("there is no /sys/class/net"),
        (Some(interface), _) => Verdict::ok(interface.name.clone()),
        (None, _) => Verdict::warning(
            format!("none of {} is up with an address, but local ones", list(&names(&one.health.interfaces))),
            "NCCL's bootstrap needs a network between nodes: bring an interface up, or name it in NCCL_SOCKET_IFNAME",
        ),
    }
}

fn family(one: &Subject) -> Option<String> {
    let interface = chosen(one)?;
    Some(if interface.ipv4 { "IPv4" } else { "IPv6" }.to_owned())
}
