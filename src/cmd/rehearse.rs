//! `pxnbench rehearse`: what NCCL does with PXN on several nodes with several NICs each.

use std::path::{Path, PathBuf};

use super::args::values::{self, Several};
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    input::{self, InputKind},
    levels::{self, Preset},
    native::nvml::Inventory,
    output::{lock::replace_alone, target},
    rehearsal::{
        cluster::{Cluster, MOST_CHANNELS},
        picture, table,
        theory::{self, Theory},
        virtual_node::NodeShape,
    },
    topology,
    units::{Bytes, counted},
};

/// The GPUs that a rehearsal needs at least.
const FEWEST_GPUS: usize = 2;

/// Show what NCCL does with PXN on several nodes with several NICs each: who relays, and which rails carry what
///
/// With --theory, relays and bytes follow from NCCL's rules, on any machine, for up to 1024 GPUs in all; what the rules
/// do not decide reads `cannot tell`, with the reason. A rehearsal shows decisions, never speed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Collectives, or all
    #[arg(value_name = "COLLECTIVES", value_parser = values::collectives, default_value = "all")]
    collectives: Vec<Several<Collective>>,

    /// Derive it from NCCL's rules instead of running NCCL
    #[arg(long)]
    theory: bool,

    /// Nodes
    #[arg(long, value_name = "N", value_parser = values::positive::<u64>, default_value = "2")]
    nodes: u64,

    /// GPUs per node [default: 2, or those of the file]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    gpus: Option<u32>,

    /// NICs per node, called rails [default: one per GPU, or those of the file]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    rails: Option<u32>,

    /// Topology of a node: split (each GPU has a switch of its own), shared (one switch is above these), or a file as
    /// NCCL_TOPO_DUMP_FILE writes it
    #[arg(long, value_name = "split|shared|FILE", default_value = "split")]
    topology: PathBuf,

    /// PXN levels, or all
    #[arg(long, value_name = "LEVEL,…", value_parser = level_names, default_value = "all")]
    levels: Levels,

    /// Size of an operation, as nccl-tests counts it
    #[arg(short = 'b', long = "size", value_name = "SIZE", value_parser = values::size, default_value = "1M")]
    size: Bytes,

    /// Root of gather, scatter, broadcast and reduce
    #[arg(short = 'r', long, value_name = "RANK", value_parser = values::natural, default_value = "0")]
    root: u32,

    /// Channels that NCCL uses for collectives; its log has them as `coll channels` [default: those of the recorded runs on
    /// two nodes with two GPUs and two rails, else unknown]
    #[arg(long, value_name = "N", value_parser = values::positive::<u32>)]
    channels: Option<u32>,

    /// Also write the table as CSV
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    csv: Option<PathBuf>,

    /// Also write it as JSON
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    json: Option<PathBuf>,

    /// Also draw who relays through whom
    #[arg(long, value_name = "FILE", value_parser = values::output_file())]
    svg: Option<PathBuf>,
}

/// Levels of the command line.
#[derive(Clone, Debug)]
struct Levels(Vec<&'static Preset>);

/// Parses `all`, or names of levels separated by commas.
fn level_names(text: &str) -> Result<Levels, String> {
    if text == "all" {
        return Ok(Levels(levels::all().iter().collect()));
    }
    let mut named: Vec<&'static Preset> = Vec::new();
    for name in text.split(',') {
        let level = levels::level(name)?;
        if !named.iter().any(|known| known.name == level.name) {
            named.push(level);
        }
    }
    Ok(Levels(named))
}

/// Prints the theory.
///
/// # Errors
/// Returns an error if there cannot be such a cluster, if a file cannot be read or written, or if NCCL is to run.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    if !args.theory {
        return Err(Failure::on_all_ranks(Code::NothingRan, why_not_run()));
    }
    let cluster = cluster(args)?;
    if u64::from(args.root) >= cluster.ranks() {
        let what = format!(
            "-r {} is not a rank: there are {}",
            args.root,
            counted(cluster.ranks(), "rank")
        );
        return Err(usage(what));
    }
    let mut collectives: Vec<Collective> = Vec::new();
    for collective in args.collectives.iter().flat_map(|several| &several.0) {
        if !collectives.contains(collective) {
            collectives.push(*collective);
        }
    }
    check_files(args)?;
    let theories = theory::of_levels(&cluster, &args.levels.0, &collectives, args.size, args.root);
    write_files(args, &cluster, &theories)?;
    let files = [&args.csv, &args.json, &args.svg];
    if files.into_iter().flatten().any(|file| is_stdout(file)) {
        return Ok(Code::Fine);
    }
    print_line!("{}", table::text(&cluster, args.size, &theories).trim_end())?;
    Ok(Code::Fine)
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

/// Returns why NCCL does not run.
fn why_not_run() -> String {
    let gpus = Inventory::read().map_or(0, |inventory| inventory.gpus.len());
    let missing = if gpus < FEWEST_GPUS {
        format!(
            "a rehearsal runs NCCL on {FEWEST_GPUS} GPUs or more of one node, and this one has {gpus}; "
        )
    } else {
        String::new()
    };
    format!(
        "{missing}this version of pxnbench cannot start NCCL on virtual nodes yet; --theory derives relays and bytes from NCCL's rules on any machine"
    )
}

fn cluster(args: &Args) -> anyhow::Result<Cluster> {
    let shape = NodeShape::ALL
        .into_iter()
        .find(|shape| args.topology.to_str() == Some(shape.word()));
    let mut cluster = match shape {
        Some(shape) => {
            let gpus = args.gpus.unwrap_or(2) as usize;
            let rails = args.rails.map_or(gpus, |rails| rails as usize);
            Cluster::of_virtual_nodes(args.nodes, shape, gpus, rails).map_err(usage)?
        }
        None => cluster_of_file(args, &args.topology)?,
    };
    if let Some(channels) = args.channels {
        if u64::from(channels) > MOST_CHANNELS {
            let what = format!("--channels {channels}: NCCL has {MOST_CHANNELS} channels at most");
            return Err(usage(what));
        }
        cluster.channels = Some(u64::from(channels));
    }
    Ok(cluster)
}

fn cluster_of_file(args: &Args, file: &Path) -> anyhow::Result<Cluster> {
    let refused = |why: String| usage(format!("--topology {}: {why}", file.display()));
    let text = input::read_text(file, InputKind::Topology).map_err(|error| {
        refused(format!(
            "it cannot be read: {error}; it is a file, split or shared"
        ))
    })?;
    let mut hosts = topology::read(&text).map_err(refused)?;
    if hosts.len() != 1 {
        let what = format!(
            "it holds {}, and a rehearsal has equal nodes",
            counted(hosts.len() as u64, "host")
        );
        return Err(refused(what));
    }
    let mut node = hosts.remove(0);
    node.source = file.display().to_string();
    for (flag, asked, has) in [
        ("--gpus", args.gpus, node.gpus.len()),
        ("--rails", args.rails, node.nics.len()),
    ] {
        if asked.is_some_and(|asked| asked as usize != has) {
            return Err(refused(format!("it has {has}; leave out {flag}")));
        }
    }
    Cluster::of_nodes_like(args.nodes, node).map_err(refused)
}

/// Checks that each output has a file of its own: one would replace the other, or be mixed with it.
fn check_files(args: &Args) -> anyhow::Result<()> {
    let files = [
        ("--csv", &args.csv),
        ("--json", &args.json),
        ("--svg", &args.svg),
    ];
    let mut named: Vec<(&str, PathBuf)> = Vec::new();
    for (flag, file) in files {
        let Some(file) = file else { continue };
        let file = target::resolved(file);
        let file = std::path::absolute(&file).unwrap_or(file);
        if let Some((other, _)) = named.iter().find(|(_, known)| *known == file) {
            let what = format!(
                "{other} and {flag} have the same file, {}; name two",
                file.display()
            );
            return Err(usage(what));
        }
        named.push((flag, file));
    }
    Ok(())
}

fn is_stdout(file: &Path) -> bool {
    file == Path::new("/dev/stdout")
}

fn write_files(args: &Args, cluster: &Cluster, theories: &[Theory]) -> anyhow::Result<()> {
    if let Some(file) = &args.csv {
        write("--csv", file, &table::csv(theories)?)?;
    }
    if let Some(file) = &args.json {
        write("--json", file, &table::json(cluster, theories)?)?;
    }
    if let Some(file) = &args.svg {
        write("--svg", file, &picture::draw(cluster, theories))?;
    }
    Ok(())
}

fn write(flag: &str, file: &Path, text: &str) -> anyhow::Result<()> {
    replace_alone(&target::resolved(file), text).map_err(|error| {
        usage(format!(
            "{flag} {} cannot be written: {error}",
            file.display()
        ))
    })
}
