//! `pxnbench topo`: prints how the devices of this node are connected, and what NCCL makes of it.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::args::values;
use crate::{
    exit::{Code, Failure},
    facts,
    input::{self, InputKind},
    native::nvml::Inventory,
    output::{lock::replace_alone, target},
    topology::{
        self, Topology,
        render::{TopologyFormat, render},
    },
};

/// Print what is connected to what in this node, and what NCCL makes of it
///
/// GPUs, NVLinks, PCIe switches, NUMA nodes and NICs, from NVML and sysfs (no root), from an NCCL
/// topology file, or from the output of nvidia-smi topo -m; for each GPU which NIC it would use,
/// whether GPUDirect RDMA and PXN are possible and through which relay, which transports NCCL
/// prefers, and the most that each path can carry.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this file instead of examining this node: a topology as NCCL_TOPO_DUMP_FILE writes it
    /// and NCCL_TOPO_FILE reads it, or the output of nvidia-smi topo -m. `-` is standard input
    #[arg(long, visible_alias = "smi", value_name = "FILE")]
    xml: Option<PathBuf>,
    /// Parts to print; all means tree, matrix and paths
    #[arg(long, value_name = "FORMAT", default_value = "all")]
    format: Format,
    /// Write to this file instead of stdout
    #[arg(short, value_name = "FILE", value_parser = values::output_file())]
    output: Option<PathBuf>,
    /// Root of the file system to read
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide = true,
        conflicts_with = "xml"
    )]
    root: PathBuf,
    /// NVML's answers, as JSON
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "xml")]
    nvml: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    All,
    Tree,
    Matrix,
    Paths,
    Json,
    Svg,
}

impl Format {
    fn topology_format(self) -> TopologyFormat {
        match self {
            Format::All => TopologyFormat::All,
            Format::Tree => TopologyFormat::Tree,
            Format::Matrix => TopologyFormat::Matrix,
            Format::Paths => TopologyFormat::Paths,
            Format::Json => TopologyFormat::Json,
            Format::Svg => TopologyFormat::Svg,
        }
    }
}

/// Prints the topology, or writes it to a file.
///
/// # Errors
/// Returns an error if a file on the command line cannot be read or written, or has invalid
/// content.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let hosts = read_hosts(args)?;
    let rendered = render(&hosts, args.format.topology_format())?;
    let rendered = rendered.trim_end();
    match &args.output {
        Some(file) => write(file, &format!("{rendered}\n"))?,
        None => print_line!("{rendered}")?,
    }
    Ok(Code::Fine)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let written = replace_alone(&target::resolved(file), text);
    written
        .map_err(|error| usage_error(format!("-o {} cannot be written: {error}", file.display())))
}

fn usage_error(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

fn read_file(flag: &str, file: &Path) -> anyhow::Result<String> {
    input::read_text(file, InputKind::Topology)
        .map_err(|error| usage_error(format!("{flag} {} cannot be read: {error}", file.display())))
}

/// Reads a text file, or standard input for `-`.
fn read_text(flag: &str, file: &Path) -> anyhow::Result<String> {
    if file != Path::new("-") {
        return read_file(flag, file);
    }
    input::read_text_from(io::stdin(), InputKind::Topology)
        .map_err(|error| usage_error(format!("{flag} -: standard input: {error}")))
}

/// Reads the topology of this node, or those of the hosts in a file.
fn read_hosts(args: &Args) -> anyhow::Result<Vec<Topology>> {
    if let Some(file) = &args.xml {
        let text = read_text("--xml", file)?;
        let mut hosts = topology::read(&text)
            .map_err(|why| usage_error(format!("--xml {}: {why}", file.display())))?;
        let name = match file.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => file.display().to_string(),
        };
        for host in &mut hosts {
            host.source = if host.given.is_some() {
                format!("nvidia-smi topo -m in {name}")
            } else {
                name.clone()
            };
        }
        return Ok(hosts);
    }
    let nvml = match &args.nvml {
        Some(file) => {
            let text = read_file("--nvml", file)?;
            let inventory = Inventory::from_json(&text)
                .map_err(|why| usage_error(format!("--nvml {}: {why}", file.display())))?;
            Ok(inventory)
        }
        None if args.root == Path::new("/") => Inventory::read(),
        None => Err("NVML is not asked about another root".into()),
    };
    Ok(vec![facts::topology::read(&args.root, &nvml)])
}
