//! What the ranks of a launch do: measure, or examine the nodes that they are on.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Parser;

use crate::{
    cmd::{Cli, Command, choose::BackendChoice, run},
    exit::{Code, Failure},
};

/// What the ranks are started for.
#[derive(Debug)]
pub(super) enum LaunchTarget {
    /// A sweep.
    Sweep(Box<run::Args>),
    /// The doctor, which writes no files and judges for itself what is there.
    Doctor,
}

impl LaunchTarget {
    /// What the arguments ask for: what is wrong with them is said before anything is started.
    ///
    /// # Errors
    /// A sentence on the arguments.
    pub(super) fn of(arguments: &[OsString]) -> anyhow::Result<LaunchTarget> {
        let words = [OsString::from("pxnbench")]
            .into_iter()
            .chain(arguments.iter().cloned());
        let parsed = Cli::try_parse_from(words)
            .map_err(|error| Failure::on_all_ranks(Code::Usage, crate::fault::sentence(&error)))?;
        match parsed.command {
            None => {
                parsed.run.ask()?;
                Ok(LaunchTarget::Sweep(Box::new(parsed.run)))
            }
            Some(Command::Doctor(_)) => Ok(LaunchTarget::Doctor),
            Some(_) => {
                let what =
                    "launch starts sweeps and the doctor: name collectives after the --, or doctor";
                Err(Failure::on_all_ranks(Code::Usage, what))
            }
        }
    }

    /// Is it a sweep?
    pub(super) fn is_sweep(&self) -> bool {
        matches!(self, LaunchTarget::Sweep(_))
    }

    /// The folder of its files, where without a word that is `default`; `None` where it writes no folder.
    pub(super) fn folder(&self, default: &Path) -> Option<PathBuf> {
        match self {
            LaunchTarget::Sweep(sweep) => sweep.folder(default),
            LaunchTarget::Doctor => None,
        }
    }

    /// Does it write nothing?
    pub(super) fn lists(&self) -> bool {
        match self {
            LaunchTarget::Sweep(sweep) => sweep.lists(),
            LaunchTarget::Doctor => true,
        }
    }

    /// What is to run the collectives; the doctor runs none.
    pub(super) fn backend(&self) -> Option<BackendChoice> {
        match self {
            LaunchTarget::Sweep(sweep) => Some(sweep.backend()),
            LaunchTarget::Doctor => None,
        }
    }

    /// GPUs of a process.
    pub(super) fn gpus_per_process(&self) -> u32 {
        match self {
            LaunchTarget::Sweep(sweep) => sweep.gpus_per_process(),
            LaunchTarget::Doctor => 1,
        }
    }

    /// The libnccl that every node has to have.
    pub(super) fn nccl_lib(&self) -> Option<&Path> {
        match self {
            LaunchTarget::Sweep(sweep) => sweep.nccl_lib(),
            LaunchTarget::Doctor => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<LaunchTarget, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        LaunchTarget::of(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn sweeps_and_the_doctor_can_be_started_and_nothing_else() {
        assert!(of("alltoall -b 1K").expect("a sweep").is_sweep());
        let doctor = of("doctor --strict -v").expect("the doctor");
        assert!(
            !doctor.is_sweep()
                && doctor.folder(Path::new("x")).is_none()
                && doctor.backend().is_none()
        );
        assert!(of("topo").expect_err("no").contains("or doctor"));
        assert!(
            of("doctor --nonsense")
                .expect_err("no")
                .contains("--nonsense")
        );
        assert!(of("").expect_err("no").contains("no collective"));
    }
}
