//! The timelines of a step as `timeline.json` has them: streams and operations, by rank.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::time_axis::MOST_TIME;
use crate::{
    input::why_no_json,
    units::{Bytes, counted},
    visible,
};

/// Characters of a name: a file can have names without bound.
const MOST_LETTERS: usize = 100;

/// An operation of a step on one rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimelineOperation {
    pub(super) name: String,
    /// The collective, or copies; `None` for computation.
    pub(super) communication: Option<String>,
    /// Its size, pieces, group and ranks, in words; empty for computation.
    pub(super) details: String,
    /// The number of its stream.
    pub(super) stream: u64,
    /// When it begins after the begin of the step, in microseconds.
    pub(super) begin: f64,
    /// How long it takes.
    pub(super) time: f64,
}

impl TimelineOperation {
    /// Returns when it ends.
    pub(super) fn end(&self) -> f64 {
        self.begin + self.time
    }
}

/// What one rank did in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimelineOfRank {
    pub(super) rank: u64,
    /// The names of the streams.
    pub(super) streams: BTreeMap<u64, String>,
    /// The operations, by when they begin.
    pub(super) operations: Vec<TimelineOperation>,
}

impl TimelineOfRank {
    /// Returns when the last operation ends.
    pub(super) fn end(&self) -> f64 {
        let ends = self.operations.iter().map(TimelineOperation::end);
        ends.fold(0.0, f64::max)
    }

    /// Returns the name of a stream.
    pub(super) fn stream(&self, number: u64) -> String {
        match self.streams.get(&number) {
            Some(name) => name.clone(),
            None => format!("stream {number}"),
        }
    }
}

/// An event of a Chrome trace, as far as it is read.
#[derive(Deserialize)]
struct TraceEvent {
    ph: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: TraceArguments,
}

#[derive(Default, Deserialize)]
struct TraceArguments {
    name: Option<String>,
    collective: Option<String>,
    size_bytes: Option<u64>,
    /// How many copies there are, of an operation that copies.
    pieces: Option<u64>,
    group: Option<String>,
    ranks: Option<u64>,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<TraceEvent>,
}

/// Reads the timelines of all ranks in a `timeline.json`.
///
/// # Errors
///
/// Returns a sentence if it is none.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<TimelineOfRank>, String> {
    let trace: Trace = serde_json::from_slice(bytes).map_err(|error| why_no_json(&error))?;
    let mut ranks: BTreeMap<u64, TimelineOfRank> = BTreeMap::new();
    for event in trace.events {
        let rank = ranks.entry(event.pid).or_default();
        rank.rank = event.pid;
        match &*event.ph {
            "M" if event.name == "thread_name" => {
                let name = event.args.name.unwrap_or_default();
                rank.streams.insert(event.tid, short(&name));
            }
            "X" if event.ts.is_finite() && event.dur.is_finite() => {
                rank.operations.push(TimelineOperation {
                    name: short(&event.name),
                    communication: event.args.communication(),
                    details: event.args.details(),
                    stream: event.tid,
                    begin: event.ts.clamp(0.0, MOST_TIME),
                    time: event.dur.clamp(0.0, MOST_TIME),
                });
            }
            _ => {}
        }
    }
    let mut all: Vec<TimelineOfRank> = ranks.into_values().collect();
    for rank in &mut all {
        rank.operations
            .sort_by(|one, other| one.begin.total_cmp(&other.begin));
    }
    all.retain(|rank| !rank.operations.is_empty());
    Ok(all)
}

fn short(name: &str) -> String {
    visible::beginning(name, MOST_LETTERS).into_owned()
}

impl TraceArguments {
    fn communication(&self) -> Option<String> {
        match &self.collective {
            Some(collective) => Some(short(collective)),
            None => self.pieces.map(|_| "copies".to_owned()),
        }
    }

    fn details(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.size_bytes.map(|size| Bytes(size).to_string()));
        words.extend(self.pieces.map(|pieces| counted(pieces, "piece")));
        words.extend(self.group.as_deref().map(short));
        words.extend(self.ranks.map(|ranks| counted(ranks, "rank")));
        words.join(", ")
    }
}
