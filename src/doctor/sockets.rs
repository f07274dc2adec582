//! Network interfaces: which one NCCL uses for its bootstrap, and the setting that names it.

use super::{
    check::Check,
    compare::{Difference, list, same_everywhere},
    outcome::CheckOutcome,
};
use crate::{
    facts::{fabric::Interface, ranks::RankFacts},
    levels::selection::Selection,
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "net.ifname",
        "the interfaces in NCCL_SOCKET_IFNAME exist",
        ifname,
    ),
    Check::per_process(
        "net.interface",
        "an interface that reaches other nodes",
        interface,
    ),
    Check::across_job(
        "net.interface-same",
        "the interface for sockets has one name on all nodes",
        interface_same,
    ),
    Check::across_job(
        "net.family-same",
        "one address family on all nodes",
        family_same,
    ),
];

/// The interfaces that NCCL tries if none are named: InfiniBand's own first, then those that are
/// not known to be local.
const DEFAULT_SELECTIONS: [&str; 2] = ["ib", "^docker,lo,virbr"];

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    fn name(self) -> &'static str {
        match self {
            AddressFamily::V4 => "IPv4",
            AddressFamily::V6 => "IPv6",
        }
    }

    /// Returns whether the interface is up with an address of this family.
    fn is_on(self, interface: &Interface) -> bool {
        let has_address = match self {
            AddressFamily::V4 => interface.ipv4,
            AddressFamily::V6 => interface.ipv6,
        };
        interface.is_up && has_address
    }
}

/// The interface that NCCL uses, and the family of its address.
struct BootstrapInterface<'a> {
    interface: &'a Interface,
    family: AddressFamily,
}

/// Returns NCCL_SOCKET_IFNAME; NCCL ignores a value of a single character.
fn socket_ifname(process: &RankFacts) -> Option<&str> {
    let value = process.settings.get("NCCL_SOCKET_IFNAME")?;
    (value.len() > 1).then_some(value)
}

/// Returns the interface that NCCL uses, or `None` if only local ones are left.
fn bootstrap_interface(process: &RankFacts) -> Option<BootstrapInterface<'_>> {
    match socket_ifname(process) {
        Some(list) => first_selected(process, list),
        None => DEFAULT_SELECTIONS
            .into_iter()
            .find_map(|list| first_selected(process, list)),
    }
}

/// Returns the first interface that the list selects. Linux lists all interfaces with IPv4 before
/// the first with IPv6, each time in the order of their numbers.
fn first_selected<'a>(process: &'a RankFacts, list: &str) -> Option<BootstrapInterface<'a>> {
    let families = match process.settings.get("NCCL_SOCKET_FAMILY") {
        Some("AF_INET") => &[AddressFamily::V4][..],
        Some("AF_INET6") => &[AddressFamily::V6],
        _ => &[AddressFamily::V4, AddressFamily::V6],
    };
    let selection = Selection::parse(list);
    for &family in families {
        for interface in &process.health.interfaces {
            if family.is_on(interface) && selection.takes(&interface.name) {
                return Some(BootstrapInterface { interface, family });
            }
        }
    }
    None
}

fn interface_names(process: &RankFacts) -> Vec<&str> {
    let interfaces = process.health.interfaces.iter();
    interfaces
        .map(|interface| interface.name.as_str())
        .collect()
}

fn ifname(process: &RankFacts) -> CheckOutcome {
    let Some(value) = socket_ifname(process) else {
        return CheckOutcome::not_applicable("NCCL_SOCKET_IFNAME is not set");
    };
    let names = interface_names(process);
    let selection = Selection::parse(value);
    if names.iter().any(|name| selection.takes(name)) {
        return CheckOutcome::ok(format!("NCCL_SOCKET_IFNAME={value}"));
    }
    if names.is_empty() {
        return CheckOutcome::not_applicable("there is no /sys/class/net");
    }
    CheckOutcome::failure(
        format!(
            "NCCL_SOCKET_IFNAME={value}, but the node has {}",
            list(&names)
        ),
        "name an interface of this node: prefixes, = for exact names, ^ for all but these; if \
         nodes differ, give each its own nccl.conf",
    )
}

fn interface(process: &RankFacts) -> CheckOutcome {
    let names = interface_names(process);
    if names.is_empty() {
        return CheckOutcome::not_applicable("there is no /sys/class/net");
    }
    match bootstrap_interface(process) {
        Some(chosen) if chosen.interface.name == "lo" => loopback(process),
        Some(chosen) => CheckOutcome::ok(format!(
            "{}, {}",
            chosen.interface.name,
            chosen.family.name()
        )),
        None => CheckOutcome::warning(
            format!(
                "of {} only local interfaces are up with an address",
                list(&names)
            ),
            "bring an interface up, or name it in NCCL_SOCKET_IFNAME: NCCL's bootstrap needs a \
             network between nodes",
        ),
    }
}

/// Checks lo, which Linux lists first: NCCL leaves it out by itself, but not if NCCL_SOCKET_IFNAME
/// says what to leave out.
fn loopback(process: &RankFacts) -> CheckOutcome {
    let value = socket_ifname(process).unwrap_or_default();
    let excludes = value.starts_with('^');
    if !process.spans_nodes() && !excludes {
        return CheckOutcome::ok("lo, and the job is on one node");
    }
    let remedy = if excludes {
        format!("exclude lo too: NCCL_SOCKET_IFNAME={value},lo")
    } else {
        "name the interface between the nodes".to_owned()
    };
    CheckOutcome::finding(
        process.spans_nodes(),
        format!("NCCL_SOCKET_IFNAME={value} selects lo, which reaches only this node"),
        remedy,
    )
}

fn interface_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "name it: NCCL_SOCKET_IFNAME with each node's interface, or a network with one \
                 name everywhere",
        fails: false,
    };
    same_everywhere(job, "interface", interface_name, difference)
}

fn interface_name(process: &RankFacts) -> Option<String> {
    let chosen = bootstrap_interface(process)?;
    Some(chosen.interface.name.clone())
}

fn family_same(job: &[RankFacts]) -> CheckOutcome {
    let difference = Difference {
        remedy: "set NCCL_SOCKET_FAMILY=AF_INET, or name interfaces of one family in \
                 NCCL_SOCKET_IFNAME: otherwise the bootstrap hangs",
        fails: true,
    };
    same_everywhere(job, "address family", family_name, difference)
}

fn family_name(process: &RankFacts) -> Option<String> {
    let chosen = bootstrap_interface(process)?;
    Some(chosen.family.name().to_owned())
}
