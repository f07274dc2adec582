//! The most busbw that the links of a job allow: the rate of the link that limits it. Pure.
//!
//! busbw is scaled so that it does not depend on the number of ranks: if a collective sends as few
//! bytes as a ring does, its busbw is the rate of the slowest link on its way. docs/METHOD.md has
//! the derivation.
//!
//! | step | module |
//! |---|---|
//! | what each rank's GPU and node are connected by, as facts report it | [`links`] |
//! | which links limit a job, and how fast each is | [`limits`]: `node_links` inside a node, `node_nics` between them |
//! | how much of a collective's traffic crosses such a link | [`traffic`] |
//! | the peak of a collective | [`JobPeak`] |

mod limit;
pub mod limits;
pub mod links;
mod node_links;
mod node_nics;
pub mod traffic;

use self::{
    limits::{Limit, limits},
    links::JobLinks,
    traffic::Traffic,
};
use crate::{
    collective::{Case, Collective},
    record::peak::{CollectivePeak, NodeRate, PeakMeta, RankRate},
    units::GBps,
};

/// The peaks of a job's collectives.
#[derive(Clone, Debug)]
pub struct JobPeak {
    /// The node of each rank.
    nodes: Vec<u32>,
    /// What limits busbw, or why that is unknown.
    limits: Result<Vec<Limit>, String>,
    ranks: Vec<RankRate>,
    node_rates: Vec<NodeRate>,
}

/// The peak of a collective, and what it follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct BusbwPeak {
    /// The bound of busbw.
    pub busbw: GBps,
    /// The link that sets it, and how it does: `450 GB/s, rank 0: 18 x NVLink 4`.
    pub limit: String,
}

impl JobPeak {
    /// Derives what limits the ranks of `job`.
    pub fn new(job: &JobLinks) -> JobPeak {
        let mut ranks = Vec::new();
        let mut node_rates = Vec::new();
        let limits = limits(job, &mut ranks, &mut node_rates);
        JobPeak {
            nodes: job.ranks.iter().map(|rank| rank.node).collect(),
            limits,
            ranks,
            node_rates,
        }
    }

    /// Returns the peaks of a job of which nothing can be derived.
    pub fn unknown(why: impl Into<String>) -> JobPeak {
        JobPeak {
            nodes: Vec::new(),
            limits: Err(why.into()),
            ranks: Vec::new(),
            node_rates: Vec::new(),
        }
    }

    /// Returns why the peak of no collective is known; `None` if some are.
    pub fn why_unknown(&self) -> Option<&str> {
        self.limits.as_ref().err().map(String::as_str)
    }

    /// Returns the peak of a case.
    ///
    /// # Errors
    /// Returns the reason if it is unknown.
    pub fn of(&self, case: &Case) -> Result<BusbwPeak, String> {
        let limits = self.limits.as_ref().map_err(Clone::clone)?;
        if case.collective == Collective::AllToAllV {
            return Err("the ranks of an alltoallv send different amounts".into());
        }
        let traffic = Traffic {
            collective: case.collective,
            root: case.root.unwrap_or(0),
            nodes: &self.nodes,
        };
        let mut least: Option<(f64, &Limit, f64)> = None;
        for limit in limits {
            let share = traffic.share(&limit.place);
            if share == 0.0 {
                continue;
            }
            let gbps = limit
                .rate
                .as_ref()
                .map_err(|why| format!("{}: {why}", limit.place))?;
            let busbw = gbps / share;
            if least.is_none_or(|(other, ..)| busbw < other) {
                least = Some((busbw, limit, share));
            }
        }
        let (busbw, limit, share) = least.ok_or("nothing crosses a link")?;
        Ok(BusbwPeak {
            busbw: GBps(busbw),
            limit: limit.text(share),
        })
    }

    /// Returns the derivation for `run.json`: links of all ranks and nodes, and the peak of each
    /// collective of `cases`. A collective with several roots is listed for the first.
    pub fn meta<'a>(&self, source: &str, cases: impl Iterator<Item = &'a Case>) -> PeakMeta {
        let mut collectives: Vec<CollectivePeak> = Vec::new();
        for case in cases {
            let name = case.collective.name();
            if collectives.iter().any(|known| known.collective == name) {
                continue;
            }
            let peak = self.of(case);
            collectives.push(CollectivePeak {
                collective: name.into(),
                root: case.root,
                busbw: peak.as_ref().ok().map(|peak| peak.busbw),
                because: peak.map_or_else(|why| why, |peak| peak.limit),
            });
        }
        PeakMeta {
            source: source.into(),
            why_unknown: self.why_unknown().unwrap_or_default().into(),
            ranks: self.ranks.clone(),
            nodes: self.node_rates.clone(),
            collectives,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::{
            BufferMode, CaseShape,
            data::{DType, RedOp},
        },
        levels::ports::{Link, Port},
        peak::links::{GpuLinks, NodeLinks, PortRate, RankLinks, Uplink},
        topology::{NvLinkEnd, NvLinks, figures::Peak},
        units::Bytes,
    };

    fn nvlinks(to: NvLinkEnd, count: u32, each: Peak) -> NvLinks {
        NvLinks { to, count, each }
    }

    /// Returns a GPU with these NVLinks and a PCIe 5.0 link below a switch.
    fn gpu(bus: &str, nvlinks: Vec<NvLinks>) -> GpuLinks {
        GpuLinks {
            bus: bus.into(),
            nvlinks: Ok(nvlinks),
            pcie: Peak::pcie("32.0 GT/s PCIe", 16),
            uplinks: Vec::new(),
            fabric: String::new(),
        }
    }

    fn port(device: &str, gbps: f64) -> PortRate {
        PortRate {
            port: Port {
                device: device.into(),
                number: 1,
                link: Link::InfiniBand,
                active: true,
            },
            rate: Peak::port(gbps * 1000.0),
            pcie: Peak::pcie("32.0 GT/s PCIe", 16),
        }
    }

    /// Returns a job of `nodes` nodes with the same GPUs and `ports` 400 Gb/s ports each.
    fn job(nodes: u32, ports: usize, gpus: &[GpuLinks]) -> JobLinks {
        let mut job = JobLinks::default();
        for node in 0..nodes {
            let host = format!("n{node}");
            let ports = (0..ports).map(|at| port(&format!("mlx5_{at}"), 400.0));
            job.nodes.push(NodeLinks {
                host: host.clone(),
                ports: Ok(ports.collect()),
                leaves_by_pcie: true,
            });
            for gpu in gpus {
                job.ranks.push(RankLinks {
                    node,
                    host: host.clone(),
                    gpu: gpu.clone(),
                });
            }
        }
        job
    }

    fn switched(count: u32) -> GpuLinks {
        let link = nvlinks(NvLinkEnd::Switch, count, Peak::nvlink_of_sm(90));
        gpu("", vec![link])
    }

    /// Returns eight GPUs of an HGX H200.
    fn eight() -> Vec<GpuLinks> {
        let with_bus = |at: u32| GpuLinks {
            bus: format!("0000:{at:02x}:00.0"),
            ..switched(18)
        };
        (0..8).map(with_bus).collect()
    }

    fn case(collective: Collective, ranks: usize) -> Case {
        let redop = collective.spec().reduces.then_some(RedOp::Sum);
        let root = collective.spec().rooted.then_some(0);
        let shape = CaseShape {
            collective,
            dtype: DType::Float,
            redop,
            root,
            buffer_mode: BufferMode::OutOfPlace,
            ranks: ranks as u64,
        };
        shape.nearest(Bytes(1 << 20))
    }

    fn peak(job: &JobLinks, collective: Collective) -> Result<f64, String> {
        let of_case = JobPeak::new(job).of(&case(collective, job.ranks.len()));
        of_case.map(|peak| (peak.busbw.0 * 1000.0).round() / 1000.0)
    }

    #[test]
    fn inside_a_node_the_nvlinks_of_a_gpu_are_the_limit() {
        let mut one = job(1, 8, &eight());
        for collective in [
            Collective::AllReduce,
            Collective::AllToAll,
            Collective::Gather,
            Collective::SendRecv,
            Collective::HyperCube,
        ] {
            assert_eq!(peak(&one, collective), Ok(450.0), "{collective}");
        }
        let down = nvlinks(NvLinkEnd::Switch, 17, Peak::nvlink_of_sm(90));
        one.ranks[3].gpu.nvlinks = Ok(vec![down]);
        let of_one = JobPeak::new(&one)
            .of(&case(Collective::AllReduce, 8))
            .expect("a peak");
        assert_eq!(
            of_one.limit,
            "rank 3: 17 x NVLink 4, 425.0 GB/s in one direction"
        );
    }

    #[test]
    fn between_nodes_the_nics_are_the_limit() {
        // Eight ports of 400 Gb/s are 400 GB/s.
        let two = job(2, 8, &eight());
        assert_eq!(peak(&two, Collective::AllReduce), Ok(400.0));
        // Of 15 messages of a rank 8 leave the node: 64 in all share the NICs.
        assert_eq!(peak(&two, Collective::AllToAll), Ok(93.75));
        // One rank of a node sends to the next node.
        assert_eq!(peak(&two, Collective::SendRecv), Ok(400.0));
        // One GPU per node cannot fill eight ports: PCIe 5.0 x16 carries 63 GB/s.
        let lone = job(2, 8, &eight()[..1]);
        assert_eq!(peak(&lone, Collective::AllReduce), Ok(63.015));
        let uneven = peak(&two, Collective::AllToAllV).expect_err("unknown");
        assert!(uneven.contains("different amounts"), "{uneven}");
    }

    #[test]
    fn without_nvlink_pcie_is_the_limit() {
        let mut pcie = job(1, 0, &[gpu("a", vec![]), gpu("b", vec![])]);
        assert_eq!(peak(&pcie, Collective::AllReduce), Ok(63.015));
        // A switch that is not above all ranks has an uplink that every ring crosses.
        pcie.ranks[0].gpu.uplinks = vec![Uplink {
            bus: "s".into(),
            rate: Peak::pcie("16.0 GT/s PCIe", 16),
        }];
        assert_eq!(peak(&pcie, Collective::AllReduce), Ok(31.508));
        let mut off = job(1, 0, &eight());
        off.no_p2p = "NCCL_P2P_DISABLE=1".into();
        assert_eq!(peak(&off, Collective::AllReduce), Ok(63.015));
        off.no_shared_memory = "NCCL_SHM_DISABLE=1".into();
        assert!(peak(&off, Collective::AllReduce).is_err());
    }

    #[test]
    fn direct_nvlinks_limit_messages_by_pair() {
        let link =
            |to: &str, count| nvlinks(NvLinkEnd::Gpu(to.into()), count, Peak::nvlink_of_version(3));
        // Of three GPUs with NVLink 2, one pair has one link and the others have two.
        let gpus = [
            gpu("a", vec![link("b", 2), link("c", 1)]),
            gpu("b", vec![link("a", 2), link("c", 2)]),
            gpu("c", vec![link("a", 1), link("b", 2)]),
        ];
        let mesh = job(1, 0, &gpus);
        assert_eq!(peak(&mesh, Collective::AllReduce), Ok(75.0));
        assert_eq!(peak(&mesh, Collective::AllToAll), Ok(50.0));
        // Without the link between a and c, rings still go over b, but messages do not.
        let gpus = [
            gpu("a", vec![link("b", 2)]),
            gpu("b", vec![link("a", 2), link("c", 2)]),
            gpu("c", vec![link("b", 2)]),
        ];
        let chain = job(1, 0, &gpus);
        assert_eq!(peak(&chain, Collective::AllReduce), Ok(50.0));
        let why = peak(&chain, Collective::AllToAll).expect_err("unknown");
        assert_eq!(why, "ranks 0 and 2: no NVLink between them");
    }

    #[test]
    fn what_is_not_known_has_a_reason() {
        let links = nvlinks(NvLinkEnd::Gpu("b".into()), 4, Peak::nvlink_of_sm(80));
        let back = nvlinks(NvLinkEnd::Gpu("a".into()), 4, Peak::nvlink_of_sm(80));
        let pair = [gpu("a", vec![links.clone()]), gpu("b", vec![back])];
        let mixed = [&pair[..], &[gpu("c", vec![])]].concat();
        let mut virtual_nodes = job(2, 1, &pair);
        virtual_nodes.nodes[1].host = "n0".into();
        for rank in &mut virtual_nodes.ranks {
            rank.host = "n0".into();
        }
        let mut no_ports = job(2, 1, &pair);
        no_ports.nodes[1].ports = Err("sockets".into());
        let mut fabric = job(2, 1, &pair);
        fabric.ranks[0].gpu.fabric = "f".into();
        for (job, words) in [
            (job(1, 0, &mixed), "others are not"),
            (job(1, 0, &[gpu("a", vec![])]), "one rank"),
            (
                job(1, 0, &[pair[0].clone(), pair[0].clone()]),
                "share a GPU",
            ),
            (
                job(1, 0, &[GpuLinks::unknown("a", "no NVML"), pair[1].clone()]),
                "rank 0: no NVML",
            ),
            (virtual_nodes, "one host, n0"),
            (no_ports, "NICs of node 1: sockets"),
            (job(2, 0, &pair), "no RDMA port"),
            (fabric, "NVLink fabric"),
        ] {
            let why = peak(&job, Collective::AllReduce).expect_err("unknown");
            assert!(why.contains(words), "{why}");
        }
    }
}
