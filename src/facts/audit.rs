//! What the audit of the environment ([`crate::levels::audit`]) goes by on this process: the settings in force, the files
//! that set some, and the libnccl that would be loaded. Nothing here starts CUDA or has NCCL read its environment.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{conf_files, rdma, settings_with};
use crate::levels::{
    audit::{AuditContext, AuditFinding, AuditRule, CHECKS, findings},
    conf::NcclSettings,
};

/// The libnccl that would be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file, links resolved.
    pub path: PathBuf,
    /// Its version, as `ncclGetVersion` gives it.
    pub version: i32,
    /// The names of variables in its file, or why they cannot be told.
    pub names: Result<BTreeSet<String>, String>,
}

/// What the audit found on this process.
#[derive(Clone, Debug)]
pub struct Audit {
    /// What is in force, each with where it comes from.
    pub settings: NcclSettings,
    /// The library, or why there is none.
    pub library: Result<Library, String>,
    /// What is wrong, the worst first.
    pub findings: Vec<AuditFinding>,
    /// The rules that could not be applied, with the reason.
    pub not_applicable: Vec<(&'static AuditRule, String)>,
}

/// The libnccl that a run would load: `explicit`, as `--nccl-lib` of a run, or the first that is found.
///
/// # Errors
/// A sentence where there is none, it cannot be loaded, or is too old.
#[cfg(feature = "nccl")]
pub fn library(explicit: Option<&Path>) -> Result<Library, String> {
    let nccl = crate::native::nccl::Nccl::load(explicit).map_err(|error| format!("{error:#}"))?;
    let names = crate::native::names::known_to(nccl.path()).map_err(|error| format!("{error:#}"));
    Ok(Library {
        path: nccl.path().to_owned(),
        version: nccl.version().0,
        names,
    })
}

/// Without the feature there is no libnccl to ask.
///
/// # Errors
/// Always.
#[cfg(not(feature = "nccl"))]
pub fn library(_: Option<&Path>) -> Result<Library, String> {
    Err("this binary is built without the feature nccl".into())
}

/// Audits this process, with files and adapters under `root`. `cumem` tells whether the driver has cuMem, where that is known; `in_job` whether variables for
/// debugging are out of place.
pub fn audit(root: &Path, explicit: Option<&Path>, cumem: Option<bool>, in_job: bool) -> Audit {
    let files = conf_files(root);
    let mut adapters: Vec<String> = rdma::ports(root)
        .into_iter()
        .map(|port| port.device)
        .collect();
    adapters.dedup();
    of(
        settings_with(&files),
        &files,
        library(explicit),
        cumem,
        &adapters,
        in_job,
    )
}

fn of(
    settings: NcclSettings,
    files: &[(String, String)],
    library: Result<Library, String>,
    cumem: Option<bool>,
    adapters: &[String],
    in_job: bool,
) -> Audit {
    let (names, nccl) = match &library {
        Ok(Library { names, version, .. }) => {
            (names.as_ref().map_err(String::as_str), Some(*version))
        }
        Err(why) => (Err(why.as_str()), None),
    };
    let known = AuditContext {
        settings: &settings,
        files,
        names,
        nccl,
        cumem,
        adapters: Some(adapters),
        in_job,
    };
    let not_applicable = CHECKS
        .iter()
        .filter_map(|check| Some((check, known.not_applicable(check)?)))
        .collect();
    let findings = findings(&known);
    Audit {
        settings,
        library,
        findings,
        not_applicable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_without_a_library_says_which_rules_it_could_not_apply() {
        let settings = NcclSettings::new([("NCCL_PXN_DISABLE".to_owned(), "true".to_owned())], []);
        let audit = of(
            settings,
            &[],
            Err("found no libnccl".into()),
            None,
            &[],
            false,
        );
        let ids: Vec<_> = audit.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["env.misread-integer"]);
        assert!(
            audit
                .not_applicable
                .iter()
                .any(|(check, why)| check.id == "env.unknown-name" && why == "found no libnccl")
        );
        assert!(
            audit
                .not_applicable
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
