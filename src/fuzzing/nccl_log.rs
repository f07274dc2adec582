//! NCCL's log.

use std::fs;

use crate::nccl_log::{
    Fold,
    reading::{self, Source},
    reading_report, report,
    tail::LogTail,
};

/// Reads a log as a file and as it grows, and says what it says.
pub(super) fn read(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    fs::write(&path, bytes).expect("written");
    if let Ok(reading) = reading::read(&mut [Source::File(path.clone())]) {
        assert!(!reading_report::text(&reading).is_empty());
        serde_json::to_string(&reading).expect("JSON");
    }
    let mut grown = Fold::default();
    let mut tail = LogTail::open(&path).expect("a log");
    tail.lines(&mut |line| grown.line(line)).expect("lines");
    assert!(!report::text(&grown.proof()).is_empty());
}
