//! What level, resources and network a run has: what was requested, against what is in force on
//! every rank, and what of it conflicts. Pure: from the request and from what every process said of
//! itself.

use super::{
    network::{self, NetworkVerdict},
    presets::Presets,
};
use crate::{
    exit::{Code, Failure},
    facts::Process,
    levels::{
        Axis,
        conflict::{self, ConflictContext, ConflictFinding, Effect},
        evidence::{self, RankSettings},
    },
    record::BackendKind,
};

/// The names that the records of a run carry, and what there is to say about them.
#[derive(Debug, Default)]
pub(super) struct EffectiveSettings {
    pub(super) level: String,
    pub(super) resources: String,
    pub(super) network: String,
    pub(super) remarks: Vec<String>,
}

/// Returns the level, resources and network that are in force in a job.
///
/// # Errors
///
/// Returns an error if the network that was requested cannot work here. Every process has the same
/// facts and so the same error.
pub(super) fn resolve(
    presets: &Presets,
    backend: BackendKind,
    nodes: u32,
    processes: &[Process],
) -> anyhow::Result<EffectiveSettings> {
    let mut asked = *presets;
    let mut remarks = Vec::new();
    if let Some(preset) = presets.network {
        match network::check(preset, backend, nodes, processes)? {
            NetworkVerdict::Asked(unknown) => {
                for sentence in unknown {
                    remarks.push(format!("network {}: {sentence}", preset.name));
                }
            }
            NetworkVerdict::Waived(why) => {
                asked.network = None;
                remarks.push(why);
            }
        }
    }
    let mut ranks = Vec::new();
    for process in processes {
        ranks.push(RankSettings {
            host: &process.peer.host,
            settings: &process.settings,
            ports: &process.rdma,
        });
    }
    let mut name_in_force = |axis: Axis| {
        let is_decided_before = |name: &str| presets.is_decided_before(axis, name);
        let evidence = evidence::collect(axis, asked.on(axis), &is_decided_before, &ranks);
        remarks.extend(evidence.remarks);
        evidence.name
    };
    let level = name_in_force(Axis::Level);
    let resources = name_in_force(Axis::Resources);
    let network = name_in_force(Axis::Network);
    Ok(EffectiveSettings {
        level,
        resources,
        network,
        remarks,
    })
}

/// A conflict, and the first rank that has it.
struct RankConflict<'a> {
    rank: usize,
    is_on_all_ranks: bool,
    finding: &'a ConflictFinding,
}

/// Refuses settings that are known to crash this NCCL, and returns a sentence for each other
/// conflict: for what NCCL misreads always, for what keeps it from relaying only if a relay was
/// requested and is possible.
///
/// # Errors
///
/// Returns an error with the settings, the version and the remedy. Every process has the same facts
/// and so the same error.
pub(super) fn conflicts(
    presets: &Presets,
    nodes: u32,
    processes: &[Process],
    nccl: i32,
) -> anyhow::Result<Vec<String>> {
    let relays_matter = presets.ask_for_relays() && nodes > 1;
    let mut found = Vec::new();
    for process in processes {
        found.push(conflict::findings(&ConflictContext {
            settings: &process.settings,
            nccl: Some(nccl),
            cumem: process.cumem,
        }));
    }
    let mut remarks = Vec::new();
    for conflict in distinct(&found) {
        let mut sentence = conflict.finding.sentence.clone();
        if !conflict.is_on_all_ranks {
            let host = &processes[conflict.rank].peer.host;
            sentence = format!("rank {} on {host}: {sentence}", conflict.rank);
        }
        match conflict.finding.does {
            Effect::Crashes => return Err(Failure::on_all_ranks(Code::Usage, sentence)),
            Effect::Fails | Effect::Silences | Effect::SilencesRings if !relays_matter => {}
            _ => remarks.push(sentence),
        }
    }
    Ok(remarks)
}

fn distinct(found: &[Vec<ConflictFinding>]) -> Vec<RankConflict<'_>> {
    let mut distinct: Vec<RankConflict> = Vec::new();
    for (rank, findings) in found.iter().enumerate() {
        for finding in findings {
            if distinct.iter().any(|known| known.finding == finding) {
                continue;
            }
            distinct.push(RankConflict {
                rank,
                is_on_all_ranks: found.iter().all(|of_rank| of_rank.contains(finding)),
                finding,
            });
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        levels,
        levels::{conf::NcclSettings, ports::Port},
        world::placement::ProcessIdentity,
    };

    /// Returns the presets of a line such as `--level balanced --network socket`.
    fn presets(line: &str) -> Presets {
        let mut presets = Presets::default();
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.chunks(2) {
            match pair[0] {
                "--level" => presets.level = levels::level(pair[1]).ok(),
                "--resources" => presets.resources = levels::resources(pair[1]).ok(),
                "--network" => presets.network = levels::network(pair[1]).ok(),
                other => panic!("{other}"),
            }
        }
        presets
    }

    /// A process of a host, as it is after main has set what `presets` ask for.
    fn process(host: &str, env: &str, presets: &Presets) -> Process {
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
        let set = presets.environment(&read, &Vec::<Port>::new);
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
        let presets = presets(line);
        let hosts: Vec<String> = (0..envs.len()).map(|n| format!("n{n}")).collect();
        let processes: Vec<_> = envs
            .iter()
            .zip(&hosts)
            .map(|(env, host)| process(host, env, &presets))
            .collect();
        resolve(&presets, kind, envs.len() as u32, &processes).expect("settled")
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
        let presets = presets("--level balanced --network pxn");
        let process = process("n0", "NCCL_NET_PLUGIN=x", &presets);
        assert_eq!(process.settings.get("NCCL_P2P_PXN_LEVEL"), Some("1"));
        let settled = resolve(&presets, BackendKind::Nccl, 2, &[process]).expect("settled");
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
            let presets = presets(line);
            let processes = [
                process("n0", envs[0], &presets),
                process("n1", envs[1], &presets),
            ];
            conflicts(&presets, nodes, &processes, nccl).map_err(|error| {
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
