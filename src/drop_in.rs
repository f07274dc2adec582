//! The program under the names of nccl-tests' programs: what a call by such a name means, and links
//! of these names.

use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    collective::Collective,
    exit::{Code, Failure},
};

/// The version of nccl-tests whose flags, table and JSON are kept.
const NCCL_TESTS_VERSION: &str = "2.19.6";

/// The end of the names: `all_reduce_perf`.
const PERF: &str = "_perf";

/// Returns the collective that a program of this name runs. The name may have a suffix:
/// `all_reduce_perf_mpi`.
pub fn collective_of(program: &OsStr) -> Option<Collective> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (collective, suffix) = name.split_once(PERF)?;
    if !suffix.is_empty() && !suffix.starts_with(['_', '-', '.']) {
        return None;
    }
    Collective::ALL
        .into_iter()
        .find(|known| known.name() == collective)
}

/// Returns the command line that `words` mean, the first of which is the program: the same words,
/// or, if the program is called by a name of nccl-tests, those of the sweep of that collective.
pub fn words(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_else(|| "pxnbench".into());
    let mut meant = vec![program];
    if let Some(collective) = collective_of(&meant[0]) {
        meant.push(collective.name().into());
        meant.push("--drop-in".into());
    }
    meant.extend(words);
    meant
}

/// Returns the version that this program, of version `own`, gives itself under such a name: where
/// nccl-tests has its commit in parentheses, it says who runs.
pub fn version(own: &str) -> String {
    format!("{NCCL_TESTS_VERSION} (pxnbench {own})")
}

/// Returns the name by which the program was called, if it is one of nccl-tests'.
pub fn program_name(program: &OsStr) -> Option<&str> {
    collective_of(program)?;
    Path::new(program).file_name()?.to_str()
}

/// Makes a link to this program in `folder` for each collective, and returns the links.
///
/// # Errors
///
/// Returns an error if a file that is not a link has one of the names, or if the folder cannot be
/// written.
pub fn link_all(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let program = std::env::current_exe().map_err(|error| cannot_make(folder, &error))?;
    fs::create_dir_all(folder).map_err(|error| cannot_make(folder, &error))?;
    let mut links = Vec::new();
    for collective in Collective::ALL {
        let link = folder.join(format!("{collective}{PERF}"));
        remove_link(&link)?;
        symlink(&program, &link).map_err(|error| cannot_make(&link, &error))?;
        links.push(link);
    }
    Ok(links)
}

/// Removes an earlier link, and refuses to remove anything else.
fn remove_link(path: &Path) -> anyhow::Result<()> {
    let Ok(existing) = path.symlink_metadata() else {
        return Ok(());
    };
    if !existing.is_symlink() {
        let why = "a file of that name exists. Name another folder, or move it away";
        return Err(cannot_make(path, &why));
    }
    fs::remove_file(path).map_err(|error| cannot_make(path, &error))
}

fn cannot_make(path: &Path, why: &dyn Display) -> anyhow::Error {
    let what = format!("{} cannot be made: {why}", path.display());
    Failure::on_all_ranks(Code::Usage, what)
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
