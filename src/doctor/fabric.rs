//! RDMA ports: those that NCCL_IB_HCA selects, and the settings that name them.

use super::{
    check::Check,
    compare::{Difference, list, list_or_none, same_everywhere},
    outcome::CheckOutcome,
};
use crate::{
    facts::{fabric::RdmaPort, ranks::RankFacts},
    levels::{
        ports::{Link, Port},
        selection::Selection,
    },
    units::counted,
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process("net.port-down", "all RDMA ports are up", port_down),
    Check::per_process(
        "net.port-rate",
        "RDMA ports with the same link layer have the same rate",
        port_rate,
    ),
    Check::across_job(
        "net.ports-same",
        "the same RDMA ports on all nodes",
        ports_same,
    ),
    Check::per_process("net.verbs", "device files for the RDMA ports", verbs),
    Check::per_process(
        "net.libibverbs",
        "the library for the RDMA ports, and its providers",
        libibverbs,
    ),
    Check::per_process(
        "net.controllers",
        "InfiniBand controllers on the PCI bus have RDMA ports",
        controllers,
    ),
    Check::per_process(
        "net.gid",
        "the GID that NCCL_IB_GID_INDEX names is a RoCE v2 address",
        gid,
    ),
    Check::per_process("net.hca", "the adapters in NCCL_IB_HCA exist", hca),
    Check::per_process(
        "net.mixed-ports",
        "no Ethernet port among InfiniBand ports",
        mixed_ports,
    ),
];

/// Returns NCCL_IB_HCA; an empty one selects nothing in particular.
fn ib_hca(process: &RankFacts) -> Option<&str> {
    let value = process.settings.get("NCCL_IB_HCA")?;
    (!value.is_empty()).then_some(value)
}

/// Returns the ports that NCCL_IB_HCA selects, up or down; all of them if it is not set.
fn selected_ports(process: &RankFacts) -> Vec<&RdmaPort> {
    let selection = Selection::parse(ib_hca(process).unwrap_or_default());
    let ports = process.health.rdma.iter();
    ports
        .filter(|port| selection.takes_port(&port.port))
        .collect()
}

/// Returns the ports that NCCL will use.
fn usable_ports(process: &RankFacts) -> Vec<&RdmaPort> {
    let mut ports = selected_ports(process);
    ports.retain(|port| port.port.active);
    ports
}

fn port_names(ports: &[&RdmaPort]) -> Vec<String> {
    ports.iter().map(|port| port.name()).collect()
}

/// Returns the reason why there is no port to check.
fn no_port(process: &RankFacts) -> CheckOutcome {
    CheckOutcome::not_applicable(if process.health.rdma.is_empty() {
        "there is no RDMA device"
    } else {
        "NCCL_IB_HCA selects none of the RDMA ports"
    })
}

fn port_down(process: &RankFacts) -> CheckOutcome {
    let ports = selected_ports(process);
    if ports.is_empty() {
        return no_port(process);
    }
    let mut down = ports.clone();
    down.retain(|port| !port.port.active);
    let names = list(&port_names(&down));
    if down.is_empty() {
        CheckOutcome::ok(counted(ports.len(), "port"))
    } else if down.len() == ports.len() {
        CheckOutcome::failure(
            format!(
                "no RDMA port that NCCL may use is up; {} down: {names}",
                counted(down.len(), "port")
            ),
            "check the cables, the switch and the subnet manager (ibstat): otherwise NCCL uses \
             sockets",
        )
    } else {
        CheckOutcome::warning(
            format!(
                "{} of {} RDMA ports are down: {names}",
                down.len(),
                ports.len()
            ),
            "check the cables and the switch (ibstat): NCCL skips ports that are down, so their \
             GPUs share the port of another GPU",
        )
    }
}

fn port_rate(process: &RankFacts) -> CheckOutcome {
    let ports = usable_ports(process);
    if selected_ports(process).is_empty() {
        return no_port(process);
    }
    if ports.iter().all(|port| port.rate.is_none()) {
        return CheckOutcome::not_applicable("no active RDMA port reports its rate");
    }
    let mut slow = Vec::new();
    for port in &ports {
        let best = best_rate(&ports, port.port.link);
        if let Some(rate) = port.rate.filter(|rate| *rate < best) {
            slow.push(format!("{} has {rate} Gb/s of {best}", port.name()));
        }
    }
    if slow.is_empty() {
        return CheckOutcome::ok("one rate");
    }
    CheckOutcome::warning(
        slow.join("; "),
        "check the cable of a port that trained down; exclude a management port with \
         NCCL_IB_HCA=^=NAME",
    )
}

/// Returns the highest rate of the ports with this link layer, in Gb/s.
fn best_rate(ports: &[&RdmaPort], link: Link) -> f64 {
    ports
        .iter()
        .filter(|port| port.port.link == link)
        .filter_map(|port| port.rate)
        .fold(0.0, f64::max)
}

/// Compares the ports of all nodes: their names may differ, but a node without any uses sockets, on
/// which the others do not listen.
fn ports_same(job: &[RankFacts]) -> CheckOutcome {
    let has_node_without = job.iter().any(|process| usable_ports(process).is_empty());
    let remedy = if has_node_without {
        "give every node an active port that its NCCL_IB_HCA selects: a node without one uses \
         sockets, and the job hangs"
    } else {
        "if only the names differ, nothing; otherwise check the ports that are missing, or set \
         NCCL_IB_HCA to what every node has: a node with fewer ports is slower, and a rail may \
         have no peer"
    };
    same_everywhere(
        job,
        "active RDMA ports",
        |process| Some(list_or_none(&port_names(&usable_ports(process)))),
        Difference {
            remedy,
            fails: has_node_without,
        },
    )
}

fn verbs(process: &RankFacts) -> CheckOutcome {
    let health = &process.health;
    if health.rdma.is_empty() {
        return CheckOutcome::not_applicable("there is no RDMA device");
    }
    if health.verbs.iter().any(|name| name.starts_with("uverbs")) {
        return CheckOutcome::ok(format!("/dev/infiniband: {}", list(&health.verbs)));
    }
    CheckOutcome::failure(
        "/sys/class/infiniband lists ports, but /dev/infiniband has no uverbs device",
        "give the container /dev/infiniband (--device, MELLANOX_VISIBLE_DEVICES=all), or load \
         ib_uverbs (modprobe ib_uverbs): otherwise NCCL logs 'NET/IB : No device found' and uses \
         sockets",
    )
}

fn libibverbs(process: &RankFacts) -> CheckOutcome {
    let health = &process.health;
    if health.rdma.is_empty() {
        return CheckOutcome::not_applicable("there is no RDMA device");
    }
    let remedy = "install libibverbs with its providers, in a container into its image \
                  (libibverbs1 and ibverbs-providers, or rdma-core): otherwise NCCL finds no \
                  adapter and uses sockets";
    let Some(library) = &health.libibverbs else {
        return CheckOutcome::failure("the loader finds no libibverbs.so.1", remedy);
    };
    let path = &library.path;
    if library.providers.is_empty() {
        // It may have been built with another folder for them, or with providers in it.
        return CheckOutcome::warning(format!("{path} has no provider beside it"), remedy);
    }
    let providers: Vec<&String> = library.providers.iter().collect();
    CheckOutcome::ok(format!("{path} with {}", list(&providers)))
}

/// Checks whether adapters are hidden from this process: the bus shows them, whatever a container
/// was given.
fn controllers(process: &RankFacts) -> CheckOutcome {
    let health = &process.health;
    let Some(addresses) = &health.infiniband_controllers.value else {
        return CheckOutcome::not_applicable(health.infiniband_controllers.why.clone());
    };
    if addresses.is_empty() {
        return CheckOutcome::not_applicable("there is no InfiniBand controller on the PCI bus");
    }
    let found = counted(addresses.len(), "InfiniBand controller");
    if !health.rdma.is_empty() {
        return CheckOutcome::ok(found);
    }
    let evidence = format!(
        "the PCI bus has {found}, such as {}, but /sys/class/infiniband is empty",
        addresses[0]
    );
    let remedy = if health.container.is_some() {
        "give the container the adapters: --network host, MELLANOX_VISIBLE_DEVICES=all with \
         Enroot; if the node lacks them too, load their driver there (modprobe mlx5_ib)"
    } else {
        "load their driver (modprobe mlx5_ib): otherwise NCCL uses sockets"
    };
    CheckOutcome::warning(evidence, remedy)
}

fn gid(process: &RankFacts) -> CheckOutcome {
    let value = process.settings.get("NCCL_IB_GID_INDEX");
    let Some(index) = value.and_then(|value| value.trim().parse::<u32>().ok()) else {
        return CheckOutcome::not_applicable("NCCL_IB_GID_INDEX is not set");
    };
    let mut roce_ports = usable_ports(process);
    roce_ports.retain(|port| port.port.link == Link::Ethernet);
    if roce_ports.is_empty() {
        return CheckOutcome::not_applicable("there is no active RoCE port");
    }
    let problems: Vec<String> = roce_ports
        .iter()
        .filter_map(|port| gid_problem(port, index))
        .collect();
    if problems.is_empty() {
        return CheckOutcome::ok(format!("GID {index}"));
    }
    CheckOutcome::failure(
        problems.join("; "),
        "use the index of a RoCE v2 address with IPv4, as show_gids lists them, or unset \
         NCCL_IB_GID_INDEX: NCCL 2.21 and newer find it themselves",
    )
}

/// Returns why the GID with this index does not work on a RoCE port.
fn gid_problem(port: &RdmaPort, index: u32) -> Option<String> {
    let Some(gid) = port.gids.get(&index) else {
        return Some(format!("{} has no GID {index}", port.name()));
    };
    let kind = &gid.kind;
    let is_wrong = !kind.is_empty() && !kind.contains("v2");
    is_wrong.then(|| format!("GID {index} of {} is {kind}", port.name()))
}

fn hca(process: &RankFacts) -> CheckOutcome {
    let Some(value) = ib_hca(process) else {
        return CheckOutcome::not_applicable("NCCL_IB_HCA is not set");
    };
    let selection = Selection::parse(value);
    let existing: Vec<&RdmaPort> = process.health.rdma.iter().collect();
    if existing.is_empty() && selection.excludes {
        return CheckOutcome::not_applicable("there is no RDMA device to exclude");
    }
    let evidence = if selected_ports(process).is_empty() {
        let names = if existing.is_empty() {
            "no RDMA device".to_owned()
        } else {
            list(&port_names(&existing))
        };
        if selection.excludes {
            format!("NCCL_IB_HCA={value} leaves none of {names}")
        } else {
            format!("NCCL_IB_HCA={value}, but the node has {names}")
        }
    } else {
        let ports: Vec<Port> = existing.iter().map(|port| port.port.clone()).collect();
        let missing = selection.missing(&ports);
        if missing.is_empty() {
            return CheckOutcome::ok(format!("NCCL_IB_HCA={value}"));
        }
        format!(
            "NCCL_IB_HCA={value}, but the node has no {}",
            list(&missing)
        )
    };
    CheckOutcome::finding(
        selected_ports(process).is_empty(),
        evidence,
        "name adapters of this node, with = in front (mlx5_1 also matches mlx5_10), or unset it \
         and let NCCL choose",
    )
}

/// Returns the devices of Ethernet ports that stand beside InfiniBand ports.
fn ethernet_beside_infiniband<'a>(ports: &[&'a RdmaPort]) -> Vec<&'a str> {
    if ports.iter().all(|port| port.port.link != Link::InfiniBand) {
        return Vec::new();
    }
    ports
        .iter()
        .filter(|port| port.port.link == Link::Ethernet)
        .map(|port| port.port.device.as_str())
        .collect()
}

fn mixed_ports(process: &RankFacts) -> CheckOutcome {
    let mut up: Vec<&RdmaPort> = process.health.rdma.iter().collect();
    up.retain(|port| port.port.active);
    if ethernet_beside_infiniband(&up).is_empty() {
        return CheckOutcome::not_applicable(
            "there are no RDMA ports, or all have the same link layer",
        );
    }
    let ethernet = ethernet_beside_infiniband(&usable_ports(process));
    match ib_hca(process) {
        Some(value) if ethernet.is_empty() => CheckOutcome::ok(format!(
            "NCCL_IB_HCA={value} chooses ports with one link layer"
        )),
        _ => CheckOutcome::warning(
            format!(
                "Ethernet ports beside InfiniBand ports: {}",
                list(&ethernet)
            ),
            format!(
                "exclude management ports: NCCL_IB_HCA=^={}",
                ethernet.join(",")
            ),
        ),
    }
}
