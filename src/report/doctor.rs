//! Findings of the doctor: `doctor.json` beside the results, which is what `pxnbench doctor --json`
//! prints.

use serde::{Deserialize, Serialize};

use super::{
    source::Source,
    table::{Table, words},
};
use crate::{
    input::{self, InputKind},
    units::counted,
};

/// The name of the file.
const FILE: &str = "doctor.json";

/// What a `doctor.json` says, as far as a report shows it.
#[derive(Deserialize)]
struct DoctorReport {
    ready: bool,
    failures: u64,
    warnings: u64,
    checks: Vec<DoctorLine>,
}

/// A check with its outcome.
#[derive(Deserialize)]
struct DoctorLine {
    id: String,
    who: String,
    verdict: String,
    #[serde(default)]
    evidence: String,
    #[serde(default)]
    remedy: String,
}

/// What the doctor found before or after a run.
#[derive(Serialize)]
pub(super) struct Findings {
    /// The run.
    run: String,
    /// Whether the machine is ready, and how much was found.
    summary: String,
    /// Failures, then warnings.
    table: Table,
}

/// Reads what the doctor found beside each source. What is wrong with a file is added to `notes`.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> Vec<Findings> {
    let mut all = Vec::new();
    for source in sources {
        let Some(path) = source.file(FILE) else {
            continue;
        };
        let read = input::read(&path, InputKind::Json).map_err(|error| error.to_string());
        let report = read.and_then(|bytes| {
            serde_json::from_slice::<DoctorReport>(&bytes)
                .map_err(|error| input::why_no_json(&error))
        });
        match report {
            Ok(report) => all.push(report.findings(source.name())),
            Err(why) => notes.push(format!(
                "{} is left out: it is not what pxnbench doctor --json prints ({why})",
                path.display()
            )),
        }
    }
    all
}

impl DoctorReport {
    fn findings(&self, run: String) -> Findings {
        let mut rows = Vec::new();
        for verdict in ["failure", "warning"] {
            for line in self.checks.iter().filter(|line| line.verdict == verdict) {
                rows.push(vec![
                    line.id.clone(),
                    verdict.to_owned(),
                    line.evidence.clone(),
                    line.remedy.clone(),
                    line.who.clone(),
                ]);
            }
        }
        let ready = if self.ready { "ready" } else { "not ready" };
        Findings {
            summary: format!(
                "{ready}: {}, {}",
                counted(self.failures, "failure"),
                counted(self.warnings, "warning")
            ),
            table: Table {
                caption: format!("Findings of the doctor: {run}"),
                head: words(&["check", "outcome", "evidence", "what to do", "where"]),
                rows,
            },
            run,
        }
    }
}
