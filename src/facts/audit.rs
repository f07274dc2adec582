//! What the audit of the environment ([`crate::levels::audit`]) uses of this process: the settings
//! in force, the files that set some, and the libnccl that would be loaded. Nothing here starts
//! CUDA or makes NCCL read its environment.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    environment::{conf_files, settings_with},
    rdma,
};
use crate::{
    levels::{
        audit::{AuditContext, AuditFinding, AuditRule, CHECKS, findings, known_names},
        conf::NcclSettings,
        recipe::{self, RecipeCheck},
        version,
    },
    native::cuda_release::CudaRelease,
};

/// The libnccl that would be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file, with symbolic links resolved.
    pub path: PathBuf,
    /// Its version, as `ncclGetVersion` gives it.
    pub version: i32,
    /// The CUDA that it is built for, if its file tells.
    pub cuda: Option<CudaRelease>,
    /// The names of variables in its file, or why they cannot be read.
    pub names: Result<BTreeSet<String>, String>,
}

/// The audit of this process.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The settings in force, each with its origin.
    pub settings: NcclSettings,
    /// The library, or why there is none.
    pub library: Result<Library, String>,
    /// The findings, the worst first.
    pub findings: Vec<AuditFinding>,
    /// The rules that could not be applied, with the reason.
    pub not_applicable: Vec<(&'static AuditRule, String)>,
}

/// Loads the libnccl that a run would load: `explicit`, as with `--nccl-lib`, or the first that is
/// found.
///
/// # Errors
/// Returns an error if there is none, it cannot be loaded, or it is too old.
#[cfg(feature = "nccl")]
pub fn library(explicit: Option<&Path>) -> Result<Library, String> {
    let nccl = crate::native::nccl::Nccl::load(explicit).map_err(|error| format!("{error:#}"))?;
    let names = crate::native::names::known_to(nccl.path()).map_err(|error| format!("{error:#}"));
    let cuda = crate::native::names::built_for(nccl.path()).unwrap_or_default();
    Ok(Library {
        path: nccl.path().to_owned(),
        version: nccl.version().0,
        cuda,
        names,
    })
}

/// Stands in for the function that loads libnccl.
///
/// # Errors
/// Always returns an error, since this binary is built without the feature.
#[cfg(not(feature = "nccl"))]
pub fn library(_: Option<&Path>) -> Result<Library, String> {
    Err("this binary is built without the feature nccl".into())
}

/// Audits this process, with files and adapters under `root`. `cumem` is whether the driver has
/// cuMem, if that is known; `in_job` whether this is a job, in which variables for debugging are
/// out of place.
pub fn audit(root: &Path, explicit: Option<&Path>, cumem: Option<bool>, in_job: bool) -> Audit {
    let files = conf_files(root);
    let settings = settings_with(&files);
    let library = library(explicit);
    let mut adapters: Vec<String> = rdma::ports(root)
        .into_iter()
        .map(|port| port.device)
        .collect();
    adapters.dedup();
    let (names, version) = match &library {
        Ok(library) => (
            library.names.as_ref().map_err(String::as_str),
            Some(library.version),
        ),
        Err(why) => (Err(why.as_str()), None),
    };
    let context = AuditContext {
        settings: &settings,
        files: &files,
        names,
        nccl: version,
        cumem,
        adapters: Some(&adapters),
        in_job,
    };
    Audit {
        findings: findings(&context),
        not_applicable: rules_not_applicable(&context),
        settings,
        library,
    }
}

/// Checks what a file sets. Returns with it what its names were checked against: the libnccl that
/// would be loaded, or all versions that are known.
pub fn recipe(name: &str, text: &str, explicit: Option<&Path>) -> (RecipeCheck, String) {
    let (why, all) = match library(explicit) {
        Ok(Library {
            path,
            version,
            names: Ok(names),
            ..
        }) => {
            let what = format!(
                "as NCCL {} reads them ({})",
                version::text(version),
                path.display()
            );
            let check = recipe::check(name, text, &names, Some(version));
            return (check, what);
        }
        Ok(Library {
            names: Err(why), ..
        })
        | Err(why) => (why, known_names::of_any_version()),
    };
    let check = recipe::check(name, text, &all, None);
    let newest = known_names::newest_version().map(version::text);
    let newest = newest.unwrap_or_default();
    let what = format!(
        "as any NCCL up to {newest} reads them, and conflicts as in NCCL {newest}, because no \
         libnccl can be used: {why}"
    );
    (check, what)
}

fn rules_not_applicable(context: &AuditContext) -> Vec<(&'static AuditRule, String)> {
    let mut rules = Vec::new();
    for rule in CHECKS {
        if let Some(why) = context.not_applicable(rule) {
            rules.push((rule, why));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_without_a_library_says_which_rules_it_could_not_apply() {
        let settings = NcclSettings::new([("NCCL_PXN_DISABLE".to_owned(), "true".to_owned())], []);
        let context = AuditContext {
            settings: &settings,
            files: &[],
            names: Err("found no libnccl"),
            nccl: None,
            cumem: None,
            adapters: Some(&[]),
            in_job: false,
        };
        let (found, skipped) = (findings(&context), rules_not_applicable(&context));
        let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["env.misread-integer"]);
        assert!(
            skipped
                .iter()
                .any(|(check, why)| check.id == "env.unknown-name" && why == "found no libnccl")
        );
        assert!(
            skipped
                .iter()
                .any(|(check, why)| check.id == "env.debug-output" && why == "not in a job")
        );
    }

    #[test]
    #[cfg(feature = "nccl")]
    fn a_library_that_does_not_exist_is_a_sentence() {
        let why = library(Some(Path::new("/nowhere/libnccl.so.2"))).expect_err("none");
        assert!(
            why.contains("/nowhere/libnccl.so.2 does not exist"),
            "{why}"
        );
    }
}
