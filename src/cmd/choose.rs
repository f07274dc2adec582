//! Which backend a run takes, and why. Pure: from what was asked for and what every process said of itself.

use std::{fmt, str::FromStr};

use crate::{
    backend::model,
    exit::{Code, Failure},
    facts::Process,
};

/// What `--backend` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the help says it")]
pub enum BackendChoice {
    #[default]
    Auto,
    Nccl,
    Host,
    Model,
}

/// A backend that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the modules of `backend` say it")]
pub enum BackendKind {
    Nccl,
    Host,
    Model,
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(BackendChoice::Auto),
            "nccl" => Ok(BackendChoice::Nccl),
            "host" => Ok(BackendChoice::Host),
            "model" => Ok(BackendChoice::Model),
            _ => Err("there are auto, nccl, host and model".into()),
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendKind::Nccl => "nccl",
            BackendKind::Host => "host",
            BackendKind::Model => "model",
        })
    }
}

/// The backend, and why. `auto` takes host memory only where there is no NVIDIA device at all and Slurm gave the job
/// none: a broken driver is an error with its remedy, never a quiet table of host memory.
///
/// # Errors
/// Where GPUs are asked for or there, and cannot be used. Every process has the same facts and so the same error.
pub fn choose(
    asked: BackendChoice,
    processes: &[Process],
    in_job: bool,
) -> anyhow::Result<(BackendKind, String)> {
    let evidence = processes.iter().find_map(|p| Some((p, p.nvidia.as_ref()?)));
    match (asked, evidence) {
        (BackendChoice::Model, _) => Ok((
            BackendKind::Model,
            format!(
                "it was asked for; times are computed, from {} us a step and {} GB/s, and nothing is measured",
                model::STEP_US,
                model::BUS_BYTES_PER_US / 1e3
            ),
        )),
        (BackendChoice::Host, _) => Ok((BackendKind::Host, "it was asked for".into())),
        (BackendChoice::Nccl, _) => {
            usable(processes).map(|()| (BackendKind::Nccl, "it was asked for".into()))
        }
        (BackendChoice::Auto, None) => {
            let none_given = if in_job {
                ", and Slurm gave the job none"
            } else {
                ""
            };
            Ok((
                BackendKind::Host,
                format!("there is no NVIDIA device here{none_given}"),
            ))
        }
        (BackendChoice::Auto, Some((process, evidence))) => usable(processes).map(|()| {
            (
                BackendKind::Nccl,
                format!("on {} {evidence}", process.peer.host),
            )
        }),
    }
}

/// Does CUDA show a GPU to every process?
fn usable(processes: &[Process]) -> anyhow::Result<()> {
    let Some((rank, process)) = processes
        .iter()
        .enumerate()
        .find(|(_, process)| process.peer.gpus.is_empty())
    else {
        return Ok(());
    };
    let evidence = process
        .nvidia
        .as_deref()
        .unwrap_or("no NVIDIA device was found");
    let error = process.cuda_error.as_deref().unwrap_or("CUDA shows no GPU");
    let what = format!(
        "rank {rank} on {} cannot use a GPU ({evidence}): {error}; to measure host memory instead say --backend host",
        process.peer.host
    );
    Err(Failure::on_all_ranks(Code::Cuda, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::placement::ProcessIdentity;

    fn process(nvidia: Option<&str>, gpus: &[&str], cuda_error: Option<&str>) -> Process {
        Process {
            peer: ProcessIdentity {
                host: "n1".into(),
                host_id: "n1".into(),
                pid: 1,
                gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
                first_gpu: None,
            },
            gpus: Vec::new(),
            processor: String::new(),
            capabilities: Vec::new(),
            nvidia: nvidia.map(str::to_owned),
            cuda_error: cuda_error.map(str::to_owned),
            versions: Default::default(),
            may_share_gpu: false,
            settings: Default::default(),
            rdma: Vec::new(),
            gpu_link: None,
            cumem: None,
        }
    }

    #[test]
    fn auto_takes_host_memory_only_where_there_is_no_gpu_at_all() {
        let without = process(None, &[], None);
        let with = process(Some("/dev/nvidia0 exists"), &["g0"], None);
        let broken = process(Some("/dev/nvidia0 exists"), &[], Some("cuInit failed"));
        let kind = |processes: &[Process]| {
            choose(BackendChoice::Auto, processes, false)
                .map(|(kind, _)| kind)
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            kind(&[without.clone(), without.clone()]),
            Ok(BackendKind::Host)
        );
        assert_eq!(kind(&[with.clone(), with.clone()]), Ok(BackendKind::Nccl));
        let error = kind(&[with.clone(), broken]).expect_err("a broken driver");
        assert!(
            error.contains("rank 1 on n1")
                && error.contains("cuInit failed")
                && error.contains("--backend host")
        );
        assert!(kind(&[with, without]).is_err(), "one node without GPUs");
    }
}
