//! Combinations of settings that crash NCCL, make it fail, silence PXN or do nothing: the table's `[[conflict]]`, and values
//! that NCCL does not read as they look.

use serde::{Deserialize, Serialize};

use super::{TABLE, conf::NcclSettings, reading};

/// What a harm does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// NCCL crashes: a run refuses it.
    Crashes,
    /// NCCL ends with an error.
    Fails,
    /// NCCL does not relay, whatever the level.
    Silences,
    /// Rings do not relay; send/recv may.
    SilencesRings,
    /// A setting has no effect, or another one than it looks.
    Nothing,
}

/// A condition on what is in force, on a value as NCCL reads it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// The variable.
    name: String,
    /// It is one of these integers.
    is: Option<Vec<i64>>,
    /// It is none of these integers, or unset.
    not: Option<Vec<i64>>,
    /// It is a larger integer.
    above: Option<i64>,
    /// It is one of these distances.
    path: Option<Vec<String>>,
    /// It is one of these words, in any case.
    word: Option<Vec<String>>,
    /// It is set, to whatever; or it is not.
    set: Option<bool>,
    /// The driver has cuMem, or not.
    cumem: Option<bool>,
}

/// A combination that does harm.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// What it does.
    pub does: Effect,
    /// All of them hold.
    when: Vec<Condition>,
    /// The first NCCL with it.
    from: Option<String>,
    /// The first NCCL without it.
    before: Option<String>,
    /// Why.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// What is known where harms are looked for.
#[derive(Clone, Copy, Debug)]
pub struct ConflictContext<'a> {
    /// What is in force.
    pub settings: &'a NcclSettings,
    /// The version of NCCL as `ncclGetVersion` gives it; without it, harms of some versions only are not looked for.
    pub nccl: Option<i32>,
    /// Has the driver cuMem? `None` where that is unknown.
    pub cumem: Option<bool>,
}

/// A harm that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictFinding {
    /// What it does.
    pub does: Effect,
    /// What it is, why, and what to do: one sentence.
    pub sentence: String,
}

/// All harms of the table.
pub fn all() -> &'static [Conflict] {
    &TABLE.conflict
}

/// Does a harm look at this variable?
pub(super) fn concerns(name: &str) -> bool {
    all()
        .iter()
        .flat_map(|conflict| &conflict.when)
        .any(|condition| condition.name == name)
}

/// A version as `ncclGetVersion` gives it: `2.21.5` is 22105. `None` for what is no version.
pub(super) fn version(text: &str) -> Option<i32> {
    let mut numbers = text.split('.').map(|number| {
        number
            .parse::<i32>()
            .ok()
            .filter(|number| (0..100).contains(number))
    });
    let (major, minor) = (numbers.next()??, numbers.next()??);
    let patch = numbers.next().unwrap_or(Some(0))?;
    numbers
        .next()
        .is_none()
        .then_some(major * 10_000 + minor * 100 + patch)
}

/// A version of `ncclGetVersion` in words: 22105 is `2.21.5`.
pub(super) fn version_text(version: i32) -> String {
    format!(
        "{}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

impl Condition {
    fn holds(&self, known: &ConflictContext) -> bool {
        let value = known.settings.get(&self.name);
        let integer = value.and_then(reading::integer);
        let path = value.and_then(reading::path);
        let among = |list: &Vec<i64>| integer.is_some_and(|integer| list.contains(&integer));
        let is_word = |word: &String| value.is_some_and(|value| word.eq_ignore_ascii_case(value));
        self.is.as_ref().is_none_or(among)
            && self.not.as_ref().is_none_or(|list| !among(list))
            && self
                .above
                .is_none_or(|limit| integer.is_some_and(|integer| integer > limit))
            && self
                .path
                .as_ref()
                .is_none_or(|list| path.is_some_and(|path| list.iter().any(|p| p == path)))
            && self
                .word
                .as_ref()
                .is_none_or(|list| list.iter().any(is_word))
            && self.set.is_none_or(|set| set == value.is_some())
            && self.cumem.is_none_or(|cumem| known.cumem == Some(cumem))
    }

    /// Is it about a variable that is set, and so to be named?
    fn names_a_setting(&self) -> bool {
        self.not.is_none() && self.set != Some(false)
    }
}

impl Conflict {
    /// Is it there?
    pub(super) fn holds(&self, known: &ConflictContext) -> bool {
        let bound = |text: &Option<String>| text.as_deref().and_then(version);
        let of_this_version = match (bound(&self.from), bound(&self.before), known.nccl) {
            (None, None, _) => true,
            (_, _, None) => false,
            (from, before, Some(nccl)) => {
                from.is_none_or(|v| nccl >= v) && before.is_none_or(|v| nccl < v)
            }
        };
        of_this_version && self.when.iter().all(|condition| condition.holds(known))
    }

    /// Which NCCL it is about: `NCCL 2.22.3 and newer`; `None` for all.
    pub fn versions(&self) -> Option<String> {
        match (&self.from, &self.before) {
            (Some(from), Some(before)) => Some(format!("NCCL {from} to before {before}")),
            (Some(from), None) => Some(format!("NCCL {from} and newer")),
            (None, Some(before)) => Some(format!("NCCL before {before}")),
            (None, None) => None,
        }
    }

    /// The combination for a table: `NCCL_P2P_PXN_LEVEL=1 with NCCL_RUNTIME_CONNECT=0`.
    pub fn combination(&self) -> String {
        let integers = |list: &[i64]| {
            list.iter()
                .map(i64::to_string)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let say = |condition: &Condition| {
            let name = &condition.name;
            match condition {
                Condition { is: Some(list), .. } => format!("{name}={}", integers(list)),
                Condition {
                    above: Some(limit), ..
                } => format!("{name} above {limit}"),
                Condition {
                    path: Some(list), ..
                }
                | Condition {
                    word: Some(list), ..
                } => {
                    format!("{name}={}", list.join(" or "))
                }
                Condition {
                    cumem: Some(false), ..
                } => "a driver without cuMem".to_owned(),
                _ => name.clone(),
            }
        };
        let said = self
            .when
            .iter()
            .filter(|condition| condition.names_a_setting() || condition.cumem.is_some());
        said.map(say).collect::<Vec<_>>().join(" with ")
    }

    /// The variables that make it and are set.
    pub(super) fn names(&self) -> Vec<&str> {
        self.when
            .iter()
            .filter(|condition| condition.names_a_setting())
            .map(|c| c.name.as_str())
            .collect()
    }

    /// Every variable that it looks at.
    #[cfg(test)]
    pub(super) fn looks_at(&self) -> impl Iterator<Item = &str> {
        self.when.iter().map(|condition| condition.name.as_str())
    }

    /// Is it there whatever the value is?
    pub(super) fn is_of_a_name(&self) -> bool {
        self.when.iter().all(|condition| condition.set.is_some())
    }

    /// What it is and why, where it is there.
    pub(super) fn what(&self, known: &ConflictContext) -> String {
        let settings: Vec<_> = self
            .names()
            .into_iter()
            .map(|name| known.settings.say(name))
            .collect();
        let nccl = known.nccl.filter(|_| self.versions().is_some());
        let nccl = nccl.map_or(String::new(), |v| format!(" {}", version_text(v)));
        let does = match self.does {
            Effect::Crashes => format!("crashes NCCL{nccl}"),
            Effect::Fails => format!("makes NCCL{nccl} fail"),
            Effect::Silences => "keeps NCCL from using PXN".into(),
            Effect::SilencesRings => "keeps rings from using PXN".into(),
            Effect::Nothing => "has no effect".into(),
        };
        format!("{} {does}: {}", settings.join(" with "), self.why)
    }

    fn sentence(&self, known: &ConflictContext) -> String {
        format!("{}; {}", self.what(known), self.remedy)
    }
}

/// The harms that are there, the worst first.
pub fn findings(known: &ConflictContext) -> Vec<ConflictFinding> {
    let conflicts = all().iter().filter(|conflict| conflict.holds(known));
    let conflicts = conflicts.map(|conflict| ConflictFinding {
        does: conflict.does,
        sentence: conflict.sentence(known),
    });
    let misread = known.settings.iter().filter_map(|(name, setting)| {
        let sentence = reading::variable(name)?.misread(&setting.value)?;
        Some(ConflictFinding {
            does: Effect::Nothing,
            sentence,
        })
    });
    let mut all: Vec<_> = conflicts.chain(misread).collect();
    all.sort_by_key(|finding| finding.does as u8);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn versions_are_compared_as_nccl_numbers_them() {
        assert_eq!(version("2.21.5"), Some(22105));
        assert_eq!(version("2.12"), Some(21200));
        assert_eq!(version("2"), None);
        assert_eq!(version("2.x"), None);
        assert_eq!(version("2.1.2.3"), None);
    }

    #[test]
    fn every_harm_of_the_table_is_well_formed() {
        for conflict in all() {
            let text = format!("{conflict:?}");
            assert!(
                !conflict.when.is_empty()
                    && !conflict.why.is_empty()
                    && !conflict.remedy.is_empty(),
                "{text}"
            );
            for bound in conflict.from.iter().chain(&conflict.before) {
                assert!(version(bound).is_some(), "{text}");
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
                    c.set.is_some() || reading::variable(&c.name).is_some(),
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
    fn what_silences_pxn_is_told_as_nccl_reads_it() {
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
