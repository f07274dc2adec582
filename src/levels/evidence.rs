//! Is a run evidence of the row it was asked for? From what is in force on every rank: NCCL reads the environment and the
//! files of each process, and a launcher or a node may have set something there that rank 0 does not see.

use super::{
    Axis, CUSTOM, Preset,
    conf::{EffectiveValue, NcclSettings},
    in_force,
    ports::Port,
    rows, variables,
};

/// One rank, for [`of`].
#[derive(Clone, Copy, Debug)]
pub struct RankSettings<'a> {
    /// Its host, for sentences.
    pub host: &'a str,
    /// What is in force there.
    pub settings: &'a NcclSettings,
    /// The RDMA ports of its node.
    pub ports: &'a [Port],
}

/// What a run's rows carry, and what there is to say of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// A row's name, or [`CUSTOM`].
    pub name: String,
    /// One sentence a variable that is not as asked, or not the same on every rank.
    pub remarks: Vec<String>,
}

/// What of `axis` is in force over all ranks. `asked` is the row that was asked for, `but` says which of its variables
/// another axis decides.
///
/// Levels and resources are recognised by what is in force, whatever was asked. A network is only asked for: it is the one
/// asked for where all its settings hold, and `auto` where none was.
pub fn of(
    axis: Axis,
    asked: Option<&Preset>,
    but: &dyn Fn(&str) -> bool,
    ranks: &[RankSettings],
) -> Evidence {
    let differing = differing(axis, asked, but, ranks);
    let name = match axis {
        Axis::Network if differing.is_empty() => {
            asked.map_or(rows(axis)[0].name.as_str(), |row| &row.name)
        }
        Axis::Network => CUSTOM,
        _ => {
            let names: Vec<_> = ranks
                .iter()
                .map(|rank| in_force(axis, &|name| rank.settings.get(name).map(str::to_owned)))
                .collect();
            names
                .first()
                .copied()
                .filter(|first| names.iter().all(|name| name == first))
                .unwrap_or(CUSTOM)
        }
    };
    let as_asked = name != CUSTOM && asked.is_none_or(|row| row.name == name);
    let mut remarks: Vec<_> = differing
        .iter()
        .map(|difference| difference.sentence(axis, asked, ranks))
        .collect();
    if !remarks.is_empty() && !as_asked {
        remarks.push(format!("the rows of this run carry {axis} {name}"));
    }
    Evidence {
        name: name.to_owned(),
        remarks,
    }
}

/// A variable that is not as asked, or not the same on every rank.
struct Difference<'a> {
    name: &'a str,
    /// What it should be: as the row asked for sets it, else as on rank 0.
    expected: Option<String>,
    /// The ranks where it is not.
    ranks: Vec<usize>,
}

fn differing<'a>(
    axis: Axis,
    asked: Option<&'a Preset>,
    but: &dyn Fn(&str) -> bool,
    ranks: &[RankSettings],
) -> Vec<Difference<'a>> {
    let looked_at: Vec<&str> = match (axis, asked) {
        (Axis::Network, None) => Vec::new(),
        (Axis::Network, Some(row)) => row
            .set
            .iter()
            .map(|setting| setting.name.as_str())
            .collect(),
        _ => variables(axis),
    };
    let compare = |name: &'a str| {
        let expected = |rank: &RankSettings| match asked {
            Some(row) => row
                .set
                .iter()
                .find(|setting| setting.name == name)
                .and_then(|setting| setting.on(rank.ports)),
            None => ranks[0].settings.get(name).map(str::to_owned),
        };
        let wrong =
            |rank: &usize| expected(&ranks[*rank]).as_deref() != ranks[*rank].settings.get(name);
        let wrong: Vec<usize> = (0..ranks.len()).filter(wrong).collect();
        let first = *wrong.first()?;
        Some(Difference {
            name,
            expected: expected(&ranks[first]),
            ranks: wrong,
        })
    };
    looked_at
        .into_iter()
        .filter(|name| !but(name))
        .filter_map(compare)
        .collect()
}

impl Difference<'_> {
    fn sentence(&self, axis: Axis, asked: Option<&Preset>, ranks: &[RankSettings]) -> String {
        let Difference {
            name,
            expected,
            ranks: wrong,
        } = self;
        let first = wrong[0];
        let there = ranks[first].settings.setting(name);
        let on = match wrong.len() {
            n if n == ranks.len() => String::new(),
            1 => format!(" on rank {first} ({})", ranks[first].host),
            n => format!(
                " on {n} of {} ranks, first on rank {first} ({})",
                ranks.len(),
                ranks[first].host
            ),
        };
        let value = |value: &str| {
            if value.is_empty() {
                "nothing".to_owned()
            } else {
                value.to_owned()
            }
        };
        let Some(row) = asked else {
            return format!(
                "{}{on}, but on rank 0 ({}) {}",
                ranks[first].settings.say(name),
                ranks[0].host,
                ranks[0].settings.say(name)
            );
        };
        let what = format!("{axis} {}", row.name);
        match (there, expected) {
            (None, Some(expected)) => {
                format!("{name} is not set{on}, and {what} sets {}", value(expected))
            }
            (Some(EffectiveValue { value: v, file }), expected) => {
                let from = file
                    .as_ref()
                    .map_or(String::new(), |file| format!(" in {file}"));
                let sets = expected
                    .as_deref()
                    .map_or("leaves it alone".to_owned(), |expected| {
                        format!("sets {}", value(expected))
                    });
                format!("{name}={v} is set{from}{on} and wins over {what}, which {sets}")
            }
            (None, None) => {
                unreachable!("a variable that is not set where it should not be is as it should be")
            }
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
        let evidence = of(
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
    fn another_level_than_asked_is_told_and_recorded() {
        let users = "NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=2";
        let (name, remarks) = level(Some("balanced"), &[users, users]);
        assert_eq!(name, "aggressive");
        assert_eq!(
            remarks,
            [
                "NCCL_P2P_PXN_LEVEL=2 is set and wins over level balanced, which sets 1",
                "the rows of this run carry level aggressive"
            ]
        );
        let (name, remarks) = level(Some("off"), &["NCCL_PXN_DISABLE=1 NCCL_P2P_PXN_LEVEL=0"]);
        assert_eq!(name, "custom");
        assert!(
            remarks[0].ends_with("wins over level off, which leaves it alone"),
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
            "NCCL_P2P_PXN_LEVEL=2 is set on rank 2 (n2) and wins over level balanced, which sets 1"
        );
        assert_eq!(remarks[1], "the rows of this run carry level custom");
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
            "NCCL_PXN_DISABLE is not set on rank 1 (n1), and level off sets 1"
        );
    }

    #[test]
    fn a_file_counts_and_is_named() {
        let site = || settings("", "NCCL_PXN_DISABLE=1");
        assert_eq!(over(Axis::Level, None, &[site(), site()]).0, "off");
        let (name, remarks) = over(Axis::Level, Some("default"), &[site(), site()]);
        assert_eq!(name, "off");
        assert!(
            remarks[0].starts_with("NCCL_PXN_DISABLE=1 is set in /etc/nccl.conf and wins"),
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
                .any(|remark| remark.ends_with("standard, which sets nothing")),
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
            "NCCL_NET=IB is set and wins over network socket, which sets Socket"
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
        assert_eq!(of(Axis::Network, Some(ib), &|_| false, &ranks).name, "ib");

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
            of(Axis::Network, Some(pxn), &|_| false, &ranks).name,
            "custom"
        );
        assert_eq!(
            of(
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
