//! The timeline of a step as a Chrome trace, which Perfetto and `chrome://tracing` open.
//!
//! The format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    backend::step::{Span, StepTimes},
    units::Micros,
    workload::{Step, StepWork},
};

/// When the operations of a step ran on one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTimeline {
    /// When each operation began and ended, counted from the beginning of the step on this rank;
    /// `None` for one that did not run.
    pub spans: Vec<Option<(Micros, Micros)>>,
}

impl From<&StepTimes> for RankTimeline {
    fn from(times: &StepTimes) -> RankTimeline {
        let span = |span: &Option<Span>| span.map(|span| (span.begin, span.end));
        RankTimeline {
            spans: times.operations.iter().map(span).collect(),
        }
    }
}

/// Returns the step as a Chrome trace: a process per rank and a thread per stream. The step of each
/// rank begins at 0, because the clocks of GPUs are not synchronized.
pub fn chrome_trace(step: &Step, timelines: &[RankTimeline]) -> Value {
    let mut events = Vec::new();
    for (rank, timeline) in timelines.iter().enumerate() {
        events.push(name_event("process_name", rank, 0, &format!("rank {rank}")));
        for (thread, stream) in step.streams.iter().enumerate() {
            events.push(name_event("thread_name", rank, thread, stream));
        }
        for (operation, span) in step.operations.iter().zip(&timeline.spans) {
            let Some((begin, end)) = span else { continue };
            let (category, details) = match &operation.work {
                StepWork::Compute(time) => ("computation", json!({ "alone_us": time.0 })),
                StepWork::Copies(copies) => (
                    "copies",
                    json!({ "pieces": copies.pieces, "size_bytes": copies.bytes.0 }),
                ),
                StepWork::Collective { communicator, case } => (
                    "collective",
                    json!({
                        "collective": case.collective.name(),
                        "size_bytes": case.size().0,
                        "type": case.dtype.name(),
                        "group": step.communicators[*communicator].name,
                        "ranks": case.ranks,
                    }),
                ),
            };
            events.push(json!({
                "ph": "X",
                "name": operation.name,
                "cat": category,
                "pid": rank,
                "tid": operation.stream,
                "ts": begin.0,
                "dur": (end.0 - begin.0).max(0.0),
                "args": details,
            }));
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

fn name_event(what: &str, rank: usize, thread: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": rank, "tid": thread, "args": { "name": name } })
}
