//! RDMA ports: those that NCCL_IB_HCA chooses, and the settings that name them.

use super::{Check, CheckOutcome, NONE, RankFacts, all, each, list, same};
use crate::{
    facts::fabric::RdmaPort,
    levels::{
        ports::{Link, Port},
        selection::Selection,
    },
};

pub(super) const CHECKS: &[Check] = &[
    each("net.port-down", "all RDMA ports are up", port_down),
    each(
        "net.port-rate",
        "RDMA ports of a kind have one rate",
        port_rate,
    ),
    all(
        "net.ports-same",
        "the same RDMA ports on all nodes",
        ports_same,
    ),
    each("net.verbs", "device files for the RDMA ports", verbs),
    each(
        "net.gid",
        "the GID that NCCL_IB_GID_INDEX names is a RoCE v2 address",
        gid,
    ),
    each("net.hca", "the adapters in NCCL_IB_HCA exist", hca),
    each(
        "net.mixed-ports",
        "no Ethernet port among InfiniBand ports",
        mixed,
    ),
];

/// What NCCL_IB_HCA says; an empty one says nothing.
fn named(one: &RankFacts) -> Option<&str> {
    one.settings
        .get("NCCL_IB_HCA")
        .filter(|value| !value.is_empty())
}

/// The ports that NCCL_IB_HCA chooses, up or down; all where it is not set.
fn chosen(one: &RankFacts) -> Vec<&RdmaPort> {
    let choice = Selection::parse(named(one).unwrap_or_default());
    one.health
        .rdma
        .iter()
        .filter(|port| choice.takes_port(&port.port))
        .collect()
}

/// The ports that NCCL will use.
fn active(one: &RankFacts) -> Vec<&RdmaPort> {
    let mut ports = chosen(one);
    ports.retain(|port| port.port.active);
    ports
}

/// Why there is no port to look at.
fn without(one: &RankFacts) -> CheckOutcome {
    match one.health.rdma.is_empty() {
        true => CheckOutcome::none("there is no RDMA device"),
        false => CheckOutcome::none("NCCL_IB_HCA chooses none of the RDMA ports"),
    }
}

fn port_down(one: &RankFacts) -> CheckOutcome {
    let ports = chosen(one);
    let down: Vec<String> = ports
        .iter()
        .filter(|port| !port.port.active)
        .map(|port| port.name())
        .collect();
    match (ports.len(), down.len()) {
        (0, _) => without(one),
        (all, 0) => CheckOutcome::ok(format!("{all} ports")),
        (all, down_count) if all == down_count => CheckOutcome::failure(
            format!(
                "all {all} RDMA ports that NCCL may use are down: {}",
                list(&down)
            ),
            "look at cables, switch and subnet manager (ibstat): NCCL will use sockets",
        ),
        (all, _) => CheckOutcome::warning(
            format!(
                "{} of {all} RDMA ports are down: {}",
                down.len(),
                list(&down)
            ),
            "look at cables and switch (ibstat); NCCL passes over ports that are down, so that its GPU takes another's",
        ),
    }
}

fn port_rate(one: &RankFacts) -> CheckOutcome {
    let ports = active(one);
    let mut slow = Vec::new();
    for port in &ports {
        let siblings = ports
            .iter()
            .filter(|other| other.port.link == port.port.link);
        let best = siblings.filter_map(|other| other.rate).fold(0.0, f64::max);
        if let Some(rate) = port.rate.filter(|rate| *rate < best) {
            slow.push(format!("{} has {rate} Gb/s of {best}", port.name()));
        }
    }
    match ports.iter().any(|port| port.rate.is_some()) {
        _ if chosen(one).is_empty() => without(one),
        false => CheckOutcome::none("no active RDMA port tells its rate"),
        true if slow.is_empty() => CheckOutcome::ok("one rate"),
        true => CheckOutcome::warning(
            slow.join("; "),
            "a port that trained down needs its cable looked at; leave a management port out with NCCL_IB_HCA=^=NAME",
        ),
    }
}

/// Names may differ from node to node. A node without a port uses sockets, which the others do not listen on.
fn ports_same(job: &[RankFacts]) -> CheckOutcome {
    let names = |one: &RankFacts| {
        let names: Vec<String> = active(one).iter().map(|port| port.name()).collect();
        Some(if names.is_empty() {
            NONE.into()
        } else {
            list(&names)
        })
    };
    let fails = job.iter().any(|one| active(one).is_empty());
    let remedy = match fails {
        true => {
            "every node needs an active port that its NCCL_IB_HCA chooses: a node without one uses sockets, and the job hangs"
        }
        false => {
            "names alone may differ; with fewer ports a node is slower, and a rail may have no peer: look at the ports that \
                  are missing, or name in NCCL_IB_HCA what every node has"
        }
    };
    same(job, "set of active RDMA ports", names, remedy, fails)
}

fn verbs(one: &RankFacts) -> CheckOutcome {
    let has_uverbs = one
        .health
        .verbs
        .iter()
        .any(|name| name.starts_with("uverbs"));
    match (one.health.rdma.is_empty(), has_uverbs) {
        (true, _) => CheckOutcome::none("there is no RDMA device"),
        (false, true) => CheckOutcome::ok(format!("/dev/infiniband: {}", list(&one.health.verbs))),
        (false, false) => CheckOutcome::failure(
            "/sys/class/infiniband has ports, and /dev/infiniband has no uverbs device",
            "give the container /dev/infiniband (--device, MELLANOX_VISIBLE_DEVICES=all), or modprobe ib_uverbs: NCCL says 'NET/IB \
             : No device found' and uses sockets",
        ),
    }
}

fn gid(one: &RankFacts) -> CheckOutcome {
    let Some(index) = one
        .settings
        .get("NCCL_IB_GID_INDEX")
        .and_then(|value| value.trim().parse::<u32>().ok())
    else {
        return CheckOutcome::none("NCCL_IB_GID_INDEX is not set");
    };
    let mut roce = active(one);
    roce.retain(|port| port.port.link == Link::Ethernet);
    let remedy = "show_gids lists them: take the index of a RoCE v2 address with IPv4, or unset it: NCCL 2.21 and newer find it";
    let wrong = |port: &&RdmaPort| match port.gids.get(&index) {
        None => Some(format!("{} has no GID {index}", port.name())),
        Some((_, kind)) if !kind.is_empty() && !kind.contains("v2") => {
            Some(format!("GID {index} of {} is {kind}", port.name()))
        }
        Some(_) => None,
    };
    let found: Vec<String> = roce.iter().filter_map(wrong).collect();
    match (roce.is_empty(), found.is_empty()) {
        (true, _) => CheckOutcome::none("there is no active RoCE port"),
        (false, true) => CheckOutcome::ok(format!("GID {index}")),
        (false, false) => CheckOutcome::failure(found.join("; "), remedy),
    }
}

fn hca(one: &RankFacts) -> CheckOutcome {
    let Some(value) = named(one) else {
        return CheckOutcome::none("NCCL_IB_HCA is not set");
    };
    let choice = Selection::parse(value);
    let there: Vec<Port> = one
        .health
        .rdma
        .iter()
        .map(|port| port.port.clone())
        .collect();
    if there.is_empty() && choice.excludes {
        return CheckOutcome::none("there is no RDMA device to leave out");
    }
    let missing = choice.missing(&there);
    let has = match there.is_empty() {
        true => "no RDMA device".to_owned(),
        false => list(
            &one.health
                .rdma
                .iter()
                .map(RdmaPort::name)
                .collect::<Vec<_>>(),
        ),
    };
    let remedy = "name adapters of this node, with = in front (mlx5_1 means mlx5_10 too), or leave it to NCCL";
    match (chosen(one).is_empty(), choice.excludes) {
        (true, true) => {
            CheckOutcome::failure(format!("NCCL_IB_HCA={value} leaves none of {has}"), remedy)
        }
        (true, false) => CheckOutcome::failure(
            format!("NCCL_IB_HCA={value}, and the node has {has}"),
            remedy,
        ),
        (false, _) if missing.is_empty() => CheckOutcome::ok(format!("NCCL_IB_HCA={value}")),
        (false, _) => CheckOutcome::warning(
            format!(
                "NCCL_IB_HCA={value}, and the node has no {}",
                list(&missing)
            ),
            remedy,
        ),
    }
}

/// The Ethernet ports of these, where there are InfiniBand ports beside them.
fn beside<'a>(ports: &[&'a RdmaPort]) -> Vec<&'a str> {
    let has_infiniband = ports.iter().any(|port| port.port.link == Link::InfiniBand);
    let is_other = |port: &&&RdmaPort| has_infiniband && port.port.link == Link::Ethernet;
    ports
        .iter()
        .filter(is_other)
        .map(|port| port.port.device.as_str())
        .collect()
}

fn mixed(one: &RankFacts) -> CheckOutcome {
    let up: Vec<&RdmaPort> = one
        .health
        .rdma
        .iter()
        .filter(|port| port.port.active)
        .collect();
    let ethernet = beside(&active(one));
    match named(one) {
        _ if beside(&up).is_empty() => {
            CheckOutcome::none("the ports are of one kind, or there are none")
        }
        Some(value) if ethernet.is_empty() => {
            CheckOutcome::ok(format!("NCCL_IB_HCA={value} chooses"))
        }
        _ => CheckOutcome::warning(
            format!("{} are Ethernet beside InfiniBand ports", list(&ethernet)),
            format!(
                "leave out what is for management: NCCL_IB_HCA=^={}",
                ethernet.join(",")
            ),
        ),
    }
}
