//! Whether the network that is requested can work in this job. Pure: from what every process said
//! of itself.

use crate::{
    exit::{Code, Failure},
    facts::{GpuLink, Process},
    levels::{
        Need, Preset,
        conflict::{self, ConflictContext, Effect},
        ports::{self, Link, Port},
        reading,
    },
    nccl_log::subsystems::LogDetail,
    record::BackendKind,
};

/// What becomes of a network that is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NetworkVerdict {
    /// NCCL is asked for it. The sentences say what could not be found out.
    Asked(Vec<String>),
    /// It has no meaning for this backend, and is not asked for.
    Waived(String),
}

/// Checks whether `network` can work in a job of `processes` on `nodes` nodes.
///
/// # Errors
///
/// Returns an error with the reason if it cannot. Every process has the same facts and so the same
/// error.
pub(super) fn check(
    network: &Preset,
    backend: BackendKind,
    nodes: u32,
    processes: &[Process],
) -> anyhow::Result<NetworkVerdict> {
    let name = &network.name;
    if network.set.is_empty() {
        return Ok(NetworkVerdict::Asked(Vec::new()));
    }
    let why_waived = match backend {
        BackendKind::Nccl => None,
        BackendKind::Host => Some("on host memory, MPI moves the data without NCCL"),
        BackendKind::Model => Some("the model only computes times; no data is moved"),
    };
    if let Some(why) = why_waived {
        let sentence = format!("network {name} is waived: {why}");
        return Ok(NetworkVerdict::Waived(sentence));
    }
    let job = Job {
        network: name,
        nodes,
        processes,
    };
    let mut unknown = Vec::new();
    for need in &network.needs {
        match job.meets(*need) {
            Answer::Yes => {}
            Answer::Unknown(what) => unknown.push(what),
            Answer::No(why) => {
                let what = format!("network {name} cannot work here: {why}");
                return Err(Failure::on_all_ranks(Code::Usage, what));
            }
        }
    }
    Ok(NetworkVerdict::Asked(unknown))
}

struct Job<'a> {
    network: &'a str,
    nodes: u32,
    processes: &'a [Process],
}

/// Whether a need is met.
enum Answer {
    Yes,
    /// No, and why.
    No(String),
    /// Nobody can tell before NCCL runs; the sentence says what to look at.
    Unknown(String),
}

impl Job<'_> {
    fn meets(&self, need: Need) -> Answer {
        match need {
            Need::OneNode => self.is_on_one_node(),
            Need::SeveralNodes => self.crosses_nodes(),
            Need::Nvlink => self.has_nvlink(),
            Need::NoNvlink => self.lacks_nvlink(),
            Need::Infiniband => self.has_ports(Link::InfiniBand),
            Need::Ethernet => self.has_ports(Link::Ethernet),
            Need::Gpudirect => self.can_use_gpudirect(),
        }
    }

    /// Returns a rank with its host: `rank 3 on n2`.
    fn rank_on_host(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.processes[rank].peer.host)
    }

    fn is_on_one_node(&self) -> Answer {
        if self.nodes == 1 {
            return Answer::Yes;
        }
        Answer::No(format!(
            "it works only within a node, but this job has {} nodes. Start all ranks on one node, \
             or use ib, ethernet or socket",
            self.nodes
        ))
    }

    /// Returns whether ranks exchange over a network. On one node NCCL uses one only if GPUs may
    /// use neither each other's memory nor the host's.
    fn crosses_nodes(&self) -> Answer {
        let forced_out = self.processes.iter().all(|process| {
            is_on(process, "NCCL_P2P_DISABLE") && is_on(process, "NCCL_SHM_DISABLE")
        });
        let is_pxn = self.network == "pxn";
        if self.nodes > 1 || (forced_out && !is_pxn) {
            return Answer::Yes;
        }
        let why = "it connects nodes, but this job has one, whose GPUs communicate over NVLink, \
                   PCIe or host memory";
        let remedy = if is_pxn {
            "start ranks on two nodes or more"
        } else {
            "start ranks on two nodes, or set NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 to measure \
             the NIC alone"
        };
        Answer::No(format!("{why}; {remedy}"))
    }

    fn first_with(&self, links: &[GpuLink]) -> Option<usize> {
        self.processes.iter().position(|process| {
            let link = process.gpu_link;
            link.is_some_and(|link| links.contains(&link))
        })
    }

    /// Refuses GPUs that cannot reach each other at all.
    fn apart(&self) -> Option<Answer> {
        let rank = self.first_with(&[GpuLink::None])?;
        Some(Answer::No(format!(
            "the GPUs that {} sees cannot reach each other's memory. Use shm",
            self.rank_on_host(rank)
        )))
    }

    fn has_nvlink(&self) -> Answer {
        if let Some(refused) = self.apart() {
            return refused;
        }
        let all_have = self
            .processes
            .iter()
            .all(|process| process.gpu_link == Some(GpuLink::NvLink));
        if all_have {
            return Answer::Yes;
        }
        Answer::Unknown(
            "it is unknown whether NVLink connects all GPUs (a rank that sees one GPU cannot \
             tell); if it does not, NCCL will find no transport"
                .into(),
        )
    }

    fn lacks_nvlink(&self) -> Answer {
        if let Some(rank) = self.first_with(&[GpuLink::NvLink, GpuLink::PartlyNvLink]) {
            return Answer::No(format!(
                "the GPUs that {} sees have NVLink, and no NCCL variable can force PCIe where \
                 there is NVLink. Use nvlink or shm",
                self.rank_on_host(rank)
            ));
        }
        if let Some(refused) = self.apart() {
            return refused;
        }
        Answer::Unknown(
            "CUDA does not tell whether the GPUs have NVLink. If they do, NCCL uses it instead of \
             PCIe; see the lines 'via P2P' in its log (NCCL_DEBUG=INFO)"
                .into(),
        )
    }

    fn has_ports(&self, link: Link) -> Answer {
        let is_usable = |port: &Port| port.active && port.link == link;
        let without = self
            .processes
            .iter()
            .position(|process| !process.rdma.iter().any(is_usable));
        let Some(rank) = without else {
            return Answer::Yes;
        };
        let ports = &self.processes[rank].rdma;
        let found = if ports.is_empty() {
            "nothing".to_owned()
        } else {
            ports::listing(ports)
        };
        Answer::No(format!(
            "{} has no active {} port (/sys/class/infiniband shows {found}). Use another network, \
             or auto",
            self.rank_on_host(rank),
            link.name()
        ))
    }

    /// Returns whether a NIC can read a GPU's memory. Only NCCL finds that out; what makes it
    /// impossible is known before.
    fn can_use_gpudirect(&self) -> Answer {
        for (rank, process) in self.processes.iter().enumerate() {
            let found = conflict::findings(&ConflictContext {
                settings: &process.settings,
                nccl: None,
                cumem: None,
            });
            for finding in found {
                if matches!(finding.does, Effect::Silences | Effect::Fails) {
                    let who = self.rank_on_host(rank);
                    return Answer::No(format!("{} ({who})", finding.sentence));
                }
            }
            let has_plugin = ["NCCL_NET", "NCCL_NET_PLUGIN"]
                .iter()
                .any(|name| process.settings.get(name).is_some());
            if process.rdma.is_empty() && !has_plugin {
                return Answer::No(format!(
                    "a relay needs GPUDirect, and {} has no RDMA device in /sys/class/infiniband \
                     and no network plugin in NCCL_NET_PLUGIN, so NCCL would use sockets. Use \
                     socket, or name the plugin",
                    self.rank_on_host(rank)
                ));
            }
        }
        Answer::Unknown(format!(
            "only NCCL can determine whether GPUDirect works. See 'GPU Direct RDMA' in its log \
             ({})",
            LogDetail::Networks
        ))
    }
}

/// Returns whether a process has the variable `name` set to 1.
fn is_on(process: &Process, name: &str) -> bool {
    process.settings.get(name).and_then(reading::integer) == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        levels::{conf::NcclSettings, network},
        world::placement::ProcessIdentity,
    };

    fn process(env: &str) -> Process {
        let pairs = env
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        Process {
            peer: ProcessIdentity {
                host: "n1".into(),
                host_id: "n1".into(),
                pid: 1,
                gpus: vec!["g0".into(), "g1".into()],
                first_gpu: None,
            },
            gpus: Vec::new(),
            processor: String::new(),
            capabilities: Vec::new(),
            nvidia: None,
            cuda_error: None,
            versions: Default::default(),
            may_share_gpu: false,
            settings: NcclSettings::new(pairs.map(|(n, v)| (n.to_owned(), v.to_owned())), []),
            rdma: Vec::new(),
            gpu_link: Some(GpuLink::NvLink),
            cumem: Some(true),
        }
    }

    fn linked(link: Option<GpuLink>) -> Process {
        Process {
            gpu_link: link,
            ..process("")
        }
    }

    fn port(device: &str, link: Link, active: bool) -> Port {
        Port {
            device: device.into(),
            number: 1,
            link,
            active,
        }
    }

    fn with_ports(ports: &[Port]) -> Process {
        Process {
            rdma: ports.to_vec(),
            ..process("")
        }
    }

    /// The remarks, or the sentence that refuses.
    fn ask(name: &str, nodes: u32, process: Process) -> Result<Vec<String>, String> {
        let processes = [process.clone(), process];
        let row = network(name).expect("a network");
        match check(row, BackendKind::Nccl, nodes, &processes) {
            Ok(NetworkVerdict::Asked(remarks)) => Ok(remarks),
            Ok(NetworkVerdict::Waived(why)) => panic!("waived: {why}"),
            Err(error) => {
                assert_eq!(crate::exit::code_of(&error), Code::Usage);
                Err(error.to_string())
            }
        }
    }

    #[track_caller]
    fn refused(name: &str, nodes: u32, process: Process, words: &str) {
        let why = ask(name, nodes, process).expect_err("refused");
        assert!(
            why.starts_with(&format!("network {name} cannot work here: ")) && why.contains(words),
            "{why}"
        );
    }

    #[test]
    fn auto_always_goes() {
        assert_eq!(ask("auto", 1, process("")), Ok(vec![]));
        assert_eq!(ask("auto", 9, process("")), Ok(vec![]));
    }

    #[test]
    fn transports_of_one_node_do_not_join_two() {
        for name in ["nvlink", "pcie", "shm"] {
            refused(name, 2, process(""), "this job has 2 nodes");
        }
        assert_eq!(ask("shm", 1, process("")), Ok(vec![]));
        assert_eq!(ask("nvlink", 1, process("")), Ok(vec![]));
    }

    #[test]
    fn networks_between_nodes_need_two() {
        let ports = [
            port("mlx5_0", Link::InfiniBand, true),
            port("mlx5_1", Link::Ethernet, true),
        ];
        for name in ["ib", "ethernet", "socket", "pxn"] {
            refused(name, 1, with_ports(&ports), "this job has one");
        }
        assert_eq!(ask("socket", 2, process("")), Ok(vec![]));
        // GPUs that may use neither each other's memory nor the host's take the network on one node
        // too.
        let apart = "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1";
        assert_eq!(ask("socket", 1, process(apart)), Ok(vec![]));
        refused("pxn", 1, process(apart), "two nodes or more");
        refused(
            "socket",
            1,
            process("NCCL_P2P_DISABLE=1"),
            "NCCL_SHM_DISABLE=1",
        );
    }

    #[test]
    fn pcie_is_refused_where_there_is_nvlink_and_only_there() {
        for link in [GpuLink::NvLink, GpuLink::PartlyNvLink] {
            refused(
                "pcie",
                1,
                linked(Some(link)),
                "no NCCL variable can force PCIe where there is NVLink",
            );
        }
        refused(
            "pcie",
            1,
            linked(Some(GpuLink::None)),
            "cannot reach each other's memory",
        );
        for unknown in [Some(GpuLink::Unnamed), None] {
            let remarks = ask("pcie", 1, linked(unknown)).expect("not refused");
            assert!(
                remarks[0].contains("does not tell whether the GPUs have NVLink"),
                "{remarks:?}"
            );
        }
    }

    #[test]
    fn nvlink_that_cannot_be_told_is_no_reason_to_refuse() {
        for unknown in [Some(GpuLink::Unnamed), Some(GpuLink::PartlyNvLink), None] {
            assert_eq!(
                ask("nvlink", 1, linked(unknown))
                    .expect("not refused")
                    .len(),
                1
            );
        }
        refused("nvlink", 1, linked(Some(GpuLink::None)), "rank 0 on n1");
    }

    #[test]
    fn rdma_needs_an_active_port_of_its_kind() {
        let (ib, roce) = (
            port("mlx5_0", Link::InfiniBand, true),
            port("mlx5_1", Link::Ethernet, true),
        );
        assert_eq!(
            ask("ib", 2, with_ports(&[ib.clone(), roce.clone()])),
            Ok(vec![])
        );
        assert_eq!(
            ask("ethernet", 2, with_ports(&[ib.clone(), roce.clone()])),
            Ok(vec![])
        );
        refused(
            "ib",
            2,
            with_ports(&[roce]),
            "no active InfiniBand port (/sys/class/infiniband shows mlx5_1:1 Ethernet)",
        );
        refused("ethernet", 2, with_ports(&[ib]), "no active Ethernet port");
        refused(
            "ib",
            2,
            with_ports(&[port("mlx5_0", Link::InfiniBand, false)]),
            "mlx5_0:1 InfiniBand (down)",
        );
        refused("ib", 2, process(""), "shows nothing");
    }

    #[test]
    fn pxn_needs_what_a_relay_needs() {
        let nic = |env: &str| Process {
            rdma: vec![port("mlx5_0", Link::InfiniBand, true)],
            ..process(env)
        };
        let remarks = ask("pxn", 2, nic("")).expect("asked for");
        assert!(remarks[0].contains("GPUDirect"), "{remarks:?}");
        for env in [
            "NCCL_NET=Socket",
            "NCCL_P2P_DISABLE=1",
            "NCCL_NET_GDR_LEVEL=LOC",
            "NCCL_IB_DISABLE=1",
            "NCCL_NET_GDR_READ=0",
        ] {
            refused("pxn", 2, nic(env), env);
        }
        refused("pxn", 2, process(""), "no RDMA device");
        assert!(
            ask("pxn", 2, process("NCCL_NET_PLUGIN=libnccl-net-vrail.so")).is_ok(),
            "a plugin has its own devices"
        );
    }

    #[test]
    fn without_nccl_it_is_waived() {
        for (kind, words) in [
            (BackendKind::Host, "MPI moves the data"),
            (BackendKind::Model, "computes"),
        ] {
            match check(network("ib").expect("a network"), kind, 1, &[process("")]) {
                Ok(NetworkVerdict::Waived(why)) => {
                    assert!(
                        why.starts_with("network ib is waived") && why.contains(words),
                        "{why}"
                    )
                }
                other => panic!("{other:?}"),
            }
            let auto = check(network("auto").expect("a network"), kind, 1, &[process("")]);
            assert_eq!(auto.expect("fine"), NetworkVerdict::Asked(vec![]));
        }
    }
}
