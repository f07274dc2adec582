//! The files of a run, from the log of its pod or, while the pod is kept, from its folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    deployment::{DeployedPod, Deployment},
    in_pod::has_files,
    kubectl::Kubectl,
    names::DeploymentName,
    pod::results_of,
    results_archive::{self, Found},
};
use crate::{
    exit::{Code, Failure},
    units::{Bytes, counted},
};

/// The lines of the log that are looked at: those of the largest archive, and what other processes
/// write between them.
const LINES: u32 = 20_000;

/// Copies the files of a run below `folder`, or below `results/NAME`.
///
/// # Errors
///
/// Returns an error if the run has not ended, has left no results, or if the folder is in use.
pub(super) fn copy(
    kubectl: &Kubectl,
    name: &DeploymentName,
    folder: Option<PathBuf>,
) -> anyhow::Result<Code> {
    let folder = folder.unwrap_or_else(|| Path::new("results").join(name.to_string()));
    refuse_used(&folder)?;
    let deployment = Deployment::find(kubectl, name)?;
    let Some(pod) = deployment.pod_with_output() else {
        return Err(nothing(format!(
            "the pod with the results is not there. `pxnbench kube status {name}` says why"
        )));
    };
    if pod.phase() == "Pending" {
        return Err(not_ended(name, pod));
    }
    let archive = archive(kubectl, name, pod)?;
    fs::create_dir_all(&folder).map_err(|error| Failure::of_file("made", &folder, &error))?;
    let written = results_archive::unpack(&archive, &folder).map_err(|error| {
        let what = format!(
            "the results of {name} cannot be written to {}: {error}. Name another folder with \
             --out",
            folder.display()
        );
        Failure::on_all_ranks(Code::Usage, what)
    })?;
    for path in &written {
        print_line!("{}", path.display())?;
    }
    note!(
        "pxnbench: {} of {}; `pxnbench report {}` shows them",
        counted(written.len() as u64, "file"),
        pod.name,
        folder.display()
    );
    Ok(Code::Fine)
}

/// Refuses a folder that has measured results, which are never replaced.
fn refuse_used(folder: &Path) -> anyhow::Result<()> {
    if has_files(folder) || folder.is_file() {
        let what = format!(
            "{} is there already, and results are never replaced. Name another folder with --out",
            folder.display()
        );
        return Err(Failure::on_all_ranks(Code::Usage, what));
    }
    Ok(())
}

fn archive(kubectl: &Kubectl, name: &DeploymentName, pod: &DeployedPod) -> anyhow::Result<Vec<u8>> {
    let log = kubectl.end_of_log(&pod.name, LINES)?;
    match results_archive::find(&String::from_utf8_lossy(&log)) {
        Found::Whole(archive) => Ok(archive),
        found if !pod.has_ended() => match found {
            Found::Nothing => Err(not_ended(name, pod)),
            _ => from_folder(kubectl, name, pod),
        },
        Found::Nothing => Err(nothing(format!(
            "{} has left no results: the run failed before its first case, or was killed. \
             `pxnbench kube status {name}` and `pxnbench kube logs {name}` say why",
            pod.name
        ))),
        Found::Part { there, all } => {
            let part = match all {
                Some(all) => format!("{there} of {}", counted(all as u64, "line")),
                None => format!("only the last {}", counted(there as u64, "line")),
            };
            Err(nothing(format!(
                "the log of {} has {part} of the results: the node has dropped the rest. Run it \
                 again with --keep 10m, and copy the results within that time",
                pod.name
            )))
        }
        Found::TooLarge { bytes } => Err(nothing(format!(
            "the results are too large for a log ({}), and {} has ended. Run it again with --keep \
             10m, and copy the results within that time",
            Bytes(bytes),
            pod.name
        ))),
    }
}

/// Returns the archive that the program packs in a pod that is kept.
fn from_folder(
    kubectl: &Kubectl,
    name: &DeploymentName,
    pod: &DeployedPod,
) -> anyhow::Result<Vec<u8>> {
    let results = results_of(name);
    let arguments = ["kube", "in-pod", "--results", &results, "--print"];
    let printed = kubectl.exec(&pod.name, &arguments)?;
    match results_archive::find(&String::from_utf8_lossy(&printed)) {
        Found::Whole(archive) => Ok(archive),
        _ => Err(nothing(format!(
            "{} has printed only a part of its results. `kubectl cp {}:{results} DIR` copies \
             them, if the image has tar",
            pod.name, pod.name
        ))),
    }
}

fn not_ended(name: &DeploymentName, pod: &DeployedPod) -> anyhow::Error {
    nothing(format!(
        "the run in {} has not ended ({}), and its results come with its end. `pxnbench kube logs \
         {name} --follow` shows it",
        pod.name,
        pod.phase().to_lowercase()
    ))
}

fn nothing(what: String) -> anyhow::Error {
    Failure::on_all_ranks(Code::NothingRan, what)
}
