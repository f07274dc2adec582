//! Which line of the site's file to edit.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The line with the MPI module.
pub(super) const MPI: &str = "module load";
/// The line with the place of libnccl.
pub(super) const NCCL: &str = "NCCL_HOME=";
/// The line with the place of the program.
pub(super) const PROGRAM: &str = "PXNBENCH=";
/// The line with srun's `--mpi` type.
pub(super) const MPI_TYPE: &str = "PXNBENCH_MPI=";

/// What a site starts from.
const EXAMPLE: &str = include_str!("../../slurm/site.conf.example");

/// Returns the line to edit that holds `what`, in words: of the file that was sourced, else of the
/// example that it is made from.
pub(super) fn line(what: &str) -> String {
    let files = [
        std::env::var_os("PXNBENCH_SITE").map(PathBuf::from),
        Some(Path::new("slurm/site.conf").to_owned()),
    ];
    let own = files
        .into_iter()
        .flatten()
        .find_map(|file| Some((fs::read_to_string(&file).ok()?, file)));
    words(
        own.as_ref()
            .map(|(text, file)| (text.as_str(), file.as_path())),
        what,
    )
}

pub(super) fn words(own: Option<(&str, &Path)>, what: &str) -> String {
    let number = |text: &str| {
        text.lines()
            .position(|line| line.contains(what))
            .map(|at| at + 1)
    };
    match own {
        Some((text, file)) => match number(text) {
            Some(at) => format!("line {at} of {} ({what})", file.display()),
            None => format!(
                "{} (add a line with {what}; see slurm/site.conf.example)",
                file.display()
            ),
        },
        None => {
            let at = number(EXAMPLE).unwrap_or(1);
            format!(
                "line {at} ({what}) of slurm/site.conf, which is a copy of slurm/site.conf.example"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named() {
        let file = Path::new("/x/slurm/site.conf");
        assert_eq!(
            words(Some(("a\n# module load x\n", file)), MPI),
            "line 2 of /x/slurm/site.conf (module load)"
        );
        assert!(words(Some(("", file)), NCCL).contains("add a line with NCCL_HOME="));
        for what in [MPI, NCCL, PROGRAM, MPI_TYPE] {
            assert!(EXAMPLE.contains(what), "{what}");
            assert!(words(None, what).contains("copy of slurm/site.conf.example"));
        }
    }
}
