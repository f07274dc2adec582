//! Which backend a run uses, and why. Pure: from the request and from what every process said of
//! itself.

use std::str::FromStr;

use crate::{
    backend::model,
    exit::{Code, Failure},
    facts::Process,
    record::BackendKind,
    units::counted,
    world::launch::Bootstrap,
};

/// A value of `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the help describes them")]
pub enum BackendChoice {
    #[default]
    Auto,
    Nccl,
    Host,
    Model,
}

impl BackendChoice {
    /// Returns the name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            BackendChoice::Auto => "auto",
            BackendChoice::Nccl => "nccl",
            BackendChoice::Host => "host",
            BackendChoice::Model => "model",
        }
    }

    /// Returns whether a run that makes this choice may use GPUs.
    pub fn may_use_gpus(self) -> bool {
        matches!(self, BackendChoice::Auto | BackendChoice::Nccl)
    }
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

/// Returns the backend, and why. `auto` uses host memory only if there is no NVIDIA device at all
/// and Slurm gave the job none: a broken driver is an error with its remedy, never a quiet table of
/// host memory.
///
/// # Errors
///
/// Returns an error if GPUs are requested or present, and cannot be used. Every process has the
/// same facts and so the same error.
pub fn choose(
    choice: BackendChoice,
    processes: &[Process],
    in_job: bool,
    bootstrap: Bootstrap,
) -> anyhow::Result<(BackendKind, String)> {
    let (kind, why) = choose_kind(choice, processes, in_job)?;
    if kind == BackendKind::Host && bootstrap == Bootstrap::Tcp {
        return Err(needs_mpi(choice, &why));
    }
    Ok((kind, why))
}

fn needs_mpi(choice: BackendChoice, why: &str) -> anyhow::Error {
    let cause = match choice {
        BackendChoice::Host => "--backend host",
        _ => &format!("{why}, and host memory"),
    };
    let what = format!(
        "{cause} needs MPI, but the ranks of this job meet over TCP, since RANK is set and no MPI \
         launcher started them. Start them with mpirun or srun, or measure GPUs"
    );
    Failure::on_all_ranks(Code::Usage, what)
}

fn choose_kind(
    choice: BackendChoice,
    processes: &[Process],
    in_job: bool,
) -> anyhow::Result<(BackendKind, String)> {
    match choice {
        BackendChoice::Model => Ok((BackendKind::Model, why_model())),
        BackendChoice::Host => Ok((BackendKind::Host, "as requested".into())),
        BackendChoice::Nccl => {
            check_gpus(processes)?;
            Ok((BackendKind::Nccl, "as requested".into()))
        }
        BackendChoice::Auto => choose_by_hardware(processes, in_job),
    }
}

fn choose_by_hardware(
    processes: &[Process],
    in_job: bool,
) -> anyhow::Result<(BackendKind, String)> {
    for process in processes {
        if let Some(evidence) = &process.nvidia {
            check_gpus(processes)?;
            let why = format!("on {} {evidence}", process.peer.host);
            return Ok((BackendKind::Nccl, why));
        }
    }
    let why = if in_job {
        "there is no NVIDIA device here, and Slurm allocated none to the job"
    } else {
        "there is no NVIDIA device here"
    };
    Ok((BackendKind::Host, why.into()))
}

fn why_model() -> String {
    format!(
        "as requested; times are computed from {} us per step and {} GB/s, not measured",
        model::STEP_US,
        model::BUS_BYTES_PER_US / 1e3
    )
}

/// Refuses a job in which CUDA shows no GPU to some process.
fn check_gpus(processes: &[Process]) -> anyhow::Result<()> {
    for (rank, process) in processes.iter().enumerate() {
        if !process.peer.gpus.is_empty() {
            continue;
        }
        let evidence = process
            .nvidia
            .as_deref()
            .unwrap_or("no NVIDIA device was found");
        let error = process.cuda_error.as_deref().unwrap_or("CUDA shows no GPU");
        let others = seen_by_others(processes);
        let what = format!(
            "rank {rank} on {} cannot use a GPU ({evidence}): {error}{others}. To measure host \
             memory instead, use --backend host",
            process.peer.host
        );
        return Err(Failure::on_all_ranks(Code::Cuda, what));
    }
    Ok(())
}

/// Returns how many GPUs the first process that sees any sees; empty if none does.
fn seen_by_others(processes: &[Process]) -> String {
    let mut all = processes.iter().enumerate();
    let Some((rank, other)) = all.find(|(_, process)| !process.peer.gpus.is_empty()) else {
        return String::new();
    };
    let gpus = counted(other.peer.gpus.len(), "GPU");
    format!("; rank {rank} on {} sees {gpus}", other.peer.host)
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
            choose(BackendChoice::Auto, processes, false, Bootstrap::Mpi)
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
        assert!(
            kind(&[with, without.clone()]).is_err(),
            "one node without GPUs"
        );
        for (choice, said) in [
            (BackendChoice::Host, "--backend host needs MPI"),
            (
                BackendChoice::Auto,
                "no NVIDIA device here, and host memory needs MPI",
            ),
        ] {
            let over_tcp = choose(
                choice,
                std::slice::from_ref(&without),
                false,
                Bootstrap::Tcp,
            );
            let why = over_tcp.expect_err("no MPI").to_string();
            assert!(why.contains(said), "{why}");
        }
    }
}
