//! Network interfaces: which one NCCL takes for its bootstrap, and the setting that names it.

use super::{Check, Subject, Verdict, all, each, list, same};
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
enum Family {
    V4,
    V6,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    fn is_of(self, interface: &Interface) -> bool {
        interface.is_up
            && match self {
                Family::V4 => interface.ipv4,
                Family::V6 => interface.ipv6,
            }
    }
}

/// What NCCL_SOCKET_IFNAME says; NCCL passes over one of a single character.
fn named(one: &Subject) -> Option<&str> {
    one.settings
        .get("NCCL_SOCKET_IFNAME")
        .filter(|value| value.len() > 1)
}

/// The interface that NCCL takes first, and the family of its address; `None` where it is left with local ones.
fn chosen(one: &Subject) -> Option<(&Interface, Family)> {
    // Where nobody names one, InfiniBand's own come first with NCCL, then what is not known to be local.
    let lists = named(one).map_or_else(|| vec!["ib", "^docker,lo,virbr"], |value| vec![value]);
    let families = match one.settings.get("NCCL_SOCKET_FAMILY") {
        Some("AF_INET") => &[Family::V4][..],
        Some("AF_INET6") => &[Family::V6],
        _ => &[Family::V4, Family::V6],
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
        let choice = Selection::of(list);
        listed()
            .find(|(interface, family)| family.is_of(interface) && choice.takes(&interface.name))
    };
    lists.into_iter().find_map(first)
}

fn names(one: &Subject) -> Vec<&str> {
    one.health
        .interfaces
        .iter()
        .map(|interface| interface.name.as_str())
        .collect()
}

fn ifname(one: &Subject) -> Verdict {
    let Some(value) = named(one) else {
        return Verdict::none("NCCL_SOCKET_IFNAME is not set");
    };
    let there = names(one);
    let choice = Selection::of(value);
    let remedy = "name an interface of this node: beginnings of names, = for exact names, ^ for all but these; nodes that \
                  differ need an nccl.conf of their own";
    match there.iter().any(|name| choice.takes(name)) {
        true => Verdict::ok(format!("NCCL_SOCKET_IFNAME={value}")),
        false if there.is_empty() => Verdict::none("there is no /sys/class/net"),
        false => Verdict::failure(
            format!(
                "NCCL_SOCKET_IFNAME={value}, and the node has {}",
                list(&there)
            ),
            remedy,
        ),
    }
}

fn interface(one: &Subject) -> Verdict {
    match chosen(one) {
        _ if one.health.interfaces.is_empty() => Verdict::none("there is no /sys/class/net"),
        Some((interface, _)) if interface.name == "lo" => {
            loopback(one, named(one).unwrap_or_default())
        }
        Some((interface, family)) => Verdict::ok(format!("{}, {}", interface.name, family.name())),
        None => Verdict::warning(
            format!(
                "none of {} is up with an address, but local ones",
                list(&names(one))
            ),
            "NCCL's bootstrap needs a network between nodes: bring an interface up, or name it in NCCL_SOCKET_IFNAME",
        ),
    }
}

/// NCCL leaves lo out by itself, but not where a list tells what to leave out; it is the first that Linux lists.
fn loopback(one: &Subject, value: &str) -> Verdict {
    let spans_nodes = one.world > one.local.1;
    let evidence = format!("NCCL_SOCKET_IFNAME={value} takes lo, which reaches this node only");
    let remedy = match value.starts_with('^') {
        true => format!("leave lo out too: NCCL_SOCKET_IFNAME={value},lo"),
        false => "name the interface between the nodes".to_owned(),
    };
    match (spans_nodes, value.starts_with('^')) {
        (true, _) => Verdict::failure(evidence, remedy),
        (false, true) => Verdict::warning(evidence, remedy),
        (false, false) => Verdict::ok("lo, and the job is on one node"),
    }
}
