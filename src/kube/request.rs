//! What is to run on the cluster, and in what pods.

use std::{ffi::OsString, str::FromStr, time::Duration};

use super::{
    names::{DeploymentName, ObjectName},
    rdma::RdmaRequest,
};
use crate::{
    exit::{Code, Failure},
    levels::Preset,
    run::presets::Presets,
    units::{Bytes, counted},
};

/// The port at which the ranks meet, which is torchrun's.
pub const DEFAULT_PORT: u16 = 29500;

/// A variable for all ranks: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Variable, String> {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match text.split_once('=') {
            Some((name, value))
                if name.starts_with(|first: char| first.is_ascii_alphabetic())
                    && name.chars().all(is_in_name) =>
            {
                Ok(Variable {
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            }
            _ => Err("it must be NAME=VALUE, such as NCCL_SOCKET_IFNAME=eth0".into()),
        }
    }
}

/// What starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// An Indexed Job, whose pods meet over TCP.
    Job,
    /// An MPIJob of Kubeflow's MPI operator, whose pods mpirun reaches over ssh.
    MpiOperator,
}

/// A sweep, or the replay of a training step, on the nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name of the deployment.
    pub name: DeploymentName,
    /// The namespace; that of kubectl's context if none is given.
    pub namespace: Option<ObjectName>,
    /// The image with this program.
    pub image: String,
    /// The secret for the registry of the image.
    pub pull_secret: Option<ObjectName>,
    /// What starts the ranks.
    pub starter: Starter,
    /// The nodes, with a pod on each.
    pub nodes: u32,
    /// The GPUs of a pod.
    pub gpus: u32,
    /// The processes of a pod.
    pub ranks_per_node: u32,
    /// The PXN level.
    pub level: &'static Preset,
    /// The transport to ask NCCL for.
    pub network: Option<&'static Preset>,
    /// More variables, which take precedence over those of level and network.
    pub variables: Vec<Variable>,
    /// The RDMA devices of a pod.
    pub rdma: Option<RdmaRequest>,
    /// Whether pods use the network of their node.
    pub host_network: bool,
    /// The port at which the ranks meet.
    pub port: u16,
    /// The queue of Kueue that admits the job.
    pub queue: Option<ObjectName>,
    /// The size of `/dev/shm`.
    pub shm: Bytes,
    /// The CPUs that a pod requests.
    pub cpus: u32,
    /// The memory that a pod requests.
    pub memory: Bytes,
    /// How long a pod may take.
    pub deadline: Duration,
    /// How long the job and its log are kept after its end.
    pub ttl: Duration,
    /// How long the pod with the results stays after the run.
    pub keep: Duration,
    /// The arguments of the sweep or of the replay.
    pub run: Vec<String>,
}

/// How many pods one Indexed Job can have (the API's limit on `parallelism`).
const MOST_NODES: u32 = 100_000;

impl Request {
    /// Returns the level and the network as the ranks take them.
    pub(super) fn presets(&self) -> Presets {
        Presets {
            level: Some(self.level),
            resources: None,
            network: self.network,
        }
    }

    /// Returns all arguments of the program in the pods.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all = self.run.clone();
        // A pod without a GPU then says what is missing, instead of measuring something else.
        all.extend(["--backend".into(), "nccl".into()]);
        all.extend(["--level".into(), self.level.name.clone()]);
        if let Some(network) = self.network {
            all.extend(["--network".into(), network.name.clone()]);
        }
        all
    }

    /// Returns the number of processes.
    pub(super) fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }

    /// Checks what no single option can check.
    ///
    /// # Errors
    ///
    /// Returns an error if the options contradict each other.
    pub fn check(&self) -> anyhow::Result<()> {
        let usage = |what: String| Err(Failure::on_all_ranks(Code::Usage, what));
        if self.nodes > MOST_NODES {
            return usage(format!(
                "a job has at most {MOST_NODES} pods. Use fewer --nodes"
            ));
        }
        if self.ranks_per_node == 0 {
            return usage(format!(
                "each process uses more GPUs (-t times -g) than the {} of a pod. Use fewer per \
                 process, or more --gpus",
                self.gpus
            ));
        }
        if self.shm > self.memory {
            return usage(format!(
                "/dev/shm ({}) is part of the memory of a pod ({}). Set a larger --memory or a \
                 smaller --shm",
                self.shm, self.memory
            ));
        }
        if self.starter == Starter::MpiOperator && !self.keep.is_zero() {
            return usage(
                "the pods of an MPIJob end with mpirun. Use --keep without --mpi-operator".into(),
            );
        }
        Ok(())
    }

    /// Returns a line on what the request asks for.
    pub fn summary(&self) -> String {
        let by = match self.starter {
            Starter::Job => "an Indexed Job",
            Starter::MpiOperator => "an MPIJob",
        };
        format!(
            "{by} of {} with {} each, {}",
            counted(self.nodes, "pod"),
            counted(self.gpus, "GPU"),
            counted(self.ranks(), "rank")
        )
    }
}

/// Returns the words of a command line as text.
///
/// # Errors
///
/// Returns an error if one is not UTF-8, which an object of Kubernetes must be.
pub fn utf8(words: Vec<OsString>) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        let word = word.into_string().map_err(|word| {
            let what = format!("'{}' is not valid UTF-8", word.to_string_lossy());
            Failure::on_all_ranks(Code::Usage, what)
        })?;
        all.push(word);
    }
    Ok(all)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::levels;

    /// A request for two nodes with eight GPUs each.
    pub(in crate::kube) fn request() -> Request {
        Request {
            name: "pxn".parse().expect("a name"),
            namespace: None,
            image: "registry.example/pxnbench:1".into(),
            pull_secret: None,
            starter: Starter::Job,
            nodes: 2,
            gpus: 8,
            ranks_per_node: 8,
            level: levels::level("aggressive").expect("a level"),
            network: None,
            variables: Vec::new(),
            rdma: None,
            host_network: false,
            port: DEFAULT_PORT,
            queue: None,
            shm: Bytes(8 << 30),
            cpus: 16,
            memory: Bytes(40 << 30),
            deadline: Duration::from_secs(3600),
            ttl: Duration::from_secs(86400),
            keep: Duration::ZERO,
            run: vec!["all_reduce".into()],
        }
    }

    #[test]
    fn variables_have_a_name_that_a_shell_could_set() {
        let parsed = "NCCL_IB_HCA==mlx5_0".parse::<Variable>();
        let parsed = parsed.expect("a variable");
        assert_eq!(
            (parsed.name.as_str(), parsed.value.as_str()),
            ("NCCL_IB_HCA", "=mlx5_0")
        );
        for wrong in ["", "NCCL_DEBUG", "=x", "1A=x", "A-B=x"] {
            assert!(wrong.parse::<Variable>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        assert!(request().check().is_ok());
        let wrong = [
            Request {
                nodes: MOST_NODES + 1,
                ..request()
            },
            Request {
                ranks_per_node: 0,
                ..request()
            },
            Request {
                memory: Bytes(4 << 30),
                ..request()
            },
            Request {
                starter: Starter::MpiOperator,
                keep: Duration::from_secs(60),
                ..request()
            },
        ];
        for request in wrong {
            assert!(request.check().is_err(), "{request:?}");
        }
    }

    #[test]
    fn the_sweep_gets_backend_level_and_network() {
        let request = Request {
            network: Some(levels::network("ib").expect("a network")),
            ..request()
        };
        assert_eq!(
            request.arguments().join(" "),
            "all_reduce --backend nccl --level aggressive --network ib"
        );
    }
}
