//! The preset that a run is evidence of. It is derived from the settings in force on every rank:
//! NCCL reads the environment and the files of each process, and a launcher or a node may have set
//! something that rank 0 does not see.

use super::{
    conf::{EffectiveValue, NcclSettings},
    ports::Port,
    preset::{Axis, Preset},
    table::{CUSTOM, in_force, rows, variables},
};

/// The settings of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankSettings<'a> {
    /// Its host, for sentences.
    pub host: &'a str,
    /// The settings in force.
    pub settings: &'a NcclSettings,
    /// The RDMA ports of its node.
    pub ports: &'a [Port],
}

/// The preset that a run is recorded with, and the remarks on it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The name of a preset, or [`CUSTOM`].
    pub name: String,
    /// One sentence per variable that differs from what was requested, or between ranks.
    pub remarks: Vec<String>,
}

/// Determines which preset of `axis` is in force over all ranks. `asked` is the preset that was
/// asked for, and `decided_elsewhere` tells which of its variables another axis decides.
///
/// Levels and resources are recognised by what is in force, whatever was requested. A network is
/// recorded only if it was requested and all its settings hold; it is `auto` if none was requested.
pub fn collect(
    axis: Axis,
    asked: Option<&Preset>,
    decided_elsewhere: &dyn Fn(&str) -> bool,
    ranks: &[RankSettings],
) -> Evidence {
    let comparison = Comparison { axis, asked, ranks };
    let mut differences = comparison.differences();
    differences.retain(|difference| !decided_elsewhere(difference.name));

    let name = match axis {
        Axis::Network if !differences.is_empty() => CUSTOM,
        Axis::Network => asked.map_or(rows(axis)[0].name.as_str(), |preset| &preset.name),
        Axis::Level | Axis::Resources => comparison.in_force(),
    };
    let mut remarks: Vec<String> = differences
        .iter()
        .map(|difference| comparison.describe(difference))
        .collect();
    let is_as_asked = name != CUSTOM && asked.is_none_or(|preset| preset.name == name);
    if !remarks.is_empty() && !is_as_asked {
        remarks.push(format!("this run is recorded as {axis} {name}"));
    }
    Evidence {
        name: name.to_owned(),
        remarks,
    }
}

/// A variable that differs from what was requested, or between ranks.
struct Difference<'a> {
    name: &'a str,
    /// The first rank with another value than expected.
    first: usize,
    /// How many ranks have another value than expected.
    count: usize,
}

/// The settings of all ranks against the preset that was requested, else against rank 0.
struct Comparison<'a> {
    axis: Axis,
    asked: Option<&'a Preset>,
    ranks: &'a [RankSettings<'a>],
}

impl<'a> Comparison<'a> {
    /// Returns the preset in force on all ranks; [`CUSTOM`] if they differ.
    fn in_force(&self) -> &'static str {
        let mut common = None;
        for rank in self.ranks {
            let name = in_force(self.axis, &|name| {
                rank.settings.get(name).map(str::to_owned)
            });
            if common.is_some_and(|common| common != name) {
                return CUSTOM;
            }
            common = Some(name);
        }
        common.unwrap_or(CUSTOM)
    }

    fn differences(&self) -> Vec<Difference<'a>> {
        let names = self.compared_variables();
        names
            .into_iter()
            .filter_map(|name| self.difference(name))
            .collect()
    }

    /// Returns the variables of the axis. Those of networks count only if the preset that was asked
    /// for sets them.
    fn compared_variables(&self) -> Vec<&'a str> {
        match (self.axis, self.asked) {
            (Axis::Level | Axis::Resources, _) => variables(self.axis),
            (Axis::Network, None) => Vec::new(),
            (Axis::Network, Some(preset)) => {
                let settings = preset.set.iter();
                settings.map(|setting| setting.name.as_str()).collect()
            }
        }
    }

    fn difference(&self, name: &'a str) -> Option<Difference<'a>> {
        let mut difference = None;
        for (rank, RankSettings { settings, .. }) in self.ranks.iter().enumerate() {
            if self.expected(name, rank).as_deref() != settings.get(name) {
                difference
                    .get_or_insert(Difference {
                        name,
                        first: rank,
                        count: 0,
                    })
                    .count += 1;
            }
        }
        difference
    }

    /// Returns the value that a variable should have on a rank: as set by the preset that was asked
    /// for, else as on rank 0.
    fn expected(&self, name: &str, rank: usize) -> Option<String> {
        match self.asked {
            Some(preset) => preset.setting(name)?.value_on(self.ranks[rank].ports),
            None => self.ranks[0].settings.get(name).map(str::to_owned),
        }
    }

    fn describe(&self, difference: &Difference) -> String {
        match self.asked {
            Some(preset) => self.describe_against(preset, difference),
            None => self.describe_against_rank_0(difference),
        }
    }

    fn describe_against_rank_0(&self, difference: &Difference) -> String {
        let there = self.ranks[difference.first].settings;
        let rank_0 = &self.ranks[0];
        format!(
            "{}{}, but on rank 0 ({}) {}",
            there.describe(difference.name),
            self.location(difference),
            rank_0.host,
            rank_0.settings.describe(difference.name)
        )
    }

    fn describe_against(&self, preset: &Preset, difference: &Difference) -> String {
        let name = difference.name;
        let location = self.location(difference);
        let asked = format!("{} {}", self.axis, preset.name);
        let expected = match self.expected(name, difference.first) {
            None => "does not set it".to_owned(),
            Some(value) if value.is_empty() => "sets it to nothing".to_owned(),
            Some(value) => format!("sets {value}"),
        };
        match self.ranks[difference.first].settings.setting(name) {
            None => format!("{name} is not set{location}, but {asked} {expected}"),
            Some(EffectiveValue { value, file: None }) => {
                format!("{name}={value} is set{location} and overrides {asked}, which {expected}")
            }
            Some(EffectiveValue {
                value,
                file: Some(file),
            }) => format!(
                "{name}={value} is set in {file}{location} and overrides {asked}, which {expected}"
            ),
        }
    }

    /// Returns the ranks of a difference for a sentence; nothing if they are all ranks.
    fn location(&self, difference: &Difference) -> String {
        let rank = difference.first;
        let host = self.ranks[rank].host;
        let all = self.ranks.len();
        match difference.count {
            count if count == all => String::new(),
            1 => format!(" on rank {rank} ({host})"),
            count => format!(" on {count} of {all} ranks, first on rank {rank} ({host})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{find, ports::tests::port};

    fn settings(env: &str, file: &str) -> NcclSettings {
        let env = env
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        NcclSettings::new(
            env.map(|(n, v)| (n.to_owned(), v.to_owned())),
            [("/etc/nccl.conf", file)],
        )
    }

    /// The evidence over ranks on n0, n1, … with these environments.
    fn over(axis: Axis, asked: Option<&str>, ranks: &[NcclSettings]) -> (String, Vec<String>) {
        let hosts: Vec<String> = (0..ranks.len()).map(|rank| format!("n{rank}")).collect();
        let ranks: Vec<_> = ranks
            .iter()
            .zip(&hosts)
            .map(|(settings, host)| RankSettings {
                host,
                settings,
                ports: &[],
            })
            .collect();
        let evidence = collect(
            axis,
            asked.map(|name| find(name).expect("a row")),
            &|_| false,
            &ranks,
        );
        (evidence.name, evidence.remarks)
    }

    fn level(asked: Option<&str>, ranks: &[&str]) -> (String, Vec<String>) {
        let ranks: Vec<_> = ranks.iter().map(|env| settings(env, "")).collect();
        over(Axis::Level, asked, &ranks)
    }

    const BALANCED: &str = "NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=1";

    #[test]
    fn a_level_in_force_everywhere_is_evidence() {
        assert_eq!(
            level(Some("balanced"), &[BALANCED, BALANCED]),
            ("balanced".into(), vec![])
        );
        assert_eq!(
            level(None, &[BALANCED, BALANCED]),
            ("balanced".into(), vec![])
        );
        assert_eq!(level(None, &["", ""]), ("default".into(), vec![]));
        assert_eq!(
            level(None, &["NCCL_PXN_DISABLE=0", "NCCL_PXN_DISABLE=0"]),
            ("custom".into(), vec![])
        );
    }

    #[test]
    fn another_level_than_asked_is_reported_and_recorded() {
        let users = "NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=2";
        let (name, remarks) = level(Some("balanced"), &[users, users]);
        assert_eq!(name, "aggressive");
        assert_eq!(
            remarks,
            [
                "NCCL_P2P_PXN_LEVEL=2 is set and overrides level balanced, which sets 1",
                "this run is recorded as level aggressive"
            ]
        );
        let (name, remarks) = level(Some("off"), &["NCCL_PXN_DISABLE=1 NCCL_P2P_PXN_LEVEL=0"]);
        assert_eq!(name, "custom");
        assert!(
            remarks[0].ends_with("overrides level off, which does not set it"),
            "{remarks:?}"
        );
    }

    #[test]
    fn ranks_that_differ_are_named_with_the_variable() {
        let other = "NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=2";
        let (name, remarks) = level(Some("balanced"), &[BALANCED, BALANCED, other]);
        assert_eq!(name, "custom");
        assert_eq!(
            remarks[0],
            "NCCL_P2P_PXN_LEVEL=2 is set on rank 2 (n2) and overrides level balanced, which sets 1"
        );
        assert_eq!(remarks[1], "this run is recorded as level custom");
        let (_, remarks) = level(Some("balanced"), &[BALANCED, other, other]);
        assert!(
            remarks[0].contains("on 2 of 3 ranks, first on rank 1 (n1)"),
            "{remarks:?}"
        );
        // Nothing was asked for, and they still differ.
        let (name, remarks) = level(None, &["", "NCCL_PXN_DISABLE=1"]);
        assert_eq!(name, "custom");
        assert_eq!(
            remarks[0],
            "NCCL_PXN_DISABLE=1 on rank 1 (n1), but on rank 0 (n0) NCCL_PXN_DISABLE is not set"
        );
        let (_, remarks) = level(Some("off"), &["NCCL_PXN_DISABLE=1", ""]);
        assert_eq!(
            remarks[0],
            "NCCL_PXN_DISABLE is not set on rank 1 (n1), but level off sets 1"
        );
    }

    #[test]
    fn a_file_counts_and_is_named() {
        let site = || settings("", "NCCL_PXN_DISABLE=1");
        assert_eq!(over(Axis::Level, None, &[site(), site()]).0, "off");
        let (name, remarks) = over(Axis::Level, Some("default"), &[site(), site()]);
        assert_eq!(name, "off");
        assert!(
            remarks[0].starts_with("NCCL_PXN_DISABLE=1 is set in /etc/nccl.conf and overrides"),
            "{remarks:?}"
        );
        let (name, remarks) = over(Axis::Level, None, &[settings("", ""), site()]);
        assert_eq!((name.as_str(), remarks.len()), ("custom", 2));
    }

    #[test]
    fn resources_are_recognised_too() {
        let lean = || settings("NCCL_MAX_CTAS=8 NCCL_MAX_P2P_NCHANNELS=8", "");
        assert_eq!(
            over(Axis::Resources, Some("lean"), &[lean()]),
            ("lean".into(), vec![])
        );
        let (name, remarks) = over(Axis::Resources, Some("standard"), &[lean()]);
        assert_eq!(name, "lean");
        assert!(
            remarks
                .iter()
                .any(|remark| remark.ends_with("standard, which sets it to nothing")),
            "{remarks:?}"
        );
    }

    #[test]
    fn a_network_is_the_one_asked_for_where_its_settings_hold() {
        let socket = || settings("NCCL_NET=Socket", "");
        assert_eq!(
            over(Axis::Network, None, &[socket()]),
            ("auto".into(), vec![])
        );
        assert_eq!(over(Axis::Network, Some("auto"), &[socket()]).0, "auto");
        assert_eq!(over(Axis::Network, Some("socket"), &[socket()]).0, "socket");
        let (name, remarks) = over(
            Axis::Network,
            Some("socket"),
            &[settings("NCCL_NET=IB", "")],
        );
        assert_eq!(name, "custom");
        assert_eq!(
            remarks[0],
            "NCCL_NET=IB is set and overrides network socket, which sets Socket"
        );
    }

    #[test]
    fn the_ports_of_a_node_are_its_own_and_a_level_decides_its_variables() {
        let ib = find("ib").expect("a row");
        let ports = [[port("mlx5_0 1 InfiniBand")], [port("mlx5_7 1 InfiniBand")]];
        let on = |hca: &str| {
            settings(
                &format!("NCCL_NET=IB NCCL_IB_DISABLE=0 NCCL_IB_HCA=={hca}:1"),
                "",
            )
        };
        let all = [on("mlx5_0"), on("mlx5_7")];
        let ranks: Vec<_> = all
            .iter()
            .zip(&ports)
            .map(|(settings, ports)| RankSettings {
                host: "n",
                settings,
                ports,
            })
            .collect();
        assert_eq!(
            collect(Axis::Network, Some(ib), &|_| false, &ranks).name,
            "ib"
        );

        let (pxn, balanced) = (
            find("pxn").expect("a row"),
            find("balanced").expect("a row"),
        );
        let settings = settings(BALANCED, "");
        let ranks = [RankSettings {
            host: "n",
            settings: &settings,
            ports: &[],
        }];
        assert_eq!(
            collect(Axis::Network, Some(pxn), &|_| false, &ranks).name,
            "custom"
        );
        assert_eq!(
            collect(
                Axis::Network,
                Some(pxn),
                &|name| balanced.sets(name),
                &ranks
            )
            .name,
            "pxn"
        );
    }
}
