//! NCCL's topology file (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): `system`, `cpu`, `pci`, `gpu`,
//! `nvlink`, `c2c`, `nic`, `net`. It is a dump of what NCCL found, or a template that NCCL
//! completes on the machine; a template leaves out what this module then leaves unknown.

mod attributes;
mod class;
mod form;
mod gpu;
mod nic;
mod pci;
mod unread;

use roxmltree::{Document, Node};

use self::{
    form::Form,
    pci::read_cpu,
    unread::{not_read, not_used, several_hosts},
};
use super::node::Topology;

/// The deepest nesting of elements, which is far beyond any chain of switches. Reading them
/// recurses.
const DEEPEST: usize = 64;

/// The most devices of one kind, which is far beyond any node. Paths are computed between all of
/// them.
const MOST: usize = 256;

/// The most hosts in a file, which NCCL writes for those that share NVLinks.
const MOST_HOSTS: usize = 4096;

/// Reads a topology file: one topology per host, in the order of the file.
///
/// # Errors
/// Returns an error if `text` is not XML, or not a topology file of NCCL.
pub fn read(text: &str) -> Result<Vec<Topology>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let document = Document::parse(text).map_err(|error| format!("it is not XML: {error}"))?;
    check_depth(&document)?;
    let system = document.root_element();
    if !system.has_tag_name("system") {
        let name = system.tag_name().name();
        return Err(format!(
            "it is not an NCCL topology file: it begins with <{name}> instead of <system>"
        ));
    }
    let form = Form::of(&document);
    let mut hosts: Vec<Topology> = Vec::new();
    for cpu in system.children().filter(|node| node.has_tag_name("cpu")) {
        let host = host_of(&mut hosts, cpu.attribute("host_hash"));
        read_cpu(host, cpu, &form);
        if hosts.len() > MOST_HOSTS {
            return Err(format!("it lists more than {MOST_HOSTS} hosts"));
        }
    }
    if hosts.is_empty() {
        return Err("it has no <cpu> inside <system>".into());
    }
    for host in &mut hosts {
        check_count(host.gpus.len(), "GPUs")?;
        check_count(host.nics.len(), "NICs")?;
        check_count(host.switches.len(), "switches")?;
        check_count(host.devices.len(), "devices")?;
        note_places(host);
        number_gpus(host);
        order_nics(host);
        host.resolve_nvlink_ends();
        form.describe(host);
    }
    let several = hosts.len();
    if let Some(first) = hosts.first_mut() {
        first.notes.extend(several_hosts(several));
        first.notes.extend(not_read(&document));
        first.notes.extend(not_used(&document));
    }
    Ok(hosts)
}

/// Returns the topology of the host with this hash, which is added if it is new.
fn host_of<'a>(hosts: &'a mut Vec<Topology>, hash: Option<&str>) -> &'a mut Topology {
    let known = hosts.iter().position(|host| host.host.as_deref() == hash);
    let at = known.unwrap_or_else(|| {
        hosts.push(Topology {
            host: hash.map(str::to_owned),
            ..Topology::default()
        });
        hosts.len() - 1
    });
    &mut hosts[at]
}

fn check_depth(document: &Document) -> Result<(), String> {
    let is_too_deep = |node: Node| node.ancestors().nth(DEEPEST).is_some();
    if document.descendants().any(is_too_deep) {
        return Err(format!(
            "its elements are nested {DEEPEST} deep or more, unlike those of any NCCL topology \
             file"
        ));
    }
    Ok(())
}

fn check_count(count: usize, what: &str) -> Result<(), String> {
    if count > MOST {
        return Err(format!(
            "it lists {count} {what}; no node has more than {MOST}"
        ));
    }
    Ok(())
}

/// Notes the places of the devices in the file: NCCL lists them in this order.
fn note_places(all: &mut Topology) {
    for (at, gpu) in all.gpus.iter_mut().enumerate() {
        gpu.listed = at;
    }
    for (at, nic) in all.nics.iter_mut().enumerate() {
        nic.listed = at;
    }
}

/// Puts NICs in the order of their numbers. Those that NCCL has yet to number come last, as in the
/// file.
fn order_nics(all: &mut Topology) {
    all.nics.sort_by_key(|nic| nic.number.unwrap_or(u32::MAX));
}

/// Gives GPUs without an index the free ones, in the order of their addresses, as NVML does.
fn number_gpus(all: &mut Topology) {
    all.gpus
        .sort_by(|a, b| (a.index, &a.place.bus_id).cmp(&(b.index, &b.place.bus_id)));
    let mut next = 0;
    let taken: Vec<u32> = all.gpus.iter().map(|gpu| gpu.index).collect();
    for gpu in all.gpus.iter_mut().filter(|gpu| gpu.index == u32::MAX) {
        while taken.contains(&next) {
            next += 1;
        }
        gpu.index = next;
        next += 1;
    }
    all.gpus.sort_by_key(|gpu| gpu.index);
}
