//! What limits traffic out of a node: its NICs, and what they reach the GPUs over.

use std::collections::BTreeMap;

use super::{
    limit::{Limit, Place},
    links::{JobLinks, PortRate},
    node_links::NodeMembers,
};
use crate::{
    levels::ports::Port,
    record::peak::{NodeRate, PortUse},
    topology::figures::Peak,
    units::GBps,
};

/// Returns what limits traffic out of a node, whose ranks are `members`.
pub(super) fn leave(
    members: &NodeMembers,
    job: &JobLinks,
    node: u32,
    rates: &mut Vec<NodeRate>,
) -> Limit {
    let links = &job.nodes[node as usize];
    let ports = links.ports.as_deref().unwrap_or_default();
    let peak = match &links.ports {
        Err(why) => Peak::unknown(why),
        Ok(ports) => {
            let nics = all_ports(ports);
            let gpus = all_pcie(members);
            match (links.leaves_by_pcie, gpus.gbps) {
                (true, Some(_)) => Peak::least([&nics, &gpus]),
                _ => nics,
            }
        }
    };
    rates.push(NodeRate {
        node,
        host: links.host.clone(),
        ports: ports.iter().map(port_use).collect(),
        all: peak.gbps,
        because: peak.of.clone(),
    });
    let place = Place::Node {
        node,
        members: members.numbers(),
    };
    Limit::new(place, &peak)
}

/// Returns the PCIe links of all GPUs together.
fn all_pcie(members: &NodeMembers) -> Peak {
    let of = members.0.iter().map(|(_, rank)| &rank.gpu.pcie);
    together(of, "PCIe links of the GPUs")
}

/// Returns the rate of all ports, those of one device limited by its PCIe link.
fn all_ports(ports: &[PortRate]) -> Peak {
    if ports.is_empty() {
        return Peak::unknown("no RDMA port that NCCL may use is up");
    }
    let mut devices: BTreeMap<&str, Vec<&PortRate>> = BTreeMap::new();
    for port in ports {
        devices.entry(&port.port.device).or_default().push(port);
    }
    let mut rates = Vec::new();
    for (device, ports) in devices {
        let all = together(ports.iter().map(|port| &port.rate), device);
        let pcie = &ports[0].pcie;
        rates.push(match pcie.gbps {
            Some(_) => Peak::least([&all, pcie]),
            None => all,
        });
    }
    let names: Vec<String> = ports.iter().map(port_text).collect();
    together(rates.iter(), &names.join(", "))
}

fn port_text(port: &PortRate) -> String {
    format!("{} {}", port_name(&port.port), port.rate.of)
}

fn port_name(port: &Port) -> String {
    format!("{}:{}", port.device, port.number)
}

/// Returns the sum of `rates`; unknown if one of them is.
fn together<'a>(rates: impl Iterator<Item = &'a Peak>, of: &str) -> Peak {
    let mut sum = 0.0;
    for rate in rates {
        match rate.gbps {
            Some(gbps) => sum += gbps.0,
            None => return rate.clone(),
        }
    }
    Peak {
        gbps: Some(GBps(sum)),
        of: of.to_owned(),
    }
}

fn port_use(port: &PortRate) -> PortUse {
    let rate = match port.pcie.gbps {
        Some(_) => Peak::least([&port.rate, &port.pcie]),
        None => port.rate.clone(),
    };
    PortUse {
        name: port_name(&port.port),
        rate: rate.gbps,
        because: rate.of,
        source: format!(
            "/sys/class/infiniband/{}/ports/{}/rate",
            port.port.device, port.port.number
        ),
    }
}
