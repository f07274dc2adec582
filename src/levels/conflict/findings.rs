//! The search for conflicts in the settings in force.

use super::rule::{ConflictContext, Effect};
use crate::levels::table;

/// A conflict that is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictFinding {
    /// Its effect.
    pub does: Effect,
    /// One sentence: what conflicts, why, and the remedy.
    pub sentence: String,
}

/// Returns the conflicts that are present, the worst first.
pub fn findings(known: &ConflictContext) -> Vec<ConflictFinding> {
    let mut found = Vec::new();
    for conflict in table::conflicts() {
        if conflict.holds(known) {
            found.push(ConflictFinding {
                does: conflict.does,
                sentence: format!("{}; {}", conflict.describe(known), conflict.remedy),
            });
        }
    }
    for (name, setting) in known.settings.iter() {
        let misread = table::variable(name).and_then(|variable| variable.misread(&setting.value));
        if let Some(sentence) = misread {
            found.push(ConflictFinding {
                does: Effect::Nothing,
                sentence,
            });
        }
    }
    found.sort_by_key(|finding| finding.does);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{conf::NcclSettings, reading, version};

    fn found_with(env: &str, nccl: Option<i32>, cumem: Option<bool>) -> Vec<(Effect, String)> {
        let pairs = env
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        let settings = NcclSettings::new(pairs.map(|(n, v)| (n.to_owned(), v.to_owned())), []);
        let found = findings(&ConflictContext {
            settings: &settings,
            nccl,
            cumem,
        });
        found
            .into_iter()
            .map(|finding| (finding.does, finding.sentence))
            .collect()
    }

    fn found(env: &str) -> Vec<(Effect, String)> {
        found_with(env, Some(22803), Some(true))
    }

    fn does(env: &str) -> Vec<Effect> {
        found(env).into_iter().map(|(does, _)| does).collect()
    }

    #[test]
    fn every_conflict_of_the_table_is_well_formed() {
        for conflict in table::conflicts() {
            let text = format!("{conflict:?}");
            assert!(
                !conflict.when.is_empty()
                    && !conflict.why.is_empty()
                    && !conflict.remedy.is_empty(),
                "{text}"
            );
            for bound in conflict.from.iter().chain(&conflict.before) {
                assert!(version::parse(bound).is_some(), "{text}");
            }
            for c in &conflict.when {
                let tests = [
                    c.is.is_some(),
                    c.not.is_some(),
                    c.above.is_some(),
                    c.path.is_some(),
                    c.word.is_some(),
                ];
                let tests =
                    tests.into_iter().filter(|there| *there).count() + usize::from(c.set.is_some());
                assert_eq!(tests, 1, "one test a condition: {text}");
                assert!(
                    c.path
                        .iter()
                        .flatten()
                        .all(|path| reading::path(path) == Some(path)),
                    "{text}"
                );
                assert!(
                    c.set.is_some() || table::variable(&c.name).is_some(),
                    "{}",
                    c.name
                );
            }
        }
    }

    #[test]
    fn balanced_crashes_where_nccl_connects_at_start() {
        let sentence = &found("NCCL_PXN_DISABLE=0 NCCL_P2P_PXN_LEVEL=1 NCCL_RUNTIME_CONNECT=0")[0];
        assert_eq!(sentence.0, Effect::Crashes);
        for word in [
            "NCCL_P2P_PXN_LEVEL=1 with NCCL_RUNTIME_CONNECT=0",
            "NCCL 2.28.3",
            "set NCCL_RUNTIME_CONNECT=1",
        ] {
            assert!(sentence.1.contains(word), "{}", sentence.1);
        }
        assert!(
            found("NCCL_P2P_PXN_LEVEL=1 NCCL_CUMEM_ENABLE=0")[0]
                .1
                .contains("NCCL_CUMEM_ENABLE=0 crashes NCCL")
        );
        for fine in [
            "NCCL_P2P_PXN_LEVEL=1",
            "NCCL_P2P_PXN_LEVEL=2 NCCL_RUNTIME_CONNECT=0",
            "NCCL_P2P_PXN_LEVEL=1 NCCL_RUNTIME_CONNECT=1 NCCL_CUMEM_ENABLE=1",
            "NCCL_P2P_PXN_LEVEL=1 NCCL_RUNTIME_CONNECT=",
            "NCCL_RUNTIME_CONNECT=0 NCCL_CUMEM_ENABLE=0",
        ] {
            assert_eq!(does(fine), [], "{fine}");
        }
        let off = does("NCCL_PXN_DISABLE=1 NCCL_P2P_PXN_LEVEL=1 NCCL_RUNTIME_CONNECT=0");
        assert_eq!(
            off,
            [Effect::Nothing],
            "PXN is off, so that the level is not looked at"
        );
    }

    #[test]
    fn the_crash_is_that_of_some_versions() {
        let crashes = |nccl: i32, env: &str, cumem: Option<bool>| {
            found_with(env, Some(nccl), cumem)
                .iter()
                .any(|(does, _)| *does == Effect::Crashes)
        };
        let level = "NCCL_P2P_PXN_LEVEL=1";
        let connects = "NCCL_P2P_PXN_LEVEL=1 NCCL_CUMEM_ENABLE=0";
        for (nccl, alone, connecting) in [
            (22005, false, false),
            (22105, true, true),
            (22203, false, true),
            (23203, false, true),
        ] {
            assert_eq!(crashes(nccl, level, Some(true)), alone, "{nccl}");
            assert_eq!(crashes(nccl, connects, Some(true)), connecting, "{nccl}");
        }
        assert!(crashes(22803, level, Some(false)), "a driver without cuMem");
        assert!(!crashes(22803, level, None));
        assert!(
            !crashes(
                22803,
                "NCCL_P2P_PXN_LEVEL=1 NCCL_CUMEM_ENABLE=1",
                Some(false)
            ),
            "it was said to be there"
        );
        assert!(
            !found_with(connects, None, None)
                .iter()
                .any(|(does, _)| *does == Effect::Crashes),
            "unknown version"
        );
    }

    #[test]
    fn more_channels_than_there_are_crash_an_older_nccl() {
        let crashes = |nccl: i32, env: &str| {
            found_with(env, Some(nccl), None)
                .iter()
                .any(|(does, _)| *does == Effect::Crashes)
        };
        assert!(crashes(22403, "NCCL_MIN_P2P_NCHANNELS=64"));
        assert!(!crashes(22501, "NCCL_MIN_P2P_NCHANNELS=64"));
        assert!(!crashes(22403, "NCCL_MIN_P2P_NCHANNELS=32"));
    }

    #[test]
    fn what_keeps_nccl_from_pxn_is_found_as_nccl_reads_it() {
        for env in [
            "NCCL_P2P_DISABLE=1",
            "NCCL_P2P_LEVEL=LOC",
            "NCCL_P2P_LEVEL=0",
            "NCCL_NET_GDR_LEVEL=LOC",
            "NCCL_NET_GDR_LEVEL=0",
            "NCCL_IB_DISABLE=1",
            "NCCL_NET=Socket",
            "NCCL_NET=socket",
        ] {
            assert_eq!(does(env), [Effect::Silences], "{env}");
            assert_eq!(
                does(&format!("{env} NCCL_PXN_DISABLE=1")),
                [],
                "{env}: PXN is off anyway"
            );
        }
        for env in [
            "NCCL_P2P_DISABLE=0",
            "NCCL_P2P_LEVEL=NVL",
            "NCCL_NET_GDR_LEVEL=5",
            "NCCL_NET=IB",
            "NCCL_P2P_DISABLE=",
        ] {
            assert_eq!(does(env), [], "{env}");
        }
        assert_eq!(does("NCCL_NET_GDR_READ=0"), [Effect::Fails]);
        assert_eq!(does("NCCL_CROSS_NIC=1"), [Effect::SilencesRings]);
        assert_eq!(
            does("NCCL_IB_DISABLE=1 NCCL_NET_PLUGIN=x"),
            [],
            "a plugin has devices of its own"
        );
    }

    #[test]
    fn what_has_no_effect_is_told() {
        for (env, words) in [
            (
                "NCCL_PXN_DISABLE=true",
                "NCCL reads NCCL_PXN_DISABLE=true as 0",
            ),
            ("NCCL_P2P_LEVEL=nvl", "NCCL ignores NCCL_P2P_LEVEL=nvl"),
            (
                "NCCL_PXN_ENABLE=1",
                "NCCL_PXN_ENABLE=1 has no effect: NCCL never had",
            ),
            ("NCCL_PXN_LEVEL=2", "set NCCL_P2P_PXN_LEVEL=0, 1 or 2"),
        ] {
            let found = found(env);
            assert_eq!(
                found.iter().map(|(does, _)| *does).collect::<Vec<_>>(),
                [Effect::Nothing],
                "{env}"
            );
            assert!(found[0].1.contains(words), "{}", found[0].1);
        }
    }

    #[test]
    fn a_setting_from_a_file_is_told_with_the_file() {
        let settings = NcclSettings::new(
            [],
            [(
                "/etc/nccl.conf",
                "NCCL_CUMEM_ENABLE=0\nNCCL_P2P_PXN_LEVEL=1",
            )],
        );
        let found = findings(&ConflictContext {
            settings: &settings,
            nccl: Some(22803),
            cumem: None,
        });
        assert!(
            found[0]
                .sentence
                .contains("NCCL_CUMEM_ENABLE=0 (in /etc/nccl.conf) crashes"),
            "{}",
            found[0].sentence
        );
    }
}
