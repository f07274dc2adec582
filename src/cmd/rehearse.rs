//! `pxnbench rehearse`: what NCCL does with PXN on several nodes with several NICs each.

use std::path::{Path, PathBuf};

use super::args::{
    cluster::ClusterArgs,
    values::{self, Several},
};
use crate::{
    collective::Collective,
    exit::{Code, Failure},
    input::{self, InputKind},
    levels::{self, Preset},
    output::{lock::replace_alone, target},
    rehearsal::{cluster::Cluster, picture, rehearsed::Rehearsal, rehearsed_table, table, theory},
    units::{Bytes, counted},
    virtual_nodes::{self, Outcome, PlayedOnRails, RailNumber, RailStall},
};

/// Show what NCCL does with PXN on several nodes with several NICs each: who relays, and which
/// rails carry what
///
/// Runs NCCL on virtual nodes of this machine, which needs two GPUs with NVLink and no NIC: a
/// plugin plays the NICs. Data are checked, and NCCL's log, what the plugin counts and NCCL's rules
/// are compared. With --theory, relays and bytes follow from the rules alone, on any machine, for
/// up to 1024 GPUs in all; what they do not decide reads `cannot tell`, with the reason. A
/// rehearsal shows decisions, never speed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Collectives, or all
    #[arg(value_name = "COLLECTIVES", value_parser = values::collectives, default_value = "all")]
    collectives: Vec<Several<Collective>>,

    /// Derive it from NCCL's rules instead of running NCCL
    #[arg(long)]
    theory: bool,

    /// Show a rehearsal that --json recorded, instead of running NCCL
    #[arg(long, value_name = "FILE", conflicts_with = "theory")]
    from: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// PXN levels, or all
    #[arg(long, value_name = "LEVEL,…", value_parser = level_names, default_value = "all")]
    levels: Levels,

    /// Size of an operation, as nccl-tests counts it
    #[arg(
        short = 'b',
        long = "size",
        value_name = "SIZE",
        value_parser = values::size,
        default_value = "1M",
        conflicts_with = "from",
    )]
    size: Bytes,

    /// Root of gather, scatter, broadcast and reduce
    #[arg(
        short = 'r',
        long,
        value_name = "RANK",
        value_parser = values::natural,
        default_value = "0",
        conflicts_with = "from",
    )]
    root: u32,

    /// Limit the rate at which each process sends over a rail, in GB/s
    #[arg(
        long,
        value_name = "RAIL=GB/s",
        value_delimiter = ',',
        help_heading = "Rails",
        conflicts_with_all = ["theory", "from"],
    )]
    bandwidth: Vec<RailNumber>,

    /// Delay each message on a rail by this many microseconds
    #[arg(
        long,
        value_name = "RAIL=MICROSECONDS",
        value_delimiter = ',',
        help_heading = "Rails",
        conflicts_with_all = ["theory", "from"],
    )]
    latency: Vec<RailNumber>,

    /// Stop a rail from sending, at once or after this many messages from each process
    #[arg(
        long,
        value_name = "RAIL[:MESSAGES]",
        value_delimiter = ',',
        help_heading = "Rails",
        conflicts_with_all = ["theory", "from"],
    )]
    stall: Vec<RailStall>,

    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Runs",
        conflicts_with_all = ["theory", "from"],
    )]
    nccl_lib: Option<PathBuf>,

    /// Jobs at the same time: there is one per topology, level, collective and algorithm
    #[arg(
        long,
        value_name = "N",
        value_parser = values::positive::<u32>,
        default_value = "3",
        help_heading = "Runs",
    )]
    jobs: u32,

    /// Seconds without progress after which a job is ended
    #[arg(
        short = 'T',
        long,
        value_name = "SECONDS",
        value_parser = values::positive::<u32>,
        default_value = "30",
        help_heading = "Runs",
    )]
    timeout: u32,

    /// New folder for the record, which report shows, and for the results, logs and counters of
    /// each job [default: one that is removed unless something is wrong]
    #[arg(long, value_name = "DIR", help_heading = "Runs", conflicts_with_all = ["theory", "from"])]
    out: Option<PathBuf>,

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

impl Args {
    /// Returns whether NCCL runs, in processes that this one starts.
    pub fn runs_nccl(&self) -> bool {
        !self.theory && self.from.is_none()
    }

    /// Returns what NCCL is to run on these clusters.
    fn request(&self, clusters: Vec<Cluster>) -> virtual_nodes::Request {
        virtual_nodes::Request {
            clusters,
            levels: self.levels.0.clone(),
            collectives: self.collectives(),
            size: self.size,
            root: self.root,
            channels: self.cluster.channels(),
            nccl_lib: self.nccl_lib.clone(),
            jobs_at_once: self.jobs as usize,
            timeout: self.timeout,
            played: PlayedOnRails {
                bandwidth: self.bandwidth.clone(),
                latency: self.latency.clone(),
                stalls: self.stall.clone(),
            },
            out: self.out.clone(),
        }
    }

    /// Returns the collectives, each once.
    fn collectives(&self) -> Vec<Collective> {
        let mut collectives: Vec<Collective> = Vec::new();
        for collective in self.collectives.iter().flat_map(|several| &several.0) {
            if !collectives.contains(collective) {
                collectives.push(*collective);
            }
        }
        collectives
    }
}

/// Rehearses, and prints what it shows.
///
/// # Errors
/// Returns an error if there cannot be such a cluster, if NCCL cannot run here or fails, if a file
/// cannot be read or written, or if theory, log and counters disagree.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    check_files(args)?;
    if let Some(file) = &args.from {
        let rehearsal = recorded(args, file)?;
        show(args, &rehearsal)?;
        rehearsal.check()?;
        return Ok(Code::Fine);
    }
    let clusters = args.cluster.clusters()?;
    check_root(args, &clusters[0])?;
    if args.theory {
        return show_theory(args, &clusters);
    }
    show_outcome(args, virtual_nodes::run(&args.request(clusters))?)
}

/// Prints what NCCL showed, and what the logs say if that is not as it should be.
fn show_outcome(args: &Args, outcome: Outcome) -> anyhow::Result<Code> {
    let shown = match outcome.rehearsal.cases.is_empty() {
        true => Ok(()),
        false => show(args, &outcome.rehearsal),
    };
    let mut evidence = outcome.evidence.iter();
    if let Some(heading) = evidence.next() {
        say!("pxnbench: {heading}");
    }
    for line in evidence {
        say!("    | {line}");
    }
    let verdict = match outcome.failure {
        Some(failure) => Err(failure),
        None => outcome.rehearsal.check(),
    };
    if let (Err(_), Err(unwritten)) = (&verdict, &shown) {
        say!("pxnbench: {unwritten}");
    }
    verdict?;
    shown?;
    Ok(Code::Fine)
}

fn usage(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::Usage, what)
}

/// Checks that each file is another one: outputs would replace one another or the record that is
/// read, or be mixed.
fn check_files(args: &Args) -> anyhow::Result<()> {
    let files = [
        ("--from", &args.from),
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
                "{other} and {flag} name the same file, {}. Name one for each",
                file.display()
            );
            return Err(usage(what));
        }
        named.push((flag, file));
    }
    Ok(())
}

fn check_root(args: &Args, cluster: &Cluster) -> anyhow::Result<()> {
    if u64::from(args.root) < cluster.ranks() {
        return Ok(());
    }
    let what = format!(
        "-r {} is not a rank: there are {}",
        args.root,
        counted(cluster.ranks(), "rank")
    );
    Err(usage(what))
}

/// Reads a recorded rehearsal, without what is not asked for.
fn recorded(args: &Args, file: &Path) -> anyhow::Result<Rehearsal> {
    let refused = |why: String| usage(format!("--from {}: {why}", file.display()));
    let text = input::read_text(file, InputKind::Json)
        .map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let mut rehearsal = Rehearsal::parse(&text).map_err(refused)?;
    let there = rehearsal.contents();
    let collectives = args.collectives();
    rehearsal.retain(|case| {
        let mut levels = args.levels.0.iter();
        levels.any(|level| level.name == case.level)
            && collectives.contains(&case.collective)
            && args.cluster.wants(&case.topology)
    });
    if rehearsal.cases.is_empty() {
        let why = format!("it has none of the requested cases. Request some that it has: {there}");
        return Err(refused(why));
    }
    Ok(rehearsal)
}

/// Prints a rehearsal, and writes its files. What cannot be written does not keep the rest from
/// being shown.
fn show(args: &Args, rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let mut results = vec![print_unless_on_stdout(
        args,
        &rehearsed_table::text(rehearsal),
    )];
    if let Some(file) = &args.csv {
        let text = rehearsed_table::csv(rehearsal);
        results.push(text.and_then(|text| write("--csv", file, &text)));
    }
    if let Some(file) = &args.json {
        let text = rehearsed_table::json(rehearsal);
        results.push(text.and_then(|text| write("--json", file, &text)));
    }
    if let Some(file) = &args.svg {
        let drawing = picture::draw_cases(rehearsal, &rehearsal.cases);
        results.push(write("--svg", file, &drawing));
    }
    results.into_iter().collect()
}

fn show_theory(args: &Args, clusters: &[Cluster]) -> anyhow::Result<Code> {
    let [cluster] = clusters else {
        let what = "--theory derives one topology at a time. Name split, shared or a file";
        return Err(usage(what.into()));
    };
    let collectives = args.collectives();
    let theories = theory::of_levels(cluster, &args.levels.0, &collectives, args.size, args.root);
    if let Some(file) = &args.csv {
        write("--csv", file, &table::csv(&theories)?)?;
    }
    if let Some(file) = &args.json {
        write("--json", file, &table::json(cluster, &theories)?)?;
    }
    if let Some(file) = &args.svg {
        write("--svg", file, &picture::draw(cluster, &theories))?;
    }
    print_unless_on_stdout(args, &table::text(cluster, args.size, &theories))?;
    Ok(Code::Fine)
}

/// Prints a table unless standard output has one of the files.
fn print_unless_on_stdout(args: &Args, table: &str) -> anyhow::Result<()> {
    let files = [&args.csv, &args.json, &args.svg];
    let is_stdout = |file: &PathBuf| file == Path::new("/dev/stdout");
    if files.into_iter().flatten().any(is_stdout) {
        return Ok(());
    }
    print_line!("{}", table.trim_end())
}

fn write(flag: &str, file: &Path, text: &str) -> anyhow::Result<()> {
    replace_alone(&target::resolved(file), text).map_err(|error| {
        usage(format!(
            "{flag} {} cannot be written: {error}",
            file.display()
        ))
    })
}
