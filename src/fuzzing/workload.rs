//! Training steps.

use crate::workload::{StepWork, Workload};

/// The file of a workload: what is read is written, and read again.
pub(super) fn file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Workload::parse(&text) {
        Ok(workload) => holds(&workload),
        Err(error) => assert!(format!("{error:#}").len() < 2000),
    }
}

/// A trace: what is made of it can be written, and read again.
pub(super) fn trace(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Workload::from_trace(&text, 8) {
        Ok(reading) => {
            holds(&reading.workload);
            assert!(reading.unread.iter().all(|(_, count)| *count > 0));
        }
        Err(error) => assert!(format!("{error:#}").len() < 2000),
    }
}

fn holds(workload: &Workload) {
    let written = workload.to_toml();
    let again = Workload::parse(&written).expect("what was written");
    assert_eq!(*workload, again);
    for ranks in [1, 8, 12] {
        let Ok(step) = workload.on(ranks) else {
            continue;
        };
        for (at, operation) in step.operations.iter().enumerate() {
            assert!(operation.after.iter().all(|earlier| *earlier < at));
            assert!(operation.stream < step.streams.len());
            if let StepWork::Copies(copies) = &operation.work {
                let last = copies.piece(copies.pieces - 1);
                assert_eq!((copies.piece(0).start, last.end), (0, copies.bytes.0));
                assert!(!last.is_empty());
            }
        }
        let _ = step.volume();
        let left_out = workload.left_out(ranks).expect("names");
        let number = step.operations.len() + left_out.len();
        assert_eq!(number, workload.operations.len());
    }
}
