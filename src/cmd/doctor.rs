//! `pxnbench doctor`: checks whether this node, or this job, is ready for NCCL. Facts are gathered
//! on each process, and the first one judges them.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    doctor::{RecipeReport, Report},
    env,
    exit::{self, Code, Failure},
    facts::{
        audit,
        ranks::{self, Sources},
    },
    input::{self, InputKind},
    run::refused_variables,
    world::{self, World, abort, deadline, launch, open::WaitLimits, solo::Solo},
};

/// Check this node, or all nodes of a job under srun or mpirun: libraries, limits, GPUs, networks,
/// Slurm, NCCL's settings
///
/// Each finding comes with its evidence and a remedy. Exits with 10 if something will fail.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Count warnings as failures
    #[arg(long)]
    strict: bool,
    /// Print all checks, including those that found nothing
    #[arg(short, long)]
    verbose: bool,
    /// Check what this file sets, without running it: an env file as docker --env-file reads it, an
    /// nccl.conf, a shell or batch script, or a Kubernetes or Compose file. `-` is standard input
    #[arg(long, value_name = "FILE")]
    env: Option<PathBuf>,
    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,
    /// Examine a copy of another node's /sys, /proc, /dev and /etc
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
    /// Read NVML's answers from this JSON file
    #[arg(long, value_name = "FILE", hide = true)]
    nvml: Option<PathBuf>,
}

/// How long a file system or a rank may hold up the examination.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a rank may be silent while the others wait.
const SILENCE: Duration = Duration::from_secs(20);

/// Examines all ranks, and prints the report on the first.
///
/// # Errors
/// Returns an error if MPI does not start, if the file of `--env` cannot be read, if what a rank
/// sent cannot be read, or if stdout cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    if let Some(file) = &args.env {
        return check_recipe(args, file);
    }
    let _guard = deadline::limit("the examination on every rank", LIMIT);
    // Ranks that see only themselves are a finding, not the end; without a process manager MPI
    // would stop.
    let is_alone =
        launch::processes(&env::var).is_none() || launch::check_before_mpi(&env::var).is_err();
    let world: Box<dyn World> = if is_alone {
        Box::new(Solo)
    } else {
        let limits = WaitLimits {
            start: LIMIT,
            silence: SILENCE,
        };
        world::open::launched("pxnbench doctor", limits)?
    };
    abort::set_rank(world.rank());
    let result = examine(args, &*world);
    if let Err(error) = &result
        && world.size() > 1
    {
        abort::job(exit::code_of(error), &format!("{error:#}"));
    }
    world.finish();
    result
}

fn examine(args: &Args, world: &dyn World) -> anyhow::Result<Code> {
    let sources = Sources {
        root: &args.root,
        nccl_lib: args.nccl_lib.as_deref(),
        nvml: args.nvml.as_deref(),
        refused_variables: &refused_variables(),
    };
    let job = ranks::gather(sources, &env::var, world)?;
    let report = Report::new(&job, args.strict);
    // If each process is alone although several were started, one report is enough.
    if world.rank() == 0 && launch::speaks(&env::var) {
        let text = if args.json {
            serde_json::to_string_pretty(&report.json())?
        } else {
            report.text(args.verbose)
        };
        print_line!("{}", text.trim_end())?;
    }
    // Not before the report is printed: what ends this process until then has kept it from the
    // user.
    abort::set_final_code(report.code());
    Ok(report.code())
}

/// Prints the report on a file that sets variables.
fn check_recipe(args: &Args, file: &Path) -> anyhow::Result<Code> {
    let bytes = if file == Path::new("-") {
        input::read_from(io::stdin(), InputKind::Recipe)
    } else {
        input::read(file, InputKind::Recipe)
    };
    let bytes = bytes.map_err(|error| {
        let what = format!("--env {} cannot be read: {error}", file.display());
        Failure::on_all_ranks(Code::Usage, what)
    })?;
    if bytes.contains(&0) {
        let what = format!(
            "--env {} is not text. Name a script, an env file, an nccl.conf or a YAML file",
            file.display()
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    let name = file.display().to_string();
    let text = String::from_utf8_lossy(&bytes);
    let (check, library) = audit::recipe(&name, &text, args.nccl_lib.as_deref());
    let report = RecipeReport {
        file: name,
        check,
        library,
        is_strict: args.strict,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&report.json())?
    } else {
        report.text()
    };
    print_line!("{}", text.trim_end())?;
    Ok(report.code())
}
