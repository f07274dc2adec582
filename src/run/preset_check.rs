//! The table of levels, resources and networks, checked against this machine: whether the libnccl
//! that would be loaded knows the variables, and whether what is in force here does harm.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use crate::{
    env,
    exit::Code,
    facts,
    levels::{
        self, Axis, Preset,
        audit::{self, AuditContext},
        conf::NcclSettings,
        conflict::{self, ConflictContext, ConflictFinding, Effect},
    },
    native::{self, cuda, nccl::Nccl},
    units::counted,
};

/// What is in force on this machine.
struct Here {
    /// The version of NCCL, if there is one.
    nccl: Option<i32>,
    cumem: Option<bool>,
    /// The settings in force, with those of the preset in question.
    settings: NcclSettings,
}

/// Returns the report, and the exit code: 3 if libnccl does not know a variable, or if there is
/// none; 6 if a run would be refused. `preset` is the one in question; without one all variables of
/// the table are.
///
/// # Errors
///
/// Returns an error if libnccl cannot be read.
pub fn check(
    preset: Option<&'static Preset>,
    nccl_lib: Option<&Path>,
) -> anyhow::Result<(String, Code)> {
    let set = match preset {
        Some(preset) => preset.apply(&env::var, &facts::rdma::ports(Path::new("/"))),
        None => Vec::new(),
    };
    let settings = facts::settings().with(set);
    let library = match Nccl::load(nccl_lib) {
        Ok(library) => library,
        Err(why) => return Ok((without_library(preset, settings, &why), Code::Nccl)),
    };
    let known = native::names::known_to(library.path())?;
    let here = Here {
        nccl: Some(library.version().0),
        cumem: cuda::has_cumem(),
        settings,
    };
    let path = library.path().display();
    let mut text = format!("NCCL {} ({path})\n", library.version());
    describe_names(&mut text, &here, &known);
    let (report, code) = report(preset, &known, &here);
    text += &report;
    Ok((text, code))
}

/// Returns what can be said without a libnccl: names and values of the settings against all known
/// versions.
fn without_library(preset: Option<&Preset>, settings: NcclSettings, why: &anyhow::Error) -> String {
    let mut text = format!(
        "no libnccl: {why:#}\nnames are checked against all versions of NCCL that pxnbench knows\n"
    );
    let here = Here {
        nccl: None,
        cumem: None,
        settings,
    };
    let known = audit::known_names::of_any_version();
    describe_names(&mut text, &here, &known);
    describe_in_force(&mut text, preset, &here);
    describe_conflicts(&mut text, &here.conflicts());
    text
}

impl Here {
    fn conflicts(&self) -> Vec<ConflictFinding> {
        conflict::findings(&ConflictContext {
            settings: &self.settings,
            nccl: self.nccl,
            cumem: self.cumem,
        })
    }
}

/// Writes what is wrong with the names that are set here.
fn describe_names(text: &mut String, here: &Here, known: &BTreeSet<String>) {
    let found = audit::name_findings(&AuditContext {
        settings: &here.settings,
        files: &[],
        names: Ok(known),
        nccl: here.nccl,
        cumem: here.cumem,
        adapters: None,
        in_job: false,
    });
    for finding in found {
        let _ = writeln!(
            text,
            "{}: {}; {}",
            finding.severity, finding.sentence, finding.remedy
        );
    }
}

fn report(preset: Option<&Preset>, known: &BTreeSet<String>, here: &Here) -> (String, Code) {
    let mut text = String::new();
    let knows_all = describe_variables(&mut text, preset, known);
    describe_in_force(&mut text, preset, here);
    let found = here.conflicts();
    describe_conflicts(&mut text, &found);
    let crashes = found.iter().any(|one| one.does == Effect::Crashes);
    let code = if crashes {
        Code::Usage
    } else if !knows_all {
        Code::Nccl
    } else {
        Code::Fine
    };
    (text, code)
}

/// Writes which variables libnccl knows, and returns whether it knows them all.
fn describe_variables(
    text: &mut String,
    preset: Option<&Preset>,
    known: &BTreeSet<String>,
) -> bool {
    let (names, whose) = match preset {
        Some(preset) => {
            let names = preset.set.iter().map(|setting| setting.name.as_str());
            let whose = format!("{} {}", preset.axis, preset.name);
            (names.collect::<BTreeSet<&str>>(), whose)
        }
        None => {
            let names = Axis::ALL.into_iter().flat_map(levels::variables);
            (names.collect(), "the table".to_owned())
        }
    };
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| !known.contains(**name))
        .collect();
    let variables = counted(names.len(), "variable");
    let _ = if missing.is_empty() {
        writeln!(text, "this NCCL knows all {variables} that {whose} sets")
    } else {
        let known = names.len() - missing.len();
        writeln!(
            text,
            "this NCCL knows {known} of the {variables} that {whose} sets"
        )
    };
    for name in &missing {
        let _ = writeln!(
            text,
            "warning: this NCCL does not know {name} (set by {}), so setting it has no effect",
            presets_with(name).join(", ")
        );
    }
    missing.is_empty()
}

fn presets_with(variable: &str) -> Vec<&'static str> {
    let presets = Axis::ALL.into_iter().flat_map(levels::rows);
    presets
        .filter(|preset| preset.sets(variable))
        .map(|preset| preset.name.as_str())
        .collect()
}

/// Writes which level and resources are in force, and by which settings.
fn describe_in_force(text: &mut String, preset: Option<&Preset>, here: &Here) {
    let lookup = |name: &str| here.settings.get(name).map(str::to_owned);
    let with = match preset {
        Some(preset) => format!(" with {} {}", preset.axis, preset.name),
        None => String::new(),
    };
    let level = levels::in_force(Axis::Level, &lookup);
    let resources = levels::in_force(Axis::Resources, &lookup);
    let _ = writeln!(
        text,
        "in force here{with}: level {level}, resources {resources}"
    );
    for (name, _) in here.settings.iter() {
        if levels::concerns(name) {
            let _ = writeln!(text, "    {}", here.settings.describe(name));
        }
    }
}

fn describe_conflicts(text: &mut String, found: &[ConflictFinding]) {
    for finding in found {
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
        let settings = settings.with(row.map_or_else(Vec::new, |row| row.apply(&|_| None, &[])));
        let here = Here {
            nccl: Some(22803),
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
            text.starts_with("this NCCL knows all 2 variables that level balanced sets\n"),
            "{text}"
        );
    }

    #[test]
    fn a_variable_that_is_not_known_is_named() {
        let (text, code) = checked(None, "NCCL_P2P_PXN_LEVEL", "");
        assert_eq!(code, Code::Nccl);
        assert!(
            text.contains(
                "this NCCL does not know NCCL_P2P_PXN_LEVEL (set by conservative, balanced, \
                 aggressive, pxn)"
            ),
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
