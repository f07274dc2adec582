//! The table held against this machine: does the libnccl that would be loaded know the variables, and does what is in
//! force here do harm?

use std::path::Path;

use crate::{exit::Code, levels::Preset};

/// What there is to say, and the exit code: 3 where libnccl does not know a variable, 6 where a run would be refused.
///
/// # Errors
/// Where there is no libnccl, or it cannot be read.
#[cfg(feature = "nccl")]
pub(super) fn check(
    row: Option<&'static Preset>,
    explicit: Option<&Path>,
) -> anyhow::Result<(String, Code)> {
    let library = crate::native::nccl::Nccl::load(explicit)?;
    let known = crate::native::names::known_to(library.path())?;
    let set = row.map_or_else(Vec::new, |row| {
        row.apply(&crate::env::var, &crate::facts::rdma::ports(Path::new("/")))
    });
    let here = report::Here {
        nccl: library.version().0,
        cumem: crate::native::cuda::has_cumem(),
        settings: crate::facts::settings().with(set),
    };
    let head = format!(
        "NCCL {} ({})\n",
        library.version(),
        library.path().display()
    );
    let (text, code) = report::report(row, &known, &here);
    Ok((head + &text, code))
}

/// Without the feature there is no libnccl to ask.
#[cfg(not(feature = "nccl"))]
pub(super) fn check(
    _: Option<&'static Preset>,
    _: Option<&Path>,
) -> anyhow::Result<(String, Code)> {
    Err(crate::exit::Failure::on_all_ranks(
        Code::Usage,
        "this binary is built without the feature nccl",
    ))
}

#[cfg(feature = "nccl")]
mod report {
    use std::{collections::BTreeSet, fmt::Write};

    use crate::{
        exit::Code,
        levels::{
            self, Axis, Preset,
            conf::NcclSettings,
            conflict::{self, ConflictContext, Effect},
        },
    };

    /// What is so here.
    pub(super) struct Here {
        pub(super) nccl: i32,
        pub(super) cumem: Option<bool>,
        /// In force, with what the row in question sets.
        pub(super) settings: NcclSettings,
    }

    pub(super) fn report(
        row: Option<&Preset>,
        known: &BTreeSet<String>,
        here: &Here,
    ) -> (String, Code) {
        let mut text = String::new();
        let unknown = variables(&mut text, row, known);
        in_force(&mut text, row, here);
        let found = conflict::findings(&ConflictContext {
            settings: &here.settings,
            nccl: Some(here.nccl),
            cumem: here.cumem,
        });
        for finding in &found {
            let word = if finding.does == Effect::Crashes {
                "refused"
            } else {
                "warning"
            };
            let _ = writeln!(text, "{word}: {}", finding.sentence);
        }
        if found.is_empty() {
            text.push_str("nothing that is set here is known to be harmful\n");
        }
        let crashes = found.iter().any(|finding| finding.does == Effect::Crashes);
        let code = match (crashes, unknown) {
            (true, _) => Code::Usage,
            (false, true) => Code::Nccl,
            (false, false) => Code::Fine,
        };
        (text, code)
    }

    /// Says which variables libnccl knows; is there one that it does not?
    fn variables(text: &mut String, row: Option<&Preset>, known: &BTreeSet<String>) -> bool {
        let mut names: Vec<&str> = match row {
            Some(row) => row
                .set
                .iter()
                .map(|setting| setting.name.as_str())
                .collect(),
            None => Axis::ALL.into_iter().flat_map(levels::variables).collect(),
        };
        names.sort_unstable();
        names.dedup();
        let (there, missing): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| known.contains(**name));
        let whose = row.map_or_else(
            || "the table".to_owned(),
            |row| format!("{} {}", row.axis, row.name),
        );
        let _ = writeln!(
            text,
            "it knows {} of the {} variables that {whose} sets",
            there.len(),
            names.len()
        );
        for name in &missing {
            let rows = Axis::ALL.into_iter().flat_map(levels::rows);
            let users: Vec<_> = rows
                .filter(|row| row.sets(name))
                .map(|row| row.name.as_str())
                .collect();
            let _ = writeln!(
                text,
                "warning: it does not know {name}, which {} sets: no effect there",
                users.join(", ")
            );
        }
        !missing.is_empty()
    }

    /// Says what is in force, and whose.
    fn in_force(text: &mut String, row: Option<&Preset>, here: &Here) {
        let read = |name: &str| here.settings.get(name).map(str::to_owned);
        let with = row.map_or_else(String::new, |row| {
            format!(" with {} {}", row.axis, row.name)
        });
        let (level, resources) = (
            levels::in_force(Axis::Level, &read),
            levels::in_force(Axis::Resources, &read),
        );
        let _ = writeln!(
            text,
            "in force here{with}: level {level}, resources {resources}"
        );
        for (name, _) in here
            .settings
            .iter()
            .filter(|(name, _)| levels::concerns(name))
        {
            let _ = writeln!(text, "    {}", here.settings.say(name));
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn checked(name: Option<&str>, unknown: &str, env: &str) -> (String, Code) {
            let row = name.map(|name| levels::find(name).expect("a row"));
            let all = Axis::ALL
                .into_iter()
                .flat_map(levels::variables)
                .filter(|name| *name != unknown);
            let pairs = env
                .split_whitespace()
                .filter_map(|pair| pair.split_once('='));
            let settings = NcclSettings::new(pairs.map(|(n, v)| (n.to_owned(), v.to_owned())), []);
            let settings =
                settings.with(row.map_or_else(Vec::new, |row| row.apply(&|_| None, &[])));
            let here = Here {
                nccl: 22803,
                cumem: None,
                settings,
            };
            report(row, &all.map(str::to_owned).collect(), &here)
        }

        #[test]
        fn a_library_that_knows_all_is_fine() {
            let (text, code) = checked(None, "", "");
            assert_eq!(code, Code::Fine, "{text}");
            assert!(
                text.contains("in force here: level default, resources none"),
                "{text}"
            );
            let (text, code) = checked(Some("balanced"), "NCCL_NET", "");
            assert_eq!(code, Code::Fine, "{text}");
            assert!(
                text.starts_with("it knows 2 of the 2 variables that level balanced sets\n"),
                "{text}"
            );
        }

        #[test]
        fn a_variable_that_is_not_known_is_named() {
            let (text, code) = checked(None, "NCCL_P2P_PXN_LEVEL", "");
            assert_eq!(code, Code::Nccl);
            assert!(
                text.contains("does not know NCCL_P2P_PXN_LEVEL, which conservative, balanced, aggressive, pxn sets"),
                "{text}"
            );
        }

        #[test]
        fn what_a_run_would_refuse_is_refused() {
            let (text, code) = checked(Some("balanced"), "", "NCCL_RUNTIME_CONNECT=0");
            assert_eq!(code, Code::Usage);
            assert!(
                text.contains(
                    "refused: NCCL_P2P_PXN_LEVEL=1 with NCCL_RUNTIME_CONNECT=0 crashes NCCL 2.28.3"
                ),
                "{text}"
            );
            let (text, code) = checked(Some("aggressive"), "", "NCCL_NET=Socket");
            assert_eq!(code, Code::Fine, "{text}");
            assert!(
                text.contains("warning: NCCL_NET=Socket keeps NCCL from using PXN"),
                "{text}"
            );
        }
    }
}
