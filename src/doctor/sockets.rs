//! Network interfaces: which one NCCL takes for its bootstrap, and the setting that names it.

use super::{Check, CheckOutcome, RankFacts, all, each, list, same};
use crate::{facts::fabric::Interface, levels::selection::Selection};

pub(super) const CHECKS: &[Check] = &[
    each(
        "net.ifname",
        "the interfaces in NCCL_SOCKET_IFNAME exist",
        ifname,
    ),
    each(
        "net.interface",
        "an interface that reaches other nodes",
        interface,
    ),
    all(
        "net.interface-same",
        "the interface for sockets has one name on all nodes",
        |job| {
            let remedy = "name it: NCCL_SOCKET_IFNAME with each node's interface, or a network with one name everywhere";
            same(
                job,
                "interface",
                |one| chosen(one).map(|(interface, _)| interface.name.clone()),
                remedy,
                false,
            )
        },
    ),
    all(
        "net.family-same",
        "one address family on all nodes",
        |job| {
            let remedy = "NCCL_SOCKET_FAMILY=AF_INET, or name interfaces of one family in NCCL_SOCKET_IFNAME: the bootstrap hangs";
            same(
                job,
                "address family",
                |one| chosen(one).map(|(_, family)| family.name().to_owned()),
                remedy,
                true,
            )
        },
    ),
];

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MpiFamily {
    V4,
    V6,
}

impl MpiFamily {
    fn name(self) -> &'static str {
        match self {
            MpiFamily::V4 => "IPv4",
            MpiFamily::V6 => "IPv6",
        }
    }

    fn is_of(self, interface: &Interface) -> bool {
        interface.is_up
            && match self {
                MpiFamily::V4 => interface.ipv4,
                MpiFamily::V6 => interface.ipv6,
            }
    }
}

/// What NCCL_SOCKET_IFNAME says; NCCL passes over one of a single character.
fn named(one: &RankFacts) -> Option<&str> {
    one.settings
        .get("NCCL_SOCKET_IFNAME")
        .filter(|value| value.len() > 1)
}

/// The interface that NCCL takes first, and the family of its address; `None` where it is left with local ones.
fn chosen(one: &RankFacts) -> Option<(&Interface, MpiFamily)> {
    // Where nobody names one, InfiniBand's own come first with NCCL, then what is not known to be local.
    let lists = named(one).map_or_else(|| vec!["ib", "^docker,lo,virbr"], |value| vec![value]);
    let families = match one.settings.get("NCCL_SOCKET_FAMILY") {
        Some("AF_INET") => &[MpiFamily::V4][..],
        Some("AF_INET6") => &[MpiFamily::V6],
        _ => &[MpiFamily::V4, MpiFamily::V6],
    };
    // Linux lists all interfaces with IPv4 before the first with IPv6, each time in the order of their numbers.
    let listed = || {
        families.iter().flat_map(|family| {
            one.health
                .interfaces
                .iter()
                .map(move |interface| (interface, *family))
        })
    };
    let first = |list: &str| {
        let choice = Selection::parse(list);
        listed()
            .find(|(interface, family)| family.is_of(interface) && choice.takes(&interface.name))
    };
    lists.into_iter().find_map(first)
}

fn names(one: &RankFacts) -> Vec<&str> {
    one.health
        .interfaces
        .iter()
        .map(|interface| interface.name.as_str())
        .collect()
}

fn ifname(one: &RankFacts) -> CheckOutcome {
    let Some(value) = named(one) else {
        return CheckOutcome::none("NCCL_SOCKET_IFNAME is not set");
    };
    let there = names(one);
    let choice = Selection::parse(value);
    let remedy = "name an interface of this node: beginnings of names, = for exact names, ^ for all but these; nodes that \
                  differ need an nccl.conf of their own";
    match there.iter().any(|name| choice.takes(name)) {
        true => CheckOutcome::ok(format!("NCCL_SOCKET_IFNAME={value}")),
        false if there.is_empty() => CheckOutcome::none("there is no /sys/class/net"),
        false => CheckOutcome::failure(
            format!(
                "NCCL_SOCKET_IFNAME={value}, and the node has {}",
                list(&there)
            ),
            remedy,
        ),
    }
}

fn interface(one: &RankFacts) -> CheckOutcome {
    match chosen(one) {
        _ if one.health.interfaces.is_empty() => CheckOutcome::none("there is no /sys/class/net"),
        Some((interface, _)) if interface.name == "lo" => {
            loopback(one, named(one).unwrap_or_default())
        }
        Some((interface, family)) => {
            CheckOutcome::ok(format!("{}, {}", interface.name, family.name()))
        }
        None => CheckOutcome::warning(
            format!(
                "none of {} is up with an address, but local ones",
                list(&names(one))
            ),
            "NCCL's bootstrap needs a network between nodes: bring an interface up, or name it in NCCL_SOCKET_IFNAME",
        ),
    }
}

/// NCCL leaves lo out by itself, but not where a list tells what to leave out; it is the first that Linux lists.
fn loopback(one: &RankFacts, value: &str) -> CheckOutcome {
    let spans_nodes = one.world > one.local.1;
    let evidence = format!("NCCL_SOCKET_IFNAME={value} takes lo, which reaches this node only");
    let remedy = match value.starts_with('^') {
        true => format!("leave lo out too: NCCL_SOCKET_IFNAME={value},lo"),
        false => "name the interface between the nodes".to_owned(),
    };
    match (spans_nodes, value.starts_with('^')) {
        (true, _) => CheckOutcome::failure(evidence, remedy),
        (false, true) => CheckOutcome::warning(evidence, remedy),
        (false, false) => CheckOutcome::ok("lo, and the job is on one node"),
    }
}
