//! `pxnbench proof LOG…`: what NCCL's own log shows of PXN.

mod report;

use std::{
    fs::{self, File},
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use crate::{
    exit::{Code, Failure},
    levels::{self, Preset},
    nccl_log::{Fold, PxnVerdict, reason::HOW_TO_LOG},
    run::self_test,
};

/// Read NCCL's logs: was PXN used, by whom and through which NIC, and if not, why not
///
/// Takes the logs of all ranks together: one file for each process, or one for all. NCCL's connections show who relays for
/// whom, not how many bytes went there.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// NCCL's log files, or folders of them; `-` or none reads standard input
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 7 if the verdict is another one
    #[arg(long, value_name = "VERDICT")]
    expect: Option<Expected>,
    /// Read no log, but run a short alltoall on the ranks that mpirun or srun started, with PXN off and as asked, and say
    /// whether the number of relays changed from zero as it must
    #[arg(long, conflicts_with_all = ["logs", "json"])]
    self_test: bool,
    /// With --self-test: the PXN level that is asked for; variables that are already set take precedence
    #[arg(long, value_name = "LEVEL", value_parser = levels::level, requires = "self_test")]
    level: Option<&'static Preset>,
    /// With --self-test: use this libnccl instead of the one in NCCL_HOME or the system's
    #[arg(long, value_name = "FILE", requires = "self_test")]
    nccl_lib: Option<PathBuf>,
}

impl Args {
    /// What the level sets in the environment `env`.
    pub fn environment(&self, env: crate::env::Env) -> Vec<(String, String)> {
        self.level
            .map_or_else(Vec::new, |level| level.apply(env, &[]))
    }
}

/// What can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Expected {
    /// Relays
    Used,
    /// No relay
    NotUsed,
}

fn after_help() -> String {
    format!("Settings with which the log has all that is looked for:\n  {HOW_TO_LOG}")
}

/// Reads, and prints the report.
///
/// # Errors
/// Where a log cannot be read, is empty, or holds nothing of NCCL's.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    if args.self_test {
        let expect = args.expect.map(|expected| expected == Expected::Used);
        return self_test::run(args.nccl_lib.as_deref(), expect);
    }
    let mut fold = Fold::default();
    let names = if args.logs.is_empty() {
        vec![PathBuf::from("-")]
    } else {
        args.logs.clone()
    };
    for name in &names {
        add(&mut fold, name)?;
    }
    let proof = fold.proof();
    if proof.lines.nccl == 0 {
        let where_from = names
            .iter()
            .map(|name| shown(name))
            .collect::<Vec<_>>()
            .join(", ");
        let what = match proof.lines.read {
            0 => format!("{where_from}: empty"),
            lines => format!("{where_from}: none of {lines} lines is from NCCL"),
        };
        return Err(Failure::on_all_ranks(
            Code::NothingRan,
            format!("{what}; log with {HOW_TO_LOG}"),
        ));
    }
    if args.json {
        print_line!("{}", serde_json::to_string_pretty(&proof)?)?;
    } else {
        print_line!("{}", report::text(&proof).trim_end())?;
    }
    let expected = match args.expect {
        None => return Ok(Code::Fine),
        Some(Expected::Used) => PxnVerdict::Used,
        Some(Expected::NotUsed) => PxnVerdict::NotUsed,
    };
    if proof.verdict == expected {
        return Ok(Code::Fine);
    }
    let what = format!(
        "PXN: expected {}, the log says {}",
        expected.words(),
        proof.verdict.words()
    );
    Err(Failure::on_all_ranks(
        Code::WrongData,
        format!("{what} ({})", proof.reason.row().name),
    ))
}

fn shown(name: &Path) -> String {
    if name == Path::new("-") {
        "standard input".into()
    } else {
        name.display().to_string()
    }
}

/// Adds a file, the files of a folder, or standard input.
fn add(fold: &mut Fold, name: &Path) -> anyhow::Result<()> {
    let cannot = |path: &Path, error: io::Error| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("{} cannot be read: {error}", shown(path)),
        )
    };
    if name == Path::new("-") {
        let input = io::stdin();
        if input.is_terminal() {
            let what =
                "no log named and nothing on standard input: name files or folders with NCCL's log";
            return Err(Failure::on_all_ranks(Code::Usage, what));
        }
        return fold.read(input.lock()).map_err(|error| cannot(name, error));
    }
    let mut files = Vec::new();
    collect(name, &mut files).map_err(|error| cannot(name, error))?;
    if files.is_empty() {
        return Err(Failure::on_all_ranks(
            Code::Usage,
            format!("{} holds no file", name.display()),
        ));
    }
    for file in files {
        File::open(&file)
            .and_then(|opened| fold.read(opened))
            .map_err(|error| cannot(&file, error))?;
    }
    Ok(())
}

/// The files of `name`, in the order of their names. A link to a folder below it is not followed: it may lead back.
fn collect(name: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::metadata(name)?.is_dir() {
        files.push(name.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(name)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        let is_file = || fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file());
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
