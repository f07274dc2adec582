//! What a run's level, resources and network are: what was asked for against what is in force on every rank, and what of
//! it is known to do harm. Pure: from what every process said of itself.

use super::{args::Args, network};
use crate::{
    cmd::choose::BackendKind,
    exit::{Code, Failure},
    facts::Process,
    levels::{
        Axis,
        conflict::{self, ConflictContext, Effect},
        evidence::{self, RankSettings},
    },
};

/// What the rows of a run carry, and what there is to say of it.
#[derive(Debug, Default)]
pub(super) struct EffectiveSettings {
    pub(super) level: String,
    pub(super) resources: String,
    pub(super) network: String,
    pub(super) remarks: Vec<String>,
}

/// Settles level, resources and network of a job.
///
/// # Errors
/// Where the network that was asked for cannot work here. Every process has the same facts and so the same error.
pub(super) fn settle(
    args: &Args,
    kind: BackendKind,
    nodes: u32,
    processes: &[Process],
) -> anyhow::Result<EffectiveSettings> {
    let mut remarks = Vec::new();
    let mut network = args.asked(Axis::Network);
    if let Some(row) = network {
        match network::judge(row, kind, nodes, processes)? {
            network::NetworkVerdict::Asked(unknown) => remarks.extend(
                unknown
                    .into_iter()
                    .map(|s| format!("network {}: {s}", row.name)),
            ),
            network::NetworkVerdict::Waived(why) => {
                network = None;
                remarks.push(why);
            }
        }
    }
    let ranks: Vec<RankSettings> = processes
        .iter()
        .map(
            |Process {
                 peer,
                 settings,
                 rdma,
                 ..
             }| RankSettings {
                host: &peer.host,
                settings,
                ports: rdma,
            },
        )
        .collect();
    let mut in_force = |axis: Axis| {
        let asked = if axis == Axis::Network {
            network
        } else {
            args.asked(axis)
        };
        let evidence = evidence::of(axis, asked, &|name| args.decided_before(axis, name), &ranks);
        remarks.extend(evidence.remarks);
        evidence.name
    };
    let (level, resources) = (in_force(Axis::Level), in_force(Axis::Resources));
    let network = in_force(Axis::Network);
    Ok(EffectiveSettings {
        level,
        resources,
        network,
        remarks,
    })
}

/// Refuses what is known to crash this NCCL, and says what else does harm: what NCCL misreads always, what keeps it from
/// relaying where a relay was asked for and can be.
///
/// # Errors
/// A sentence with the settings, the version and the remedy. Every process has the same facts and so the same error.
#[cfg_attr(
    not(feature = "nccl"),
    allow(dead_code, reason = "only NCCL is harmed")
)]
pub(super) fn conflicts(
    args: &Args,
    nodes: u32,
    processes: &[Process],
    nccl: i32,
) -> anyhow::Result<Vec<String>> {
    let asks_for_relays = |axis, names: &[&str]| {
        args.asked(axis)
            .is_some_and(|row| names.contains(&row.name.as_str()))
    };
    let wants_pxn = asks_for_relays(Axis::Level, &["conservative", "balanced", "aggressive"])
        || asks_for_relays(Axis::Network, &["pxn"]);
    let found: Vec<Vec<conflict::ConflictFinding>> = processes
        .iter()
        .map(
            |Process {
                 settings, cumem, ..
             }| {
                conflict::findings(&ConflictContext {
                    settings,
                    nccl: Some(nccl),
                    cumem: *cumem,
                })
            },
        )
        .collect();
    let mut distinct: Vec<(usize, &conflict::ConflictFinding)> = Vec::new();
    for (rank, finding) in found
        .iter()
        .enumerate()
        .flat_map(|(rank, all)| all.iter().map(move |one| (rank, one)))
    {
        if !distinct.iter().any(|(_, other)| *other == finding) {
            distinct.push((rank, finding));
        }
    }
    let mut remarks = Vec::new();
    for (rank, finding) in distinct {
        let sentence = match found.iter().all(|all| all.contains(finding)) {
            true => finding.sentence.clone(),
            false => format!(
                "rank {rank} on {}: {}",
                processes[rank].peer.host, finding.sentence
            ),
        };
        match finding.does {
            Effect::Crashes => return Err(Failure::on_all_ranks(Code::Usage, sentence)),
            Effect::Fails | Effect::Silences | Effect::SilencesRings if !wants_pxn || nodes < 2 => {
            }
            _ => remarks.push(sentence),
        }
    }
    Ok(remarks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cmd::Cli,
        levels::{conf::NcclSettings, ports::Port},
        world::placement::ProcessIdentity,
    };
    use clap::Parser;

    fn args(line: &str) -> Args {
        Cli::try_parse_from(
            ["pxnbench", "alltoall"]
                .into_iter()
                .chain(line.split_whitespace()),
        )
        .expect("arguments")
        .run
    }

    /// A process of a host, as it is after main has set what `args` ask for.
    fn process(host: &str, env: &str, args: &Args) -> Process {
        let pairs: Vec<_> = env
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let read = |name: &str| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        };
        let set = args.environment(&read, &Vec::<Port>::new);
        let env = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Process {
            peer: ProcessIdentity {
                host: host.into(),
                host_id: host.into(),
                pid: 1,
                gpus: vec!["g".into()],
                first_gpu: None,
            },
            gpus: Vec::new(),
            processor: String::new(),
            capabilities: Vec::new(),
            nvidia: None,
            cuda_error: None,
            versions: Default::default(),
            may_share_gpu: false,
            settings: NcclSettings::new(env, []).with(set),
            rdma: Vec::new(),
            gpu_link: None,
            cumem: Some(true),
        }
    }

    fn settled(line: &str, kind: BackendKind, envs: &[&str]) -> EffectiveSettings {
        let args = args(line);
        let hosts: Vec<String> = (0..envs.len()).map(|n| format!("n{n}")).collect();
        let processes: Vec<_> = envs
            .iter()
            .zip(&hosts)
            .map(|(env, host)| process(host, env, &args))
            .collect();
        settle(&args, kind, envs.len() as u32, &processes).expect("settled")
    }

    fn names(settled: &EffectiveSettings) -> [&str; 3] {
        [&settled.level, &settled.resources, &settled.network]
    }

    #[test]
    fn what_is_asked_for_on_each_axis_is_recorded() {
        let all = settled(
            "--level balanced --resources lean --network socket",
            BackendKind::Nccl,
            &["", ""],
        );
        assert_eq!(names(&all), ["balanced", "lean", "socket"]);
        assert_eq!(all.remarks, [] as [String; 0]);
        assert_eq!(
            names(&settled("", BackendKind::Nccl, &["", ""])),
            ["default", "none", "auto"]
        );
    }

    #[test]
    fn a_rank_that_differs_makes_it_custom() {
        let one = settled(
            "--level aggressive",
            BackendKind::Nccl,
            &["", "NCCL_P2P_PXN_LEVEL=1"],
        );
        assert_eq!(names(&one), ["custom", "none", "auto"]);
        assert!(
            one.remarks[0].contains("NCCL_P2P_PXN_LEVEL=1 is set on rank 1 (n1)"),
            "{:?}",
            one.remarks
        );
    }

    #[test]
    fn a_level_decides_for_the_network_pxn() {
        let args = args("--level balanced --network pxn");
        let process = process("n0", "NCCL_NET_PLUGIN=x", &args);
        assert_eq!(process.settings.get("NCCL_P2P_PXN_LEVEL"), Some("1"));
        let settled = settle(&args, BackendKind::Nccl, 2, &[process]).expect("settled");
        assert_eq!(names(&settled), ["balanced", "none", "pxn"]);
    }

    #[test]
    fn a_network_that_is_waived_is_recorded_as_auto() {
        let host = settled(
            "--network ib --level balanced",
            BackendKind::Host,
            &["", ""],
        );
        assert_eq!(names(&host), ["balanced", "none", "auto"]);
        assert!(
            host.remarks[0].starts_with("network ib is waived"),
            "{:?}",
            host.remarks
        );
    }

    #[test]
    fn what_crashes_is_refused_and_what_silences_is_told_where_relays_are_asked_for() {
        let judge = |line: &str, nodes: u32, envs: [&str; 2], nccl: i32| {
            let args = args(line);
            let processes = [process("n0", envs[0], &args), process("n1", envs[1], &args)];
            conflicts(&args, nodes, &processes, nccl).map_err(|error| {
                assert_eq!(crate::exit::code_of(&error), Code::Usage);
                error.to_string()
            })
        };
        let cumem = "NCCL_CUMEM_ENABLE=0";
        let why = judge("--level balanced", 2, [cumem, cumem], 22803).expect_err("refused");
        assert!(
            why.starts_with("NCCL_P2P_PXN_LEVEL=1 with NCCL_CUMEM_ENABLE=0 crashes NCCL 2.28.3: "),
            "{why}"
        );
        let why = judge("--level balanced", 2, ["", cumem], 22803).expect_err("one rank is enough");
        assert!(
            why.starts_with("rank 1 on n1: NCCL_P2P_PXN_LEVEL=1"),
            "{why}"
        );
        assert_eq!(
            judge("--level balanced", 2, [cumem, cumem], 22005),
            Ok(vec![]),
            "an older NCCL"
        );
        assert_eq!(
            judge("--level aggressive", 2, [cumem, cumem], 22803),
            Ok(vec![])
        );
        assert!(judge("--resources large", 1, ["", ""], 22304).is_err());

        let silent = ["NCCL_P2P_DISABLE=1"; 2];
        assert_eq!(
            judge("--level aggressive", 2, silent, 22803)
                .expect("goes")
                .len(),
            1
        );
        for (line, nodes) in [("--level aggressive", 1), ("--level off", 2), ("", 2)] {
            assert_eq!(judge(line, nodes, silent, 22803), Ok(vec![]), "{line}");
        }
        assert_eq!(
            judge("", 1, ["NCCL_PXN_DISABLE=true", ""], 22803)
                .expect("goes")
                .len(),
            1
        );
    }
}
