//! `pxnbench topo`: what is connected to what in this node, and what NCCL makes of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    exit::{Code, Failure},
    facts,
    native::nvml::Inventory,
    topology::{Topology, path, svg, text, xml},
};

/// Print what is connected to what in this node, and what NCCL makes of it
///
/// GPUs, NVLinks, PCIe switches, NUMA nodes and NICs, from NVML and sysfs (no root), or from an NCCL topology file; for each
/// GPU which NIC it would use, whether GPUDirect RDMA and PXN are possible and through which relay, which transports NCCL
/// prefers, and the most that each path can carry.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this file, as NCCL_TOPO_DUMP_FILE writes it and NCCL_TOPO_FILE takes it, instead of this node
    #[arg(long, value_name = "FILE")]
    xml: Option<PathBuf>,
    /// What to print: all is tree, matrix and paths
    #[arg(long, value_name = "FORMAT", default_value = "all")]
    format: Format,
    /// Write it to this file
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The root of the file system to look in
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide = true,
        conflicts_with = "xml"
    )]
    root: PathBuf,
    /// What NVML said, as JSON
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

/// Prints it.
///
/// # Errors
/// Where a file named cannot be read or written, or is not what it should be.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let all = gather(args)?;
    let drawn = draw(&all, args.format)?;
    match &args.output {
        Some(file) => {
            let cannot = |error| usage(format!("-o {} cannot be written: {error}", file.display()));
            fs::write(file, format!("{}\n", drawn.trim_end())).map_err(cannot)?;
        }
        None => print_line!("{}", drawn.trim_end())?,
    }
    Ok(Code::Fine)
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

fn read(flag: &str, file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file)
        .map_err(|error| usage(format!("{flag} {} cannot be read: {error}", file.display())))
}

fn gather(args: &Args) -> anyhow::Result<Topology> {
    if let Some(file) = &args.xml {
        let text = read("--xml", file)?;
        let mut all =
            xml::read(&text).map_err(|what| usage(format!("--xml {}: {what}", file.display())))?;
        all.source = file.display().to_string();
        return Ok(all);
    }
    let nvml = match &args.nvml {
        Some(file) => Ok(Inventory::from_json(&read("--nvml", file)?)
            .map_err(|what| usage(format!("--nvml {}: {what}", file.display())))?),
        None if args.root == Path::new("/") => Inventory::read(),
        None => Err("NVML is not asked about another root".into()),
    };
    Ok(facts::topology::read(&args.root, &nvml))
}

fn draw(all: &Topology, format: Format) -> anyhow::Result<String> {
    let missing: String = all
        .missing
        .iter()
        .map(|what| format!("Missing: {what}\n"))
        .collect();
    Ok(match format {
        Format::All => {
            let parts = [
                text::tree(all) + &missing,
                text::matrix(all),
                text::paths(all),
            ];
            parts
                .iter()
                .filter(|part| !part.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("\n")
        }
        Format::Tree => text::tree(all) + &missing,
        Format::Matrix => text::matrix(all) + &missing,
        Format::Paths => text::paths(all) + &missing,
        Format::Json => json(all)?,
        Format::Svg => svg::draw(all),
    })
}

fn json(all: &Topology) -> anyhow::Result<String> {
    let kinds: serde_json::Map<_, _> = path::KINDS
        .iter()
        .map(|(_, word, what)| ((*word).to_owned(), json!(what)))
        .collect();
    let pairs = |a: usize| {
        (0..all.gpus.len())
            .filter(move |b| a != *b)
            .map(move |b| (a, b))
    };
    let gpu_paths: Vec<_> = (0..all.gpus.len())
        .flat_map(pairs)
        .map(|(a, b)| json!({ "from": a, "to": b, "path": all.between(a, b), "transports": all.inside(a, b) }))
        .collect();
    let whole = json!({ "topology": all, "kinds": kinds, "gpu_paths": gpu_paths, "choices": all.choices() });
    Ok(serde_json::to_string_pretty(&whole)?)
}
