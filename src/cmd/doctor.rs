//! `pxnbench doctor`: is this node, or this job, ready for NCCL? Facts are gathered on each process, judged on the first.

use std::{
    fmt::Write,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use crate::{
    doctor::{self, AuditFact, CheckOutcome, RankFacts, ReportLine, counted},
    env,
    exit::{self, Code},
    facts::{audit, health},
    levels::conf::NcclSettings,
    world::{self, World, abort, deadline, launch, placement, solo::Solo},
};

/// Check this node, or all nodes of a job under srun or mpirun: libraries, limits, GPUs, networks, Slurm, NCCL's settings
/// Each finding has its evidence and what to do. Exits with 10 if something will fail.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Warnings count as failures
    #[arg(long)]
    strict: bool,
    /// Print all checks, including those that found nothing
    #[arg(short, long)]
    verbose: bool,
    /// Use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE")]
    nccl_lib: Option<PathBuf>,
    /// Examine a copy of another node's /sys, /proc, /dev and /etc
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
    /// NVML's answers, recorded as JSON
    #[arg(long, value_name = "FILE", hide = true)]
    nvml: Option<PathBuf>,
}

/// No file system and no rank may hold it up longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Examines, and prints the report.
///
/// # Errors
/// Where MPI does not start, or what a rank says does not reach the first.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let _guard = deadline::watch("the examination on every rank", LIMIT);
    // Ranks that see only themselves are a finding, not the end; without a process manager MPI would stop.
    let alone =
        launch::processes(&env::var).is_none() || launch::check_before_mpi(&env::var).is_err();
    let world: Box<dyn World> = if alone {
        Box::new(Solo)
    } else {
        world::open::mpi()?
    };
    abort::set_rank(world.rank());
    // Where each process is alone though several were started, one report is enough.
    let speaks = world.rank() == 0 && launch::speaks(&env::var);
    let end = examine(args, speaks, &*world);
    if let Err(error) = &end
        && world.size() > 1
    {
        abort::job(exit::code_of(error), &format!("{error:#}"));
    }
    world.finish();
    end
}

fn examine(args: &Args, speaks: bool, world: &dyn World) -> anyhow::Result<Code> {
    let mut job = world::all_gather(world, &subject(args, world))?;
    // All leave the barrier at about one moment; what takes longer, and differs between ranks, is behind it.
    world.barrier();
    let clocks: Vec<f64> = world::all_gather(world, &now())?;
    let peers: Vec<placement::ProcessIdentity> = world::all_gather(world, &peer())?;
    let places = placement::place_ranks(&peers);
    job.iter_mut()
        .zip(clocks)
        .for_each(|(subject, clock)| subject.clock = clock);
    for (subject, place) in job.iter_mut().zip(&places) {
        let here = places
            .iter()
            .filter(|other| other.node == place.node)
            .count() as u32;
        (subject.node, subject.local) = (place.node, (place.local_rank, here));
    }
    let rows = doctor::examine(&job);
    let code = verdict(&rows, args.strict);
    abort::set_final_code(code);
    if speaks {
        match args.json {
            true => print_line!(
                "{}",
                serde_json::to_string_pretty(&json(&job, &rows, code))?
            )?,
            false => print_line!("{}", text(&job, &rows, args.verbose, code).trim_end())?,
        }
    }
    Ok(code)
}

/// Seconds since 1970 on this process' clock.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

fn peer() -> placement::ProcessIdentity {
    placement::ProcessIdentity {
        host: placement::host_name(),
        host_id: placement::host_id(&env::var),
        pid: std::process::id(),
        gpus: Vec::new(),
        first_gpu: None,
    }
}

/// What this process says of itself.
fn subject(args: &Args, world: &dyn World) -> RankFacts {
    let audit = audit::audit(
        &args.root,
        args.nccl_lib.as_deref(),
        None,
        env::var("SLURM_JOB_ID").is_some(),
    );
    let health = health::gather(
        &args.root,
        &env::var,
        args.nvml.as_deref(),
        audit.settings.get("NCCL_NET_PLUGIN"),
    );
    let audited = |found: &crate::levels::audit::AuditFinding| AuditFact {
        id: found.id.into(),
        severity: found.severity,
        sentence: found.sentence.clone(),
        remedy: found.remedy.clone(),
    };
    RankFacts {
        rank: world.rank(),
        world: world.size(),
        host: placement::host_name(),
        node: 0,
        local: (0, 1),
        mpi: world.library(),
        nccl: audit
            .library
            .map(|library| (library.path.display().to_string(), library.version)),
        settings: audit.settings,
        audited: audit.findings.iter().map(audited).collect(),
        not_audited: audit
            .not_applicable
            .into_iter()
            .map(|(check, why)| (check.id.to_owned(), why))
            .collect(),
        clock: 0.0,
        health,
    }
}

fn count(rows: &[ReportLine], word: &str) -> usize {
    rows.iter().filter(|row| row.verdict.word() == word).count()
}

fn verdict(rows: &[ReportLine], strict: bool) -> Code {
    let failures = rows
        .iter()
        .any(|row| matches!(row.verdict, CheckOutcome::Failure { .. }));
    let warnings = rows
        .iter()
        .any(|row| matches!(row.verdict, CheckOutcome::Warning { .. }));
    if failures || strict && warnings {
        Code::NotReady
    } else {
        Code::Fine
    }
}

fn json(job: &[RankFacts], rows: &[ReportLine], code: Code) -> serde_json::Value {
    let hosts: std::collections::BTreeSet<&str> = job.iter().map(|one| one.host.as_str()).collect();
    serde_json::json!({
        "ready": code == Code::Fine,
        "ranks": job.len(),
        "hosts": hosts,
        "failures": count(rows, "FAILURE"),
        "warnings": count(rows, "warning"),
        "checks": rows,
        "settings": job.first().map(|one| &one.settings),
    })
}

/// The report: differences between nodes first, then failures, then warnings, then the settings, then the sum.
fn text(job: &[RankFacts], rows: &[ReportLine], verbose: bool, code: Code) -> String {
    let mut text = String::new();
    let is_bad = |row: &&ReportLine| {
        matches!(
            row.verdict,
            CheckOutcome::Failure { .. } | CheckOutcome::Warning { .. }
        )
    };
    let mut bad: Vec<&ReportLine> = rows.iter().filter(is_bad).collect();
    bad.sort_by_key(|row| {
        (
            !row.across,
            std::cmp::Reverse(row.verdict.word() == "FAILURE"),
        )
    });
    for row in &bad {
        let (evidence, remedy) = row.verdict.words();
        let who = if row.who == "all" {
            String::new()
        } else {
            format!(" [{}]", row.who)
        };
        let _ = writeln!(
            text,
            "{:<8} {:<22} {evidence}{who}\n{:<31} {remedy}",
            row.verdict.word(),
            row.id,
            "  do:"
        );
    }
    for row in rows.iter().filter(|row| verbose && !is_bad(row)) {
        let who = if row.who == "all" {
            String::new()
        } else {
            format!(" [{}]", row.who)
        };
        let _ = writeln!(
            text,
            "{:<8} {:<22} {}: {}{who}",
            row.verdict.word(),
            row.id,
            row.about,
            row.verdict.words().0
        );
    }
    if let Some(first) = job.first() {
        settings(&mut text, &first.settings);
    }
    let hosts: std::collections::BTreeSet<&str> = job.iter().map(|one| one.host.as_str()).collect();
    let ready = if code == Code::Fine {
        "ready"
    } else {
        "not ready"
    };
    if !job.iter().any(RankFacts::has_gpus) {
        let _ = writeln!(
            text,
            "note     there is no NVIDIA device here: this is about a run on host memory"
        );
    }
    let _ = writeln!(
        text,
        "{ready}: {}, {}, {} ok, {} not applicable; {} on {}",
        counted(count(rows, "FAILURE"), "failure"),
        counted(count(rows, "warning"), "warning"),
        count(rows, "ok"),
        count(rows, "n/a"),
        if job.len() == 1 {
            "1 process".to_owned()
        } else {
            format!("{} ranks", job.len())
        },
        match hosts.len() {
            1 => hosts.iter().next().copied().unwrap_or_default().to_owned(),
            many => format!("{many} hosts"),
        }
    );
    text
}

/// NCCL's settings in force on rank 0, and where each comes from.
fn settings(text: &mut String, settings: &NcclSettings) {
    for (name, _) in settings.iter() {
        let _ = writeln!(text, "setting  {}", settings.describe(name));
    }
}
