//! Rehearsals: what NCCL did on virtual nodes, as `rehearsal.json` has it.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use super::source;
use crate::{
    exit::{Code, Failure},
    input::{self, InputKind},
    rehearsal::rehearsed::{REHEARSAL_JSON, Rehearsal},
    replay::files::REPLAY_JSON,
};

/// A rehearsal, and the path that it was named by.
pub(super) struct NamedRehearsal {
    pub(super) name: String,
    pub(super) rehearsal: Rehearsal,
}

/// Reads the rehearsals among `paths`. Returns them, and the other paths.
///
/// # Errors
/// Returns an error if one of them cannot be read: nothing else of it can be shown.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<(Vec<NamedRehearsal>, Vec<PathBuf>)> {
    let mut rehearsals = Vec::new();
    let mut others = Vec::new();
    let mut known = HashSet::new();
    for path in paths {
        let Some(record) = record_of(path) else {
            others.push(path.clone());
            continue;
        };
        let place = fs::canonicalize(&record).unwrap_or_else(|_| record.clone());
        if !known.insert(place) {
            return Err(source::twice(&record));
        }
        rehearsals.push(NamedRehearsal {
            name: path.display().to_string(),
            rehearsal: read_one(&record)?,
        });
        if has_run(path) {
            others.push(path.clone());
        }
    }
    Ok((rehearsals, others))
}

/// Returns whether a folder has a run, too.
fn has_run(folder: &Path) -> bool {
    ["results.csv", REPLAY_JSON]
        .iter()
        .any(|name| folder.join(name).is_file())
}

/// Returns the record that `path` stands for: the one in that folder, or the file itself.
fn record_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.join(REHEARSAL_JSON)).filter(|record| record.is_file());
    }
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    is_json.then(|| path.to_owned())
}

fn read_one(record: &Path) -> anyhow::Result<Rehearsal> {
    let refused = |why: &str| {
        let what = format!(
            "{}: {why}. Name the folder of a run, a results.csv or the record of a rehearsal",
            record.display()
        );
        Failure::on_all_ranks(Code::Usage, what)
    };
    let text = input::read_text(record, InputKind::Json)
        .map_err(|error| refused(&format!("it cannot be read: {error}")))?;
    let rehearsal = Rehearsal::parse(&text).map_err(|why| refused(&why))?;
    if rehearsal.cases.is_empty() {
        let what = format!("{} has no cases: nothing to report", record.display());
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(rehearsal)
}
