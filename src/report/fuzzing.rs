//! What the fuzzer does with the files of runs.

use std::{fs, path::Path};

use super::{content::Content, metrics, page::Page};
use crate::compare::fuzzing::files_in;

/// The files of a run, in the order in which their contents come.
const FILES: [&str; 10] = [
    "results.csv",
    "run.json",
    "ranks.csv",
    "stragglers.csv",
    "telemetry.csv",
    "samples.csv",
    "doctor.json",
    "replay.json",
    "steps.csv",
    "timeline.json",
];

/// Reads two runs, one with the files in `bytes` and one with the first two of them, alone and
/// together, and draws what they say.
pub(crate) fn read(bytes: &[u8]) {
    let around = tempfile::tempdir().expect("a folder");
    let contents = files_in(bytes);
    let runs = [("a", FILES.len()), ("b", 2)].map(|(name, count)| {
        let folder = around.path().join(name);
        fs::create_dir(&folder).expect("made");
        for (file, content) in FILES.iter().zip(&contents).take(count) {
            fs::write(folder.join(file), content).expect("written");
        }
        folder
    });
    draw(&runs[..1]);
    draw(&runs);
    draw(&[around.path().to_owned()]);
}

fn draw(runs: &[impl AsRef<Path>]) {
    let runs: Vec<_> = runs.iter().map(|run| run.as_ref().to_owned()).collect();
    let Ok(content) = Content::read(&runs) else {
        return;
    };
    let page = Page::new(&content).expect("a page");
    let html = page.render("page.html").expect("HTML");
    assert!(!html.contains("<script"), "a script is in the page");
    page.render("summary.md").expect("a summary");
    for picture in page.pictures() {
        roxmltree::Document::parse(&picture.standalone()).expect("a picture that can be read");
    }
    let metrics = metrics::render(&content).expect("metrics");
    let metrics = String::from_utf8(metrics).expect("text");
    for line in metrics.lines() {
        assert!(
            line.starts_with('#') || line.starts_with("pxnbench_"),
            "{line}"
        );
    }
}
