//! `pxnbench links DIR`: links by nccl-tests' names, and what a call by such a name means.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    collective::Collective,
    exit::{Code, Failure},
};

/// Link this program under the names of nccl-tests' programs
/// Called as all_reduce_perf and so on it runs that collective with nccl-tests' command line, and writes no files except
/// those that are asked for. The name may have a suffix: all_reduce_perf_mpi.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the links; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The end of the names.
const PERF: &str = "_perf";

/// The collective that a program of this name runs.
pub(super) fn collective_of(program: &OsStr) -> Option<Collective> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (collective, rest) = name.split_once(PERF)?;
    let resumes = rest.is_empty() || rest.starts_with(['_', '-', '.']);
    Collective::ALL
        .into_iter()
        .find(|known| resumes && known.name() == collective)
}

/// The words of the command line `words`, whose first is the program: as typed, or where it is called by a name of
/// nccl-tests, those that mean the same.
pub fn words(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_else(|| "pxnbench".into());
    let Some(collective) = collective_of(&program) else {
        return [program].into_iter().chain(words).collect();
    };
    [program]
        .into_iter()
        .chain([collective.name(), "--drop-in"].map(OsString::from))
        .chain(words)
        .collect()
}

/// Makes the links.
///
/// # Errors
/// Where a file of that name is there that is no link, or the folder cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<Code> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("{} cannot be made: {why}", path.display()),
        )
    };
    let program = std::env::current_exe().map_err(|error| cannot(&args.folder, &error))?;
    fs::create_dir_all(&args.folder).map_err(|error| cannot(&args.folder, &error))?;
    for collective in Collective::ALL {
        let link = args.folder.join(format!("{collective}{PERF}"));
        match link.symlink_metadata() {
            Ok(there) if there.is_symlink() => {
                fs::remove_file(&link).map_err(|error| cannot(&link, &error))?
            }
            Ok(_) => {
                return Err(cannot(
                    &link,
                    &"a file of that name is there; name another folder, or move it away",
                ));
            }
            Err(_) => {}
        }
        symlink(&program, &link).map_err(|error| cannot(&link, &error))?;
        print_line!("{}", link.display())?;
    }
    Ok(Code::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Vec<String> {
        words(line.split(' ').map(OsString::from))
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_name_of_nccl_tests_is_that_collective() {
        assert_eq!(
            typed("/opt/bin/all_reduce_perf -b 8 -g 2"),
            [
                "/opt/bin/all_reduce_perf",
                "all_reduce",
                "--drop-in",
                "-b",
                "8",
                "-g",
                "2"
            ]
        );
        assert_eq!(
            typed("sendrecv_perf_mpi").last().map(String::as_str),
            Some("--drop-in")
        );
        for other in [
            "pxnbench all_reduce",
            "all_reduce_performance -b 8",
            "nothing_perf",
        ] {
            assert_eq!(typed(other), other.split(' ').collect::<Vec<_>>());
        }
    }
}
