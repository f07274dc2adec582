//! Workloads from traces that PyTorch recorded.
//!
//! Two kinds of JSON are read: the trace of the profiler (Kineto), and that of the
//! `ExecutionTraceObserver`, which has the form of Chakra's host trace.
//!
//! | step | module |
//! |---|---|
//! | keep the events or nodes of a file that are needed | `document` |
//! | order them as the rank ran them | `kineto` with `walk`, `execution` |
//! | estimate what kernels take alone | `alone` |
//! | find the collective of a call | `call` |
//! | find the dimensions to which process groups belong | `groups` |
//! | make operations | `timeline` |

mod alone;
mod call;
mod document;
mod execution;
mod groups;
mod kineto;
#[cfg(test)]
mod tests;
mod timeline;
mod unread;
mod walk;

use std::{io, path::Path};

use anyhow::{Context, anyhow, bail, ensure};
use flate2::read::MultiGzDecoder;

use self::{document::TraceDocument, groups::TraceGroups, timeline::Timeline, unread::Unread};
use super::operation::{Work, Workload};
use crate::{
    input::{self, InputKind},
    units::counted,
    visible::visible,
};

/// What was read of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceReading {
    /// The workload.
    pub workload: Workload,
    /// What could not be read and why, with the number of times.
    pub unread: Vec<(String, usize)>,
}

impl Workload {
    /// Reads a trace from a file.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read, or if no workload can be made of
    /// it.
    pub fn read_trace(path: &Path, ranks: u64) -> anyhow::Result<TraceReading> {
        let shown = path.display().to_string();
        let shown = visible(&shown);
        let text = text_of(path).with_context(|| format!("the trace {shown} cannot be read"))?;
        Workload::from_trace(&text, ranks)
            .with_context(|| format!("the trace {shown} gives no workload"))
    }

    /// Makes a workload for `ranks` ranks from the trace of one rank. Process groups become
    /// dimensions, of which the one that varies slowest takes the rest of the ranks.
    ///
    /// # Errors
    /// Returns an error if the text is no trace of PyTorch, if it has no collective, or if its
    /// groups do not divide the ranks.
    pub fn from_trace(text: &str, ranks: u64) -> anyhow::Result<TraceReading> {
        let document: TraceDocument = serde_json::from_str(text)
            .map_err(|error| anyhow!(input::why_no_json(&error)))
            .context("it is not the JSON of a trace; export one from PyTorch")?;
        let mut unread = Unread::default();
        let mut groups = TraceGroups::new(&document);
        let (timeline, source) = match (document.events.is_some(), document.nodes.is_some()) {
            (true, _) => (
                kineto::timeline(&document, &mut groups, &mut unread),
                KINETO,
            ),
            (false, true) => (
                execution::timeline(&document, &mut groups, &mut unread),
                EXECUTION,
            ),
            (false, false) => bail!(
                "it has neither traceEvents nor nodes; export a trace of PyTorch's profiler or \
                 ExecutionTraceObserver"
            ),
        };
        let workload = workload(timeline, &groups, &mut unread, source)?;
        workload.on(ranks)?;
        Ok(TraceReading {
            workload,
            unread: unread.counted(),
        })
    }
}

/// Returns the text of a trace, which PyTorch compresses if its file's name ends in `.gz`.
fn text_of(path: &Path) -> io::Result<String> {
    let bytes = input::read(path, InputKind::Trace)?;
    if bytes.starts_with(&GZIP) {
        return input::read_text_from(MultiGzDecoder::new(&bytes[..]), InputKind::Trace);
    }
    input::read_text_from(&bytes[..], InputKind::Trace)
}

/// The first bytes of a file that gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

const KINETO: &str = "From a trace of PyTorch's profiler: computation is the time of GPU kernels \
                      between the starts of collectives, without the extra time that they take \
                      beside collectives and copies. The copies that DDP and FSDP make for them \
                      are operations of their own.";

const EXECUTION: &str =
    "From an execution trace of PyTorch, which has no times: collectives without computation.";

fn workload(
    timeline: Timeline,
    groups: &TraceGroups,
    unread: &mut Unread,
    source: &str,
) -> anyhow::Result<Workload> {
    let world = groups.dimensions();
    let operations = timeline.operations(&world, unread);
    let collectives = operations
        .iter()
        .filter(|operation| matches!(operation.work, Work::Collective(_)))
        .count();
    ensure!(
        collectives > 0,
        "it has no collective that can be read{}; record a step of a job with two or more ranks",
        unread.first()
    );
    Ok(Workload {
        name: "trace".to_owned(),
        about: format!(
            "{source} It has {} of a job with {}.",
            counted(collectives as u64, "collective"),
            counted(world.ranks, "rank")
        ),
        dimensions: world.dimensions,
        operations,
    })
}
