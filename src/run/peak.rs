//! The most busbw that the links of this job allow, and what it means if busbw is higher.

use std::{fs, path::Path};

use super::context::RunContext;
use crate::{
    exit::{Code, Failure},
    facts,
    levels::{conf::NcclSettings, ports::Link, selection::Selection},
    native::nvml::Inventory,
    peak::{
        JobPeak,
        links::{JobLinks, NodeLinks, PortRate, ProcessLinks, RankLinks},
    },
    record::{BackendKind, Record, peak::PeakMeta},
    sweep::plan::Plan,
    world,
};

/// The peaks of a run.
pub(super) struct RunPeak {
    peaks: JobPeak,
    source: String,
}

impl RunPeak {
    /// Reads the links of all processes, and derives the peaks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file that stands for NVML cannot be read, or if a report does not
    /// reach the other processes.
    pub(super) fn gather(context: &RunContext) -> anyhow::Result<RunPeak> {
        let unknown = |why: &str| RunPeak {
            peaks: JobPeak::unknown(why),
            source: String::new(),
        };
        match context.backend {
            BackendKind::Model => return Ok(unknown("times are computed")),
            BackendKind::Host => {
                return Ok(unknown("host memory has no links whose rate is known"));
            }
            BackendKind::Nccl => {}
        }
        if context.group().is_some() {
            return Ok(unknown(
                "several communicators run at the same time and may share links",
            ));
        }
        let own = world::agree(context.world, own_links(context))?;
        let all = world::all_gather(context.world, &own)?;
        Ok(RunPeak {
            source: all
                .first()
                .map(|own| own.source.clone())
                .unwrap_or_default(),
            peaks: JobPeak::new(&job_links(context, all)),
        })
    }

    /// Returns the derivation.
    pub(super) fn meta(&self, plan: &Plan) -> PeakMeta {
        self.peaks.meta(&self.source, plan.cases())
    }

    /// Adds the peak to a record, and a note if its busbw is higher.
    pub(super) fn add_to(&self, record: &mut Record) {
        let Ok(peak) = self.peaks.of(&record.case) else {
            return;
        };
        record.peak = Some(peak.busbw);
        if record
            .percent_of_peak()
            .is_some_and(|percent| percent > 100.0)
        {
            let algorithm = forced_algorithm();
            let algorithm = match record.seen.algo.as_str() {
                "" => algorithm.as_deref(),
                seen => Some(seen),
            };
            record.add_note(&above_line_rate(algorithm));
        }
    }
}

/// Returns a sentence on the peaks; `None` if the job has no links of which any could be known.
pub(super) fn remark(meta: &PeakMeta, backend: BackendKind) -> Option<String> {
    if !backend.uses_gpus() {
        return None;
    }
    if !meta.why_unknown.is_empty() {
        return Some(format!("peak busbw is unknown: {}", meta.why_unknown));
    }
    let mut sentences: Vec<(String, Vec<&str>)> = Vec::new();
    for peak in &meta.collectives {
        let sentence = match peak.busbw {
            Some(busbw) => format!("{:.1} GB/s ({})", busbw.0, peak.because),
            None => format!("unknown ({})", peak.because),
        };
        let name = peak.collective.as_str();
        match sentences.iter_mut().find(|(same, _)| *same == sentence) {
            Some((_, names)) => names.push(name),
            None => sentences.push((sentence, vec![name])),
        }
    }
    let all: Vec<String> = sentences
        .iter()
        .map(|(sentence, names)| format!("{} {sentence}", names.join(", ")))
        .collect();
    Some(format!("peak busbw by the links: {}", all.join("; ")))
}

/// Returns NCCL's algorithm if a setting allows only one.
fn forced_algorithm() -> Option<String> {
    let settings = facts::settings();
    let value = settings.get("NCCL_ALGO")?.trim();
    let is_one = !value.is_empty() && !value.contains(['^', ',', ';', ':']);
    is_one.then(|| value.to_owned())
}

/// Returns why busbw may exceed the rate of the links. busbw takes a ring for granted, and other
/// algorithms send less.
fn above_line_rate(algorithm: Option<&str>) -> String {
    let Some(name) = algorithm else {
        return "busbw is above the line rate; cannot tell why, --proof shows NCCL's algorithm"
            .into();
    };
    let lower = name.to_ascii_lowercase().replace('_', "");
    let why = if lower.contains("nvls") {
        "the NVSwitch reduces and copies, so that fewer bytes cross the links of a GPU than in a \
         ring"
    } else if lower.contains("collnet") {
        "the network reduces (SHARP), so that fewer bytes cross the links than in a ring"
    } else if lower.contains("tree") || lower.contains("pat") {
        "fewer bytes cross the links between nodes than in a ring"
    } else {
        return format!(
            "busbw is above the line rate; cannot tell why, algorithm {name} does not explain it"
        );
    };
    format!("busbw is above the line rate: with algorithm {name} {why}")
}

/// Returns the links of this process's GPUs.
fn own_links(context: &RunContext) -> anyhow::Result<ProcessLinks> {
    let process = context.world.rank() as usize;
    let visible = &context.processes[process].peer.gpus;
    let own = context.gpus[process].iter();
    let uuids: Vec<String> = own.map(|&gpu| visible[gpu].clone()).collect();
    let Some(root) = &context.request.links_root else {
        return Ok(facts::links::read(
            Path::new("/"),
            &uuids,
            &Inventory::links_of(&uuids),
        ));
    };
    let inventory = recorded_inventory(root)
        .map_err(|why| Failure::on_this_rank(Code::Usage, format!("--links-root: {why}")))?;
    Ok(facts::links::read(root, &uuids, &Ok(inventory)))
}

/// Reads what NVML said on another machine.
fn recorded_inventory(root: &Path) -> Result<Inventory, String> {
    let file = root.join("nvml.json");
    let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    Inventory::from_json(&text)
}

/// Puts together what the processes reported.
fn job_links(context: &RunContext, all: Vec<ProcessLinks>) -> JobLinks {
    let mut job = JobLinks {
        ranks: Vec::new(),
        nodes: Vec::new(),
        no_p2p: String::new(),
        no_shared_memory: String::new(),
    };
    for ((facts, place), links) in context.processes.iter().zip(&context.placements).zip(all) {
        let settings = &facts.settings;
        let host = &facts.peer.host;
        if place.node as usize == job.nodes.len() {
            job.nodes.push(NodeLinks {
                host: host.clone(),
                ports: usable_ports(settings, links.ports),
                leaves_by_pcie: links.leaves_by_pcie,
            });
        }
        for gpu in links.gpus {
            job.ranks.push(RankLinks {
                node: place.node,
                host: host.clone(),
                gpu,
            });
        }
        if let Some(why) = no_p2p(settings, facts.gpu_link) {
            job.no_p2p = why;
        }
        if is_on(settings, "NCCL_SHM_DISABLE") {
            job.no_shared_memory = "NCCL_SHM_DISABLE=1".into();
        }
    }
    job
}

/// Returns why GPUs of a node do not access each other's memory; `None` if they may.
fn no_p2p(settings: &NcclSettings, link: Option<facts::GpuLink>) -> Option<String> {
    if is_on(settings, "NCCL_P2P_DISABLE") {
        return Some("NCCL_P2P_DISABLE=1".into());
    }
    if let Some(level @ ("LOC" | "0")) = settings.get("NCCL_P2P_LEVEL") {
        return Some(format!("NCCL_P2P_LEVEL={level}"));
    }
    (link == Some(facts::GpuLink::None)).then(|| "CUDA allows no access between GPUs".into())
}

fn is_on(settings: &NcclSettings, name: &str) -> bool {
    settings.get(name).is_some_and(|value| value.trim() == "1")
}

/// Returns the ports that NCCL may use.
///
/// # Errors
///
/// Returns the reason if NCCL uses something else, or if which ones is not known.
fn usable_ports(settings: &NcclSettings, ports: Vec<PortRate>) -> Result<Vec<PortRate>, String> {
    if is_on(settings, "NCCL_IB_DISABLE") {
        return Err("NCCL_IB_DISABLE=1, and the rate of sockets is not derived".into());
    }
    for name in ["NCCL_NET", "NCCL_NET_PLUGIN"] {
        if let Some(value) = settings.get(name)
            && !["IB", "none", ""].contains(&value)
        {
            return Err(format!(
                "{name}={value}, and the rate of this network is not derived"
            ));
        }
    }
    let selection = settings.get("NCCL_IB_HCA").map(Selection::parse);
    let mut usable = ports;
    if let Some(selection) = selection {
        usable.retain(|port| selection.takes_port(&port.port));
    }
    match usable.iter().find(|port| port.port.link == Link::Other) {
        Some(port) => Err(format!(
            "{} is neither InfiniBand nor Ethernet, so that NCCL needs a plugin for it",
            port.port.device
        )),
        None => Ok(usable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_that_sends_less_than_a_ring_explains_a_high_busbw() {
        for (algorithm, words) in [
            (Some("NVLS"), "the NVSwitch reduces"),
            (Some("NVLS_TREE"), "the NVSwitch reduces"),
            (Some("COLLNET_DIRECT"), "the network reduces (SHARP)"),
            (Some("TREE"), "between nodes"),
            (Some("RING"), "cannot tell why, algorithm RING"),
            (None, "cannot tell why, --proof shows"),
        ] {
            let note = above_line_rate(algorithm);
            assert!(note.contains(words), "{note}");
        }
    }
}
