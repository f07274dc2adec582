//! What a launch has found out, for the next one of the same job: a comparison launches one step
//! per level and block, and the nodes stay the same. It is `launch.json` in the job's folder, and
//! holds only as long as nothing that it depends on has changed.

use std::{fs, io::Write, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::context::Launch;
use crate::{
    output::whole_file::write_whole,
    slurm::{SlurmJob, step::Launcher},
};

/// The findings of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LaunchMemo {
    /// What starts the ranks.
    pub(super) launcher: Launcher,
    /// GPUs of a node.
    pub(super) gpus: u32,
}

/// What the findings depend on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    job: SlurmJob,
    program: Vec<String>,
    by: String,
    mpi: Option<String>,
    container: Option<String>,
    backend: Option<String>,
    nccl_lib: Option<PathBuf>,
    nccl_home: Option<String>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct File {
    key: Key,
    found: LaunchMemo,
}

impl Key {
    fn of(launch: &Launch) -> anyhow::Result<Key> {
        Ok(Key {
            job: launch.job.clone(),
            program: launch.program(&[])?,
            by: launch.request.by.name().to_owned(),
            mpi: launch.request.mpi.clone(),
            container: launch
                .container
                .as_ref()
                .map(|container| container.image.clone()),
            backend: launch
                .request
                .target
                .backend()
                .map(|backend| backend.name().to_owned()),
            nccl_lib: launch.request.target.nccl_lib().map(Into::into),
            nccl_home: crate::env::var("NCCL_HOME"),
        })
    }
}

/// Returns the file; `None` if this launch does not write to the job's folder.
fn path(launch: &Launch) -> Option<PathBuf> {
    let jobs = launch.jobs_folder();
    launch
        .request
        .target
        .folder(&jobs)?
        .starts_with(&jobs)
        .then(|| jobs.join("launch.json"))
}

/// Reads the text of the file; `None` if it is not one of this version.
pub(super) fn parse(text: &str) -> Option<File> {
    serde_json::from_str(text).ok()
}

/// Returns what an earlier launch of this job has found out.
pub(super) fn recall(launch: &Launch) -> anyhow::Result<Option<LaunchMemo>> {
    let text = path(launch).and_then(|path| fs::read_to_string(path).ok());
    let file = text.and_then(|text| parse(&text));
    let key = Key::of(launch)?;
    Ok(file.filter(|file| file.key == key).map(|file| file.found))
}

/// Keeps the findings for the next launch. If they cannot be kept, that launch finds them out
/// again.
pub(super) fn keep(launch: &Launch, found: &LaunchMemo) -> anyhow::Result<()> {
    let Some(path) = path(launch) else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(&File {
        key: Key::of(launch)?,
        found: found.clone(),
    })?;
    let written = fs::create_dir_all(launch.jobs_folder())
        .and_then(|()| write_whole(&path, |file| file.write_all(text.as_bytes())));
    drop(written);
    Ok(())
}
