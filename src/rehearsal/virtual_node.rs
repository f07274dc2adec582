//! Virtual nodes: GPUs that exist, beside NICs that a net plugin plays. [`xml`] is the topology
//! file that makes NCCL see such a node.
//!
//! NCCL finds the GPUs of the file by their addresses and the NICs by their names, and takes the
//! rest from the file (graph/topo.cc, `ncclTopoGetSystem`, and graph/xml.cc). So the switches of
//! the file need not exist.

use std::{collections::BTreeSet, fmt::Write as _, ops::Range};

use crate::{
    topology::{
        Cpu, DeviceLocation, Gpu, Nic, NvLinkEnd, NvLinks, Switch, Topology, figures::Peak,
    },
    units::counted,
};

/// The speed of a PCIe link and its lanes.
const PCIE: (&str, u32) = ("32.0 GT/s PCIe", 16);

/// The speed of a rail's port in Mb/s.
const PORT: f64 = 400_000.0;

/// The NVLinks of a virtual GPU, as an H200 has them.
const NVLINKS: u32 = 18;

/// The compute capability that goes with those NVLinks.
const COMPUTE_CAPABILITY: u32 = 90;

/// The most rails beside one switch: their addresses follow that of the switch.
const MOST_BESIDE: usize = 15;

/// Switches per PCI domain: each has 16 bus numbers.
const PER_DOMAIN: usize = 6;

/// The way in which the GPUs and NICs of a virtual node are connected. NVSwitches connect the GPUs
/// in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeShape {
    /// Each GPU has a switch of its own, with the rails beside it; other rails are beyond the
    /// processor.
    Split,
    /// One more switch is above these switches, so that no rail is beyond the processor.
    Shared,
}

impl NodeShape {
    /// Both shapes.
    pub const ALL: [NodeShape; 2] = [NodeShape::Split, NodeShape::Shared];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            NodeShape::Split => "split",
            NodeShape::Shared => "shared",
        }
    }
}

/// GPUs and rails below one switch.
struct Beside {
    gpus: Range<usize>,
    rails: Range<usize>,
}

/// Divides GPUs and rails between switches: as many switches as there are of the fewer ones.
fn switches(gpus: usize, rails: usize) -> Result<Vec<Beside>, String> {
    let count = gpus.min(rails);
    let is_even = gpus.is_multiple_of(count) && rails.is_multiple_of(count);
    if count == 0 || !is_even {
        return Err(format!(
            "{} cannot be divided evenly between {}: one number must be a multiple of the other",
            counted(rails as u64, "rail"),
            counted(gpus as u64, "GPU")
        ));
    }
    if rails / count > MOST_BESIDE {
        return Err(format!(
            "{} per GPU are more than {MOST_BESIDE}, the most beside one switch",
            counted((rails / count) as u64, "rail")
        ));
    }
    let part = |all: usize, at: usize| at * (all / count)..(at + 1) * (all / count);
    let beside = |at| Beside {
        gpus: part(gpus, at),
        rails: part(rails, at),
    };
    Ok((0..count).map(beside).collect())
}

/// Returns addresses for GPUs that do not exist.
pub fn placeholders(gpus: usize) -> Vec<String> {
    (0..gpus)
        .map(|gpu| format!("{:04x}:{:02x}:00.0", gpu / 64, 0x10 + gpu % 64))
        .collect()
}

/// Returns the first PCI domain from which on the addresses of the virtual devices are free.
fn first_domain(bus_ids: &[String]) -> usize {
    let domain = |bus_id: &String| usize::from_str_radix(bus_id.split(':').next()?, 16).ok();
    let bus = |bus_id: &String| usize::from_str_radix(bus_id.split(':').nth(1)?, 16).ok();
    let in_the_way = bus_ids
        .iter()
        .filter(|bus_id| bus(bus_id).is_none_or(|bus| bus >= 0x90));
    in_the_way
        .filter_map(domain)
        .max()
        .map_or(0, |domain| domain + 1)
}

fn place(bus_id: String, switch: Option<usize>) -> DeviceLocation {
    DeviceLocation {
        bus_id,
        switch,
        pcie: Peak::pcie(PCIE.0, PCIE.1),
        ..DeviceLocation::default()
    }
}

/// Returns a node with GPUs at these addresses and so many rails.
///
/// # Errors
/// Returns a sentence if they cannot be divided evenly between switches.
pub fn topology(shape: NodeShape, bus_ids: &[String], rails: usize) -> Result<Topology, String> {
    let first = first_domain(bus_ids);
    let mut node = Topology {
        source: shape.word().into(),
        cpus: vec![Cpu::default()],
        ..Topology::default()
    };
    if shape == NodeShape::Shared {
        node.switches.push(Switch {
            place: place(format!("{first:04x}:90:00.0"), None),
        });
    }
    let root = (shape == NodeShape::Shared).then_some(0);
    for (at, beside) in switches(bus_ids.len(), rails)?.into_iter().enumerate() {
        let (domain, bus) = (first + at / PER_DOMAIN, 0xa0 + 0x10 * (at % PER_DOMAIN));
        let address = |after: usize| format!("{domain:04x}:{:02x}:00.0", bus + after);
        node.switches.push(Switch {
            place: place(address(0), root),
        });
        let switch = Some(node.switches.len() - 1);
        for gpu in beside.gpus {
            node.gpus.push(virtual_gpu(gpu, &bus_ids[gpu], switch));
        }
        for (after, rail) in beside.rails.enumerate() {
            node.nics
                .push(virtual_nic(rail, address(after + 1), switch));
        }
    }
    Ok(node)
}

fn virtual_gpu(number: usize, bus_id: &str, switch: Option<usize>) -> Gpu {
    let links = NvLinks {
        to: NvLinkEnd::Switch,
        count: NVLINKS,
        each: Peak::nvlink_of_sm(COMPUTE_CAPABILITY),
    };
    Gpu {
        index: number as u32,
        place: place(bus_id.to_owned(), switch),
        nvlinks: Some(vec![links]),
        gdr: Some(true),
        ..Gpu::default()
    }
}

fn virtual_nic(rail: usize, bus_id: String, switch: Option<usize>) -> Nic {
    Nic {
        name: format!("rail{rail}"),
        place: place(bus_id, switch),
        port: Peak::port(PORT),
        up: Some(true),
        sockets: Some(false),
        gdr: Some(true),
        ..Nic::default()
    }
}

/// Returns the topology file of a node with GPUs at these addresses and rails named `rail0`,
/// `rail1` and so on. NCCL finds the NVLinks itself.
///
/// # Errors
/// Returns a sentence if they cannot be divided evenly between switches.
pub fn xml(shape: NodeShape, bus_ids: &[String], rails: usize) -> Result<String, String> {
    Ok(file_of(&topology(shape, bus_ids, rails)?))
}

/// Returns the topology file of a node whose switches and NICs are those of `node`, with GPUs at
/// these addresses and rails named `rail0`, `rail1` and so on.
///
/// # Errors
/// Returns a sentence if it has another number of GPUs, or NICs that have no PCI address of their
/// own.
pub fn xml_like(node: &Topology, bus_ids: &[String]) -> Result<String, String> {
    if node.gpus.len() != bus_ids.len() {
        return Err(format!(
            "it has {}, and a virtual node here has {}",
            counted(node.gpus.len() as u64, "GPU"),
            counted(bus_ids.len() as u64, "GPU")
        ));
    }
    let mut virtual_node = node.clone();
    for (gpu, bus_id) in virtual_node.gpus.iter_mut().zip(bus_ids) {
        gpu.place.bus_id.clone_from(bus_id);
    }
    for (number, nic) in virtual_node.nics.iter_mut().enumerate() {
        nic.name = format!("rail{number}");
    }
    check_addresses(&virtual_node)?;
    Ok(file_of(&virtual_node))
}

/// Returns the node that NCCL sees in place of `node` with the file of [`xml_like`]: links of one
/// speed, the NICs that the plugin plays, and the NVLinks of this machine.
pub fn as_played(node: &Topology) -> Topology {
    let mut played = node.clone();
    for cpu in &mut played.cpus {
        *cpu = Cpu {
            numa: cpu.numa,
            ..Cpu::default()
        };
    }
    for switch in &mut played.switches {
        switch.place.pcie = Peak::pcie(PCIE.0, PCIE.1);
    }
    for (number, gpu) in played.gpus.iter_mut().enumerate() {
        let made_up = virtual_gpu(number, &gpu.place.bus_id, gpu.place.switch);
        gpu.place.pcie = made_up.place.pcie;
        gpu.nvlinks = made_up.nvlinks;
        gpu.gdr = made_up.gdr;
    }
    for (rail, nic) in played.nics.iter_mut().enumerate() {
        let made_up = virtual_nic(rail, nic.place.bus_id.clone(), nic.place.switch);
        *nic = Nic {
            place: DeviceLocation {
                cpu: nic.place.cpu,
                ..made_up.place
            },
            listed: nic.listed,
            ..made_up
        };
    }
    played
}

/// Checks that each device of a node has a PCI address of its own.
fn check_addresses(node: &Topology) -> Result<(), String> {
    let gpus = node.gpus.iter().map(|gpu| &gpu.place);
    let switches = node.switches.iter().map(|switch| &switch.place);
    let nics = node.nics.iter().map(|nic| &nic.place);
    let mut known = BTreeSet::new();
    for place in gpus.chain(switches).chain(nics) {
        if place.bus_id.is_empty() {
            return Err(
                "a device of it has no PCI address, and NCCL tells devices apart by them".into(),
            );
        }
        if !known.insert(&place.bus_id) {
            return Err(format!(
                "two devices have the PCI address {}, one of which may be a GPU of this machine: \
                 change it in the file",
                place.bus_id
            ));
        }
    }
    Ok(())
}

/// Returns the topology file of a node.
fn file_of(node: &Topology) -> String {
    let mut out = String::from("<system version=\"1\">\n");
    for (at, cpu) in node.cpus.iter().enumerate() {
        let _ = writeln!(out, "  <cpu numaid=\"{}\">", cpu.numa.max(0));
        write_below(&mut out, node, at, None, 2);
        out.push_str("  </cpu>\n");
    }
    out.push_str("</system>\n");
    out
}

/// Writes what is below a switch, or directly below a processor. NCCL does not read tabs.
fn write_below(out: &mut String, node: &Topology, cpu: usize, above: Option<usize>, depth: usize) {
    let indent = "  ".repeat(depth);
    let link = format!("link_speed=\"{}\" link_width=\"{}\"", PCIE.0, PCIE.1);
    let is_below =
        |place: &DeviceLocation| place.switch == above && (above.is_some() || place.cpu == cpu);
    for (at, switch) in node.switches.iter().enumerate() {
        // A switch comes before the devices below it; another order would have no end.
        if !is_below(&switch.place) || above.is_some_and(|above| above >= at) {
            continue;
        }
        let _ = writeln!(
            out,
            "{indent}<pci busid=\"{}\" class=\"0x060400\" vendor=\"0x1234\" device=\"0x{:04x}\" \
             subsystem_vendor=\"0x1234\" subsystem_device=\"0x0001\" {link}>",
            switch.place.bus_id,
            depth - 1
        );
        write_below(out, node, cpu, Some(at), depth + 1);
        let _ = writeln!(out, "{indent}</pci>");
    }
    // Between equally near devices NCCL chooses by the order of the file.
    let mut gpus: Vec<&Gpu> = node.gpus.iter().collect();
    gpus.sort_by_key(|gpu| gpu.listed);
    for gpu in gpus.into_iter().filter(|gpu| is_below(&gpu.place)) {
        let bus_id = &gpu.place.bus_id;
        let _ = writeln!(
            out,
            "{indent}<pci busid=\"{bus_id}\" class=\"0x030200\" {link}/>"
        );
    }
    let mut nics: Vec<&Nic> = node.nics.iter().collect();
    nics.sort_by_key(|nic| nic.listed);
    for nic in nics.into_iter().filter(|nic| is_below(&nic.place)) {
        let (bus_id, name) = (&nic.place.bus_id, &nic.name);
        let _ = writeln!(
            out,
            "{indent}<pci busid=\"{bus_id}\" class=\"0x020000\" {link}>\n{indent}  <nic>\n{indent}    <net name=\"{name}\"/>\n\
             {indent}  </nic>\n{indent}</pci>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{path::PathType, xml};

    const H200: [&str; 2] = ["0000:00:06.0", "0000:00:07.0"];

    fn bus_ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn the_files_are_those_with_which_nccl_was_recorded() {
        for (shape, recorded) in [
            (
                NodeShape::Split,
                include_str!("../../tests/data/rehearsal/topo_split.xml"),
            ),
            (
                NodeShape::Shared,
                include_str!("../../tests/data/rehearsal/topo_shared.xml"),
            ),
        ] {
            let text = super::xml(shape, &bus_ids(&H200), 2).expect("a node");
            assert_eq!(text, recorded, "{}", shape.word());
        }
    }

    #[test]
    fn what_is_read_from_the_file_is_the_node() {
        for (shape, gpus, rails) in [
            (NodeShape::Split, 8, 8),
            (NodeShape::Shared, 8, 4),
            (NodeShape::Split, 2, 8),
            (NodeShape::Shared, 1, 1),
        ] {
            let ids = placeholders(gpus);
            let node = topology(shape, &ids, rails).expect("a node");
            let text = super::xml(shape, &ids, rails).expect("a node");
            let read = xml::read(&text).expect("a topology").remove(0);
            let gpu_places = |node: &Topology| {
                let gpus = node.gpus.iter();
                gpus.map(|gpu| (gpu.place.bus_id.clone(), node.chain(&gpu.place).len()))
                    .collect::<Vec<_>>()
            };
            let nic_places = |node: &Topology| {
                let nics = node.nics.iter();
                nics.map(|nic| nic.place.bus_id.clone()).collect::<Vec<_>>()
            };
            assert_eq!(gpu_places(&read), gpu_places(&node), "{text}");
            assert_eq!(nic_places(&read), nic_places(&node), "{text}");
            for gpu in 0..gpus {
                for nic in 0..rails {
                    assert_eq!(read.to_nic(gpu, nic).kind, node.to_nic(gpu, nic).kind);
                }
            }
        }
    }

    #[test]
    fn other_rails_are_beyond_the_processor_or_beyond_a_switch() {
        for (shape, far) in [
            (NodeShape::Split, PathType::Phb),
            (NodeShape::Shared, PathType::Pxb),
        ] {
            let node = topology(shape, &placeholders(2), 2).expect("a node");
            assert_eq!(node.to_nic(0, 0).kind, Some(PathType::Pix));
            assert_eq!(node.to_nic(0, 1).kind, Some(far));
            assert_eq!(node.between(0, 1).kind, Some(PathType::Nvl));
        }
    }

    #[test]
    fn addresses_of_gpus_are_not_used_again() {
        let ids = bus_ids(&["0000:a0:00.0", "0001:b1:00.0", "0005:10:00.0"]);
        let node = topology(NodeShape::Shared, &ids, 3).expect("a node");
        let mut all: Vec<&str> = ids.iter().map(String::as_str).collect();
        all.extend(node.switches.iter().map(|one| one.place.bus_id.as_str()));
        all.extend(node.nics.iter().map(|one| one.place.bus_id.as_str()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
    }

    #[test]
    fn gpus_and_rails_are_divided_evenly() {
        for (gpus, rails) in [(2, 3), (3, 2), (0, 1), (1, 0), (1, 16)] {
            let ids = placeholders(gpus);
            assert!(topology(NodeShape::Split, &ids, rails).is_err());
        }
        let why = topology(NodeShape::Split, &placeholders(2), 3).expect_err("odd");
        assert_eq!(
            why,
            "3 rails cannot be divided evenly between 2 GPUs: one number must be a multiple of \
             the other"
        );
    }

    #[test]
    fn a_node_of_a_file_keeps_its_switches_and_gets_gpus_that_exist() {
        let node = topology(NodeShape::Shared, &placeholders(2), 2).expect("a node");
        let text = xml_like(&node, &bus_ids(&H200)).expect("a file");
        let read = xml::read(&text).expect("a topology").remove(0);
        let gpus = read.gpus.iter().map(|gpu| gpu.place.bus_id.as_str());
        assert_eq!(gpus.collect::<Vec<_>>(), H200);
        let names = read.nics.iter().map(|nic| nic.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["rail0", "rail1"]);
        assert_eq!(read.to_nic(0, 1).kind, Some(PathType::Pxb));
        let why = xml_like(&node, &bus_ids(&H200[..1])).expect_err("another number");
        assert_eq!(why, "it has 2 GPUs, and a virtual node here has 1 GPU");
        let taken = bus_ids(&[&node.nics[0].place.bus_id, H200[0]]);
        assert!(xml_like(&node, &taken).is_err());
    }

    #[test]
    fn a_played_node_has_nics_of_one_speed_in_the_order_of_the_file() {
        let mut node = topology(NodeShape::Split, &placeholders(1), 2).expect("a node");
        for (nic, listed) in node.nics.iter_mut().zip([1, 0]) {
            nic.listed = listed;
        }
        node.nics[0].port = Peak::port(100_000.0);
        node.nics[0].gdr = Some(false);
        node.nics[1].up = Some(false);
        let text = xml_like(&node, &bus_ids(&H200[..1])).expect("a file");
        let (first, second) = (text.find("rail1"), text.find("rail0"));
        assert!(first.is_some() && first < second, "{text}");
        let played = as_played(&node);
        let ports: Vec<_> = played.nics.iter().map(|nic| &nic.port).collect();
        assert_eq!(ports[0], ports[1]);
        for (nic, listed) in played.nics.iter().zip([1, 0]) {
            assert_eq!(
                (nic.gdr, nic.up, nic.listed),
                (Some(true), Some(true), listed)
            );
        }
    }
}
