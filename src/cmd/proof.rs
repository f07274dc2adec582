//! `pxnbench proof LOG…`: what NCCL's own log shows of PXN.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use crate::{
    exit::{Code, Failure},
    levels::{self, Preset},
    nccl_log::{
        Proof, PxnVerdict,
        reading::{self, Reading, Source},
        reading_report,
        subsystems::how_to_log,
    },
    run::self_test,
};

/// Read NCCL's logs and report whether PXN was used: which ranks relayed through which NICs, or why
/// none did
///
/// Takes the logs of all ranks together: one file per process, or one file for all. NCCL's
/// connections show which rank relays, not how many bytes it relays.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// NCCL's log files, or folders of them; `-` or none reads standard input
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with code 7 if the verdict differs
    #[arg(long, value_name = "VERDICT")]
    expect: Option<Expected>,
    /// Instead of reading a log, run a short alltoall on the ranks that mpirun or srun started,
    /// with PXN off and as requested, and check that there are no relays with PXN off, and some as
    /// requested
    #[arg(long, conflicts_with_all = ["logs", "json"])]
    self_test: bool,
    /// With --self-test: the PXN level to request; variables that are already set take precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level, requires = "self_test")]
    level: Option<&'static Preset>,
    /// With --self-test: use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE", requires = "self_test")]
    nccl_lib: Option<PathBuf>,
}

impl Args {
    /// Returns whether the control runs, on ranks, rather than logs being read.
    pub fn is_self_test(&self) -> bool {
        self.self_test
    }

    /// Returns the libnccl of the control, if it is not the usual one.
    pub fn nccl_lib(&self) -> Option<&Path> {
        self.nccl_lib.as_deref()
    }

    /// Returns the variables that the level sets in the environment `env`.
    pub fn environment(&self, env: crate::env::Env) -> Vec<(String, String)> {
        self.level
            .map_or_else(Vec::new, |level| level.apply(env, &[]))
    }
}

/// The verdict that `--expect` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Expected {
    /// PXN relays seen
    Used,
    /// None seen
    NotUsed,
}

fn after_help() -> String {
    format!(
        "Settings under which NCCL logs everything that the report needs:\n  {}",
        how_to_log()
    )
}

/// Reads the logs, and prints the report.
///
/// # Errors
/// Returns an error if a log cannot be read, is empty, or contains nothing from NCCL, or if the
/// verdict is not the expected one.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    if args.self_test {
        let expect = args.expect.map(|expected| expected == Expected::Used);
        return self_test::run(args.nccl_lib.as_deref(), expect);
    }
    let mut names = args.logs.clone();
    if names.is_empty() {
        names.push(PathBuf::from("-"));
    }
    let mut sources = Vec::new();
    for name in &names {
        sources.extend(find_sources(name)?);
    }
    let reading = reading::read(&mut sources)
        .map_err(|unreadable| cannot_read(Path::new(&unreadable.name), &unreadable.error))?;
    let lines = reading.proof.lines;
    if lines.nccl == 0 && reading.failure.is_none() {
        return Err(nothing_from_nccl(&names, lines.read));
    }
    if args.json {
        print_line!("{}", serde_json::to_string_pretty(&reading)?)?;
    } else {
        print_line!("{}", reading_report::text(&reading).trim_end())?;
    }
    match args.expect {
        None => Ok(Code::Fine),
        Some(Expected::Used) => check_verdicts(&reading, PxnVerdict::Used),
        Some(Expected::NotUsed) => check_verdicts(&reading, PxnVerdict::NotUsed),
    }
}

fn nothing_from_nccl(names: &[PathBuf], lines: u64) -> anyhow::Error {
    let shown: Vec<String> = names.iter().map(|name| display_name(name)).collect();
    let logs = shown.join(", ");
    let remedy = how_to_log();
    let what = if lines == 0 {
        format!("{logs}: empty; log with {remedy}")
    } else {
        format!("{logs}: none of {lines} lines is from NCCL; log with {remedy}")
    };
    Failure::on_all_ranks(Code::NothingRan, what)
}

/// Checks the verdict on all logs together, and on each run if they hold several.
fn check_verdicts(reading: &Reading, expected: PxnVerdict) -> anyhow::Result<Code> {
    check_verdict("the log", &reading.proof, expected)?;
    for (at, run) in reading.runs.iter().enumerate() {
        check_verdict(&format!("run {}", at + 1), &run.proof, expected)?;
    }
    Ok(Code::Fine)
}

fn check_verdict(what: &str, proof: &Proof, expected: PxnVerdict) -> anyhow::Result<()> {
    if proof.verdict == expected {
        return Ok(());
    }
    Err(Failure::on_all_ranks(
        Code::WrongData,
        format!(
            "PXN: expected {}, {what} says {} ({})",
            expected.label(),
            proof.verdict.label(),
            proof.reason.info().name
        ),
    ))
}

fn display_name(name: &Path) -> String {
    if name == Path::new("-") || name == Path::new("") {
        "standard input".into()
    } else {
        name.display().to_string()
    }
}

/// Finds a file, the files of a folder, or standard input.
fn find_sources(name: &Path) -> anyhow::Result<Vec<Source>> {
    if name == Path::new("-") && io::stdin().is_terminal() {
        return Err(Failure::on_all_ranks(
            Code::Usage,
            "no log was named, and standard input is empty. Name files or folders with NCCL's log",
        ));
    }
    let sources = reading::sources(name).map_err(|error| cannot_read(name, &error))?;
    if sources.is_empty() {
        return Err(Failure::on_all_ranks(
            Code::Usage,
            format!("{} contains no file", name.display()),
        ));
    }
    Ok(sources)
}

fn cannot_read(name: &Path, error: &io::Error) -> anyhow::Error {
    Failure::on_all_ranks(
        Code::Usage,
        format!("{} cannot be read: {error}", display_name(name)),
    )
}
