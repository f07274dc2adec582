//! What the fuzzer does with the files of an experiment.

use std::{fs, path::Path};

use super::{
    Dimension, Request,
    case_key::Cases,
    experiment_record::{ExperimentRecord, FILE},
    folders::{CSV, RunsAt},
    replays::cannot_differ,
    rows,
    step::Step,
    steps, summarize,
};
use crate::replay::{
    ReplayQuantity, SavedReplay,
    files::{REPLAY_JSON, STEPS_CSV},
};

/// The folders of the steps.
const STEPS: [&str; 4] = ["1-off-0", "2-on-0", "3-off-1", "4-on-1"];

/// Compares the steps of an experiment: `bytes` are its record, a `comparison.json`, and the
/// `results.csv` and `run.json` of each step.
pub(crate) fn read(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut contents = files_in(bytes).into_iter();
    let mut write = |path: &Path| {
        let content = contents.next().unwrap_or_default();
        fs::write(path, content).expect("written");
    };
    write(&folder.path().join(FILE));
    write(&folder.path().join(rows::JSON));
    for step in STEPS {
        let step = folder.path().join(step);
        fs::create_dir(&step).expect("made");
        write(&step.join(CSV));
        write(&step.join("run.json"));
    }
    record(folder.path());
    let _ = rows::read(&folder.path().join(rows::JSON));
    if let Ok(summary) = summarize(&Request::of_folder(folder.path())) {
        for row in &summary.rows {
            assert!(row.ratio.is_none_or(|ratio| ratio > 0.0));
        }
    }
    let csvs = STEPS.map(|step| folder.path().join(step).join(CSV));
    let _ = steps::join(
        &csvs.each_ref().map(|path| path.as_path()),
        &folder.path().join(CSV),
    );
}

/// Reads a replay: `bytes` are its `replay.json` and its `steps.csv`.
pub(crate) fn replay(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut contents = files_in(bytes).into_iter();
    for name in [REPLAY_JSON, STEPS_CSV] {
        let content = contents.next().unwrap_or_default();
        fs::write(folder.path().join(name), content).expect("written");
    }
    if let Ok(replay) = SavedReplay::read(folder.path()) {
        for quantity in ReplayQuantity::ALL {
            assert!(replay.time(quantity).is_none_or(|time| time > 0.0));
        }
        let _ = cannot_differ(Dimension::Level, &replay);
    }
    let found = RunsAt::find_any(folder.path()).expect("a folder");
    for run in &found.runs {
        if let Ok(step) = Step::read(run, "run", &mut Cases::default()) {
            assert!(step.times.iter().all(|time| time.time > 0.0));
        }
    }
}

/// Reads the record of the experiment: what is read of it is written, and read again.
fn record(folder: &Path) {
    let Ok(Some(record)) = ExperimentRecord::read(folder) else {
        return;
    };
    record.write(folder).expect("written");
    assert_eq!(ExperimentRecord::read(folder), Ok(Some(record)));
}

/// Returns the contents of several files, between which `bytes` have a line with `%%`.
pub(crate) fn files_in(bytes: &[u8]) -> Vec<&[u8]> {
    const BETWEEN: &[u8] = b"\n%%\n";
    let mut contents = Vec::new();
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, BETWEEN) {
        contents.push(&rest[..at + 1]);
        rest = &rest[at + BETWEEN.len()..];
    }
    contents.push(rest);
    contents
}
